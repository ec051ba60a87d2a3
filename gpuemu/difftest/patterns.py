"""Input classes of the whole range: random, special, tied, aligned, cancelling."""

from __future__ import annotations

import math

import numpy as np

from .. import formats
from . import items
from .spec import Array, Matrices, Spec, bell, power, put, two_places, window, zeros
from .streams import Stream


def raw(spec: Spec, s: Stream) -> Matrices:
    """Random bits: every code of every format, NaN and infinity among them."""
    blocks, M, N = spec.outputs
    return tuple(
        s.words(*shape) >> np.uint64(64 - fmt.bits)
        for fmt, shape in (
            (spec.a, (blocks, M, spec.products)),
            (spec.b, (blocks, spec.products, N)),
            (spec.c, spec.outputs),
        )
    )


def normal(spec: Spec, s: Stream) -> Matrices:
    """A, B and C nearly normal, spread 1."""
    blocks, M, N = spec.outputs
    a, b = bell(spec.a, s, blocks, M, spec.products), bell(spec.b, s, blocks, spec.products, N)
    return a, b, bell(spec.c, s, *spec.outputs)


def specials(spec: Spec, s: Stream) -> Matrices:
    """Every special code of A against every special code of B, with special C; other products
    zero or normal.
    """
    A, B, _ = normal(spec, s)
    lonely = (s.below(2) == 0)[:, None, None, None]
    a, b = (items.encode(f, s.xp.where(lonely, 0.0, x)) for f, x in ((spec.a, A), (spec.b, B)))
    blocks, M, N = spec.outputs
    row, column = s.below(64, blocks, 1) + s.xp.arange(M), s.below(64, blocks, 1) + s.xp.arange(N)
    codes = {x: s.xp.asarray(items.special_codes(x)) for x in (spec.a, spec.b, spec.c)}
    hot_a, hot_b = (
        codes[spec.a][row % len(codes[spec.a])],
        codes[spec.b][column % len(codes[spec.b])],
    )
    put(a, b, s.below(spec.products), hot_a.astype(a.dtype), hot_b.astype(b.dtype))
    return a, b, s.choose(codes[spec.c], *spec.outputs)


def ties(spec: Spec, s: Stream) -> Matrices:
    """C and a product that ends in half a last place, tipped or not by a second product far below.

    Half of C are powers of two: the sum may fall into the binade below, with one bit more to keep.
    """
    A, B, _ = zeros(spec, s)
    first, second = two_places(spec, s)
    ea, eb = s.between(*window(spec.a), *spec.rows), s.between(*window(spec.b), *spec.columns)
    # One distance a case, or up to three more: often about 8, where sums of 32 bits end.
    tip = s.choose(np.array([*range(16), *(5, 6, 7, 8) * 4, 20, 24, 30]), 1, 1)
    tip_a, tip_b = tip // 2 + s.below(2, *spec.rows), tip - tip // 2 + s.below(3, *spec.columns)
    b = power(eb - tip_b) * (s.below(4, *spec.columns) > 0)
    put(A, B, second, s.sign(*spec.rows) * power(ea - tip_a), b)
    halves = 1 + 2 * s.below(4, *spec.rows) * (spec.a.mantissa_bits > 2)
    put(
        A,
        B,
        first,
        s.sign(*spec.rows) * halves * power(s.xp.minimum(ea, spec.a.emax - 3)),
        power(eb),
    )
    e = s.xp.minimum(ea, spec.a.emax - 3)[..., :, None] + eb[..., None, :] + spec.precision
    C = s.significand(spec.c.mantissa_bits, *spec.outputs)
    C = s.xp.where(
        s.below(2, *spec.outputs) == 0, s.choose(np.array([1.0, 2.0, 2.0]), *spec.outputs), C
    )
    return A, B, s.sign(*spec.outputs) * C * power(e)


def shifts(spec: Spec, s: Stream) -> Matrices:
    """Alignment: one product, or C, above or below the rest by 0 to twice the kept bits."""
    blocks, M, N = spec.outputs
    low_a, high_a = window(spec.a)
    low_b, high_b = window(spec.b)
    ea, eb = (
        s.between(low_a, low_a + (high_a - low_a) // 4, 1, 1),
        s.between(low_b, low_b + (high_b - low_b) // 4, 1, 1),
    )
    A = s.sign(blocks, M, spec.products) * s.significand(
        spec.a.mantissa_bits, blocks, M, spec.products
    )
    B = s.significand(spec.b.mantissa_bits, blocks, spec.products, N)
    A, B = A * power(ea)[..., None], B * power(eb)[..., None]
    kind, hot = s.below(3)[:, None, None], s.below(spec.products)
    up_a = s.xp.where(kind == 0, s.between(0, high_a - low_a, *spec.rows), 0)
    up_b = s.xp.where(kind == 0, s.between(0, high_b - low_b, *spec.columns), 0)
    here = s.xp.arange(spec.products) == hot[:, None]
    A = s.xp.where(here[:, None, None, :], A * power(up_a)[..., None], A)
    B = s.xp.where(here[:, None, :, None], B * power(up_b)[..., None, :], B)
    shift = s.between(0, 2 * spec.kept, *spec.outputs) * s.xp.where(kind == 1, 1, -1)[..., None]
    e = (ea + eb)[..., None] + shift
    return (
        A,
        B,
        s.sign(*spec.outputs) * s.significand(spec.c.mantissa_bits, *spec.outputs) * power(e),
    )


def signs(spec: Spec, s: Stream) -> Matrices:
    """Products of like size, every row another pattern of signs."""
    blocks, M, N = spec.outputs
    pattern = (s.cases.astype(np.int64)[:, None] * M + s.xp.arange(M))[:, None, :, None]
    flips = 1.0 - 2.0 * (pattern >> (s.xp.arange(spec.products) % 12) & 1)
    A = flips * s.significand(spec.a.mantissa_bits, blocks, M, spec.products)
    B = s.sign(blocks, spec.products, N) * s.significand(
        spec.b.mantissa_bits, blocks, spec.products, N
    )
    return (
        A,
        B,
        s.sign(*spec.outputs)
        * s.significand(spec.c.mantissa_bits, *spec.outputs)
        * power(s.between(-2, 4, *spec.outputs)),
    )


def residue(spec: Spec, s: Stream) -> Matrices:
    """Return small products, and a small or zero C: what is left after a cancellation."""
    _blocks, _M, _N = spec.outputs
    down = s.between(0, spec.kept, 1, 1)[..., None]
    A, B, C = normal(spec, s)
    few = s.below(3, 1, 1, 1) == 0
    return (
        A * power(-down // 2),
        s.xp.where(few, 0.0, B * power(-down // 2)),
        C * power(-down) * (s.below(2, 1, 1, 1) == 0),
    )


def cancel_pair(spec: Spec, s: Stream) -> Matrices:
    """Two products cancel exactly; what remains is small."""
    if spec.products < 2:
        return cancel_c(spec, s)
    A, B, C = residue(spec, s)
    first, second = two_places(spec, s)
    a = (
        s.sign(*spec.rows)
        * s.significand(spec.a.mantissa_bits, *spec.rows)
        * power(s.between(*window(spec.a, 12), *spec.rows))
    )
    b = s.significand(spec.b.mantissa_bits, *spec.columns) * power(
        s.between(*window(spec.b, 12), *spec.columns)
    )
    put(A, B, first, a, b)
    put(A, B, second, a, -b)
    return A, B, C


def cancel_c(spec: Spec, s: Stream) -> Matrices:
    """A product cancels C exactly; what remains is small."""
    A, B, _ = residue(spec, s)
    half = spec.precision // 2 - 1
    a = s.sign(*spec.rows) * s.significand(min(spec.a.mantissa_bits, half), *spec.rows)
    b = s.significand(min(spec.b.mantissa_bits, half), *spec.columns)
    a, b = (
        a * power(s.between(*window(spec.a, 12), *spec.rows)),
        b * power(s.between(*window(spec.b, 12), *spec.columns)),
    )
    if not spec.a.is_float:
        a, b = s.xp.trunc(a), s.xp.trunc(b)
    put(A, B, s.below(spec.products), a, b)
    return A, B, -a[..., :, None] * b[..., None, :]


def unique(spec: Spec, s: Stream) -> Matrices:
    """Every element of one operand another code (as far as codes last), shown in D by ones of the
    other operand.
    """
    _blocks, M, N = spec.outputs
    K = spec.products
    turn, start = s.below(K)[:, None, None], s.below(1 << 16)
    A, B, C = zeros(spec, s)
    k = s.xp.arange(K)
    A += ((turn + s.xp.arange(M)[:, None]) % K == k)[:, None]
    B += ((turn + s.xp.arange(N)) % K == k[:, None])[:, None]
    show_a = (s.below(2) == 0)[:, None, None, None]
    a = s.xp.where(show_a, _distinct(s, spec.a, A.shape, start), items.encode(spec.a, A))
    b = s.xp.where(show_a, items.encode(spec.b, B), _distinct(s, spec.b, B.shape, start))
    return a, b, s.xp.where(s.below(2, 1, 1, 1) == 0, _distinct(s, spec.c, C.shape, start), 0)


def _distinct(s: Stream, fmt: formats.Format, shape: tuple[int, ...], start: Array) -> Array:
    """Return finite codes counted up from `start` along all but the first dimension, spread over
    the format.
    """
    finite = items.max_finite(fmt) + 1
    size = math.prod(shape[1:])
    step = max(finite // max(size, 1), 1) | 1
    number = (start[:, None].astype(np.uint64) + s.xp.arange(size, dtype=np.uint64)) * np.uint64(
        step
    )
    # Positive codes first, then negative ones; a FNUZ negative zero is a NaN and becomes one.
    code = number % np.uint64(2 * finite)
    negative = code >= finite
    magnitude = s.xp.where(negative, code - np.uint64(finite), code)
    magnitude = s.xp.where(negative & (magnitude == 0), 1, magnitude)
    found = magnitude | negative.astype(np.uint64) << np.uint64(fmt.bits - 1)
    return found.astype(fmt.storage).reshape(shape)


def staggered(spec: Spec, s: Stream) -> Matrices:
    """Exponents that rise or fall along k: every link starts from another accumulator."""
    blocks, M, N = spec.outputs
    low_a, high_a = window(spec.a, 20)
    low_b, high_b = window(spec.b, 20)
    k = s.xp.arange(spec.products)
    ramp = (k * max(high_a - low_a, 1) // spec.products)[None, None, None]
    ramp = s.xp.where(s.below(2, 1, 1, 1) == 0, ramp, ramp[..., ::-1])
    A = (
        s.sign(blocks, M, spec.products)
        * s.significand(spec.a.mantissa_bits, blocks, M, spec.products)
        * power(low_a + ramp)
    )
    B = s.significand(spec.b.mantissa_bits, blocks, spec.products, N) * power(
        s.between(low_b, high_b, blocks, spec.products, N)
    )
    C = (
        s.sign(*spec.outputs)
        * s.significand(spec.c.mantissa_bits, *spec.outputs)
        * power(s.between(-30, 30, *spec.outputs))
    )
    return A, B, C
