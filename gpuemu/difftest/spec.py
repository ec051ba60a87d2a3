"""What a class of inputs knows of a call, and the pieces that classes are built of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import formats
from ..mfma.instructions import Instruction
from ..mfma.models import models as known_models
from .streams import Array, Stream, namespace, power

Matrices = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Extents:
    """The extents of a product that no matrix instruction computes."""

    blocks: int
    M: int
    N: int
    products: int


@dataclass(frozen=True)
class Spec:
    """What a class needs to know of a call.

    Attributes
    ----------
    instruction : Instruction or Extents
    a, b, c : Format
        Of the operands, under the cbsz and blgp of the call.
    """

    instruction: Any
    a: formats.Format
    b: formats.Format
    c: formats.Format

    @property
    def rows(self) -> tuple[int, int]:
        """Return (blocks, M)."""
        return self.instruction.blocks, self.instruction.M

    @property
    def columns(self) -> tuple[int, int]:
        """Return (blocks, N)."""
        return self.instruction.blocks, self.instruction.N

    @property
    def outputs(self) -> tuple[int, int, int]:
        """Return (blocks, M, N)."""
        return self.instruction.blocks, self.instruction.M, self.instruction.N

    @property
    def products(self) -> int:
        """Return the products of one output."""
        return int(self.instruction.products)

    @property
    def precision(self) -> int:
        """Return the significand bits of the result."""
        return self.c.mantissa_bits + 1 if self.c.is_float else 32

    @property
    def kept(self) -> int:
        """Return the bits that an aligned sum keeps, or the precision where nothing is aligned."""
        if isinstance(self.instruction, Instruction):
            model = known_models()[self.instruction.model]
            if model.algorithm == "aligned":
                return int(model.product_bits)
        return self.precision


def window(fmt: formats.Format, reach: int = 30) -> tuple[int, int]:
    """Return the exponents of a format's normal numbers, at most `reach` from 0."""
    if not fmt.is_float:
        return 0, fmt.bits - 2
    return max(fmt.emin, -reach), min(fmt.emax, reach)


def zeros(spec: Spec, s: Stream) -> Matrices:
    """Return A, B and C of zeros."""
    blocks, M, N = spec.outputs
    return (
        s.xp.zeros((s.count, blocks, M, spec.products)),
        s.xp.zeros((s.count, blocks, spec.products, N)),
        s.xp.zeros((s.count, blocks, M, N)),
    )


def put(A: Array, B: Array, k: Array, a: Array, b: Array) -> None:
    """Set column k[n] of A (n, blocks, M, K) and row k[n] of B (n, blocks, K, N)."""
    xp = namespace(A)
    here = xp.arange(A.shape[3]) == k[:, None]
    A[...] = xp.where(here[:, None, None, :], a[..., None], A)
    B[...] = xp.where(here[:, None, :, None], b[..., None, :], B)


def two_places(spec: Spec, s: Stream) -> tuple[Array, Array]:
    """Return two product numbers a case, different where there are two; neighbours in every other
    case.
    """
    first, apart = s.below(spec.products), s.below(max(spec.products - 1, 1))
    return first, (first + 1 + apart * s.below(2)) % spec.products


def bell(fmt: formats.Format, s: Stream, *shape: int) -> Array:
    """Return values of a nearly normal distribution in a format; integers fill a quarter of their
    range.
    """
    return s.bell(*shape) * (1.0 if fmt.is_float else 2.0 ** (fmt.bits - 3))


__all__ = [
    "Array",
    "Extents",
    "Matrices",
    "Spec",
    "bell",
    "power",
    "put",
    "two_places",
    "window",
    "zeros",
]
