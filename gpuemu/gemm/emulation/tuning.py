"""Which scheme is fastest on this device: measured once, cached, read by scheme="auto"."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...backends import cuda, sources
from .scheme import MAX_SLICES, MODULI, Setting, moduli_for, slices_for

SIZES = (512, 1024, 2048, 4096, 8192)
#: Planes that are measured; "auto" asks for no others.
SLICE_COUNTS = (2, 3, 4, 5, 7)
MODULI_COUNTS = (7, 9, 11, 14)
#: Emulation has to be this much faster than native in the table before "auto" takes it.
MARGIN = 0.95

#: milliseconds: dtype -> size -> name ("native", "slices-3", "crt-14") -> time
Table = dict[str, dict[str, dict[str, float]]]


def choose(dtype: str, shape: tuple[int, int, int], bits: int) -> str:
    """Return "slices", "crt" or "native" for a product on the current device."""
    return choose_from(table(_device_name()), dtype, shape, bits)


def choose_from(times: Table, dtype: str, shape: tuple[int, int, int], bits: int) -> str:
    """Return the scheme that a table of times favours; native where none is clearly faster.

    A shape counts as the largest measured square that fits in it: narrow products are worse for
    emulation than square ones, so the smallest extent decides, and what is below the table runs
    natively.

    Parameters
    ----------
    times : dict
        Milliseconds by dtype, size and name, as `measure` returns them.
    dtype : str
        "float32" or "float64".
    shape : (int, int, int)
        M, N, K.
    bits : int
        Mantissa bits; more than the dtype holds are never native.
    """
    fitting = [int(size) for size in times[dtype] if int(size) <= min(shape)]
    names = {f"slices-{_measured(slices_for(bits), SLICE_COUNTS)}": "slices"}
    if bits <= 53:
        names[f"crt-{_measured(moduli_for(bits), MODULI_COUNTS)}"] = "crt"
    row = times[dtype][str(max(fitting))] if fitting else {}
    candidates = {scheme: row[name] for name, scheme in names.items() if name in row}
    beyond_native = bits > (24 if dtype == "float32" else 53)
    if not candidates:
        return "slices" if beyond_native and slices_for(bits) <= MAX_SLICES else "native"
    best = min(candidates, key=lambda scheme: candidates[scheme])
    if beyond_native or candidates[best] < MARGIN * row["native"]:
        return best
    return "native"


def _measured(count: int, counts: tuple[int, ...]) -> int:
    """Return the smallest measured count that is at least `count`, or `count` where none is."""
    return min((c for c in counts if c >= count), default=count)


def _device_name() -> str:
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    version = cupy.cuda.runtime.runtimeGetVersion()
    name = properties["name"].decode().replace(" ", "-").replace("/", "-")
    return f"{name}-{properties['multiProcessorCount']}-{version}"


def path(device: str) -> Path:
    """Return the file of a device's table; a change of any kernel makes a new one."""
    return sources.cache_directory() / f"emulation-{device}-{sources.digest()[:12]}.json"


@cache
def table(device: str) -> Table:
    """Return the table of the current device, measured now where the cache has none."""
    file = path(device)
    if file.is_file():
        loaded: Table = json.loads(file.read_text())
        return loaded
    times = measure()
    sources.store(file, json.dumps(times, indent=1).encode())
    return times


def measure(sizes: tuple[int, ...] = SIZES) -> Table:
    """Time native and emulated products of squares on the current device."""
    import cupy

    cuda.require()
    times: Table = {"float32": {}, "float64": {}}
    random = cupy.random.RandomState(1)
    for dtype in (np.float32, np.float64):
        for size in sizes:
            a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            row = {"native": median_ms(lambda a=a, b=b: a @ b)}  # type: ignore[misc]
            for setting in _settings(dtype):
                row[f"{setting.scheme}-{setting.planes}"] = median_ms(_runner(a, b, setting))
            times[np.dtype(dtype).name][str(size)] = row
    return times


def _settings(dtype: Any) -> list[Setting]:
    slices = SLICE_COUNTS[:-1] if dtype == np.float32 else SLICE_COUNTS
    moduli = MODULI_COUNTS[:-1] if dtype == np.float32 else MODULI_COUNTS
    assert max(MODULI_COUNTS) <= len(MODULI)
    return [Setting("slices", s, False, 8 * s - 1) for s in slices] + [
        Setting("crt", n, True, 0) for n in moduli
    ]


def _runner(a: Any, b: Any, setting: Setting) -> Callable[[], Any]:
    import cupy

    from . import device, report

    shape = (int(a.shape[0]), int(b.shape[1]), int(a.shape[1]))

    def run() -> None:
        out = cupy.empty((shape[0], shape[1]), a.dtype)
        record = report.Record(shape, a.dtype.name, "cuda", setting, setting.mantissa_bits, False)
        device.multiply(a, b, None, 1.0, 0.0, out, setting, [(0, shape[2])], None, record)

    return run


def median_ms(call: Callable[[], Any], repeats: int = 5, warm: int = 2) -> float:
    """Return the median time in milliseconds of a call, from CUDA events around each."""
    import cupy

    for _ in range(warm):
        call()
    marks = [cupy.cuda.Event() for _ in range(2 * repeats)]
    for i in range(repeats):
        marks[2 * i].record()
        call()
        marks[2 * i + 1].record()
    marks[-1].synchronize()
    pairs = zip(marks[::2], marks[1::2], strict=True)
    return statistics.median(float(cupy.cuda.get_elapsed_time(*pair)) for pair in pairs)
