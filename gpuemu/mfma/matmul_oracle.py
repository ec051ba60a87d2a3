"""The oracle of whole products: the register level's own models, chained along k, a chunk of rows
at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import oracle
from .instructions import Instruction
from .models import Model
from .modifiers import Modifiers

Array = np.ndarray[Any, Any]

CHUNK = 1 << 18  # outputs worked on at a time


def pad(array: Array, axis: int, size: int) -> Array:
    """Return an array with zeros appended along one axis up to a size."""
    missing = size - array.shape[axis]
    if missing == 0:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return np.pad(array, widths)


def chain(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    A: Array,
    B: Array,
    C: Array,
    chosen: Array | None = None,
    scales: tuple[Array, Array] | None = None,
) -> Array:
    """Return D after the chain of instructions along k, as bits.

    Parameters
    ----------
    A, B, C : unsigned arrays (batch, M, products), (batch, K, N), (batch, M, N)
        The bits of the matrices; products is K, or K/2 of a sparse instruction.
    chosen : uint8 array (batch, M, products), optional
        The place, 0 to 3, of every stored item in its group of four dense columns.
    scales : two uint8 arrays (batch, M, K/32) and (batch, K/32, N), optional
    """
    if C.size == 0:
        return C
    steps = -(-B.shape[1] // instruction.K)
    A = pad(A, 2, steps * instruction.products)
    B = pad(B, 1, steps * instruction.K)
    if chosen is not None:
        places = np.broadcast_to(np.arange(A.shape[2], dtype=np.uint8) % 2, A.shape).copy()
        places[:, :, : chosen.shape[2]] = chosen
        chosen = places
    if scales is not None:
        blocks = steps * instruction.K // 32
        # 127 is the code of the scale 1.
        missing = blocks - scales[0].shape[2]
        scales = (
            np.pad(scales[0], ((0, 0), (0, 0), (0, missing)), constant_values=127),
            np.pad(scales[1], ((0, 0), (0, missing), (0, 0)), constant_values=127),
        )
    D = np.empty_like(C)
    rows = max(1, CHUNK // (C.shape[0] * C.shape[2]))
    for first in range(0, C.shape[1], rows):
        part = slice(first, first + rows)
        D[:, part] = _rows(
            instruction,
            model,
            m,
            A[:, part],
            B,
            C[:, part],
            None if chosen is None else chosen[:, part],
            None if scales is None else (scales[0][:, part], scales[1]),
        )
    return D


def _rows(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    A: Array,
    B: Array,
    D: Array,
    chosen: Array | None,
    scales: tuple[Array, Array] | None,
) -> Array:
    products, K = instruction.products, instruction.K
    dense = 4 * (np.arange(products) // 2)  # the first dense column of every stored item's group
    for step in range(B.shape[1] // K):
        a = A[:, :, step * products : (step + 1) * products]
        b = B[:, step * K : (step + 1) * K]
        columns = None
        if chosen is not None:
            columns = (dense + chosen[:, :, step * products : (step + 1) * products])[:, None]
        codes = None
        if scales is not None:
            blocks = slice(step * K // 32, (step + 1) * K // 32)
            codes = (scales[0][:, :, blocks], scales[1][:, blocks])
        D = oracle.matrix_dot(
            instruction, model, m, a[:, None], b[:, None], D[:, None], columns, codes
        )[:, 0]
    return D
