"""The host build: the same `cuda_src` headers compiled by the machine's C++ compiler, called through ctypes.

It is how a machine without a GPU tests the code that the GPU runs, and the fastest way to run it there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ..errors import BackendUnavailable, CompileError
from . import sources

FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp-simd",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
)
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-O1")


@cache
def compiler() -> str | None:
    """Return the path of the C++ compiler: `$CXX`, else g++, else clang++; None where there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def why_unavailable() -> str:
    """Return the reason why the host build cannot run, or an empty string where it can."""
    return (
        ""
        if compiler()
        else "no C++ compiler found (looked for $CXX, g++, clang++); install one, e.g. g++"
    )


def available() -> bool:
    """Tell whether the host build can run."""
    return not why_unavailable()


def require() -> None:
    """Raise `BackendUnavailable` with the reason where the host build cannot run."""
    reason = why_unavailable()
    if reason:
        raise BackendUnavailable(f"backend 'host' is not available: {reason}")


@cache
def _identity(path: str) -> str:
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    ).stdout
    # -march=native makes code for this processor only: its flags are part of the key.
    with (
        open("/proc/cpuinfo", encoding="utf-8")
        if os.path.exists("/proc/cpuinfo")
        else open(os.devnull) as file
    ):
        flags = next((line for line in file if line.startswith("flags")), "")
    return version + flags


def build(sanitize: bool = False) -> Path:
    """Return the shared library of `cuda_src/host.cpp`, built now if the cache has none.

    Parameters
    ----------
    sanitize : bool
        Build with the undefined-behaviour sanitizer, which aborts the process on a finding.
    """
    require()
    path = compiler()
    assert path is not None
    flags = (*FLAGS, *SANITIZE) if sanitize else FLAGS
    key = hashlib.sha256(
        repr((sources.digest(), path, _identity(path), flags)).encode()
    ).hexdigest()[:32]
    library = sources.cache_directory() / f"host-{key}.so"
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            output = Path(folder) / "host.so"
            command = [path, *flags, "-o", str(output), str(sources.directory() / "host.cpp")]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise CompileError(f"{' '.join(command)} failed:\n{result.stderr}")
            os.replace(output, library)
    return library


@cache
def library() -> ctypes.CDLL:
    """Return the loaded host build; `GPUEMU_HOST_SANITIZE=1` takes the sanitized one."""
    return ctypes.CDLL(str(build(sanitize=os.environ.get("GPUEMU_HOST_SANITIZE") == "1")))
