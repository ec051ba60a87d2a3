"""i8 products through cuBLAS: sums of bytes are exact modulo 2**32, whatever their order.

Only one orientation of cuBLAS's int8 product is fast, both operands with k dense; the others are
copied into it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import cuda
from . import matmul_sparse
from .matmul_device import Chain, Matrices, pointers, problem

# |product| <= 2**14: a sum of this many stays within int32, so that saturation, if there were any,
# cannot act.
MAX_K = 1 << 16
ROWS_ALIGNED = 16  # rows, columns and k of the operands that cuBLAS gets

_CUDA_R_8I, _CUDA_R_32I, _COMPUTE_32I, _DEFAULT = 3, 10, 72, -1


def _aligned(n: int) -> int:
    return -(-n // ROWS_ALIGNED) * ROWS_ALIGNED


def _k_dense(x: Any, rows: int, k: int, row_stride: int, k_stride: int) -> Any:
    """Return bytes (rows, k) with k dense, both padded with zeros to the alignment; itself where
    it is so already.
    """
    import cupy

    padded = _aligned(rows), _aligned(k)
    if padded == (rows, k) and k_stride == 1 and row_stride == k and x.data.ptr % 16 == 0:
        return x
    out = cupy.empty(padded, cupy.uint8)
    blocks = -(-padded[0] // 32) * -(-padded[1] // 32)
    sizes = (rows, k, row_stride, k_stride, *padded)
    cuda.kernel("matmul_bytes.cu", "k_dense")(
        (blocks,), (256,), (x, out, *(np.int64(v) for v in sizes))
    )
    return out


def run(chain: Chain, matrices: Matrices, d: Any) -> bool:
    """Write D = C + A B modulo 2**32, a sparse A as a dense one; return whether it was done."""
    if chain.instruction.sparse and matrices.b.shape[1] % 4:
        return False
    k = matrices.b.shape[1]
    for batch in range(d.shape[0]):
        for first in range(0, k, MAX_K):
            part = slice(first, min(k, first + MAX_K))
            _one(matrices, d, batch, part)
    return True


def _left(matrices: Matrices, batch: int, part: slice) -> Any:
    """Return dense columns of A."""
    if matrices.chosen is None:
        return matrices.a[batch, :, part]
    stored = slice(part.start // 2, part.stop // 2)
    return matmul_sparse.expanded(matrices.a[batch, :, stored], matrices.chosen[batch, :, stored])


def _one(matrices: Matrices, d: Any, batch: int, part: slice) -> None:
    import cupy
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    a, b = _left(matrices, batch, part), matrices.b[batch, part]
    m, n, k = a.shape[0], b.shape[1], b.shape[0]
    left = _k_dense(a, m, k, *a.strides)
    right = _k_dense(b, n, k, b.strides[1], b.strides[0])
    rows, columns, depth = _aligned(m), _aligned(n), _aligned(k)
    direct = (
        matrices.c is None
        and part.start == 0
        and (rows, columns) == (m, n)
        and d.strides[2] == d.itemsize
        and d.strides[1] % ROWS_ALIGNED == 0
        and d[batch].data.ptr % ROWS_ALIGNED == 0
    )
    total = d[batch] if direct else cupy.empty((rows, columns), cupy.int32)
    one, zero = np.array(1, np.int32), np.array(0, np.int32)
    # cuBLAS counts by columns: it computes the transpose, right operand first.
    cublas.gemmEx(
        int(device.get_cublas_handle()), 1, 0, columns, rows, depth,
        one.ctypes.data, right.data.ptr, _CUDA_R_8I, depth, left.data.ptr, _CUDA_R_8I, depth,
        zero.ctypes.data, total.data.ptr, _CUDA_R_32I, total.strides[0] // 4,
        _COMPUTE_32I, _DEFAULT,
    )  # fmt: skip
    if not direct:
        args = (
            problem(matrices, d),
            pointers(matrices, d),
            total,
            np.int64(columns),
            np.int64(batch),
            np.int32(part.start > 0),
        )
        cuda.kernel("matmul_bytes.cu", "add_accumulator")((-(-m * n // 256),), (256,), args)
