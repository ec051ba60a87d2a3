"""Facts of the two schemes: how many planes a number of mantissa bits takes, limits, and error
bounds.

*Slices* (Ozaki scheme I): each row of A and column of B shares an exponent, and its elements become
`ceil((X + 1) / 8)` balanced radix-256 digits. *Residues* (`crt`, Ozaki scheme II): each vector is
scaled to integers by a power of two, and one int8 product per modulus gives the integer result by
the Chinese remainder theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from ...errors import BadValue

#: Largest K of one emulated pipeline, as documented for RequiredMantissaBits: floor((2^31 - 1) /
#: 255^2).
MAX_K = 33025
#: K of a partial product when a longer K is split: the largest multiple of 64 below `MAX_K`.
SPLIT_K = 33024
#: int8 products that an int32 sum holds whatever they are (each is at most 2^14); a multiple of 16.
SUM_LIMIT = 131056
MAX_SLICES = 8
#: Pairwise coprime, at most 256, so that a centred residue is an int8.
MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
MIN_MODULI = 3
#: Residue products stay this far (relative) below half the product of the moduli.
MARGIN = Fraction(1, 1024)
#: Half the square root of the longest K that one residue product takes: what rounding adds to a
#: norm.
ROUNDING_NORM = 182
#: The span in bits where some output may have a product above zero that the estimate of dynamic
#: control does not see.
ENDLESS = 4096
PRECISION = {"float32": 24, "float64": 53}


@dataclass(frozen=True)
class Setting:
    """What a call does: scheme, number of int8 planes per operand, rounding, bits asked for.

    `scheme` is "slices", "crt" or "native"; `planes` counts slices or moduli (0 for native).
    """

    scheme: str
    planes: int
    nearest: bool
    mantissa_bits: int

    @property
    def products(self) -> int:
        """Number of int8 matrix products of the size of the problem."""
        return self.planes * (self.planes + 1) // 2 if self.scheme == "slices" else self.planes

    @property
    def bits_reached(self) -> float:
        """Bits kept below the largest element (slices) or below the norm (crt) of a vector."""
        if self.scheme == "slices":
            return 8.0 * self.planes - 1
        return residue_bits(self.planes) if self.scheme == "crt" else 0.0


def slices_for(mantissa_bits: int) -> int:
    """Return the number of int8 slices of X mantissa bits, `ceil((X + 1) / 8)`.

    >>> [slices_for(x) for x in (7, 8, 15, 23, 24, 52, 53)]
    [1, 2, 2, 3, 4, 7, 7]
    """
    return -(-(mantissa_bits + 1) // 8)


@cache
def residue_limit(moduli: int) -> tuple[int, int]:
    """Return (m, e), 2^31 <= m < 2^32: a scaled vector's squared norm is at most m * 2^e.

    Two vectors within the limit, rounded to integers, have a dot product below half the product
    of the moduli (Cauchy-Schwarz), less the margin that the approximate quotient of the
    recombination needs.
    """
    product = math.prod(MODULI[:moduli])
    norm = math.isqrt(int(product * (1 - MARGIN)) // 2) - ROUNDING_NORM
    exponent = (norm * norm).bit_length() - 32
    return (norm * norm >> exponent if exponent >= 0 else norm * norm << -exponent), exponent


@cache
def residue_bits(moduli: int) -> float:
    """Return X such that crt's error is at most sqrt(K) * 2^-X * |a| * |b| before the final
    rounding.

    The scale is a power of two (1 bit), and the norm is known to 1 + sqrt(K) / 2^13 (0.07 bits).
    """
    limit, exponent = residue_limit(moduli)
    return (math.log2(limit) + exponent) / 2 - 1 - 0.07


def moduli_for(mantissa_bits: int) -> int:
    """Return the number of moduli that `crt` takes for X mantissa bits.

    >>> [moduli_for(x) for x in (23, 31, 52, 53, 61)]
    [7, 9, 14, 14, 16]
    """
    for count in range(MIN_MODULI, len(MODULI) + 1):
        if residue_bits(count) >= mantissa_bits:
            return count
    raise BadValue(
        f"mantissa_bits={mantissa_bits} with scheme 'crt'; "
        f"legal: 1 to {int(residue_bits(len(MODULI)))}"
    )


def groups(diagonal: int, padded_k: int) -> int:
    """Return into how many int32 sums diagonal d's `(d + 1) * padded_k` products are cut."""
    return -(-(diagonal + 1) * padded_k // SUM_LIMIT)


@cache
def k_ranges(k: int, limit: int) -> tuple[tuple[int, int], ...]:
    """Cut 0 … k into the fewest ranges of at most `limit`, as equal as multiples of 16 allow.

    >>> k_ranges(40000, 33024)
    ((0, 20000), (20000, 40000))
    """
    count = max(1, -(-k // limit))
    step = -(-k // count // 16) * 16 if count > 1 else k
    step = max(step, -(-k // count))
    step = -(-step // 16) * 16 if count > 1 else max(k, 1)
    return tuple((start, min(k, start + step)) for start in range(0, k, step))


def slices_bound(
    k: int, slices: int, nearest: bool, dtype: str, shift_sum: int
) -> tuple[Fraction, Fraction]:
    """Return (absolute, relative): |C - exact| <= absolute + relative * |C|, for alpha = 1 and
    beta = 0.

    Parameters
    ----------
    k : int
        Length of the dot product.
    slices : int
        Number of slices S.
    nearest : bool
        Slices rounded to nearest; else truncated.
    dtype : str
        "float32" or "float64": the type of the recombination.
    shift_sum : int
        The row's shift plus the column's.

    Notes
    -----
    In units of `2^-shift_sum`: elements are below 127 and are cut at `2^-8(S-1)` (half of it when
    rounded), which costs at most `2 * 127 * 2^-8(S-1)` a product; the dropped diagonals d = S …
    2S-2 hold `2S-1-d` products of at most 2^14 each, times `2^-8d`; each of the partial sums of
    the recombination rounds by half an ulp of itself, and the sum of the diagonals from d on is
    at most `K * sum (e + 1) * 2^14 * 2^-8e`.
    """
    unit = Fraction(1, 2 ** PRECISION[dtype])
    cut = Fraction(254, 256 ** (slices - 1)) / (2 if nearest else 1)
    dropped = sum(
        (Fraction((2 * slices - 1 - d) * 2**14, 256**d) for d in range(slices, 2 * slices - 1)),
        Fraction(0),
    )
    partial = sum(
        (
            sum((Fraction((e + 1) * 2**14, 256**e) for e in range(d, slices)), Fraction(0))
            * (1 + unit) ** slices
            for d in range(1, slices)
        ),
        Fraction(0),
    )
    subnormal = Fraction(1, 2**1075) if dtype == "float64" else Fraction(1, 2**150)
    absolute = k * (cut + dropped + 2 * unit * partial) * Fraction(2) ** -shift_sum + 2 * subnormal
    return absolute, 3 * unit


def residues_bound(
    a_sum: Fraction, b_sum: Fraction, k: int, a_scale: int, b_scale: int, dtype: str
) -> tuple[Fraction, Fraction]:
    """Return (absolute, relative) for `crt`: as `slices_bound`, from the vectors' sums of
    magnitudes.

    Each element is rounded to an integer times `2^-scale`: half a unit off, times the other vector.
    """
    a_half, b_half = Fraction(2) ** -a_scale / 2, Fraction(2) ** -b_scale / 2
    unit = Fraction(1, 2 ** PRECISION[dtype])
    subnormal = Fraction(1, 2**1075) if dtype == "float64" else Fraction(1, 2**150)
    return a_half * b_sum + b_half * a_sum + k * a_half * b_half + subnormal, 2 * unit
