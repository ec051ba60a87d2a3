"""What the doctor is given, and what a suspected fault is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ... import formats
from ...errors import BadShape
from ...mfma.instructions import Instruction
from ...mfma.modifiers import Modifiers
from ..images import Images

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Hypothesis:
    """A suspected fault, and the D that it would give.

    Attributes
    ----------
    name, sentence : str
    predicted : unsigned array (n, blocks, M, N)
        Bits of D.
    family : str
        Faults of one family may be the same thing by other names.
    """

    name: str
    sentence: str
    predicted: Array
    family: str


@dataclass(frozen=True)
class Problem:
    """A wrong D.

    Attributes
    ----------
    instruction : Instruction
    modifiers : Modifiers
    got, want : unsigned array (n, blocks, M, N)
        Bits of D, every NaN made the same.
    operands : dict of uint32 array (n, vgprs, 64), optional
        The inputs' register images.
    """

    instruction: Instruction
    modifiers: Modifiers
    got: Array
    want: Array
    operands: Images = field(default_factory=dict)

    @cached_property
    def differs(self) -> Array:
        """Return where the two differ."""
        return np.asarray(self.got != self.want)

    @property
    def wrong(self) -> int:
        """Return how many elements differ."""
        return int(self.differs.sum())

    def explained(self, predicted: Array) -> float:
        """Return the share of a prediction that comes true: of the elements that differ, if it
        errs nowhere else.
        """
        if predicted.shape != self.got.shape:
            return 0.0
        right = predicted == self.got
        changed = self.differs | (predicted != self.want)
        return float(right[changed].mean()) if changed.any() else 0.0


def bits_of_result(i: Instruction, D: Array, name: str) -> Array:
    """Return a matrix of D (..., M, N) as bits (n, blocks, M, N), every NaN the same.

    Raises
    ------
    BadShape, BadType
        Where it is no D of the instruction.
    """
    fmt = i.operand_format("D")
    bits = formats.bits_of(D, fmt, name)
    blocks, M, N = i.shape("D")
    if bits.ndim < 2 or bits.shape[-2:] != (M, N):
        raise BadShape(
            f"{name} has shape {D.shape}; D of {i.mnemonic} is (..., {blocks}, {M}, {N})"
        )
    if bits.ndim < 3 or bits.shape[-3] != blocks:
        if blocks > 1:
            raise BadShape(f"{name} has shape {D.shape}; {i.mnemonic} has {blocks} blocks")
        bits = bits[..., None, :, :]
    if not bits.size:
        raise BadShape(f"{name} has shape {D.shape}, no case; legal: one or more")
    return same_nan(i, bits.reshape(-1, blocks, M, N))


def same_nan(i: Instruction, bits: Array) -> Array:
    """Return bits of D with every NaN the same."""
    fmt = i.operand_format("D")
    if not fmt.is_float:
        return bits
    values = np.ascontiguousarray(bits).view(fmt.dtype)
    return np.where(np.isnan(values), bits.dtype.type((1 << fmt.bits - 1) - 1), bits)
