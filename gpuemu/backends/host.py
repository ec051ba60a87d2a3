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
COVERAGE = ("--coverage", "-O0", "-fprofile-update=atomic")


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


def build(domain: str, sanitize: bool = False, coverage: Path | None = None) -> Path:
    """Return the shared library of one domain, built now if the cache has none.

    Parameters
    ----------
    domain : str
        "mfma", "matmul", "tile", "gemm" or "emulation": `cuda_src` has its `<domain>_host.h`.
    sanitize : bool
        Build with the undefined-behaviour sanitizer, which aborts the process on a finding.
    coverage : Path, optional
        Build for gcov in this folder, in place of the cache: a process that ends adds there which
        lines it ran, and `gcovr` reads them. For one process at a time.

    Raises
    ------
    BackendUnavailable, CompileError
    """
    require()
    path = compiler()
    assert path is not None
    flags = (*FLAGS, *(SANITIZE if sanitize else ()), *(COVERAGE if coverage else ()))
    facts = (sources.digest(), domain, path, _identity(path), flags)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
    library = (coverage or sources.cache_directory()) / f"host-{domain}-{key}.so"
    if library.is_file():
        return library
    if coverage:
        # Where the counts go is the place of the output, fixed here.
        coverage.mkdir(parents=True, exist_ok=True)
        _compile(path, flags, domain, library)
        return library
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        output = Path(folder) / "host.so"
        _compile(path, flags, domain, output)
        output.replace(library)
    return library


def _compile(path: str, flags: tuple[str, ...], domain: str, output: Path) -> None:
    header = f'-DGPUEMU_HOST_HEADER="{domain}_host.h"'
    source = str(sources.directory() / "host.cpp")
    command = [path, *flags, header, "-o", str(output), source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CompileError(f"{' '.join(command)} failed:\n{result.stderr}")


@cache
def library(domain: str) -> ctypes.CDLL:
    """Return the loaded host build of a domain.

    `GPUEMU_HOST_SANITIZE=1` in the environment makes it the sanitized one, and
    `GPUEMU_HOST_COVERAGE=FOLDER` the one that counts lines.
    """
    folder = os.environ.get("GPUEMU_HOST_COVERAGE")
    sanitize = os.environ.get("GPUEMU_HOST_SANITIZE") == "1"
    coverage = Path(folder).resolve() if folder else None
    return ctypes.CDLL(str(build(domain, sanitize, coverage)))
