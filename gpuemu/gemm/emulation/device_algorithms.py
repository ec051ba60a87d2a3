"""Which of cublasLt's algorithms is fastest for an int8 product: tried once, then read from disk.

All give the same bits. cublasLt orders them by a guess at their speed, whose first is up to a
quarter slower than the best (2048 x 2048 x 2048 on an H200).
"""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ...backends import sources
from . import cublaslt, tuning
from .cublaslt import Library, Product

#: What a first use costs: so many algorithms, each in so many rounds of so many runs.
CANDIDATES, ROUNDS, RUNS = 8, 3, 5
#: Another than cublasLt's first is taken where its time is below this part of the first's.
MARGIN = 0.98
VERSION = 1  # part of the file's name: raise it when what is tried changes

Run = Callable[[int, int], None]


def choose(
    library: Library, device: int, product: Product, scratch: tuple[int, int]
) -> tuple[Run, int] | None:
    """Return what runs a product fastest, and its bytes of scratch; None where no algorithm fits.

    Parameters
    ----------
    device : int
        The current device.
    scratch : (int, int)
        Offset in the workspace, and bytes, that an algorithm may use.
    """
    found = library.candidates(product, *scratch, CANDIDATES)
    if len(found) < 2:
        return found[0] if found else None
    file = path(device, library)
    index = table(file).get(name(product, scratch[1]), -1)
    if index not in range(len(found)):  # or no number
        times = measure([run for run, _ in found], sum(scratch))
        if times is None:
            return found[0]
        best = min(range(len(found)), key=times.__getitem__)
        index = best if times[best] < MARGIN * times[0] else 0
        _keep(file, name(product, scratch[1]), index)
    return found[index]


def name(p: Product, scratch: int) -> str:
    """Return what decides over cublasLt's candidates: extents, strides, alignment, scratch.

    >>> name(Product(64, 32, 128, 0, 8192, 12288, 384, 128), 0)
    '64x32x128 x1 rows 384 128 aligned 256 256 256 scratch 0'
    """
    aligned = " ".join(str(cublaslt.alignment(offset)) for offset in (p.left, p.right, p.out))
    return (
        f"{p.m}x{p.n}x{p.k} x{p.count} rows {p.left_row} {p.right_row} "
        f"aligned {aligned} scratch {scratch}"
    )


def path(device: int, library: Library) -> Path:
    """Return the file of a device's choices."""
    facts = f"{tuning.device_name(device)}-{library.version}-{VERSION}"
    return sources.cache_directory() / f"products-{facts}.json"


@cache
def table(file: Path) -> dict[str, int]:
    """Return the choices that a file holds, by `name`; see `_read`."""
    return _read(file)


def _read(file: Path) -> dict[str, int]:
    """Return what a file holds; nothing where there is none yet, or none that can be read: what is
    missing is tried again.
    """
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(file: Path, key: str, index: int) -> None:
    """Remember a choice, and write it beside those that other processes have written since.

    In a folder that cannot be written it is remembered alone.
    """
    known = table(file)
    known.update(_read(file))
    known[key] = index
    with contextlib.suppress(OSError):
        sources.store(file, json.dumps(dict(known), indent=1).encode())


def measure(runs: Sequence[Run], workspace: int) -> list[float] | None:
    """Return the median milliseconds of each of `runs`, one after the other so that none gets a
    cooler device; None in a stream that is being captured, where nothing may wait.
    """
    import cupy

    stream = cupy.cuda.get_current_stream()
    if stream.is_capturing():
        return None
    memory = cupy.cuda.alloc(workspace)
    marks = [[_timed(run, memory.ptr, stream) for run in runs] for _ in range(ROUNDS)]
    marks[-1][-1][1].synchronize()
    elapsed = cupy.cuda.get_elapsed_time
    return [
        statistics.median(float(elapsed(*pair)) for pair in of_run)
        for of_run in zip(*marks, strict=True)
    ]


def _timed(run: Run, base: int, stream: Any) -> tuple[Any, Any]:
    """Enqueue a run between events, after one that is not timed: the device is behind the CPU."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    run(base, stream.ptr)
    start.record(stream)
    for _ in range(RUNS - 1):
        run(base, stream.ptr)
    stop.record(stream)
    return start, stop
