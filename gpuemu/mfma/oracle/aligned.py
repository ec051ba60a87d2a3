"""Model "aligned": products aligned to their largest exponent, cut, summed, merged with C.

All whole numbers here (products in units of their last kept bit, sums of them) are below 2**53, so
float64 holds them exactly and `trunc`, `floor`, `ceil`, `rint` are the roundings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from .products import Products
from .values import (
    NOTHING,
    bits32,
    decode,
    decode_accumulator,
    exponent,
    flush_subnormal,
    to_binary32,
)

Array = np.ndarray[Any, Any]

ROUND = {"zero": np.trunc, "down": np.floor, "up": np.ceil, "nearest": np.rint}


def power(e: Array) -> Array:
    """Return 2**e as float64, for whole e within float64's range."""
    return np.ldexp(1.0, e.astype(np.int32))


def dot(
    model: Model,
    fa: Format,
    fb: Format,
    products: Products,
    C: Array,
    scales: tuple[Array, Array] | None = None,
) -> Array:
    """Return D as binary32 bits (n, M, N)."""
    values = products.map(lambda a: decode(a, fa, model), lambda b: decode(b, fb, model))
    exponents = values.map(lambda a: exponent(a, fa.emin), lambda b: exponent(b, fb.emin))
    group = values.link_length(model.group)
    d = decode_accumulator(C, model)
    finite_inputs = bool(np.isfinite(values.A).all() and np.isfinite(values.B).all())
    with np.errstate(all="ignore"):
        for first in range(0, values.count, group):
            link = range(first, first + group)
            scale = None if scales is None else scale_exponent(scales, first)
            d = one_link(model, values, exponents, link, d, scale, finite_inputs)
            if model.flush_outputs:
                d = flush_subnormal(d)
    return bits32(d.astype(np.float32))


def scale_exponent(scales: tuple[Array, Array], first: int) -> Array:
    """Return the summed E8M0 exponents of a block of 32, float64 (n, M, N); NaN for a code 0xFF."""
    a, b = scales[0][:, :, None, first // 32], scales[1][:, None, first // 32, :]
    total = a.astype(np.float64) + b.astype(np.float64) - 254
    return np.where((a == 0xFF) | (b == 0xFF), np.nan, total)


def one_link(
    model: Model,
    values: Products,
    exponents: Products,
    link: range,
    d: Array,
    scale: Array | None,
    finite_inputs: bool,
) -> Array:
    """Return the accumulator after one link."""
    terms = [values.a(p) * values.b(p) for p in link]
    heights = [exponents.a(p) + exponents.b(p) for p in link]
    e_dot = np.maximum.reduce([np.broadcast_to(h, d.shape) for h in heights])
    special = None
    if (
        not finite_inputs
        or not np.isfinite(d).all()
        or (model.product_overflow and int(e_dot.max()) >= 127)
    ):
        special = special_sum(model, terms, d)
    if scale is not None:
        missing = np.isnan(scale)
        special = np.where(missing, np.nan, 0.0 if special is None else special)
        scale = np.where(missing, 0.0, scale)

    # The products' sum, in units of 2**(e_dot - product_bits).
    if model.interleave == 1:
        total = partial_sum(model, terms, e_dot)
    else:
        total = np.zeros(d.shape)
        for s in range(model.interleave):
            kept = [values.slot(p, model.interleave) == s for p in link]
            mine = [np.where(k, t, 0.0) for k, t in zip(kept, terms, strict=True)]
            tops = [np.where(k, h, 2 * NOTHING) for k, h in zip(kept, heights, strict=True)]
            top = np.maximum.reduce([np.broadcast_to(t, d.shape) for t in tops])
            part = partial_sum(model, mine, top)
            total += ROUND[model.merge_rounding](part * power(np.maximum(top - e_dot, -1000)))
    if scale is not None:
        e_dot = e_dot + scale.astype(np.int64)
    merged = merge(model, total, e_dot, d)
    return merged if special is None else np.where(special == 0, merged, special)


def partial_sum(model: Model, terms: list[Array], top: Array) -> Array:
    """Return the sum of the terms, each cut `product_bits` below the exponent `top`."""
    unit = power(model.product_bits - np.maximum(top, -500))
    cut = ROUND[model.product_rounding]
    total = np.zeros(top.shape)
    for term in terms:
        total += cut(term * unit)
    return total


def special_sum(model: Model, terms: list[Array], d: Array) -> Array:
    """Return NaN or an infinity where a term or the accumulator is one or overflows, else 0."""
    total = np.where(np.isfinite(d), 0.0, d)
    for term in terms:
        overflow = model.product_overflow & (np.abs(term) >= 2.0**128)
        total = total + np.where(
            overflow, np.copysign(np.inf, term), np.where(np.isfinite(term), 0.0, term)
        )
    return total


def merge(model: Model, total: Array, e_dot: Array, d: Array) -> Array:
    """Return products' sum plus accumulator, both aligned to the larger exponent, rounded."""
    e_c = np.maximum(exponent(d, -126), -126)
    e = np.maximum(e_dot, e_c)
    bits = max(model.sum_bits, model.accumulator_bits)
    below = np.maximum(e_dot - e, -1000)
    summed = ROUND[model.sum_rounding](total * power(below + model.sum_bits - model.product_bits))
    unit = power(model.accumulator_bits - e)
    kept = ROUND[model.accumulator_rounding](np.where(np.isfinite(d), d, 0.0) * unit)
    if model.drop_tiny_accumulator:
        kept = np.where(e_c < e - model.accumulator_bits - 1, 0.0, kept)
    # A zero is +0 from here on; a negative number that underflows at the end is -0.
    s = (
        summed * 2.0 ** (bits - model.sum_bits)
        + kept * 2.0 ** (bits - model.accumulator_bits)
        + 0.0
    )
    _, length = np.frexp(s)
    e_s = np.maximum(length - 1 + e - bits, -126)
    surplus = np.maximum(e_s - model.result_bits - (e - bits), 0)
    s = ROUND[model.result_rounding](s * power(-surplus)) + 0.0
    result = s * power(np.clip(e - bits + surplus, -1000, 900))
    return to_binary32(result, model.output_rounding).astype(np.float64)
