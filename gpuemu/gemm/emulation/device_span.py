"""The estimate of dynamic control on CUDA; `oracle.exponent_span` says what it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import cuda
from .oracle import ZERO_EXPONENT, block_length
from .scheme import ENDLESS

THREADS = 128


def exponent_span(a: Any, b: Any) -> int:
    """Return the span in bits over all outputs; waits for the device."""
    import cupy

    if not (a.size and b.size):
        return 0
    sides = [_block_exponents(a, 0), _block_exponents(b, 1)]
    rows, columns = int(a.shape[0]), int(b.shape[1])
    span = cupy.zeros(1, np.int32)
    kernel = cuda.kernel("emulation_span.cu", "largest_span", {"ELEMENT_BITS": 8 * a.itemsize})
    blocks = int(sides[0][0].shape[0])
    kernel(
        (-(-columns // 64) * -(-rows // 64),),
        (16, 16),
        (*sides[0], *sides[1], np.int32(rows), np.int32(columns), np.int32(blocks), span),
    )
    return min(int(span[0]), ENDLESS)


def _block_exponents(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return largest and smallest exponents [block][vector], and every vector's largest."""
    import cupy

    vectors, length = int(x.shape[axis]), int(x.shape[1 - axis])
    step, k_step = (int(x.strides[i]) // x.itemsize for i in (axis, 1 - axis))
    extent = block_length(length)
    blocks = -(-length // extent)
    highest, lowest = (cupy.empty((blocks, vectors), np.int32) for _ in range(2))
    largest = cupy.full(vectors, ZERO_EXPONENT, np.int32)
    kernel = cuda.kernel("emulation_span.cu", "block_exponents", {"ELEMENT_BITS": 8 * x.itemsize})
    kernel(
        (-(-vectors // THREADS), blocks),
        (THREADS,),
        (
            np.uint64(int(x.data.ptr)),
            np.int64(step),
            np.int64(k_step),
            np.int32(vectors),
            np.int32(length),
            np.int32(extent),
            highest,
            lowest,
            largest,
        ),
    )
    return highest, lowest, largest
