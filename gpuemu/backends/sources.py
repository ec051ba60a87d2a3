"""Where `cuda_src` lies and what identifies its text: the part of a cache key both builds share."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from ..errors import GpuemuError


@cache
def directory() -> Path:
    """Return the folder of kernel sources: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "cuda_src", package.parent / "cuda_src"):
        if (candidate / "common.cuh").is_file():
            return candidate
    raise GpuemuError(
        f"kernel sources not found: neither {package / 'cuda_src'} nor its sibling exists"
    )


@cache
def texts() -> dict[str, str]:
    """Return the text of every file of `cuda_src` by name."""
    files = sorted(path for path in directory().iterdir() if path.is_file())
    return {path.name: path.read_text(encoding="utf-8") for path in files}


@cache
def digest() -> str:
    """Return a hash of every file of `cuda_src`, name and contents: any edit makes new keys."""
    state = hashlib.sha256()
    for name, text in texts().items():
        state.update(f"{name}\0{text}\0".encode())
    return state.hexdigest()


def cache_directory() -> Path:
    """Return the folder for compiled code, made if needed.

    It is `$GPUEMU_CACHE_DIR`, or a folder in the user's cache.
    """
    chosen = os.environ.get("GPUEMU_CACHE_DIR")
    if chosen:
        path = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        path = Path(base) / "gpuemu"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fallback = Path(tempfile.gettempdir()) / f"gpuemu-cache-{os.getuid()}"
        print(
            f"gpuemu: {path}: {error.strerror}; compiled code goes to {fallback}", file=sys.stderr
        )
        fallback.mkdir(parents=True, exist_ok=True, mode=0o700)
        return fallback
    return path


def store(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, then rename: two processes may compile it at once."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
