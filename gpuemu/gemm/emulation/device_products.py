"""int8 products through cuBLAS: A transposed and B not, its only fast orientation.

cuBLAS is column-major and the result is row-major, so B's planes are its A and A's planes its B.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import scheme
from .device_plan import Plan
from .scheme import Setting

_TRANSPOSED, _PLAIN = 1, 0
_INT8, _INT32, _COMPUTE_INT32, _DEFAULT_ALGORITHM = 3, 10, 72, -1
_ONE, _ZERO = np.ones(1, np.int32), np.zeros(1, np.int32)
_one, _zero = int(_ONE.ctypes.data), int(_ZERO.ctypes.data)
#: Up to this many multiply-adds a modulus, all moduli go in one batched call.
BATCHED_LIMIT = 4096**3


def _cublas() -> tuple[Any, int]:
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    return cublas, int(device.get_cublas_handle())


def run(plan: Plan, setting: Setting, rows: int, columns: int, base: int) -> None:
    """Write every int32 plane of one block; extents are padded, `base` is the workspace."""
    a, b, sums = base + plan.a_offset, base + plan.b_offset, base + plan.sums_offset
    if setting.scheme == "crt":
        _residue_products(a, b, sums, rows, columns, plan.padded_k, setting.planes)
    else:
        _diagonal_products(a, b, sums, rows, columns, plan, setting.planes)


def _diagonal_products(
    a: int, b: int, sums: int, rows: int, columns: int, plan: Plan, slices: int
) -> None:
    """Diagonal d: slices 0 … d of A times slices d … 0 of B, one product over (d + 1) * k."""
    cublas, handle = _cublas()
    width = slices * plan.padded_k
    for plane, (d, first) in enumerate(plan.sums):
        depth = min((d + 1) * plan.padded_k - first, scheme.SUM_LIMIT)
        b_first = (slices - 1 - d) * plan.padded_k + first
        cublas.gemmEx(
            handle, _TRANSPOSED, _PLAIN, columns, rows, depth, _one, b + b_first, _INT8, width,
            a + first, _INT8, width, _zero, sums + 4 * plane * rows * columns, _INT32, columns,
            _COMPUTE_INT32, _DEFAULT_ALGORITHM,
        )  # fmt: skip


def _residue_products(
    a: int, b: int, sums: int, rows: int, columns: int, k: int, moduli: int
) -> None:
    cublas, handle = _cublas()
    if rows * columns * k <= BATCHED_LIMIT:
        cublas.gemmStridedBatchedEx(
            handle, _TRANSPOSED, _PLAIN, columns, rows, k, _one, b, _INT8, k, columns * k,
            a, _INT8, k, rows * k, _zero, sums, _INT32, columns, rows * columns, moduli,
            _COMPUTE_INT32, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        return
    for index in range(moduli):
        x, y = b + index * columns * k, a + index * rows * k
        cublas.gemmEx(
            handle, _TRANSPOSED, _PLAIN, columns, rows, k, _one, x, _INT8, k, y, _INT8, k,
            _zero, sums + 4 * index * rows * columns, _INT32, columns,
            _COMPUTE_INT32, _DEFAULT_ALGORITHM,
        )  # fmt: skip
