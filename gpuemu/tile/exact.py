"""The arithmetic of one element in Python integers: every step exact, the one rounding visible.

It is the readable definition. `oracle` is its array twin, `explain` prints its steps, FP64 runs on
it. Source: IEEE 754-2019 fusedMultiplyAdd under the profile named in `numeric` (nearest even,
tininess after rounding, canonical NaN; zero times infinity is invalid even beside a quiet NaN).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .numeric import NV, NX, OF, UF, DataType


@dataclass(frozen=True)
class Decoded:
    """What one code means: a class and, where finite, (-1)^negative * significand * 2^exponent."""

    kind: Literal["finite", "inf", "quiet", "signaling"]
    negative: bool
    significand: int = 0
    exponent: int = 0

    @property
    def is_nan(self) -> bool:
        """Tell whether this is a NaN of either sort."""
        return self.kind in ("quiet", "signaling")

    @property
    def is_zero(self) -> bool:
        """Tell whether this is a zero of either sign."""
        return self.kind == "finite" and self.significand == 0

    @property
    def signed(self) -> int:
        """Return the significand with its sign."""
        return -self.significand if self.negative else self.significand


@dataclass(frozen=True)
class Step:
    """One operation on one element: the exact value before rounding, if any, and what came out.

    Attributes
    ----------
    bits, flags : int
        The result.
    reason : str
        The rule that decided.
    magnitude, exponent : int
        |exact sum| = magnitude * 2^exponent; both 0 where no rounding took place.
    quantum : int
        Exponent of the unit in the last place that the sum was rounded to.
    tiny : bool
        Whether the sum, rounded with an unbounded exponent, lies below the smallest normal number.
    """

    bits: int
    flags: int
    reason: str
    magnitude: int = 0
    exponent: int = 0
    quantum: int = 0
    tiny: bool = False


def decode(dtype: DataType, code: int) -> Decoded:
    """Split a float's bits into class, sign, significand and exponent.

    >>> from gpuemu.tile.numeric import data_type
    >>> decode(data_type("FP16"), 0x3C01)
    Decoded(kind='finite', negative=False, significand=1025, exponent=-10)
    """
    negative = bool(code & dtype.sign_bit)
    magnitude = code & (dtype.sign_bit - 1)
    field, fraction = divmod(magnitude >> dtype.unused_bits, 1 << dtype.mantissa_bits)
    if magnitude >= dtype.infinity:
        if dtype.infinities and fraction == 0:
            return Decoded("inf", negative)
        quiet = fraction >> (dtype.mantissa_bits - 1)
        return Decoded("quiet" if quiet else "signaling", negative)
    significand = fraction + (1 << dtype.mantissa_bits if field else 0)
    return Decoded(
        "finite", negative, significand, max(field, 1) - 1 + dtype.emin - dtype.mantissa_bits
    )


def nearest_even(magnitude: int, exponent: int, quantum: int) -> tuple[int, bool]:
    """Round magnitude * 2^exponent to a multiple of 2^quantum; return the multiple and inexactness.

    >>> nearest_even(5, 0, 1), nearest_even(7, 0, 1), nearest_even(6, 0, 1)
    ((2, True), (4, True), (3, False))
    """
    drop = quantum - exponent
    if drop <= 0:
        return magnitude << -drop, False
    kept, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    return kept + (rest > half or (rest == half and kept & 1 == 1)), rest != 0


def round_pack(dtype: DataType, negative: bool, magnitude: int, exponent: int) -> Step:
    """Round (-1)^negative * magnitude * 2^exponent once to the type, with its flags.

    >>> from gpuemu.tile.numeric import data_type
    >>> step = round_pack(data_type("FP16"), False, 3, -25)
    >>> hex(step.bits), step.flags
    ('0x2', 24)
    """
    sign = dtype.sign_bit if negative else 0
    top = magnitude.bit_length() - 1 + exponent
    smallest = dtype.emin - dtype.mantissa_bits
    quantum = max(top - dtype.mantissa_bits, smallest)
    kept, inexact = nearest_even(magnitude, exponent, quantum)
    unbounded = top - dtype.mantissa_bits
    tiny = nearest_even(magnitude, exponent, unbounded)[0] < 1 << max(dtype.emin - unbounded, 0)
    # A carry out of the significand, and a subnormal that becomes normal, both land in the
    # exponent field.
    code = (((quantum - smallest) << dtype.mantissa_bits) + kept) << dtype.unused_bits
    if code >= dtype.infinity:
        overflowed = sign | dtype.infinity if dtype.infinities else dtype.canonical_nan
        return Step(overflowed, OF | NX, "overflow", magnitude, exponent, quantum)
    flags = (NX if inexact else 0) | (UF if inexact and tiny else 0)
    reason = "rounded to nearest, ties to even" if inexact else "exact"
    return Step(sign | code, flags, reason, magnitude, exponent, quantum, tiny)


def add(dtype: DataType, left: Decoded, right: Decoded) -> Step:
    """Round the sum of two finite values, exact however wide they are."""
    exponent = min(left.exponent, right.exponent)
    total = (left.signed << (left.exponent - exponent)) + (
        right.signed << (right.exponent - exponent)
    )
    if total == 0:
        negative = left.negative and right.negative
        both_zero = left.is_zero and right.is_zero
        reason = (
            "zeros of one sign keep it, else +0" if both_zero else "exact cancellation gives +0"
        )
        return Step(dtype.sign_bit if negative else 0, 0, reason)
    return round_pack(dtype, total < 0, abs(total), exponent)


def product(left: Decoded, right: Decoded) -> Decoded:
    """Return the exact product of two values; neither is NaN, and not zero times infinity."""
    negative = left.negative != right.negative
    if "inf" in (left.kind, right.kind):
        return Decoded("inf", negative)
    return Decoded(
        "finite", negative, left.significand * right.significand, left.exponent + right.exponent
    )


def sum_of(dtype: DataType, left: Decoded, right: Decoded) -> Step:
    """Add two values, neither of them NaN, with one rounding."""
    if left.kind == right.kind == "inf" and left.negative != right.negative:
        return Step(dtype.canonical_nan, NV, "infinities of opposite sign")
    for value in (left, right):
        if value.kind == "inf":
            return Step(dtype.infinity | (dtype.sign_bit if value.negative else 0), 0, "infinity")
    return add(dtype, left, right)


def fma(dtype: DataType, left: int, right: int, addend: int, nan_corner: str = "ieee") -> Step:
    """Multiply and add three codes with one rounding.

    Parameters
    ----------
    dtype : DataType
        A float type.
    left, right, addend : int
        Element bits.
    nan_corner : str
        "ieee": a NaN product is no infinity; "asl": infinity times quiet NaN, its sign taken as
        positive, plus an infinity of opposite sign is invalid, as the public executable model has
        it.

    Examples
    --------
    >>> from gpuemu.tile.numeric import data_type
    >>> hex(fma(data_type("FP16"), 0x3C01, 0x3C01, 0xBC02).bits)
    '0x10'
    """
    x, y, z = (decode(dtype, code) for code in (left, right, addend))
    nan = dtype.canonical_nan
    if "signaling" in (x.kind, y.kind, z.kind):
        return Step(nan, NV, "signaling NaN")
    if (x.is_zero and y.kind == "inf") or (x.kind == "inf" and y.is_zero):
        return Step(nan, NV, "zero times infinity")
    if x.is_nan or y.is_nan or z.is_nan:
        negative = (x.negative and not x.is_nan) != (y.negative and not y.is_nan)
        corner = "inf" in (x.kind, y.kind) and z.kind == "inf" and negative != z.negative
        flags = NV if nan_corner == "asl" and corner else 0
        return Step(nan, flags, "quiet NaN")
    return sum_of(dtype, product(x, y), z)
