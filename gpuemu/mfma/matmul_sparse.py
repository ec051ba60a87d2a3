"""A sparse A of a whole product: 2:4 matrices to stored columns and their places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..backends import arrays
from . import sparse
from .matmul_device import Chain, Matrices


def compressed(chain: Chain, x: Matrices) -> Matrices:
    """Return the operands with A as its stored columns (batch, M, K/2) and `chosen`, the place of
    each in its group.

    Which of a group's zeros fill up is the rule of `pack_sparse`: negative zeros first, then the
    first ones.

    Raises
    ------
    BadValue
        Where a group of four columns has more than two nonzeros.
    """
    items = arrays.to_numpy(x.a)
    fmt = chain.instruction.operand_format("A")
    groups = items.reshape(*items.shape[:-1], -1, sparse.GROUP)
    rank = sparse._is_zero(groups, fmt).astype(np.int8) + (groups == 0)
    sparse._check_structure(chain.instruction, rank[:, None])
    columns = np.sort(np.argsort(rank, axis=-1, kind="stable")[..., :2], axis=-1)
    stored: Any = np.take_along_axis(groups, columns, axis=-1).reshape(*items.shape[:-1], -1)
    chosen: Any = columns.astype(np.uint8).reshape(stored.shape)
    if not isinstance(x.a, np.ndarray):
        stored, chosen = arrays.to_cupy(stored), arrays.to_cupy(chosen)
    return replace(x, a=stored, chosen=chosen)
