"""A sparse A of a whole product: 2:4 matrices to stored columns and their places, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..backends import arrays, cuda
from . import sparse
from .matmul_device import Chain, Matrices

_THREADS = 256


def compressed(chain: Chain, x: Matrices) -> Matrices:
    """Return the operands with A as its stored columns (batch, M, K/2) and `chosen`, the place of
    each in its group; CuPy arrays are compressed on their device.

    Which of a group's zeros fill up is the rule of `pack_sparse`: negative zeros first, then the
    first ones.

    Raises
    ------
    BadValue
        Where a group of four columns has more than two nonzeros.
    """
    if isinstance(x.a, np.ndarray):
        stored, chosen = _compress(chain, x.a)
    else:
        stored, chosen = _compress_cuda(chain, x.a)
    return replace(x, a=stored, chosen=chosen)


def _compress(chain: Chain, items: Any) -> tuple[Any, Any]:
    fmt = chain.instruction.operand_format("A")
    *lead, k = items.shape
    groups = items.reshape(*lead, k // sparse.GROUP, sparse.GROUP)
    rank = sparse._is_zero(groups, fmt).astype(np.int8) + (groups == 0)
    sparse._check_structure(chain.instruction, rank[:, None])
    columns = np.sort(np.argsort(rank, axis=-1, kind="stable")[..., :2], axis=-1)
    stored: Any = np.take_along_axis(groups, columns, axis=-1).reshape(*lead, k // 2)
    return stored, columns.astype(np.uint8).reshape(stored.shape)


def compress_arguments(chain: Chain, shape: tuple[int, ...], strides: Any) -> list[Any]:
    """Return what `compress` of cuda_src/matmul_sparse.cu takes after its arrays, from `rows` on,
    behind the strides (in items).
    """
    fmt = chain.instruction.operand_format("A")
    signed = fmt.is_float and fmt.nan != "negative-zero"
    batches, rows, k = shape
    groups = k // sparse.GROUP
    zero_mask = (1 << fmt.bits - signed) - 1
    return [
        np.array(strides, np.int64),
        *(np.int64(n) for n in (rows, groups, batches * rows * groups)),
        np.int32(fmt.bits),
        np.uint32(zero_mask),
    ]


def _compress_cuda(chain: Chain, items: Any) -> tuple[Any, Any]:
    import cupy

    shape = (*items.shape[:-1], items.shape[-1] // 2)
    stored, chosen = cupy.empty(shape, items.dtype), cupy.empty(shape, cupy.uint8)
    too_many = cupy.zeros(1, cupy.int32)
    steps = [step // items.dtype.itemsize for step in items.strides]
    at, *sizes = compress_arguments(chain, items.shape, steps)
    count = int(sizes[2])
    if count:
        cuda.kernel("matmul_sparse.cu", "compress")(
            (-(-count // _THREADS),), (_THREADS,), (items, at, stored, chosen, too_many, *sizes)
        )
        if int(too_many[0]):
            # The same check, which says where.
            _compress(chain, arrays.to_numpy(items))
    return stored, chosen


def expanded(a: Any, chosen: Any) -> Any:
    """Return a dense A (rows, K) of bytes from its stored columns (rows, K/2) on the device."""
    import cupy

    rows, stored = a.shape
    out = cupy.empty((rows, 2 * stored), cupy.uint8)
    count = rows * stored // 2
    args = (a, *(np.int64(s) for s in a.strides), chosen, *(np.int64(s) for s in chosen.strides))
    cuda.kernel("matmul_sparse.cu", "expand")(
        (-(-count // _THREADS),),
        (_THREADS,),
        (*args, out, np.int64(stored // 2), np.int64(count)),
    )
    return out
