"""The residue scheme (Ozaki scheme II) in NumPy and Python integers: every bit of the device.

The result is the exact dot product of two integer vectors, rounded once: how the residues are
recombined cannot change a bit, as long as the result stays below half the product of the moduli.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from . import scheme

Array = np.ndarray[Any, Any]

#: Elements enter the norm rounded up to multiples of 2^-14 of the power of two above the largest.
NORM_BITS = 14


def norm_scale(vector: Array, moduli: int) -> int:
    """Return the largest e with which `vector * 2^e` keeps within the norm limit; 0 for zeros.

    Parameters
    ----------
    vector : float64 array (k,)
        Finite.
    """
    largest = float(np.max(np.abs(vector), initial=0.0))
    if largest == 0.0:
        return 0
    unit = NORM_BITS - math.frexp(largest)[1]
    terms = [
        int(t) + 1 if x else 0 for x, t in zip(vector, np.ldexp(np.abs(vector), unit), strict=True)
    ]
    norm = sum(t * t for t in terms)
    limit, exponent = scheme.residue_limit(moduli)
    squared = Fraction(limit) * Fraction(2) ** exponent
    e = (squared.numerator // squared.denominator // norm).bit_length() // 2 + 1
    while norm * Fraction(4) ** e > squared:
        e -= 1
    return e + unit


def integers(vectors: Array, moduli: int) -> tuple[Array, Array]:
    """Scale rows to integers: `rint(x * 2^scale)` as int64 (count, k), and the scales (count,).

    A row that is not finite becomes zero.
    """
    finite = np.isfinite(vectors).all(axis=1, keepdims=True)
    wide = np.where(finite, vectors.astype(np.float64), 0.0)
    scale = np.array([norm_scale(row, moduli) for row in wide], np.int64).reshape(len(wide))
    return np.rint(np.ldexp(wide, scale[:, None].astype(np.int32))).astype(np.int64), scale


def residues(values: Array, moduli: int, factors: tuple[int, ...] | None = None) -> Array:
    """Return centred int8 residues (moduli, count, k) of `values` times one factor a modulus."""
    planes = np.empty((moduli, *values.shape), np.int8)
    for index, p in enumerate(scheme.MODULI[:moduli]):
        r = values % p * (factors[index] if factors else 1) % p
        planes[index] = np.where(2 * r >= p, r - p, r)
    return planes


def inverses(moduli: int) -> tuple[int, ...]:
    """Return the inverse of `P / p` modulo each p: the weights of the Chinese remainder theorem."""
    product = math.prod(scheme.MODULI[:moduli])
    return tuple(pow(product // p, -1, p) for p in scheme.MODULI[:moduli])


def recombine(products: Array, moduli: int) -> Array:
    """Return the integers (as Python ints) in (-P/2, P/2) that have these weighted residues.

    Parameters
    ----------
    products : int64 array (moduli, m, n)
        Dot products of A's residues with B's residues, the latter weighted by `inverses`.
    """
    product = math.prod(scheme.MODULI[:moduli])
    total = np.zeros(products.shape[1:], object)
    for index, p in enumerate(scheme.MODULI[:moduli]):
        total = total + (products[index] % p).astype(object) * (product // p)
    total = total % product
    return np.where(total * 2 > product, total - product, total)


def rounded(value: int, exponent: int, dtype: np.dtype[Any]) -> float:
    """Return `value * 2^exponent` rounded once to float32 or float64, to nearest even.

    >>> rounded(2**60 + 1, -60, np.dtype(np.float32)), rounded(3, -1075, np.dtype(np.float64))
    (1.0, 1e-323)
    """
    precision, lowest, highest = (24, -149, 128) if dtype == np.float32 else (53, -1074, 1024)
    magnitude = abs(value)
    drop = max(magnitude.bit_length() - precision, lowest - exponent, 0)
    kept, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
    if 2 * rest > 1 << drop or (2 * rest == 1 << drop and kept & 1 and drop):
        kept += 1
    if kept and kept.bit_length() + drop + exponent > highest:
        return math.copysign(math.inf, value)
    result = math.ldexp(kept, drop + exponent)
    return -result if value < 0 else result


def multiply(a: Array, b: Array, moduli: int) -> Array:
    """Return A @ B by residues, in the type of A and B; vectors not finite count as zero."""
    a_values, a_scale = integers(a, moduli)
    b_values, b_scale = integers(b.T, moduli)
    a_planes = residues(a_values, moduli).astype(np.float64)
    b_planes = residues(b_values, moduli, inverses(moduli)).astype(np.float64)
    products = np.matmul(a_planes, b_planes.transpose(0, 2, 1)).astype(np.int64)
    values = recombine(products, moduli)
    result = np.empty(values.shape, a.dtype)
    for i, j in np.ndindex(*values.shape):
        result[i, j] = rounded(int(values[i, j]), -int(a_scale[i] + b_scale[j]), a.dtype)
    return result
