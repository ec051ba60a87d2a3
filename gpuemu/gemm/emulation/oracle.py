"""The oracle of one matrix product: schemes, IEEE rows and columns, ranges of K, alpha and beta."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import crt, slices
from .report import Record
from .scheme import ENDLESS, Setting

Array = np.ndarray[Any, Any]


def multiply(
    a: Array,
    b: Array,
    c: Array | None,
    alpha: float,
    beta: float,
    out: Array,
    setting: Setting,
    ranges: tuple[tuple[int, int], ...],
    workspace: int | None,
    record: Record,
) -> None:
    """Write `alpha * (sum over ranges of A @ B) + beta * C` to `out`, one rounding a step."""
    total: Array | None = None
    with np.errstate(all="ignore"):
        for first, last in ranges:
            part = partial(a[:, first:last], b[first:last], setting)
            total = part if total is None else total + part
        out[...] = scale(np.zeros_like(out) if total is None else total, alpha, beta, c)
    record.count_nonfinite(
        int((~np.isfinite(a).all(axis=1)).sum()), int((~np.isfinite(b).all(axis=0)).sum())
    )


def partial(a: Array, b: Array, setting: Setting) -> Array:
    """Return A @ B by one scheme, rows and columns with infinities or NaNs by IEEE rules."""
    if setting.scheme == "slices":
        result = slices.multiply(a, b, setting.planes, setting.nearest)
    else:
        result = crt.multiply(a, b, setting.planes)
    rows = np.isfinite(a).all(axis=1, keepdims=True)
    columns = np.isfinite(b).all(axis=0, keepdims=True)
    for i, j in np.argwhere(~(rows & columns)):
        result[i, j] = nonfinite_dot(a[i], b[:, j])
    return result


def nonfinite_dot(x: Array, y: Array) -> float:
    """Return the sum of the products that are not finite: NaN, or an infinity.

    Products of two finite numbers are left out: no finite sum changes the answer.
    """
    with np.errstate(invalid="ignore"):
        products = x * y
        return float(np.sum(products[~(np.isfinite(x) & np.isfinite(y))]))


def native(a: Array, b: Array) -> Array:
    """Return `a @ b` in the arithmetic of the machine."""
    with np.errstate(all="ignore"):
        return np.asarray(a @ b)


def scale(product: Array, alpha: float, beta: float, c: Array | None) -> Array:
    """Return `alpha * product + beta * c`, each operation rounded to the product's type."""
    with np.errstate(all="ignore"):
        scaled: Array = product * product.dtype.type(alpha)
        return scaled if c is None or beta == 0 else scaled + c * product.dtype.type(beta)


SPAN_BLOCKS = 128  # at most: blocks along K in which the estimate looks for a large product


def block_length(k: int) -> int:
    """Return the length of a block along K in the estimate of `exponent_span`."""
    return max(1, -(-k // SPAN_BLOCKS))


#: Exponent of a zero: below every sum of two exponents of finite numbers.
ZERO_EXPONENT = -8192


def block_exponents(vectors: Array) -> tuple[Array, Array]:
    """Return largest and smallest exponent of every block of every row, (count, blocks)."""
    count, k = vectors.shape
    length = block_length(k)
    blocks = -(-k // length)
    exponents = np.frexp(vectors.astype(np.float64))[1].astype(np.int32)
    exponents = np.where(vectors == 0, ZERO_EXPONENT, exponents)
    lowest = np.full((count, blocks * length), 1 << 14, np.int32)
    highest = np.full((count, blocks * length), ZERO_EXPONENT, np.int32)
    lowest[:, :k] = highest[:, :k] = exponents
    shape = (count, blocks, length)
    return highest.reshape(shape).max(axis=2), lowest.reshape(shape).min(axis=2)


def exponent_span(a: Array, b: Array) -> int:
    """Return how many bits the largest product of some output may lie below its vectors'
    largest elements.

    The exponent span capacity of guarded FP64 emulation: `(max a_i + max b_j) - max_k (a_ik +
    b_kj)` over all finite rows and columns that are not zero, the last maximum bounded from
    below block by block (largest of one vector plus smallest of the other). `ENDLESS` where the
    estimate finds no product above zero, though some block has an element of either vector.
    Outputs without such a block are zeros of any number of bits.
    """
    rows = np.isfinite(a).all(axis=1) & (a != 0).any(axis=1)
    columns = np.isfinite(b).all(axis=0) & (b != 0).any(axis=0)
    a_high, a_low = block_exponents(a[rows])
    b_high, b_low = block_exponents(b[:, columns].T)
    if not len(a_high) or not len(b_high):
        return 0
    reached = np.full((len(a_high), len(b_high)), 2 * ZERO_EXPONENT, np.int32)
    meets = np.zeros(reached.shape, bool)
    for block in range(a_high.shape[1]):
        first = a_high[:, block, None] + b_low[None, :, block]
        second = a_low[:, block, None] + b_high[None, :, block]
        reached = np.maximum(reached, np.maximum(first, second))
        meets |= (a_high[:, block, None] > ZERO_EXPONENT) & (b_high[None, :, block] > ZERO_EXPONENT)
    span = a_high.max(axis=1)[:, None] + b_high.max(axis=1)[None, :] - reached
    return int(min(span.max(where=meets, initial=0), ENDLESS))
