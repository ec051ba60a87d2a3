"""Model "fma": one IEEE fused multiply-add a product, ascending k.

NumPy has no fused multiply-add. For f32 the product is exact in float64; the sum of product and
accumulator is rounded there once and to float32 a second time, which goes wrong only where the
first result looks like a tie, or is subnormal in float32: those few are done again with rounding to
odd. For f64 the product is split into two float64. Where no exponent is extreme the two errors, of
product and sum, are added and then rounded a second time with the sum; those few that may be ties,
and all others, are scaled by powers of two and their three-term sum rounded through odd (Boldo and
Melquiond, 2008, "Emulation of FMA and Correctly Rounded Sums").
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from .exact import add_to_odd, two_sum
from .products import Products
from .values import accumulator32, bits32, bits64, decode, flush_subnormal

Array = np.ndarray[Any, Any]


def dot(
    model: Model, fa: Format, fb: Format, products: Products, C: Array, scales: None = None
) -> Array:
    """Return D as bits (n, M, N) of the model's output format."""
    with np.errstate(all="ignore"):
        if model.output == "f64":
            # Wavefronts side by side in memory: NumPy's inner loops are as long as there are many.
            wide = products.map(
                lambda a: np.asfortranarray(a.view(np.float64)),
                lambda b: np.asfortranarray(b.view(np.float64)),
            )
            d = np.asfortranarray(C.view(np.float64))
            for p in range(wide.count):
                d = fma64(wide.a(p), wide.b(p), d)
            return bits64(d)
        factors = products.map(lambda a: decode(a, fa, model), lambda b: decode(b, fb, model))
        d = accumulator32(C, model)
        for p in range(factors.count):
            d = fma32(factors.a(p), factors.b(p), d)
            if model.flush_outputs:
                d = flush_subnormal(d)
        return bits32(d)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c rounded once to float32; a and b are float64 whose product is exact."""
    total = a * b
    total += c
    near = total.astype(np.float32)
    # A tie of float32 has one bit set below its last place; subnormal results have their ties
    # elsewhere, and are looked for only where there are any.
    doubt = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    magnitude = np.abs(near)
    if not magnitude.min(initial=np.inf) > np.float32(2.0**-126):
        doubt |= (magnitude <= np.float32(2.0**-126)) & (total != 0)
    if doubt.any():
        exact, addend = (np.broadcast_to(x, total.shape)[doubt] for x in (a * b, c))
        near[doubt] = add_to_odd(exact, addend.astype(np.float64)).astype(np.float32)
    return near


def halves(x: Array) -> tuple[Array, Array]:
    """Return numbers of 26 bits that add up to x (Veltkamp)."""
    big = x * 134217729.0  # 2**27 + 1
    high = big - (big - x)
    return high, x - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its exact error (Dekker), where neither is subnormal."""
    (ah, al), (bh, bl) = halves(a), halves(b)
    product = a * b
    error = ah * bh
    error -= product
    error += ah * bl
    error += al * bh
    error += al * bl
    return product, error


def tame(x: Array, least: float, most: float) -> bool:
    """Tell whether every number is zero or between two magnitudes."""
    magnitude = np.abs(x)
    if not magnitude.max(initial=0.0) < most:  # or NaN
        return False
    return bool(
        magnitude.min(initial=1.0) > least
        or np.where(magnitude == 0, 1.0, magnitude).min(initial=1.0) > least
    )


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c rounded once to float64."""
    small, big = 2.0**-450, 2.0**450
    if not (tame(a, small, big) and tame(b, small, big) and tame(c, small**2, big**2)):
        return any_fma64(a, b, c)
    high, low = two_product(a, b)
    total, error = two_sum(high, c)
    error += low
    result = total + error
    if not result.all():
        result = np.where(error == 0, total, result)  # total's zero may be negative
    # Rounding the sum of the errors hurts where it moves onto a tie: a multiple of a quarter of
    # total's last place, and below two of them. (Total differs from high + c only if it is at least
    # half as large as high.)
    last_bits = error.view(np.uint64) & np.uint64((1 << 49) - 1)
    doubtful = (last_bits == 0) & (low != 0)
    if doubtful.any():
        result[doubtful] = any_fma64(*(x[doubtful] for x in np.broadcast_arrays(a, b, c)))
    return result


def any_fma64(a: Array, b: Array, c: Array) -> Array:
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
        result[n] = exact_fma64(float(a[n]), float(b[n]), float(c[n]))
    return result


def exact_fma64(a: float, b: float, c: float) -> float:
    """Return a b + c of finite numbers, through exact fractions."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c  # IEEE: only equal signs keep a negative zero
    return math.copysign(float(total), total)
