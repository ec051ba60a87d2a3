"""Products larger than a device, or shared by several: the result in panels, from host arrays.

Each device has two workers, so that one's copies overlap the other's product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..backends import arrays, cuda
from ..errors import BadType, BadValue
from .matmul_compute import Product, compute, flattened, needed_bytes, scratch
from .matmul_pieces import Cost, Piece, cut, plan

WORKERS = 2  # of a device


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


def run(
    product: Product, operands: dict[str, Any], backend: str, devices: Sequence[int] | None
) -> Any:
    """Return the product of NumPy arrays as one, computed in panels on one or more devices."""
    if devices is None and backend == "check":
        raise BadValue(
            f"the matrices take {needed_bytes(product, operands)} bytes, which do not fit into the "
            "device's free memory; legal with backend 'check': fewer rows or columns a call; "
            "backend 'cuda' computes it in panels"
        )
    if backend != "cuda":
        raise BadValue(f"devices={devices} with backend {backend!r}; legal: backend 'cuda'")
    cuda.require()
    import cupy

    numbers = [int(cupy.cuda.runtime.getDevice())] if devices is None else check_devices(devices)
    flat: dict[str, Any] = {
        n: None if x is None else flattened(x, product.lead) for n, x in operands.items()
    }
    m, k, n = flat["A"].shape[1], flat["A"].shape[2], flat["B"].shape[2]
    result = np.empty((flat["A"].shape[0], m, n), product.result_dtype)
    beside = scratch(product, flat)
    inputs_of_output = 0 if flat["C"] is None else flat["C"].itemsize
    cost = Cost(
        k * flat["A"].itemsize + beside.row,
        k * flat["B"].itemsize + beside.column,
        result.itemsize + inputs_of_output + beside.output,
    )
    budget = min(_budget(number) for number in numbers)
    least = WORKERS * len(numbers) if len(numbers) > 1 else 1
    panels = plan(result.shape[0], m, n, cost, budget, least)
    places: SimpleQueue[int] = SimpleQueue()
    for number in numbers * WORKERS:
        places.put(number)

    def work(panel: Piece) -> None:
        number = places.get()
        try:
            with cupy.cuda.Device(number), cupy.cuda.Stream(non_blocking=True):
                part = replace(product, lead=(panel.batch.stop - panel.batch.start,))
                got = compute(part, cut(flat, panel), "cuda")
                result[panel.place] = arrays.to_numpy(got)
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
