"""int8 products through cuBLAS: A transposed and B not, its only fast orientation.

cuBLAS is column-major and the result is row-major, so B's planes are its A and A's planes its B.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import cublaslt, device_algorithms, scheme
from .cublaslt import Product
from .device_plan import Plan
from .scheme import Setting

_TRANSPOSED, _PLAIN = 1, 0
_INT8, _INT32, _COMPUTE_INT32, _DEFAULT_ALGORITHM = 3, 10, 72, -1
_ONE, _ZERO = np.ones(1, np.int32), np.zeros(1, np.int32)
_one, _zero = int(_ONE.ctypes.data), int(_ZERO.ctypes.data)
#: Up to this many multiply-adds a modulus, all moduli go in one batched call.
BATCHED_LIMIT = 1536**3
#: Up to this many multiply-adds a product, algorithms are tried for the fastest. Above, the power
#: limit of the device decides, which no short trial meets.
DIRECT_LIMIT = 4096**3
#: Above: blocks in clusters of 2 x 4 (an item of cublasLtClusterShape_t), neighbours in time near
#: each other. Under a sustained load an H200 takes 0.412 ms for 8192 x 4096 x 8192, and 0.424 ms
#: with cuBLAS's own choice, at equal power: less of B comes from far away. Short of that load there
#: is no difference.
LARGE_CLUSTER = 9
#: Calls of fewer planes are over too soon: float32 with three slices takes 5.8 ms at 8192 this way,
#: and 5.1 ms with cuBLAS's own choice.
LARGE_PLANES = 4

#: Runs one product: (workspace address, stream).
Run = Callable[[int, int], None]


def products(
    plan: Plan, setting: Setting, rows: int, columns: int, buffer: int = 0
) -> list[Product]:
    """Return the products that give every int32 plane of one block; extents are padded."""
    at = plan.a_offset + buffer * plan.a_bytes, plan.sums_offset + buffer * plan.sums_bytes
    if setting.scheme == "crt":
        return _of_residues(plan, rows, columns, setting.planes, *at)
    return _of_diagonals(plan, rows, columns, setting.planes, *at)


def _of_diagonals(
    plan: Plan, rows: int, columns: int, slices: int, right: int, sums: int
) -> list[Product]:
    """Diagonal d: slices 0 … d of A times slices d … 0 of B, one product over (d + 1) * k."""
    width = slices * plan.padded_k
    found = []
    for plane, (d, first) in enumerate(plan.sums):
        depth = min((d + 1) * plan.padded_k - first, scheme.SUM_LIMIT)
        left = plan.b_offset + (slices - 1 - d) * plan.padded_k + first
        out = sums + 4 * plane * rows * columns
        found.append(Product(columns, rows, depth, left, right + first, out, width, width))
    return found


def _of_residues(
    plan: Plan, rows: int, columns: int, moduli: int, a: int, out: int
) -> list[Product]:
    k, b = plan.padded_k, plan.b_offset
    if rows * columns * k <= BATCHED_LIMIT:
        return [Product(columns, rows, k, b, a, out, k, k, moduli)]
    return [
        Product(
            columns, rows, k, b + i * columns * k, a + i * rows * k, out + 4 * i * rows * columns,
            k, k,
        )
        for i in range(moduli)
    ]  # fmt: skip


def prepare(
    product: Product, device: int, spare_offset: int, spare: int, planes: int
) -> tuple[Run, int]:
    """Return what runs a product, and how many of the `spare` bytes at `spare_offset` it uses.

    For small products the fastest of cublasLt's algorithms is found here, once; large ones of calls
    with many `planes` take its first guess, in another raster. For others, and where its library is
    not found or has none, cublasGemmEx picks an algorithm in every call. All are exact.
    """
    small = product.m * product.n * product.k * product.count <= DIRECT_LIMIT
    library = cublaslt.library(device)
    chosen = None
    if library is not None and small:
        chosen = device_algorithms.choose(library, device, product, (spare_offset, spare))
    elif library is not None and planes >= LARGE_PLANES:
        chosen = library.rastered(product, spare_offset, spare, LARGE_CLUSTER)
    return chosen or (_through_gemm_ex(product), 0)


@cache
def cublas() -> tuple[Any, Callable[[], int]]:
    """Return CuPy's binding of cuBLAS, and what gives the handle for thread and current device."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas as binding

    return binding, device.get_cublas_handle


def _through_gemm_ex(p: Product) -> Run:
    def run(base: int, _stream: int) -> None:
        binding, handle_of_thread = cublas()
        handle = handle_of_thread()
        left, right, out = base + p.left, base + p.right, base + p.out
        if p.count == 1:
            binding.gemmEx(
                handle, _TRANSPOSED, _PLAIN, p.m, p.n, p.k, _one, left, _INT8, p.left_row,
                right, _INT8, p.right_row, _zero, out, _INT32, p.m,
                _COMPUTE_INT32, _DEFAULT_ALGORITHM,
            )  # fmt: skip
        else:
            binding.gemmStridedBatchedEx(
                handle, _TRANSPOSED, _PLAIN, p.m, p.n, p.k, _one, left, _INT8, p.left_row,
                p.m * p.k, right, _INT8, p.right_row, p.n * p.k, _zero, out, _INT32, p.m,
                p.m * p.n, p.count, _COMPUTE_INT32, _DEFAULT_ALGORITHM,
            )  # fmt: skip

    return run
