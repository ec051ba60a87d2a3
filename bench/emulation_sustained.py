"""Products one after the other until the device is at its power limit, beside int8 products alone
under the same load: a part of `emulation_report.py`.

What a product takes there is decided by joules. Its floor is what int8 products of its depth take
alone, and the bytes that are encoded and recombined, at copy bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Results = dict[str, Any]

SIZE, ROWS = 8192, 4096  # extents; rows of the int8 product, as in a block of the plan
SECONDS, ROUNDS = 0.25, 2
COPY_BYTES_PER_MS = 4.3e9
PRODUCTS = (
    (np.float64, "slices", 52, 7, 28, 4),
    (np.float64, "crt", 52, 14, 14, 1),
)  # dtype, scheme, bits, planes, int8 products, how many of them a sum holds on average


def sustained() -> list[Results]:
    """Return milliseconds of every product and of one int8 product, under sustained load."""
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul

    rows = []
    for dtype, scheme, bits, planes, products, depth in PRODUCTS:
        alone, _keep = _int8_product(depth * SIZE, planes)
        a, b = (cupy.random.standard_normal((SIZE, SIZE)).astype(dtype) for _ in range(2))
        calls = {
            "ms": partial(emulated_matmul, a, b, mantissa_bits=bits, scheme=scheme),
            "int8_ms": alone,
            "native_ms": partial(cupy.matmul, a, b),
        }
        samples = [{name: _mean_ms(call) for name, call in calls.items()} for _ in range(ROUNDS)]
        row: Results = {"dtype": np.dtype(dtype).name, "scheme": scheme, "bits": bits, "n": SIZE}
        row |= {name: float(np.mean([s[name] for s in samples])) for name in calls}
        size = np.dtype(dtype).itemsize
        moved = 2 * (size + planes) + size + 4 * planes  # bytes an element of A, B and C
        row["floor_ms"] = products / depth * row["int8_ms"] * SIZE / ROWS
        row["floor_ms"] += SIZE**2 * moved / COPY_BYTES_PER_MS
        rows.append(row)
        tflops, speedup = 2e-9 * SIZE**3 / row["ms"], row["native_ms"] / row["ms"]
        rate = 2e-12 * ROWS * SIZE**2 * depth / row["int8_ms"]
        print(
            f"sustained {row['dtype']} {scheme} {bits}: {row['ms']:.2f} ms, {tflops:.1f} TFLOP/s, "
            f"{speedup:.2f}x native; int8 products alone {rate:.3f} P op/s, "
            f"floor {row['floor_ms']:.2f} ms, {row['floor_ms'] / row['ms']:.2f} of it"
        )
        del a, b, calls, alone, _keep
        cupy.get_default_memory_pool().free_all_blocks()
    return rows


def _int8_product(k: int, planes: int) -> tuple[Callable[[], None], Any]:
    """Return a product of random bytes as the blocks of the plan have it, and its memory."""
    import cupy

    from gpuemu.gemm.emulation import cublaslt, device_products

    out, spare = (SIZE + ROWS) * k, 32 << 20
    product = cublaslt.Product(SIZE, ROWS, k, 0, SIZE * k, out, k, k)
    total = out + 4 * SIZE * ROWS
    memory = cupy.empty(total + spare, np.uint8)
    words = cupy.random.randint(-(2**31), 2**31 - 1, out // 4, dtype=np.int32)
    memory[:out] = words.view(np.uint8)
    device = cupy.cuda.runtime.getDevice()
    run, _ = device_products.prepare(product, device, total, spare, planes)
    stream = cupy.cuda.get_current_stream().ptr
    return partial(run, memory.data.ptr, stream), memory


def _mean_ms(call: Callable[[], Any]) -> float:
    """Return the mean time of a call over `SECONDS`, after a quarter of that to warm up."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()

    def timed(count: int) -> float:
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, stop)) / count

    count = max(2, round(SECONDS * 1e3 / timed(2)))
    timed(-(-count // 4))
    return timed(count)
