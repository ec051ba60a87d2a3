"""Sparse and scaled instructions in plain Python: one output at a time, with fractions.

Written from the instruction set guides' formulas alone; of the package it uses the number formats'
values (compared with ml_dtypes elsewhere) and the parameters of a model, nothing that computes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from gpuemu import formats
from gpuemu.mfma.instructions import Instruction
from gpuemu.mfma.models import Model

Number = Fraction | float  # a float is an infinity or a NaN

NAN_BITS = 0x7FC00000


def value(fmt: formats.Format, code: int) -> Number:
    """Return what a code means."""
    kind = fmt.classify(code)
    if kind == "finite":
        return fmt.value(code)
    negative = code >> (fmt.bits - 1)
    return math.nan if kind == "nan" else (-math.inf if negative else math.inf)


def lane_item(image: Any, lane: int, item: int, bits: int) -> int:
    """Return item `item` of a lane: its registers are one little-endian number."""
    word = sum(int(image[v, lane]) << (32 * v) for v in range(image.shape[0]))
    return word >> (item * bits) & ((1 << bits) - 1)


def sparse_factors(
    i: Instruction, a: Any, b: Any, idx: Any, index_set: int, row: int, column: int
) -> list[tuple[int, int, int]]:
    """Return (code of A, code of B, dense k) of every stored product of one output."""
    bits = formats.get(i.formats["A"]).bits
    per_lane = 8 if bits == 16 else 16  # dense k of a lane, in each half of the instruction
    halves = i.vgprs["A"] // 2
    half_k = i.K // halves
    width = {(16, 1): 8, (8, 1): 16, (16, 2): 16, (8, 2): 32}[bits, halves]
    found = []
    for group in range(i.K // 4):
        half, k = divmod(4 * group, half_k)
        lane_group, inside = divmod(k, per_lane)
        for e in (0, 1):
            item = half * per_lane // 2 + inside // 2 + e
            lane_a = row + i.M * lane_group
            field = int(idx[0, lane_a]) >> (index_set * width + 2 * item) & 3
            b_item = half * per_lane + inside + field
            code_a = lane_item(a, lane_a, item, bits)
            code_b = lane_item(b, column + i.N * lane_group, b_item, bits)
            found.append((code_a, code_b, 4 * group + field))
    return found


def narrow_factors(
    i: Instruction, a: Any, b: Any, cbsz: int, blgp: int, row: int, column: int
) -> list[tuple[int, int, int]]:
    """Return (code of A, code of B, k) of every product of one output of an f8f6f4 instruction."""

    def item(image: Any, bits: int, rows: int, index: int, k: int) -> int:
        if bits != 8:
            return lane_item(image, index + rows * (k // 32), k % 32, bits)
        groups = 64 // rows
        chunk, inside = divmod(k, 16)
        lane = index + rows * (chunk % groups)
        return lane_item(image, lane, chunk // groups * 16 + inside, 8)

    widths = (8, 8, 6, 6, 4)
    return [
        (item(a, widths[cbsz], i.M, row, k), item(b, widths[blgp], i.N, column, k), k)
        for k in range(i.K)
    ]


def result_place(i: Instruction, row: int, column: int) -> tuple[int, int]:
    """Return VGPR and lane of an output of a single-block 16x16 or 32x32 instruction."""
    if i.M == 16:
        return row % 4, column + 16 * (row // 4)
    return row % 4 + 4 * (row // 8), column + 32 * (row // 4 % 2)


def scale_exponent(i: Instruction, image: Any, index: int, k: int, byte: int) -> int | None:
    """Return the exponent of a row's or column's scale at k, or None for NaN."""
    code = int(image[0, index + i.M * (k // 32)]) >> (8 * byte) & 0xFF
    return None if code == 0xFF else code - 127


def log2_floor(x: Fraction) -> int:
    """Return floor(log2 |x|) of a number that is not zero."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def to_unit(x: Fraction, unit: int, rounding: str) -> Fraction:
    """Round to a multiple of 2**unit."""
    n = x / Fraction(2) ** unit
    rounded = {"down": math.floor, "up": math.ceil, "zero": math.trunc, "nearest": round}[rounding](
        n
    )
    return rounded * Fraction(2) ** unit


def binary32(x: Fraction, negative_zero: bool = False) -> int:
    """Return a number rounded to nearest even, as binary32 bits."""
    if x == 0:
        return 0x80000000 if negative_zero else 0
    sign = 0x80000000 if x < 0 else 0
    e = max(log2_floor(x), -126)
    significand = round(abs(x) / Fraction(2) ** (e - 23))
    bits = ((e + 126) << 23) + significand
    return sign | min(bits, 0x7F800000)


def special_sum(terms: list[Number]) -> int | None:
    """Return the bits of a sum that has infinities or NaNs among its terms, else None."""
    odd = [t for t in terms if isinstance(t, float)]
    if not odd:
        return None
    total = sum(odd)
    return NAN_BITS if math.isnan(total) else 0x7F800000 if total > 0 else 0xFF800000


def product(a: Number, b: Number, overflow: bool) -> Number:
    """Return a product, which may be an infinity or NaN."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        p = a * b
        if overflow and abs(p) >= Fraction(2) ** 128:
            return math.inf if p > 0 else -math.inf
        return p
    sign = [
        float(math.copysign(1, x)) if isinstance(x, float) else (x > 0) - (x < 0) for x in (a, b)
    ]
    if any(isinstance(x, float) and math.isnan(x) for x in (a, b)) or 0 in sign:
        return math.nan
    return sign[0] * sign[1] * math.inf


def clamped(x: Number, emin: int) -> int | None:
    """Return the exponent of a number in a format whose smallest is emin, None for zero."""
    if isinstance(x, float) or x == 0:
        return None
    return max(log2_floor(x), emin)


def aligned(
    model: Model,
    fa: formats.Format,
    fb: formats.Format,
    factors: list[tuple[int, int, int]],
    c: int,
    group: int,
    scales: dict[int, int | None] | None = None,
    slots: list[int] | None = None,
) -> int:
    """Return one output of an "aligned" model as binary32 bits.

    `scales` maps the first k of a link to the sum of its scale exponents; `slots` are the positions
    by which products go to partial sums.
    """
    f32 = formats.get("f32")
    for first in range(0, len(factors), group):
        link = factors[first : first + group]
        pairs = [(value(fa, a), value(fb, b)) for a, b, _ in link]
        terms = [product(x, y, model.product_overflow) for x, y in pairs]
        accumulator = value(f32, c)
        scale = 0 if scales is None else scales[first]
        if scale is None:
            c = NAN_BITS
            continue
        odd = special_sum([*terms, accumulator])
        if odd is not None:
            c = odd
            continue
        heights = []
        for x, y in pairs:
            ex, ey = clamped(x, fa.emin), clamped(y, fb.emin)
            heights.append(None if ex is None or ey is None else ex + ey)
        places = slots[first : first + group] if slots else list(range(len(link)))
        c = one_link(model, terms, heights, places, accumulator, scale)
    return c


def one_link(
    model: Model,
    terms: list[Any],
    heights: list[int | None],
    places: list[int],
    c: Any,
    scale: int,
) -> int:
    """Return the accumulator after a link of finite terms, as bits."""
    top = max((h for h in heights if h is not None), default=None)
    e_c = max(log2_floor(c), -126) if c else -126
    total = Fraction(0)
    e = e_c
    if top is not None:
        for s in range(model.interleave):
            mine = [n for n, p in enumerate(places) if p % model.interleave == s]
            tops = [heights[n] for n in mine if heights[n] is not None]
            if not tops:
                continue
            unit = max(tops) - model.product_bits  # type: ignore[type-var]
            part = sum((to_unit(terms[n], unit, model.product_rounding) for n in mine), Fraction(0))
            if model.interleave > 1:
                part = to_unit(part, top - model.product_bits, model.merge_rounding)
            total += part
        total *= Fraction(2) ** scale
        e = max(top + scale, e_c)
    total = to_unit(total, e - model.sum_bits, model.sum_rounding)
    kept = to_unit(c, e - model.accumulator_bits, model.accumulator_rounding)
    if model.drop_tiny_accumulator and e_c < e - model.accumulator_bits - 1:
        kept = Fraction(0)
    s = total + kept
    if s == 0:
        return 0
    e_s = max(log2_floor(s), -126)
    cut = to_unit(s, e_s - model.result_bits, model.result_rounding)
    return binary32(cut, negative_zero=s < 0)
