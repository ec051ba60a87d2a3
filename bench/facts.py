"""Where and with what a report was measured: the "facts" of every file in docs/measured."""

from __future__ import annotations

import time
from typing import Any

import gpuemu
from gpuemu.backends import cuda


def facts() -> dict[str, Any]:
    """Return device, versions and date.

    Returns
    -------
    dict
        "device" the GPU's name, else the processor's; "processor", "gpuemu", "python", "compiler"
        as text; "packages" name to version; "date" as YYYY-MM-DD. On a GPU also "multiprocessors",
        "boost_mhz", "driver", "runtime" and "cublas".
    """
    info = gpuemu.info()
    found = {name: info[name] for name in ("processor", "gpuemu", "python", "compiler", "packages")}
    found |= {"device": info["processor"], "date": time.strftime("%Y-%m-%d")}
    if cuda.available():
        import cupy

        runtime = cupy.cuda.runtime
        device = runtime.getDeviceProperties(cupy.cuda.Device().id)
        found |= {
            "device": device["name"].decode(),
            "multiprocessors": device["multiProcessorCount"],
            "boost_mhz": device["clockRate"] // 1000,
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "cublas": cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()),
        }
    return found
