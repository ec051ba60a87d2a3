"""How a matrix unit rounds its results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .probe_kept import rounding, steps
from .probe_unit import Question, Unit

Links = tuple[tuple[int, ...], ...]


def output_rounding(unit: Unit, timed: Links, bits: int | None) -> str:
    """Ask the last link, whose sum is the result: beside a large C; where it cuts what lies so far
    below, beside a sum of products that is larger than each of them.
    """
    if not timed:
        return "unknown"
    link = timed[-1]
    e = max(unit.bottom, -20) + unit.precision + 3
    found = _last_place(unit, lambda x, odd: ({}, x * 2.0**e + odd), e, link[-1])
    if found != "unknown" or len(link) < 4:
        return found
    carry = (len(link) - 2).bit_length() - 1
    many, last = link[: 1 << carry], link[1 << carry]

    def products(x: float, odd: float) -> Question:
        terms = dict.fromkeys(many, (x, unit.top))
        if odd:
            terms[last] = (float(np.sign(odd)), int(np.log2(abs(odd))))
        return terms, 0.0

    seen = None if bits is None else bits + carry
    return _last_place(unit, products, unit.top + carry, link[-1], seen)


def _last_place(
    unit: Unit,
    large: Callable[[float, float], Question],
    e: int,
    at: int,
    seen: int | None = None,
) -> str:
    """Return how a sum is rounded to a float: of three quarters, a half and a quarter of the last
    place beside an odd multiple of it.

    Parameters
    ----------
    large : callable
        Returns a question whose sum is x * 2**e + odd.
    at : int
        The product to add.
    seen : int, optional
        Bits below 2**e at which a product is not cut yet.
    """

    def with_product(x: float, odd: float, significand: float, exponent: int) -> Question:
        terms, c = large(x, odd)
        return {**terms, at: (significand, exponent)}, c

    start = max(0, e - unit.top)
    shifts = np.arange(start, unit.precision + 2)
    more, less = (
        start
        + steps(
            unit.dots([with_product(1.0, 0.0, sign, int(e - s)) for s in shifts]) - 2.0**e,
            sign * 2.0 ** (e - shifts),
        )
        for sign in (1.0, -1.0)
    )
    place = e - more
    rounded = less == more + 1  # as a float is: half of the distance below a power of two
    if not rounded or place - 2 < unit.bottom or (seen is not None and more + 2 > seen):
        return "unknown"
    asked = [
        (side, sign * significand, exponent)
        for side in (1.0, -1.0)
        for sign in (1.0, -1.0, 0.0)  # zero: the odd multiple itself must come through
        for significand, exponent in ((1.5, -1), (1.0, -1), (1.0, -2))
    ]
    sides, exact = np.array([(side, side + s * 2.0**x) for side, s, x in asked]).T
    step = 2.0**place
    d = unit.dots([with_product(side * 1.5, side * step, s, place + x) for side, s, x in asked])
    return rounding((d - sides * 1.5 * 2.0**e) / step, exact)
