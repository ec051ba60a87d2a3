"""One output, step by step in exact fractions: what every rounding did to it.

The steps of `gpuemu.mfma.models` are written out here once more, for a single output and with
Python's fractions, so that each error is the exact difference of two numbers and their sum is the
whole error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from ..errors import BadValue
from ..formats import Format
from ..mfma.models import Model
from .items import max_finite

KINDS = ("input", "alignment", "accumulation", "output")


@dataclass(frozen=True)
class Step:
    """One step: which products, what happened, and the exact value after it."""

    products: str
    what: str
    value: Fraction


@dataclass
class Explanation:
    """How one output came about.

    Attributes
    ----------
    exact : Fraction
        Of the inputs as they were given.
    result : Fraction
        What the model computes.
    errors : dict of Fraction
        By kind: "input" (rounding, cutting or flushing of A, B and C), "alignment" (bits lost when
        products and accumulator are aligned), "accumulation" (roundings before the last), "output"
        (the last rounding). They add up to result - exact.
    steps : list of Step
    last : Fraction or None
        The error of the last rounding so far.
    """

    exact: Fraction
    result: Fraction = Fraction(0)
    errors: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(KINDS, Fraction(0)))
    steps: list[Step] = field(default_factory=list)
    last: Fraction | None = None

    def note(self, products: str, what: str, value: Fraction) -> None:
        """Add a step."""
        self.steps.append(Step(products, what, value))


def hex_of(value: Fraction) -> str:
    """Return a number whose denominator is a power of two, exactly: an integer times a power of
    two.

    >>> hex_of(Fraction(-3, 8))
    '-0x3p-3'
    """
    if value == 0:
        return "0x0p+0"
    top, exponent = abs(value.numerator), -(value.denominator.bit_length() - 1)
    zeros = (top & -top).bit_length() - 1
    return f"{'-' if value < 0 else ''}0x{top >> zeros:X}p{exponent + zeros:+d}"


_WHOLE: dict[str, Callable[[Fraction], int]] = {
    "zero": math.trunc,
    "down": math.floor,
    "up": math.ceil,
    "nearest": round,
}


def exponent(value: Fraction) -> int:
    """Return floor(log2 |value|) of a number that is not zero."""
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1


def cut(value: Fraction, unit: int, rounding: str) -> Fraction:
    """Return a value rounded to a multiple of 2**unit."""
    step = Fraction(2) ** unit
    return _WHOLE[rounding](value / step) * step


def stored(value: Fraction, fmt: Format) -> Fraction:
    """Return the number of a format that is nearest to a value, ties to even; raise `BadValue`
    where it overflows.
    """
    if value == 0:
        return value
    found = cut(value, max(exponent(value), fmt.emin) - fmt.mantissa_bits, "nearest")
    if abs(found) > fmt.value(max_finite(fmt)):
        raise BadValue(f"{float(value):g} overflows in {fmt.name}; only finite steps are explained")
    return found


def rounded(
    value: Fraction, rounding: str = "nearest", bits: int = 24, emin: int = -126
) -> Fraction:
    """Return a value rounded to binary32 (or binary64: 53, -1022); raise where it overflows."""
    if value == 0:
        return value
    found = cut(value, max(exponent(value), emin) - bits + 1, rounding)
    if found and exponent(found) > 1 - emin:
        raise BadValue("the result overflows; only finite steps are explained")
    return found


@dataclass(frozen=True)
class Link:
    """The products of a link, from product `first` on."""

    model: Model
    formats: tuple[Format, Format]
    a: list[Fraction]
    b: list[Fraction]
    first: int

    @property
    def products(self) -> list[Fraction]:
        """Return the exact products."""
        return [x * y for x, y in zip(self.a, self.b, strict=True)]

    @property
    def where(self) -> str:
        """Return the product numbers as text."""
        return _span(self.first, len(self.a))


def explain(
    model: Model,
    fmt: Format,
    other: Format,
    a: list[Fraction],
    b: list[Fraction],
    c: Fraction,
    exact: Fraction,
) -> Explanation:
    """Explain one output.

    Parameters
    ----------
    model : Model
    fmt, other : Format
        Of A and B.
    a, b, c : numbers of the formats
        A row of A, a column of B, the accumulator.
    exact : Fraction
        The output that the inputs should have, before they were brought into the formats.

    Raises
    ------
    BadValue
        Where a step overflows.
    """
    found = Explanation(exact)
    a = [_multiplied(x, fmt, model) for x in a]
    b = [_multiplied(x, other, model) for x in b]
    d = _flushed(c, -126) if model.flush_inputs else c
    found.errors["input"] = sum((x * y for x, y in zip(a, b, strict=True)), d) - exact
    found.note("", "C", d)
    length = min(model.group, len(a))
    for first in range(0, len(a), length):
        part = slice(first, first + length)
        before = found.errors["accumulation"]
        d = _LINKS[model.algorithm](found, Link(model, (fmt, other), a[part], b[part], first), d)
        found.last = found.errors["accumulation"] - before if found.last is None else found.last
        if first + length < len(a):
            found.last = None
    # The last rounding of all is that of the output.
    last = found.last or Fraction(0)
    found.errors["output"] = last
    found.errors["accumulation"] -= last
    found.result = d
    return found


def _flushed(x: Fraction, emin: int) -> Fraction:
    return Fraction(0) if abs(x) < Fraction(2) ** emin else x


def _multiplied(x: Fraction, fmt: Format, model: Model) -> Fraction:
    """Return what the multiplier reads of an input."""
    if model.flush_inputs:
        x = _flushed(x, fmt.emin)
    if x and model.input_bits is not None and model.input_bits < fmt.mantissa_bits:
        return cut(x, max(exponent(x), fmt.emin) - model.input_bits, "zero")
    return x


def _fma(e: Explanation, link: Link, d: Fraction) -> Fraction:
    bits, emin = (53, -1022) if link.model.output == "f64" else (24, -126)
    for n, product in enumerate(link.products):
        total = product + d
        d = rounded(total, "nearest", bits, emin)
        e.errors["accumulation"] += d - total
        e.last = d - total
        e.note(f"{link.first + n}", "fused multiply-add, rounded", d)
    return d


def _exact(e: Explanation, link: Link, d: Fraction) -> Fraction:
    total = sum(link.products, d)
    e.note(link.where, "exact sum with the accumulator", total)
    d = rounded(total, link.model.output_rounding)
    e.errors["accumulation"] += d - total
    e.note(link.where, f"rounded ({link.model.output_rounding})", d)
    return d


def _pairwise(e: Explanation, link: Link, d: Fraction) -> Fraction:
    def step(exact: Fraction, where: str, what: str) -> Fraction:
        value = rounded(exact)
        value = _flushed(value, -126) if link.model.flush_outputs else value
        e.errors["accumulation"] += value - exact
        e.note(where, what, value)
        return value

    first, width = link.first, 1
    terms = [step(x, f"{first + n}", "product, rounded") for n, x in enumerate(link.products)]
    while len(terms) > 1:
        width *= 2
        terms = [
            step(terms[n] + terms[n + 1], _span(first + n * width // 2, width), "sum, rounded")
            for n in range(0, len(terms), 2)
        ]
    before = e.errors["accumulation"]
    d = step(terms[0] + d, link.where, "added to the accumulator, rounded")
    e.last = e.errors["accumulation"] - before
    return d


def _aligned(e: Explanation, link: Link, d: Fraction) -> Fraction:
    model = link.model
    total, e_dot = _products(e, link)
    e.note(link.where, "sum of products", total)
    e_c = max(exponent(d), -126) if d else -126
    high = max(e_dot, e_c)
    summed = cut(total, high - model.sum_bits, model.sum_rounding)
    tiny = model.drop_tiny_accumulator and e_c < high - model.accumulator_bits - 1
    last = high - model.accumulator_bits
    kept = Fraction(0) if tiny else cut(d, last, model.accumulator_rounding)
    e.note(link.where, f"accumulator, kept to 2^{last}", kept)
    s = summed + kept
    if s:
        s = cut(s, max(exponent(s), -126) - model.result_bits, model.result_rounding)
    e.errors["alignment"] += s - sum(link.products, d)
    e.note(link.where, "sum with the accumulator", s)
    found = rounded(s, model.output_rounding)
    e.errors["accumulation"] += found - s
    e.note(link.where, f"rounded ({model.output_rounding})", found)
    return found


def _products(e: Explanation, link: Link) -> tuple[Fraction, int]:
    """Return the sum of the products as they are kept, and the largest exponent of all."""
    model, products = link.model, link.products
    fa, fb = link.formats
    heights = {
        n: max(exponent(link.a[n]), fa.emin) + max(exponent(link.b[n]), fb.emin)
        for n, product in enumerate(products)
        if product
    }
    e_dot = max(heights.values(), default=-(10**4))
    total = Fraction(0)
    for group in range(model.interleave):
        mine = [n for n in heights if n % model.interleave == group]
        last = max((heights[n] for n in mine), default=e_dot) - model.product_bits
        part = Fraction(0)
        for n in mine:
            kept = cut(products[n], last, model.product_rounding)
            part += kept
            e.note(f"{link.first + n}", f"product, kept to 2^{last}", kept)
        if model.interleave > 1:
            part = cut(part, e_dot - model.product_bits, model.merge_rounding)
        total += part
    return total, e_dot


def _span(first: int, count: int) -> str:
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


_LINKS = {"fma": _fma, "exact": _exact, "pairwise": _pairwise, "aligned": _aligned}
