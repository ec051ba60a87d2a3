"""How many bits a matrix unit keeps of a term far below the others, and how it rounds the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadValue
from .probe_unit import Question, Terms, Unit

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kept:
    """What is left of a term far below the largest of its link.

    Attributes
    ----------
    bits : int or None
        Fraction bits kept below the largest exponent; None where the note says why.
    rounding : str or None
        "zero", "down", "up", "nearest" or "unknown", of what lies below; None: not asked.
    note : str
        Empty where there are bits.
    """

    bits: int | None
    rounding: str | None
    note: str


def _step(link: tuple[int, ...]) -> int:
    """Return how far apart products stand that share a partial sum, however it is interleaved."""
    return 4 if len(link) > 8 else 2 if len(link) > 4 else 1


NOT_ASKED = Kept(None, None, "not asked: the links are unknown")
STEPWISE = Kept(None, None, "depend on k: a link is summed in parts, each of them rounded")


def product(unit: Unit, link: tuple[int, ...]) -> Kept:
    """Two large terms of a link cancel; a product is as small as it can be and still be seen.

    Three products stand as far apart as partial sums may be interleaved, and each of them is the
    small one in its turn. In a link of two, C is one
    of the large terms; alone, the product stands beside C.
    """
    if not link:
        return NOT_ASKED
    step, top = _step(link), unit.top
    large = (1.0, top)
    if len(link) == 1:
        return _beside(unit, lambda s, e: ({link[0]: (s, e)}, 2.0**top))
    reach = top - unit.bottom + 1
    if len(link) == 2:
        return _kept(
            unit, reach, lambda s, e: ({link[0]: large, link[1]: (s, e)}, -(2.0**top)), 0.0
        )
    parts = [link[0], link[step], link[2 * step]]
    found = [_third(unit, reach, *np.roll(parts, turn).tolist()) for turn in range(3)]
    return found[0] if len(set(found)) == 1 else STEPWISE


def _third(unit: Unit, reach: int, one: int, other: int, small: int) -> Kept:
    pair: Terms = {one: (1.0, unit.top), other: (-1.0, unit.top)}
    return _kept(unit, reach, lambda s, e: ({**pair, small: (s, e)}, 0.0), 0.0)


def accumulator(unit: Unit, link: tuple[int, ...]) -> Kept:
    """Two large products of a link cancel; what is left of a small accumulator?"""
    if not link:
        return NOT_ASKED
    top = unit.top
    if len(link) == 1:
        return _beside(unit, lambda s, e: ({link[0]: (1.0, top)}, s * 2.0**e))
    pair: Terms = {link[0]: (1.0, top), link[_step(link)]: (-1.0, top)}
    return _kept(unit, 60, lambda s, e: (pair, s * 2.0**e), 0.0)


def _beside(unit: Unit, question: Callable[[float, int], Question]) -> Kept:
    """Ask for a term beside one large term, of which the result keeps as many bits as it has."""
    return _kept(unit, unit.precision + 1, question, 2.0**unit.top)


def _kept(unit: Unit, reach: int, question: Callable[[float, int], Question], base: float) -> Kept:
    """Return what is kept of a term of significand and exponent that is added to `base`.

    A term below the large one that takes from it makes a sum of a smaller exponent: a sum that is
    rounded to a float shows one bit more of it, a term that is cut does not.
    """
    top = unit.top
    smaller = 2.0 ** (top - np.arange(reach))
    more, less = (
        steps(unit.dots([question(sign, top - s) for s in range(reach)]) - base, sign * smaller)
        for sign in (1.0, -1.0)
    )
    if min(more, less) < 0:
        raise BadValue(
            f"{unit.subject.name} loses a term that is as large as the others of its link; legal: "
            f"a unit that adds products and an accumulator"
        )
    if less == reach - 1 and more >= reach - 2:
        return Kept(None, None, f"all {less} that can be asked for")
    if less == more + 1:
        return Kept(None, None, f"not cut: the sum is rounded to {less} bits")
    bits = min(more, less)
    unit_value = 2.0 ** (top - bits)
    room = unit.precision - 1 if base else reach - 1
    if bits + 2 > room:
        return Kept(bits, None, "")
    # Half and a half more of the last kept place, of both signs.
    asked = [(x, e) for e in (0, -1) for x in (1.5, -1.5)]
    answers = unit.dots([question(x, top - bits + e) for x, e in asked]) - base
    return Kept(bits, rounding(answers / unit_value, [x * 2.0**e for x, e in asked]), "")


def steps(values: Array, exact: Array) -> int:
    """Return the last step, from 0, that came through; -1: none."""
    lost = np.flatnonzero(values != exact)
    return (int(lost[0]) if len(lost) else len(values)) - 1


RULES: dict[str, Callable[[Array], Array]] = {
    "zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
    "nearest": np.rint,
}


def rounding(answers: Array, exact: Any) -> str:
    """Name the rule by which numbers were rounded to integers."""
    fits = (name for name, rule in RULES.items() if np.array_equal(answers, rule(np.array(exact))))
    return next(fits, "unknown")


def cut_together(unit: Unit, link: tuple[int, ...], bits: int | None) -> tuple[int, ...]:
    """Two products of a link cancel; which others of it lose what lies far below them?"""
    if bits is None or len(link) < 3 or bits + 2 > unit.top - unit.bottom:
        return ()
    one, other = link[0], link[_step(link)]
    rest = [k for k in link if k not in (one, other)]
    pair: Terms = {one: (1.0, unit.top), other: (-1.0, unit.top)}
    small = unit.top - bits - 2
    d = unit.dots([({**pair, k: (1.0, small)}, 0.0) for k in rest])
    lost = {k for k, value in zip(rest, d, strict=True) if value != 2.0**small}
    return tuple(sorted(lost | {one, other}))
