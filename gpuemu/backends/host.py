"""The host build: the `cuda_src` headers compiled by the C++ compiler, called through ctypes.

It is how a machine without a GPU tests the code that the GPU runs, and the fastest way to run it
there.
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
    "-O2",
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
    """Return the path of the C++ compiler: `$CXX`, else g++, else clang++; None without any."""
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
    """Return what makes code of this compiler and this processor: -march=native is for it alone."""
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    ).stdout
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    return version + next((line for line in lines if line.startswith("flags")), "")


def build(domain: str, sanitize: bool = False) -> Path:
    """Return the shared library of one domain, built now if the cache has none.

    Parameters
    ----------
    domain : str
        "mfma", "matmul", "tile", "gemm" or "emulation": `cuda_src` has its `<domain>_host.h`.
    sanitize : bool
        Build with the undefined-behaviour sanitizer, which aborts the process on a finding.

    Raises
    ------
    BackendUnavailable, CompileError
    """
    require()
    path = compiler()
    assert path is not None
    flags = (*FLAGS, *SANITIZE) if sanitize else FLAGS
    facts = (sources.digest(), domain, path, _identity(path), flags)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
    library = sources.cache_directory() / f"host-{domain}-{key}.so"
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            output = Path(folder) / "host.so"
            header = f'-DGPUEMU_HOST_HEADER="{domain}_host.h"'
            command = [
                path,
                *flags,
                header,
                "-o",
                str(output),
                str(sources.directory() / "host.cpp"),
            ]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise CompileError(f"{' '.join(command)} failed:\n{result.stderr}")
            output.replace(library)
    return library


@cache
def library(domain: str) -> ctypes.CDLL:
    """Return the loaded host build of a domain; `GPUEMU_HOST_SANITIZE=1`: the sanitized one."""
    return ctypes.CDLL(str(build(domain, os.environ.get("GPUEMU_HOST_SANITIZE") == "1")))
