"""What a bug report needs: versions, processor, devices, compilers, backends."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "numpy",
    "ml_dtypes",
    "typer",
    "rich",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "torch",
    "jax",
    "matplotlib",
    "dask",
)


def info() -> dict[str, Any]:
    """Return versions, devices, compiler and backends.

    Returns
    -------
    dict
        "gpuemu", "python", "platform" as text; "packages" name to version; "backends" name to
        "available" or the reason why not; "devices" one dict a CUDA device; "compiler", "nvrtc",
        "cache" as text.

    >>> info()["backends"]["numpy"]
    'available'
    """
    from . import __version__
    from .backends import cuda, host, sources

    backends = {"numpy": "available"}
    for name, module in (("host", host), ("cuda", cuda)):
        backends[name] = module.why_unavailable() or "available"
    return {
        "gpuemu": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "backends": backends,
        "devices": _devices() if cuda.available() else [],
        "compiler": host.compiler() or "none",
        "nvrtc": _nvrtc(),
        "cache": str(sources.cache_directory()),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return (
        f"{names[0]}, {len(names)} threads" if names else platform.processor() or platform.machine()
    )


def _nvrtc() -> str:
    from .backends import cuda
    from .errors import BackendUnavailable

    try:
        return ".".join(map(str, cuda.nvrtc_version()))
    except BackendUnavailable as error:
        return f"none ({error})"


def _devices() -> list[dict[str, Any]]:
    import cupy

    runtime = cupy.cuda.runtime
    found = []
    for number in range(runtime.getDeviceCount()):
        facts = runtime.getDeviceProperties(number)
        found.append(
            {
                "name": facts["name"].decode(),
                "compute_capability": f"{facts['major']}.{facts['minor']}",
                "memory_gib": round(facts["totalGlobalMem"] / 2**30, 1),
                "multiprocessors": facts["multiProcessorCount"],
                "driver": runtime.driverGetVersion(),
                "runtime": runtime.runtimeGetVersion(),
            }
        )
    return found
