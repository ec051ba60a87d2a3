"""scheme="auto" beside what a CuPy user writes: a part of `emulation_report.py`."""

from __future__ import annotations

import operator
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Results = dict[str, Any]


def _medians(calls: tuple[Callable[[], Any], ...], repeats: int, rounds: int) -> list[float]:
    """Return each call's median of medians; every call is first, later and last in turn.

    A device that was idle is faster until it is warm: the first of a round would always gain.
    """
    from gpuemu.gemm.emulation import tuning

    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds):
        for place in range(len(calls)):
            at = (turn + place) % len(calls)
            samples[at].append(tuning.median_ms(calls[at], repeats))
    return [statistics.median(times) for times in samples]


def automatic() -> list[Results]:
    """Compare scheme="auto" with what a CuPy user writes, over shapes that the table has and has
    not.
    """
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul, emulation_report, tuning

    start = time.perf_counter()
    tuning.table(tuning.device_name(cupy.cuda.Device().id))
    print(f"auto: table measured or read in {time.perf_counter() - start:.1f} s")
    rows = []
    squares = (64, 128, 256, 500, 512, 1000, 1500, 2000, 2500, 3000, 4000, 6000, 8192, 16384)
    shapes = [
        *((n,) * 3 for n in squares),
        (8192, 8192, 512),
        (256, 8192, 8192),
        (8192, 1024, 8192),
    ]
    for dtype, bits in ((np.float32, 23), (np.float64, 52)):
        for m, n, k in shapes:
            a = cupy.random.standard_normal((m, k)).astype(dtype)
            b = cupy.random.standard_normal((k, n)).astype(dtype)
            calls = (
                partial(operator.matmul, a, b),
                partial(cupy.matmul, a, b),
                partial(emulated_matmul, a, b, mantissa_bits=bits, scheme="auto"),
            )
            small = m * n * k < 2048**3
            native, matmul, auto = _medians(calls, *((21, 6) if small else (5, 3)))
            row = {
                "dtype": np.dtype(dtype).name,
                "shape": (m, n, k),
                "native_ms": native,
                "matmul_ms": matmul,
                "auto_ms": auto,
                "took": emulation_report().scheme,
            }
            rows.append(row)
            print(
                f"auto {row['dtype']:8} {m}x{n}x{k}: {row['took']}, {native / auto:.3f} of A @ B, "
                f"{matmul / auto:.3f} of cupy.matmul"
            )
    return rows
