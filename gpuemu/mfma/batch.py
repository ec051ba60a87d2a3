"""Where the operands of a batch lie: the fields of `Batch` in `cuda_src/mfma_batch.cuh`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .instructions import Instruction
from .layouts import LANES
from .modifiers import Modifiers
from .operands import OPERANDS, Operands


def kernel_modifiers(instruction: Instruction, m: Modifiers) -> tuple[int, ...]:
    """Return the modifier fields of `Batch`: only what moves lanes, negates, or selects."""
    dense = instruction.kind == "mfma"
    neg = m.neg[0] | m.neg[1] << 1 | m.neg[2] << 2
    return (
        m.cbsz if dense else 0,
        m.abid if dense else 0,
        m.blgp if dense else 0,
        int(dense and m.broadcast == "lane_block"),
        neg,
        m.index_set(instruction),
        *m.op_sel,
        int(m.output_layout == "formula"),
    )


def _collapse(
    shape: tuple[int, ...], strides: list[tuple[int, ...]]
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Merge neighbouring batch dimensions where every operand's strides allow.

    Returns a list of (size, stride of each operand), outermost first; None where over two remain.
    """
    merged: list[tuple[int, tuple[int, ...]]] = []
    for axis in reversed(range(len(shape))):
        step = tuple(s[axis] for s in strides)
        if shape[axis] == 1:
            continue
        if merged:
            size, inner = merged[-1]
            if all(outer == size * i for outer, i in zip(step, inner, strict=True)):
                merged[-1] = (size * shape[axis], inner)
                continue
        merged.append((shape[axis], step))
    return merged[::-1] if len(merged) <= 2 else None


def fields(
    instruction: Instruction, m: Modifiers, operands: list[Any], lead: tuple[int, ...]
) -> np.ndarray[Any, Any] | None:
    """Return the fields of `Batch` as int64; None where strides need over two batch dimensions."""
    rank = len(lead)
    batch_strides, image_strides = [], []
    for x in operands:
        if x is None:
            batch_strides.append((0,) * rank)
            image_strides.append((LANES, 1))
            continue
        words = tuple(step // 4 for step in x.strides)
        missing = (0,) * (rank - (x.ndim - 2))
        own = tuple(
            0 if size == 1 else step for size, step in zip(x.shape[:-2], words, strict=False)
        )
        batch_strides.append(missing + own)
        image_strides.append(words[-2:])
    dims = _collapse(lead, batch_strides)
    if dims is None:
        return None
    none = (0,) * len(operands)
    (_, outer), (inner_size, inner) = ([(1, none)] * 2 + dims)[-2:]
    places = [v for n in range(len(operands)) for v in (outer[n], inner[n], *image_strides[n])]
    return np.array(
        [math.prod(lead), inner_size, *places, *kernel_modifiers(instruction, m)], np.int64
    )


def is_dense(batch: np.ndarray[Any, Any]) -> bool:
    """Tell whether every image is (vgprs, 64) without gaps and the batch has one dimension."""
    places = batch[2 : 2 + 4 * len(OPERANDS)].reshape(-1, 4)
    return bool(
        batch[0] == batch[1] and (places[:, 2] == LANES).all() and (places[:, 3] == 1).all()
    )


def prepare(
    instruction: Instruction, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Return the operands, copied only where their strides have no expression, and the batch."""
    found = [getattr(operands, name) for name in OPERANDS]
    for n, x in enumerate(found):
        if x is not None and any(s % 4 for s in x.strides):
            found[n] = x.copy()
    batch = fields(instruction, m, found, lead)
    if batch is None:
        found = [x if x is None or x.ndim == 2 else _contiguous(x, lead) for x in found]
        batch = fields(instruction, m, found, lead)
        assert batch is not None
    return found, batch


def _contiguous(x: Any, lead: tuple[int, ...]) -> Any:
    """Return an operand as a dense array of the whole leading shape."""
    shape = (*lead, *x.shape[-2:])
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape).copy()
    import cupy

    return cupy.broadcast_to(x, shape).copy()
