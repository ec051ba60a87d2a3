"""Model "integer": exact products of signed bytes, summed modulo 2**32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model
from .products import Products

Array = np.ndarray[Any, Any]


def dot(
    model: Model, fa: Format, fb: Format, products: Products, C: Array, scales: None = None
) -> Array:
    """Return D = C + sum of products, as uint32 bits (n, M, N)."""
    wide = products.map(
        lambda a: a.view(np.int8).astype(np.int32), lambda b: b.view(np.int8).astype(np.int32)
    )
    if wide.chosen is None:
        total = wide.A @ wide.B
    else:
        total = np.zeros(C.shape, np.int32)
        for p in range(wide.count):
            total += wide.a(p) * wide.b(p)
    return C + total.view(np.uint32)
