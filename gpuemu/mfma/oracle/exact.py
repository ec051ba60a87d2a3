"""Model "exact": accumulator and products of a link summed without error, rounded once.

Every product of two binary32 (or narrower) numbers is a float64 without error. A sum of such terms
is kept as an expansion: several float64 that do not overlap and add up to it exactly (Shewchuk,
1997, "Adaptive Precision Floating-Point Arithmetic", theorem 10).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from .products import Products
from .values import bits32, decode, decode_accumulator, flush_subnormal, to_binary32

Array = np.ndarray[Any, Any]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in float64, rounded to odd: a later rounding to fewer bits is then right."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    away = (error > 0) == (total > 0)
    moved = np.where(away, bits + 1, bits - 1)
    return np.where((error != 0) & even, moved, bits).view(np.float64)


def sum_to_odd(terms: list[Array]) -> Array:
    """Return the exact sum of the terms, rounded to odd in float64."""
    expansion: list[Array] = []
    for term in terms:
        grown, carry = [], term
        for part in expansion:
            carry, error = two_sum(carry, part)
            grown.append(error)
        expansion = [*grown, carry]
    total = expansion[0]
    for part in expansion[1:]:
        total = add_to_odd(part, total)
    return total


def dot(
    model: Model, fa: Format, fb: Format, products: Products, C: Array, scales: None = None
) -> Array:
    """Return D as binary32 bits (n, M, N)."""
    wide = products.map(lambda a: decode(a, fa, model), lambda b: decode(b, fb, model))
    group = wide.link_length(model.group)
    d = decode_accumulator(C, model)
    with np.errstate(all="ignore"):
        for first in range(0, wide.count, group):
            terms = [wide.a(p) * wide.b(p) for p in range(first, first + group)]
            if model.product_overflow:
                terms = [np.where(np.abs(t) >= 2.0**128, np.copysign(np.inf, t), t) for t in terms]
            # No float64 sum of these overflows: it is not finite just where a term is not.
            plain = sum(terms, d)
            # An exact zero is +0, whatever the signs of its terms.
            total = sum_to_odd([d, *terms]) + 0.0
            rounded = to_binary32(np.where(np.isfinite(plain), total, plain), model.output_rounding)
            d = (flush_subnormal(rounded) if model.flush_outputs else rounded).astype(np.float64)
    return bits32(d.astype(np.float32))
