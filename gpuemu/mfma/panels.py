"""Products larger than a device, or shared by several: the outputs in panels, from host arrays.

Every output is computed by one device from whole rows and columns, so the bits do not depend on
the panels. Each device has two workers, so that one's copies overlap the other's product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import arrays, cuda
from ..errors import BadType, BadValue

if TYPE_CHECKING:
    from .matmul import Product

WORKERS = 2  # of a device
ALIGNMENT = 128  # outputs: the tuned kernels' largest tile


@dataclass(frozen=True)
class Panel:
    """A part of the result: batch items, rows and columns."""

    batch: slice
    rows: slice
    columns: slice


def check_devices(devices: Sequence[int]) -> list[int]:
    """Return device numbers, each checked; raise with the legal ones."""
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    found = list(devices)
    if not found:
        raise BadValue(f"devices=[]; legal: at least one of 0..{count - 1}")
    for number in found:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise BadType(
                f"devices has {number!r}, a {type(number).__name__}; legal: ints 0..{count - 1}"
            )
        if not 0 <= number < count:
            raise BadValue(
                f"devices has {number}; this machine has {count}: legal are 0..{count - 1}"
            )
    if len(set(found)) < len(found):
        raise BadValue(f"devices={found} names one twice")
    return [int(number) for number in found]


def plan(
    batches: int,
    m: int,
    n: int,
    row_bytes: int,
    column_bytes: int,
    item: int,
    budget: int,
    least: int,
) -> list[Panel]:
    """Return panels that cover the result, each within a budget of device memory.

    Parameters
    ----------
    batches, m, n : int
        The result's shape.
    row_bytes, column_bytes : int
        What one row of A and one column of B take.
    item : int
        Bytes that one output takes: accumulators, C, and what the epilogue needs.
    budget : int
        Bytes that a panel may take.
    least : int
        How many panels to make at least, where there are rows enough.

    >>> [(p.rows, p.columns) for p in plan(1, 300, 64, 8, 8, 4, 1 << 30, 2)]
    [(slice(0, 256, None), slice(0, 64, None)), (slice(256, 300, None), slice(0, 64, None))]
    """
    rows, columns = m, n

    def size(rows: int, columns: int) -> int:
        return rows * row_bytes + columns * column_bytes + rows * columns * item

    while size(rows, columns) > budget and (rows, columns) != (1, 1):
        if rows * row_bytes >= columns * column_bytes and rows > 1:
            rows = _half(rows)
        else:
            columns = _half(columns) if columns > 1 else columns
            rows = rows if columns > 1 else _half(rows)
    if size(rows, columns) > budget:
        raise BadValue(f"one output takes {size(1, 1)} bytes of device memory; {budget} are free")
    together = (
        max(1, min(batches, budget // max(1, size(rows, columns))))
        if (rows, columns) == (m, n)
        else 1
    )
    made = -(-batches // together) * -(-m // rows) * -(-n // columns)
    if made < least:
        together = max(1, -(-batches // least))
        per_batch = -(-least // -(-batches // together))
        rows = min(rows, _aligned(-(-m // per_batch)))
    return [
        Panel(
            slice(b, min(batches, b + together)),
            slice(r, min(m, r + rows)),
            slice(c, min(n, c + columns)),
        )
        for b in range(0, batches, together)
        for c in range(0, n, columns)
        for r in range(0, m, rows)
    ]


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def _half(count: int) -> int:
    half = -(-count // 2)
    return _aligned(half) if half > ALIGNMENT and _aligned(half) < count else half


def cut(operands: dict[str, Any], panel: Panel) -> dict[str, Any]:
    """Return the parts of the operands, (batch, rows, columns) each, that a panel needs."""
    rows, columns, every = panel.rows, panel.columns, slice(None)
    places = {
        "A": (rows, every),
        "B": (every, columns),
        "C": (rows, columns),
        "scale_a": (rows, every),
        "scale_b": (every, columns),
    }
    return {
        name: None if x is None else x[(panel.batch, *places[name])] for name, x in operands.items()
    }


def run(
    product: Product, operands: dict[str, Any], backend: str, devices: Sequence[int] | None
) -> Any:
    """Return the product as a NumPy array, computed in panels on one or more devices."""
    from . import matmul

    if backend != "cuda":
        raise BadValue(f"devices={devices} with backend {backend!r}; legal: backend 'cuda'")
    cuda.require()
    import cupy

    numbers = [int(cupy.cuda.runtime.getDevice())] if devices is None else check_devices(devices)
    flat: dict[str, Any] = {
        n: None if x is None else matmul._flat(arrays.to_numpy(x), product.lead)
        for n, x in operands.items()
    }
    m, k, n = flat["A"].shape[1], flat["A"].shape[2], flat["B"].shape[2]
    result = np.empty((flat["A"].shape[0], m, n), product.result_dtype)
    panels = plan(
        result.shape[0],
        m,
        n,
        k * flat["A"].itemsize,
        k * flat["B"].itemsize,
        3 * np.dtype(product.chain.accumulator).itemsize,
        min(_budget(number) for number in numbers),
        WORKERS * len(numbers) if len(numbers) > 1 else 1,
    )
    places: SimpleQueue[int] = SimpleQueue()
    for number in numbers * WORKERS:
        places.put(number)

    def work(panel: Panel) -> None:
        number = places.get()
        try:
            with cupy.cuda.Device(number), cupy.cuda.Stream(non_blocking=True):
                part = replace(product, lead=(panel.batch.stop - panel.batch.start,))
                got = matmul.compute(part, cut(flat, panel), "cuda")
                result[panel.batch, panel.rows, panel.columns] = arrays.to_numpy(got)
        finally:
            places.put(number)

    with ThreadPoolExecutor(len(numbers) * WORKERS) as pool:
        for done in _progress(
            as_completed([pool.submit(work, panel) for panel in panels]), len(panels)
        ):
            done.result()
    return result.reshape(*product.lead, m, n)


def _budget(number: int) -> int:
    import cupy

    with cupy.cuda.Device(number):
        free, _ = cupy.cuda.runtime.memGetInfo()
        return int(0.9 * (free + cupy.get_default_memory_pool().free_bytes())) // WORKERS


def _progress(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Pass items on, with a progress bar on standard error where there are several and a terminal
    sees it.
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if count == 1 or not console.is_terminal:
        yield from items
    else:
        yield from track(items, "panels", total=count, console=console, transient=True)
