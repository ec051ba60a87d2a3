"""Model "fma": one IEEE fused multiply-add a product, ascending k.

NumPy has no fused multiply-add. For f32 the product is exact in float64; the sum of product and
accumulator is rounded there once and to float32 a second time, which goes wrong only where the
first result looks like a tie, or is subnormal in float32: those few are done again with rounding to
odd. For f64 see `fma64`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from . import fma64, scratch
from .exact import add_to_odd
from .products import Products
from .values import accumulator32, bits32, bits64, decode, flush_subnormal

Array = np.ndarray[Any, Any]

BELOW = np.uint64(0x1FFFFFFF)  # the bits of a float64 below the last place of a float32
TIE = np.uint64(0x10000000)
LEAST_NORMAL = np.float32(2.0**-126)


def dot(
    model: Model, fa: Format, fb: Format, products: Products, C: Array, scales: None = None
) -> Array:
    """Return D as bits (n, M, N) of the model's output format."""
    with np.errstate(all="ignore"):
        if model.output == "f64":
            return bits64(fma64.chain(*(x.view(np.float64) for x in (products.A, products.B, C))))
        factors = products.map(lambda a: decode(a, fa, model), lambda b: decode(b, fb, model))
        d = accumulator32(C, model)
        with scratch.inner_loops(512):  # some rows
            for p in range(factors.count):
                d = fma32(factors.a(p), factors.b(p), d)
                if model.flush_outputs:
                    d = flush_subnormal(d)
        return bits32(d)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c rounded once to float32; a and b are float64 whose product is exact."""
    total = np.multiply(a, b, out=scratch.array("total", c.shape))
    total += c
    near: Array = total.astype(np.float32)
    # A tie of float32 has one bit set below its last place; subnormal results have their ties
    # elsewhere, and are looked for only where there are any.
    below = scratch.array("below", c.shape, np.uint64)
    np.bitwise_and(total.view(np.uint64), BELOW, out=below)
    doubt = np.equal(below, TIE, out=scratch.array("doubt", c.shape, np.bool_))
    magnitude = np.abs(near, out=scratch.array("magnitude", c.shape, np.float32))
    if not magnitude.min(initial=np.inf) > LEAST_NORMAL:
        doubt |= (magnitude <= LEAST_NORMAL) & (total != 0)
    if doubt.any():
        product, addend = (np.broadcast_to(x, c.shape)[doubt] for x in (a * b, c))
        near[doubt] = add_to_odd(product, addend.astype(np.float64)).astype(np.float32)
    return near
