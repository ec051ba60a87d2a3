"""The GEMM oracle: NumPy and Python integers, written to be read. It shares no arithmetic with
`cuda_src`.

Operands are planes: one (rows, columns) array a real part, a second one for the imaginary part.
Values of floats are held in float64, which has all of them exactly; integers in int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arithmetic import Arithmetic
from .elements import ELEMENTS, Element

Array = np.ndarray[Any, Any]
Planes = Sequence[Array]


# --------------------------------------------------------------------------- decode


def values(plane: Array, source: Element, target: Element) -> Array:
    """Return the values of an operand as the unit sees them: f16 accumulators see f16, tf32 sees 11
    bits."""
    if source.is_integer:
        return plane.astype(np.int64 if source.kind == "signed" else np.uint64).view(np.uint64)
    if source.name == "tf32":
        plane = round_tf32(np.asarray(plane, np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        return plane.astype(np.float64).astype(target.dtype).astype(np.float64)


def round_tf32(x: Array) -> Array:
    """Round float32 to tf32, nearest with ties away from zero, as the conversion instruction
    does."""
    with np.errstate(over="ignore", invalid="ignore"):
        _, exponent = np.frexp(x.astype(np.float64))
        exponent = np.maximum(exponent, -125)  # subnormals keep the spacing of the least normal
        scaled = np.ldexp(x.astype(np.float64), 11 - exponent)
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        back = np.ldexp(rounded, exponent - 11).astype(np.float32)
    return np.where(np.isfinite(x), back, x)


# --------------------------------------------------------------------------- dot products


def round_to_odd_sum(p: Array, c: Array) -> Array:
    """Return p + c in float64, the last bit set where the sum is inexact: a second rounding is then
    harmless."""
    s = p + c
    part = s - p
    error = (p - (s - part)) + (c - part)
    bits = s.view(np.int64)
    inexact = np.isfinite(s) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (s > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def fma_narrow(a: Array, b: Array, c: Array, dtype: np.dtype[Any]) -> Array:
    """Return a b + c rounded once to f32 or f16; the product of two such values is exact in
    float64."""
    return round_to_odd_sum(a * b, c).astype(dtype).astype(np.float64)


def _split(x: Array) -> tuple[Array, Array]:
    """Return the upper 26 bits of a double and the rest (Veltkamp)."""
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def _fma_tame(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c rounded once, for magnitudes in [2^-400, 2^400] or zero (Boldo and Melquiond
    2008)."""
    (ah, al), (bh, bl) = _split(a), _split(b)
    high = a * b
    low = al * bl - (((high - ah * bh) - al * bh) - ah * bl)
    upper = c + low
    part = upper - c
    upper_low = (c - (upper - part)) + (low - part)
    total = high + upper
    part = total - high
    total_low = (high - (total - part)) + (upper - part)
    rounded = total + round_to_odd_sum(total_low, upper_low)
    # Sums of zeros above lose the sign of -0: there the plain expression is exact.
    return np.where(((a == 0) | (b == 0)) & (c == 0), high + c, rounded)


def _fma_exact(a: float, b: float, c: float) -> float:
    """Return a b + c rounded once, by integers; Python's int / int rounds correctly, subnormals
    included."""
    if not (np.isfinite(a) and np.isfinite(b)):
        return a * b + c
    if not np.isfinite(c):
        return c
    (an, ad), (bn, bd), (cn, cd) = (x.as_integer_ratio() for x in (a, b, c))
    numerator, denominator = an * bn * cd + cn * ad * bd, ad * bd * cd
    if numerator == 0:
        return a * b + c if c == 0 else 0.0  # signed zeros follow IEEE
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Return a b + c in float64, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    tame = np.ones(a.shape, bool)
    for x in (a, b, c):
        size = np.abs(x)
        tame &= (size == 0) | ((size >= 2.0**-400) & (size <= 2.0**400))
    result = _fma_tame(*(np.where(tame, x, 0.0) for x in (a, b, c)))
    for at in np.argwhere(~tame):
        i = tuple(at)
        result[i] = _fma_exact(float(a[i]), float(b[i]), float(c[i]))
    return result


def chain(a: Array, b: Array, acc: Array, c: Element) -> Array:
    """Return the accumulator after one FMA for every k, in ascending order, rounded to C's type
    each."""
    step: Callable[[Array, Array, Array], Array] = fma64
    if c.name != "f64":

        def step(x: Array, y: Array, z: Array) -> Array:
            return fma_narrow(x, y, z, c.dtype)

    for k in range(a.shape[1]):
        acc = step(a[:, k, None], b[None, k, :], acc)
    return acc


def _exponent(x: Array, least: int) -> Array:
    """Return the exponent of the leading bit, but no less than that of the format's least normal
    number."""
    exponent: Array = np.maximum(np.frexp(x)[1] - 1, least)
    return exponent


LEAST_EXPONENT = {
    "f16": -14,
    "bf16": -126,
    "tf32": -126,
    "f32": -126,
    "f8e4m3fn": -6,
    "f8e5m2": -14,
}


def fused_sum(
    a: Array, b: Array, acc: Array, types: tuple[Element, Element, Element], how: Arithmetic
) -> Array:
    """Return acc + sum of a group of products as a tensor core forms it.

    Every term is cut, towards zero, to `fraction` bits below the largest exponent; a product's
    exponent is the sum of its factors' (so it may be one too low), a zero's is a constant. The cut
    terms are added exactly; the sum is truncated to f32 or rounded to f16 once. Zero is positive.
    """
    least = [LEAST_EXPONENT[x.name] for x in types]
    terms = np.concatenate([a[:, None, :] * b.T[None, :, :], acc[:, :, None]], axis=2)
    exponents = np.empty(terms.shape, np.int64)
    exponents[:, :, :-1] = _exponent(a, least[0])[:, None, :] + _exponent(b, least[1]).T[None, :, :]
    exponents[:, :, -1] = _exponent(acc, least[2])
    exponents[terms == 0] = how.zero_exponent
    special = ~np.isfinite(terms).all(axis=2)
    top = exponents.max(axis=2)
    with np.errstate(invalid="ignore"):
        cut = np.trunc(np.ldexp(terms, how.fraction - top[:, :, None]))
        total = np.ldexp(cut.sum(axis=2), top - how.fraction)
        total = _round_sum(total, types[2], how.output_fraction)
        return np.where(special, terms.sum(axis=2), total) + 0.0


def _round_sum(total: Array, c: Element, fraction: int) -> Array:
    """Round to nearest even in f16, truncate in f32 to `fraction` bits, with gradual underflow in
    both."""
    with np.errstate(over="ignore"):
        if c.name == "f16":
            return total.astype(np.float16).astype(np.float64)
        exponent = _exponent(total, LEAST_EXPONENT["f32"])
        kept = np.ldexp(np.trunc(np.ldexp(total, fraction - exponent)), exponent - fraction)
        result: Array = kept.astype(np.float32).astype(np.float64)
        return result


def fused(
    a: Array, b: Array, acc: Array, types: tuple[Element, Element, Element], how: Arithmetic
) -> Array:
    """Return the accumulator after all groups along k."""
    add = _sum_through_f16 if how.through_f16 else fused_sum
    for k in range(0, a.shape[1], how.group):
        acc = add(a[:, k : k + how.group], b[k : k + how.group], acc, types, how)
    return acc


def _sum_through_f16(
    a: Array, b: Array, acc: Array, types: tuple[Element, Element, Element], how: Arithmetic
) -> Array:
    """Return acc + sum of a group of products of 8-bit floats that go through two f16 sums.

    The first takes the lower two of every four k and starts from zero, the second takes the upper
    two; the accumulator is added last, in f32.
    """
    lower = np.arange(a.shape[1]) % 4 < 2
    f16 = (ELEMENTS["f16"], ELEMENTS["f16"], types[2])
    total = np.zeros_like(acc)
    for chosen in (lower, ~lower):
        total = fused_sum(a[:, chosen], b[chosen], total, f16, how)
    return (total.astype(np.float32) + acc.astype(np.float32)).astype(np.float64)


# --------------------------------------------------------------------------- the product


def _real_product(
    a: Array, b: Array, types: tuple[Element, Element, Element], how: Arithmetic
) -> Array:
    """Return the accumulator for real planes of values."""
    shape = a.shape[0], b.shape[1]
    if how.kind == "integer":
        return a @ b  # uint64: exact modulo 2^64, hence modulo any narrower type
    start = np.zeros(shape)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if how.kind == "chain":
            return chain(a, b, start, types[2])
        return fused(a, b, start, types, how)


def _alternate(first: Array, second: Array, axis: int, step: int) -> Array:
    """Interleave two planes along k in steps: the order in which complex products are issued."""
    cuts = range(0, first.shape[axis], step)
    pieces = [
        np.take(x, range(k, min(k + step, x.shape[axis])), axis)
        for k in cuts
        for x in (first, second)
    ]
    return np.concatenate(pieces, axis) if pieces else first


def product(
    a: Planes, b: Planes, types: tuple[Element, Element, Element], how: Arithmetic
) -> list[Array]:
    """Return the accumulator planes of A B in C's dtype.

    Complex: re = ar br - ai bi and im = ar bi + ai br, each one real product along an alternating
    k.
    """
    va = [values(x, types[0], types[2]) for x in a]
    vb = [values(x, types[1], types[2]) for x in b]
    if len(va) == 1:
        planes = [_real_product(va[0], vb[0], types, how)]
    else:
        minus = np.negative(va[1]) if not types[0].is_integer else np.uint64(0) - va[1]
        real = (_alternate(va[0], minus, 1, how.step), _alternate(vb[0], vb[1], 0, how.step))
        imaginary = (_alternate(va[0], va[1], 1, how.step), _alternate(vb[1], vb[0], 0, how.step))
        planes = [_real_product(*pair, types, how) for pair in (real, imaginary)]
    return [as_element(x, types[2]) for x in planes]


def as_element(plane: Array, c: Element) -> Array:
    """Return accumulator values in C's dtype; integers keep their low bits."""
    if c.is_integer:
        return plane.astype(np.dtype(f"u{c.bytes}")).view(c.dtype)
    return plane.astype(c.dtype)


# --------------------------------------------------------------------------- epilogue


def _scale(factor: Sequence[Any], x: Planes) -> list[Array]:
    """Return factor times x, every operation rounded to C's type; a zero imaginary part is not
    multiplied."""
    if len(factor) == 1 or factor[1] == 0:
        return [np.asarray(factor[0] * plane) for plane in x]
    (re, im), (xr, xi) = factor, x
    return [re * xr - im * xi, re * xi + im * xr]


def epilogue(
    acc: Planes, c: Planes | None, alpha: Sequence[Any], beta: Sequence[Any], kind: Element
) -> list[Array]:
    """Return alpha acc + beta C in C's type; alpha = 1 leaves acc alone and beta = 0 never reads
    C."""
    if kind.is_integer:
        unsigned = np.dtype(f"u{kind.bytes}").type
        modulus = 1 << kind.bits
        acc = [x.view(unsigned) for x in acc]
        c = None if c is None else [x.view(unsigned) for x in c]
        alpha = [unsigned(int(x) % modulus) for x in alpha]
        beta = [unsigned(int(x) % modulus) for x in beta]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        unit = alpha[0] == 1 and (len(alpha) == 1 or alpha[1] == 0)
        result = list(acc) if unit else _scale(alpha, acc)
        if c is not None:
            result = [x + y for x, y in zip(result, _scale(beta, c), strict=True)]
    return [np.asarray(x).view(kind.dtype) for x in result]


def reference(a: Planes, b: Planes) -> list[Array]:
    """Return A B in float64: what errors of lower precisions are measured against."""
    wide_a, wide_b = ([x.astype(np.float64) for x in side] for side in (a, b))
    if len(wide_a) == 1:
        return [wide_a[0] @ wide_b[0]]
    (ar, ai), (br, bi) = wide_a, wide_b
    return [ar @ br - ai @ bi, ar @ bi + ai @ br]


def element_types(names: Sequence[str]) -> tuple[Element, Element, Element]:
    """Return the three rows for three names."""
    a, b, c = (ELEMENTS[name] for name in names)
    return a, b, c
