"""Input classes at the ends of the formats: carries, flushing, subnormals, zeros, overflow."""

from __future__ import annotations

import numpy as np

from .. import formats
from .spec import Array, Matrices, Spec, power, put, two_places, window, zeros
from .streams import Stream


def carry(spec: Spec, s: Stream) -> Matrices:
    """Significands of ones, so that sums carry out of their top bit."""
    blocks, M, N = spec.outputs

    def ones(fmt: formats.Format, *shape: int) -> Array:
        last = 2.0**-fmt.mantissa_bits if fmt.is_float else 0.0
        return (2.0 - s.between(1, 3, *shape) * last) * (
            1.0 if fmt.is_float else 2.0 ** (fmt.bits - 1)
        )

    low_a, high_a = window(spec.a, 8)
    ea = s.between(low_a, high_a, 1, 1, 1)
    A = ones(spec.a, blocks, M, spec.products) * power(ea) * s.sign(1, 1, 1)
    B = ones(spec.b, blocks, spec.products, N)
    C = ones(spec.c, *spec.outputs) * power(ea + s.between(-3, 6, *spec.outputs)) * s.sign(1, 1, 1)
    return A, B, C


def flush(spec: Spec, s: Stream) -> Matrices:
    """Inputs and products at the smallest normal number, one unit of the last place below, and
    above.
    """
    A, B, _ = zeros(spec, s)

    def edge(fmt: formats.Format, *shape: int) -> Array:
        near = (1.0 + s.between(-1, 1, *shape) * 2.0**-fmt.mantissa_bits) * 2.0**fmt.emin
        return s.sign(*shape) * near

    # A product at the edge of the result: B makes up for A as far as its format reaches.
    want = spec.c.emin - spec.a.emin
    reachable = min(max(want, spec.b.emin), spec.b.emax)
    for place in two_places(spec, s):
        exponent = s.xp.where(s.below(2, *spec.columns) == 0, 0, reachable)
        b = power(s.xp.clip(exponent, spec.b.emin, spec.b.emax))
        a = edge(spec.a, *spec.rows)
        # Half of the columns have their own edge against a plain A.
        own = s.below(2, 1, 1) == 0
        put(
            A,
            B,
            place,
            s.xp.where(own, s.sign(*spec.rows), a),
            s.xp.where(own, edge(spec.b, *spec.columns), b),
        )
    C = edge(spec.c, *spec.outputs)
    return A, B, s.xp.where(s.below(3, *spec.outputs) == 0, 0.0, C)


def subnormals(spec: Spec, s: Stream) -> Matrices:
    """Subnormal inputs of both sides and of C, some against the largest numbers."""
    blocks, M, N = spec.outputs

    def tiny(fmt: formats.Format, *shape: int) -> Array:
        code = s.below(1 << min(fmt.mantissa_bits, 31), *shape) + 1
        return s.sign(*shape) * code * 2.0 ** (fmt.emin - fmt.mantissa_bits)

    A = tiny(spec.a, blocks, M, spec.products)
    large = s.significand(spec.b.mantissa_bits, blocks, spec.products, N) * 2.0**spec.b.emax
    B = s.xp.where(
        s.below(3, blocks, spec.products, N) == 0, tiny(spec.b, blocks, spec.products, N), large
    )
    C = s.xp.where(s.below(3, *spec.outputs) == 0, 0.0, tiny(spec.c, *spec.outputs))
    swap = s.below(2) == 0
    if M == N and spec.a == spec.b:
        A, B = (
            s.xp.where(swap[:, None, None, None], y, x)
            for x, y in ((A, B.swapaxes(2, 3)), (B, A.swapaxes(2, 3)))
        )
    return A, B, C


def signed_zeros(spec: Spec, s: Stream) -> Matrices:
    """Zeros of both signs, few ones and smallest numbers among them."""
    blocks, M, N = spec.outputs

    def mixed(fmt: formats.Format, *shape: int) -> Array:
        least = 2.0 ** (fmt.emin - fmt.mantissa_bits) if fmt.is_float else 1.0
        return s.choose(np.array([0.0, -0.0, 0.0, -0.0, 0.0, -0.0, least, 1.0, -1.0]), *shape)

    return (
        mixed(spec.a, blocks, M, spec.products),
        mixed(spec.b, blocks, spec.products, N),
        mixed(spec.c, *spec.outputs),
    )


def overflow(spec: Spec, s: Stream) -> Matrices:
    """The largest numbers: rows overflow to plus infinity, to minus infinity, or towards both at
    once.
    """
    blocks, M, N = spec.outputs

    def large(fmt: formats.Format, *shape: int) -> Array:
        if not fmt.is_float:
            return 2.0 ** (fmt.bits - 1) - s.below(3, *shape)
        return s.significand(fmt.mantissa_bits, *shape) * power(fmt.emax - s.below(2, *shape))

    row = s.choose(np.array([1.0, -1.0, 0.0]), blocks, M, 1)
    mixed = s.sign(blocks, M, spec.products)
    A = s.xp.where(row == 0, mixed, row) * large(spec.a, blocks, M, spec.products)
    A = s.xp.where(s.below(4, blocks, 1, spec.products) == 0, 0.0, A)
    C = s.sign(*spec.outputs) * large(spec.c, *spec.outputs)
    # Against small B, products alone stay finite and only sums pass the largest number.
    small = s.significand(spec.b.mantissa_bits, blocks, spec.products, N) * power(
        s.between(-4, 1, 1, 1, 1)
    )
    B = s.xp.where(s.below(2, 1, 1, 1) == 0, small, large(spec.b, blocks, spec.products, N))
    return A, B, s.xp.where(s.below(3, *spec.outputs) == 0, 0.0, C)


def round_down(spec: Spec, s: Stream) -> Matrices:
    """One large product and a tail far below, mostly negative: floor, truncation and nearest part
    here.
    """
    A, B, _ = zeros(spec, s)
    first, second = two_places(spec, s)
    low_a, high_a = window(spec.a)
    low_b, high_b = window(spec.b)
    down = s.between(0, spec.kept + 10, *spec.rows)
    part = s.xp.minimum(down // 2, high_a - low_a)
    a = -s.significand(spec.a.mantissa_bits, *spec.rows) * power(high_a - part)
    put(
        A,
        B,
        second,
        a,
        s.significand(spec.b.mantissa_bits, *spec.columns) * 2.0**low_b,
    )
    put(
        A,
        B,
        first,
        power(s.xp.full((s.count, *spec.rows), high_a)),
        power(s.xp.full((s.count, *spec.columns), high_b)),
    )
    # C lies just below a power of two or far below the product: the sum falls into the next binade.
    e = high_a + high_b - s.between(0, spec.kept + 10, *spec.outputs)
    C = -s.significand(spec.c.mantissa_bits, *spec.outputs) * power(e)
    return A, B, s.xp.where(s.below(4, *spec.outputs) == 0, -C, C)
