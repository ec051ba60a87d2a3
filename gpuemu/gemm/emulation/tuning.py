"""Which scheme is fastest on this device: measured once, cached, read by scheme="auto"."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import statistics
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ...backends import cuda, sources
from .scheme import MAX_SLICES, moduli_for, residue_bits, slices_for

SIZES = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
#: Planes that are measured; "auto" asks for no others.
SLICE_COUNTS = {"float32": (2, 3, 4, 5), "float64": (2, 3, 4, 5, 7)}
MODULI_COUNTS = {"float32": (7, 9, 11), "float64": (7, 9, 11, 14)}
_NAMES = {
    dtype: (
        "native",
        *(f"slices-{count}" for count in SLICE_COUNTS[dtype]),
        *(f"crt-{count}" for count in MODULI_COUNTS[dtype]),
    )
    for dtype in SLICE_COUNTS
}
#: "auto" takes emulation where its time is below this part of native's in the table.
MARGIN = 0.9
#: Part of the cached file's name: raise it when calls get faster or slower on the CPU.
VERSION = 4

#: milliseconds: dtype -> size -> name ("native", "slices-3", "crt-14") -> time
Table = dict[str, dict[str, dict[str, float]]]


NO_TIMES: Table = {"float32": {}, "float64": {}}


class _CannotMeasureError(Exception):
    """The current stream is being captured: nothing may wait."""


def choose(dtype: str, shape: tuple[int, int, int], bits: int) -> str:
    """Return "slices", "crt" or "native" for a product on the current device.

    In a stream that is being captured nothing can be measured: without a table it is native.
    """
    from . import device

    try:
        return _choose(device.current_device(), dtype, shape, bits)
    except _CannotMeasureError:
        return choose_from(NO_TIMES, dtype, shape, bits)


@lru_cache(maxsize=1024)
def _choose(device: int, dtype: str, shape: tuple[int, int, int], bits: int) -> str:
    small = equivalent(shape) < SIZES[0]
    return choose_from(NO_TIMES if small else table(device_name(device)), dtype, shape, bits)


def equivalent(shape: tuple[int, int, int]) -> float:
    """Return the square that has a product's ratio of matrix elements to multiply-adds.

    Encoding and recombining cost time for each element of A, B and C, the products for each
    multiply-add: `(mk + kn + mn) / mnk = 1/m + 1/n + 1/k` decides how much of the speed-up is left.
    It is below the geometric mean, so the volume is never overestimated, and below three times
    the smallest extent.

    >>> equivalent((4096, 4096, 4096)), round(equivalent((8192, 1024, 8192)))
    (4096.0, 2458)
    """
    return 3.0 / sum(1.0 / extent for extent in shape) if all(shape) else 0.0


def choose_from(times: Table, dtype: str, shape: tuple[int, int, int], bits: int) -> str:
    """Return the scheme that a table of times favours; native where none is clearly faster.

    A shape counts as a square of its `equivalent`, whose times lie between those of its measured
    neighbours; what is below the table runs natively, what is above counts as its largest.

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
    names = {f"slices-{_measured(slices_for(bits), SLICE_COUNTS[dtype])}": "slices"}
    if bits <= 53:
        names[f"crt-{_measured(moduli_for(bits), MODULI_COUNTS[dtype])}"] = "crt"
    row = between(times[dtype], equivalent(shape))
    candidates = {scheme: row[name] for name, scheme in names.items() if name in row}
    beyond_native = bits > (24 if dtype == "float32" else 53)
    if not candidates:
        return "slices" if beyond_native and slices_for(bits) <= MAX_SLICES else "native"
    best = min(candidates, key=lambda scheme: candidates[scheme])
    if beyond_native or candidates[best] < MARGIN * row["native"]:
        return best
    return "native"


def between(rows: dict[str, dict[str, float]], size: float) -> dict[str, float]:
    """Return the times at a size: a power of it through its two measured neighbours.

    >>> rows = {"1000": {"native": 1.0}, "2000": {"native": 8.0}}
    >>> [round(between(rows, n)["native"], 3) for n in (1000, 1500, 2000, 9000)]
    [1.0, 3.375, 8.0, 8.0]
    >>> between(rows, 900)
    {}
    """
    sizes = sorted(map(int, rows))
    above = bisect.bisect_right(sizes, size)
    if above == 0:
        return {}
    low = rows[str(sizes[above - 1])]
    if above == len(sizes):
        return low
    high = rows[str(sizes[above])]
    part = math.log(size / sizes[above - 1]) / math.log(sizes[above] / sizes[above - 1])
    return {name: low[name] ** (1 - part) * high[name] ** part for name in low if name in high}


def _measured(count: int, counts: tuple[int, ...]) -> int:
    """Return the smallest measured count that is at least `count`, or `count` where none is."""
    return min((c for c in counts if c >= count), default=count)


@cache
def device_name(device: int) -> str:
    """Return what times depend on, for the name of a file: device, runtime, `VERSION`."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(device)
    version = cupy.cuda.runtime.runtimeGetVersion()
    name = properties["name"].decode().replace(" ", "-").replace("/", "-")
    return f"{name}-{properties['multiProcessorCount']}-{version}-{VERSION}"


def path(device: str) -> Path:
    """Return the file of a device's table; a change of any kernel makes a new one."""
    return sources.cache_directory() / f"emulation-{device}-{sources.digest()[:12]}.json"


@cache
def table(device: str) -> Table:
    """Return the table of the current device, measured now where the cache has none."""
    import cupy

    file = path(device)
    stored = _read(file)
    if stored is not None:
        return stored
    if cupy.cuda.get_current_stream().is_capturing():
        raise _CannotMeasureError
    times = measure()
    with contextlib.suppress(OSError):  # a folder that cannot be written
        sources.store(file, json.dumps(times, indent=1).encode())
    return times


def _read(file: Path) -> Table | None:
    """Return the table of a file; None where there is none yet, or none with every time."""
    try:
        found = json.loads(file.read_text())
        times = {
            dtype: {
                str(n): {name: float(found[dtype][str(n)][name]) for name in names} for n in SIZES
            }
            for dtype, names in _NAMES.items()
        }
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return times


def measure(sizes: tuple[int, ...] = SIZES) -> Table:
    """Time native and emulated products of squares on the current device, as a user calls them."""
    import cupy

    cuda.require()
    times: Table = {"float32": {}, "float64": {}}
    random = cupy.random.RandomState(1)
    for dtype, rows in times.items():
        for size in sizes:
            a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            row = {"native": median_ms(lambda a=a, b=b: a @ b)}  # type: ignore[misc]
            for name, call in _calls(a, b):
                row[name] = median_ms(call)
            rows[str(size)] = row
    return times


def _calls(a: Any, b: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name and the call of every measured number of planes."""
    from .execute import emulated_matmul

    dtype = a.dtype.name
    for scheme, counts in (("slices", SLICE_COUNTS[dtype]), ("crt", MODULI_COUNTS[dtype])):
        for count in counts:
            bits = 8 * count - 1 if scheme == "slices" else int(residue_bits(count))
            yield (
                f"{scheme}-{count}",
                partial(emulated_matmul, a, b, mantissa_bits=bits, scheme=scheme, backend="cuda"),
            )


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
