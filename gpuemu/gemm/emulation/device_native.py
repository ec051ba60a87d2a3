"""The native product, straight through cublasGemmEx: CuPy's own matmul costs the CPU more."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import device_products

_PLAIN, _TRANSPOSED, _DEFAULT_ALGORITHM = 0, 1, -1
_FLOAT, _DOUBLE = (0, 68), (1, 70)  # CUDA_R_32F, CUBLAS_COMPUTE_32F; CUDA_R_64F, COMPUTE_64F
_ONES = {4: ctypes.c_float(1.0), 8: ctypes.c_double(1.0)}
_ZEROS = {4: ctypes.c_float(0.0), 8: ctypes.c_double(0.0)}
_KINDS = {
    size: (*(_FLOAT if size == 4 else _DOUBLE), ctypes.addressof(_ONES[size]),
           ctypes.addressof(_ZEROS[size]))
    for size in (4, 8)
}  # fmt: skip


def _orientation(x: Any) -> tuple[int, int] | None:
    """Return (transposed, leading dimension) of x as row-major; None where it is neither."""
    (rows, columns), (row_step, column_step), size = x.shape, x.strides, x.itemsize
    if column_step == size and row_step >= columns * size:
        return _PLAIN, row_step // size
    if row_step == size and column_step >= rows * size:
        return _TRANSPOSED, column_step // size
    return None


def prepare(a: Any, b: Any) -> Callable[[Any, Any], Any] | None:
    """Return the product of matrices with these extents and strides; None where cuBLAS cannot take
    them as they are.
    """
    if a.ndim != 2 or b.ndim != 2 or not (a.size and b.size):
        return None
    left, right = _orientation(a), _orientation(b)
    if left is None or right is None:
        return None
    (m, k), n, dtype = a.shape, b.shape[1], a.dtype
    kind, compute, one, zero = _KINDS[a.itemsize]
    import cupy

    # Looked up here, not in every call: names of modules cost a call a microsecond.
    cublas, handle_of_thread = device_products.cublas()
    multiply = cublas.gemmEx
    matrix, extents, (a_order, a_row), (b_order, b_row) = cupy.ndarray, (m, n), left, right

    def product(a: Any, b: Any) -> Any:
        out = matrix(extents, dtype)
        # Column-major cuBLAS sees every matrix transposed: out^T = b^T a^T.
        multiply(
            handle_of_thread(), b_order, a_order, n, m, k, one, b.data.ptr, kind, b_row,
            a.data.ptr, kind, a_row, zero, out.data.ptr, kind, n, compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        return out

    return product


def product(a: Any, b: Any) -> Any:
    """Return `a @ b` in float32 or float64, batched or not."""
    prepared = prepare(a, b)
    return a @ b if prepared is None else prepared(a, b)
