"""Model "pairwise": binary32 products summed in a tree, every step rounded, subnormals flushed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from .products import Products
from .values import accumulator32, bits32, decode, flush_subnormal

Array = np.ndarray[Any, Any]


def dot(
    model: Model, fa: Format, fb: Format, products: Products, C: Array, scales: None = None
) -> Array:
    """Return D as binary32 bits (n, M, N).

    Each link is d + (p0 + p1), or d + ((p0 + p1) + (p2 + p3)).
    """

    def step(values: Array) -> Array:
        return flush_subnormal(values) if model.flush_outputs else values

    with np.errstate(all="ignore"):
        narrow = products.map(
            lambda a: decode(a, fa, model).astype(np.float32),
            lambda b: decode(b, fb, model).astype(np.float32),
        )
        group = narrow.link_length(model.group)
        d = accumulator32(C, model)
        for first in range(0, narrow.count, group):
            terms = [step(narrow.a(p) * narrow.b(p)) for p in range(first, first + group)]
            while len(terms) > 1:
                terms = [step(x + y) for x, y in zip(terms[::2], terms[1::2], strict=True)]
            d = step(d + terms[0])
    return bits32(d)
