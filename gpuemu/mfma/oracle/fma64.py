"""One IEEE fused multiply-add of float64 after the other.

NumPy has none. The product is split into two float64 (Dekker), the sum of its larger part and the
accumulator, too (Knuth); both errors are added and then rounded a second time with the sum. That
goes wrong only where the sum of the errors is rounded onto a tie: those few are done again, scaled
by powers of two, their three-term sum rounded through odd (Boldo and Melquiond, 2008, "Emulation of
FMA and Correctly Rounded Sums"), as is everything where an exponent is extreme.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from . import scratch
from .exact import add_to_odd, two_sum

Array = np.ndarray[Any, Any]

SMALL, BIG = 2.0**-450, 2.0**450  # between them no step of a chain overflows or is subnormal
TILE = 1 << 14  # outputs at a time: six arrays of them and their operands fit the second cache


def chain(A: Array, B: Array, C: Array) -> Array:
    """Return C + a0 b0 + a1 b1 ..., each product added and rounded at once.

    Parameters
    ----------
    A : float64 array (n, M, K)
    B : float64 array (n, K, N)
    C : float64 array (n, M, N)

    Returns
    -------
    float64 array (n, M, N)
        In the memory order of C.
    """
    n, M, N = C.shape
    if not (tame(A, SMALL, BIG) and tame(B, SMALL, BIG) and tame(C, SMALL**2, BIG**2)):
        d = C
        for k in range(A.shape[2]):
            d = any_fma(A[:, :, k, None], B[:, None, k], d)
        return d
    nonzero = bool(A.all() and B.all())
    a, b = Split.of("a", A), Split.of("b", B)
    d = np.empty(C.shape, order="F" if C.flags.f_contiguous else "C")
    columns = max(1, TILE // (n * M or 1)) if C.flags.f_contiguous else N
    for first in range(0, N, columns):
        tile = slice(first, first + columns)
        d[:, :, tile] = chain_tile(a, b[:, :, tile], C[:, :, tile], nonzero)
    return d


@dataclass(frozen=True)
class Split:
    """Numbers, and numbers of 26 bits that add up to them (Veltkamp)."""

    whole: Array
    high: Array
    low: Array

    @classmethod
    def of(cls, name: str, x: Array) -> Split:
        """Return numbers split, in scratch arrays of this name."""
        order: Literal["C", "F"] = "F" if x.flags.f_contiguous else "C"
        high, low = (scratch.array(name + part, x.shape, order=order) for part in (" high", " low"))
        np.multiply(x, 134217729.0, out=high)  # 2**27 + 1
        np.subtract(high, x, out=low)
        high -= low
        np.subtract(x, high, out=low)
        return cls(x, high, low)

    def __getitem__(self, where: Any) -> Split:
        """Return a part."""
        return Split(self.whole[where], self.high[where], self.low[where])


def chain_tile(a: Split, b: Split, c: Array, nonzero: bool) -> Array:
    """Return the chains of tame numbers.

    Parameters
    ----------
    a, b : Split
        float64 (n, M, K) and (n, K, N)
    c : float64 array (n, M, N)
    nonzero : bool
        Whether no number of a and b is zero.
    """
    order: Literal["C", "F"] = "F" if c.flags.f_contiguous else "C"
    names = ("product", "low", "total", "error", "d", "next d")
    product, low, total, error, d, next_d = (
        scratch.array(name, c.shape, order=order) for name in names
    )
    np.copyto(d, c)
    with scratch.inner_loops(c.shape[0 if order == "F" else 2]):
        for k in range(a.whole.shape[2]):
            x, y = a[:, :, k, None], b[:, None, k]
            np.multiply(x.whole, y.whole, out=product)
            np.multiply(x.high, y.high, out=low)
            low -= product
            for left, right in ((x.high, y.low), (x.low, y.high), (x.low, y.low)):
                np.multiply(left, right, out=error)
                low += error
            np.add(product, d, out=total)
            np.subtract(total, product, out=error)
            np.subtract(d, error, out=next_d)
            np.subtract(total, error, out=error)
            np.subtract(product, error, out=error)
            error += next_d
            error += low
            np.add(total, error, out=next_d)
            if not nonzero:
                np.copyto(next_d, total, where=product == 0)  # two negative zeros, or d itself
            # A multiple of a quarter of total's last place, and below two of them, has few bits.
            # (Total differs from product + d only if it is at least half as large as product.)
            few = np.left_shift(error.view(np.uint64), np.uint64(15), out=product.view(np.uint64))
            if not few.min(initial=1):
                doubt = (few == 0) & (low != 0)
                if doubt.any():
                    left, right = (np.broadcast_to(v.whole, d.shape)[doubt] for v in (x, y))
                    next_d[doubt] = any_fma(left, right, d[doubt])
            d, next_d = next_d, d
    return d


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its exact error (Dekker), where neither is subnormal."""
    x, y = Split.of("x", a), Split.of("y", b)
    product = a * b
    error = x.high * y.high - product
    return product, error + x.high * y.low + x.low * y.high + x.low * y.low


def tame(x: Array, least: float, most: float) -> bool:
    """Tell whether every number is zero or between two magnitudes."""
    magnitude = np.abs(x)
    if not magnitude.max(initial=0.0) < most:  # or NaN
        return False
    return bool(
        magnitude.min(initial=1.0) > least
        or np.where(magnitude == 0, 1.0, magnitude).min(initial=1.0) > least
    )


def any_fma(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c rounded once to float64, whatever the numbers are."""
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c)
    # Scale a and b to [1, 2), and c with their product; where it is far away a stand-in has its
    # effect.
    ma, ea = np.frexp(a)
    mb, eb = np.frexp(b)
    mc, ec = np.frexp(c)
    e = (ea - 1) + (eb - 1)
    ec = np.where(c == 0, e, ec)
    distance = np.clip(ec - e, -200, 200)
    scaled_c = np.ldexp(mc, distance)
    high, low = two_product(2 * ma, 2 * mb)
    th, tl = two_sum(scaled_c, low)
    vh, vl = two_sum(high, th)
    scaled = vh + add_to_odd(tl, vl)
    shift = np.where(ec - e > 200, ec - 200, e)
    result = np.ldexp(scaled, shift)
    regular = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    # A result below the normal range would be rounded twice.
    low_range = regular & (np.abs(result) < 2.0**-1021)
    result = np.where(regular, result, plain)
    for n in zip(*np.nonzero(low_range), strict=True):
        result[n] = exact_fma(float(a[n]), float(b[n]), float(c[n]))
    return result


def exact_fma(a: float, b: float, c: float) -> float:
    """Return a b + c of finite numbers, through exact fractions."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c  # IEEE: only equal signs keep a negative zero
    return math.copysign(float(total), total)
