"""Find out how an unknown matrix unit computes, by inputs that each show one feature.

Every question is one dot product: a few products that are powers of two, the others zero, and an
accumulator. The answers give the links (products that are summed before a rounding), the bits that
a product and the accumulator keep when they are aligned, how the rest is rounded, the rounding of
the result, and what is flushed. At the end the unit is run on the input classes and compared with
every known model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadValue
from ..mfma import execute
from ..mfma import modifiers as mods
from ..mfma.instructions import Instruction
from . import items, known
from .generators import classes_for
from .images import images
from .subjects import Subject

Array = np.ndarray[Any, Any]

Terms = dict[int, tuple[float, int]]  # product number -> (significand with sign, exponent)


@dataclass(frozen=True)
class Features:
    """What the probes say; None where the formats do not reach far enough to tell.

    Attributes
    ----------
    group : int
        Products of a link, the first one's.
    links : tuple of tuple of int
        Which products share a link.
    order : "ascending", "descending" or "none" (a single link)
    product_bits, accumulator_bits : int or None
        Fraction bits kept below the largest exponent of a link; None: all that could be asked.
    product_rounding, accumulator_rounding : str or None
        "zero", "down", "up" or "nearest", of what lies below.
    cut_together : tuple of int
        Products that are cut below the first one's last kept bit; empty where nothing is cut.
    output_rounding : str
    flush_inputs, flush_accumulator, flush_outputs : bool or None
    exact_models : tuple of str
        Known models that agree in every bit with the unit on the input classes.
    nearest : str
        The model that agrees most often.
    agreement : float
        Its share of equal outputs.
    """

    group: int
    links: tuple[tuple[int, ...], ...]
    order: str
    product_bits: int | None
    product_rounding: str | None
    accumulator_bits: int | None
    accumulator_rounding: str | None
    cut_together: tuple[int, ...]
    output_rounding: str
    flush_inputs: bool
    flush_accumulator: bool
    flush_outputs: bool | None
    exact_models: tuple[str, ...]
    nearest: str
    agreement: float


class Unit:
    """A subject on one instruction, asked for single dot products."""

    def __init__(self, subject: Subject, i: Instruction) -> None:
        if not i.operand_format("D").is_float or i.kind != "mfma":
            raise BadValue(f"{i.mnemonic} ({i.arch}): probes ask dense floating-point instructions")
        self.subject, self.i = subject, i
        self.a, self.b, self.c = (i.operand_format(m) for m in ("A", "B", "C"))
        self.precision = self.c.mantissa_bits + 1

    @property
    def top(self) -> int:
        """Return the exponent of the largest product that probes use."""
        return min(int(self.a.emax + self.b.emax - 1), 60)

    @property
    def bottom(self) -> int:
        """Return the exponent of the smallest product of normal numbers, or of the result's."""
        return max(int(self.a.emin + self.b.emin), -60)

    def dots(self, questions: list[tuple[Terms, float]]) -> Array:
        """Return D[0, 0], as float64, of products and an accumulator."""
        n, i = len(questions), self.i
        A, B = np.zeros((n, *i.shape("A"))), np.zeros((n, *i.shape("B")))
        C = np.zeros((n, *i.shape("C")))
        for at, (terms, c) in enumerate(questions):
            C[at, 0, 0, 0] = c
            for k, (significand, exponent) in terms.items():
                left = int(np.clip(exponent - exponent // 2, self.a.emin, self.a.emax))
                A[at, 0, 0, k] = significand * 2.0**left
                B[at, 0, k, 0] = 2.0 ** (exponent - left)
        return self._run(A, B, C)

    def _run(self, A: Array, B: Array, C: Array) -> Array:
        i = self.i
        pairs = (("A", self.a, A), ("B", self.b, B), ("C", self.c, C))
        given = {m.lower(): i.pack(m, items.encode(fmt, x)) for m, fmt, x in pairs}
        d = i.unpack("D", self.subject(i, given, mods.check(i)))
        return np.asarray(d[:, 0, 0, 0].astype(np.float64))

    def subnormal(self) -> tuple[bool, bool, bool | None]:
        """Return whether subnormal inputs, accumulators and results are flushed."""
        i = self.i
        A, B, C = (
            np.zeros((3, *i.shape("A"))),
            np.zeros((3, *i.shape("B"))),
            np.zeros((3, *i.shape("C"))),
        )
        A[0, 0, 0, 0] = 2.0 ** (self.a.emin - 1)  # times one
        B[0, 0, 0, 0] = 1.0
        C[1, 0, 0, 0] = 2.0 ** (self.c.emin - 1)  # alone
        # A normal product and a normal accumulator that cancel down to a subnormal result.
        C[2, 0, 0, 0] = -1.5 * 2.0**self.c.emin
        reach = self.a.emin + self.b.emin <= self.c.emin
        if reach:
            left = max(self.a.emin, self.c.emin - self.b.emax)
            A[2, 0, 0, 0], B[2, 0, 0, 0] = 2.0**left, 2.0 ** (self.c.emin - left)
        d = self._run(A, B, C)
        return bool(d[0] == 0), bool(d[1] == 0), bool(d[2] == 0) if reach else None


def probe(subject: Subject, i: Instruction) -> Features:
    """Return what probes find out about a unit.

    Parameters
    ----------
    subject : Subject
    i : Instruction
        A dense floating-point one: its shape and formats, not its arithmetic.
    """
    unit = Unit(subject, i)
    links = _links(unit)
    product_bits, product_rounding = _product(unit, links)
    accumulator_bits, accumulator_rounding = _accumulator(unit, links)
    found = _compared(unit)
    nearest = max(found, key=lambda name: found[name])
    return Features(
        len(links[0]),
        links,
        _order(unit, links),
        product_bits,
        product_rounding,
        accumulator_bits,
        accumulator_rounding,
        _cut_together(unit, links[0], product_bits),
        _output_rounding(unit),
        *unit.subnormal(),
        tuple(name for name, share in found.items() if share == 1.0),
        nearest,
        found[nearest],
    )


def _links(unit: Unit) -> tuple[tuple[int, ...], ...]:
    """Two halves of a last place reach C only where they are summed before they meet it.

    An accumulator that is cut between links loses even the sum: then the halves are made larger,
    until all links have one size.
    """
    first_try = _links_at(unit, unit.precision)
    for bits in range(unit.precision, unit.precision - 14, -1):
        links = _links_at(unit, bits)
        if len({len(link) for link in links}) == 1:
            return links
    return first_try


def _links_at(unit: Unit, bits: int) -> tuple[tuple[int, ...], ...]:
    K = unit.i.K
    e = max(unit.bottom, -20) + 2
    c, half = 2.0 ** (e + bits), 2.0**e
    pairs = [(first, second) for first in range(K) for second in range(first + 1, K)]
    answers = unit.dots([({first: (1.0, e), second: (1.0, e)}, c) for first, second in pairs])
    together = {pair for pair, d in zip(pairs, answers, strict=True) if d >= c + 2 * half}
    links: list[list[int]] = []
    for k in range(K):
        home = next((link for link in links if (link[0], k) in together), None)
        if home is None:
            links.append([k])
        else:
            home.append(k)
    return tuple(tuple(link) for link in links)


def _order(unit: Unit, links: tuple[tuple[int, ...], ...]) -> str:
    """C and the first product cancel: what is small survives if it is added after that."""
    if len(links) < 2:
        return "none"
    first, last = links[0][0], links[-1][0]
    e, low = unit.top - 2, max(unit.bottom, unit.top - 2 - unit.precision - 4)
    small = (1.0, low)
    asked = [({first: (-1.0, e), last: small}, 2.0**e), ({last: (-1.0, e), first: small}, 2.0**e)]
    up, down = unit.dots(asked)
    if up == 2.0**low and down != up:
        return "ascending"
    return "descending" if down == 2.0**low and up != down else "unknown"


def _kept(values: Array, exact: Array) -> int | None:
    """Return the last step that came through, None where all did."""
    lost = np.flatnonzero(values != exact)
    return int(lost[0]) - 1 if len(lost) else None


def _product(unit: Unit, links: tuple[tuple[int, ...], ...]) -> tuple[int | None, str | None]:
    """Two large products cancel; a third of the same link is as small as it can be and still be
    seen.

    The three stand as far apart as partial sums may be interleaved.
    """
    link = links[0]
    if len(link) < 3:
        return None, None
    step = _step(link)
    one, other, small = link[0], link[step], link[2 * step if len(link) > 2 * step else 1]
    top = unit.top
    reach = range(top - unit.bottom + 1)
    pair: Terms = {one: (1.0, top), other: (-1.0, top)}
    answers = unit.dots([({**pair, small: (1.0, top - s)}, 0.0) for s in reach])
    bits = _kept(answers, np.array([2.0 ** (top - s) for s in reach]))
    if bits is None or bits + 2 > top - unit.bottom:
        return bits, None
    # Half and a half more of the last kept place, of both signs.
    asked = [({**pair, small: (sign * 1.5, top - bits)}, 0.0) for sign in (1.0, -1.0)]
    asked += [({**pair, small: (sign * 1.5, top - bits - 1)}, 0.0) for sign in (1.0, -1.0)]
    return bits, _rounding(unit.dots(asked) / 2.0 ** (top - bits))


def _cut_together(unit: Unit, link: tuple[int, ...], bits: int | None) -> tuple[int, ...]:
    """Two products of a link cancel; which others lose what lies far below them?"""
    if bits is None or bits + 2 > unit.top - unit.bottom:
        return ()
    step = _step(link)
    one, other = link[0], link[step]
    rest = [k for k in range(unit.i.K) if k not in (one, other)]
    pair: Terms = {one: (1.0, unit.top), other: (-1.0, unit.top)}
    d = unit.dots([({**pair, k: (1.0, unit.top - bits - 2)}, 0.0) for k in rest])
    lost = {k for k, value in zip(rest, d, strict=True) if value == 0}
    return tuple(sorted(lost | {one, other}))


def _step(link: tuple[int, ...]) -> int:
    """Return how far apart products stand that share a partial sum, however it is interleaved."""
    return 4 if len(link) > 8 else 2 if len(link) > 4 else 1


def _rounding(answers: Array) -> str:
    """Name the rounding of 1.5, -1.5, 0.75, -0.75 units to whole units."""
    names: dict[tuple[float, ...], str] = {
        (1.0, -1.0, 0.0, 0.0): "zero",
        (1.0, -2.0, 0.0, -1.0): "down",
        (2.0, -1.0, 1.0, 0.0): "up",
        (2.0, -2.0, 1.0, -1.0): "nearest",
    }
    return names.get(tuple(float(x) + 0.0 for x in answers), "unknown")


def _accumulator(unit: Unit, links: tuple[tuple[int, ...], ...]) -> tuple[int | None, str | None]:
    """Two large products of a link cancel; what is left of a small accumulator?"""
    link = links[0]
    if len(link) < 2:
        return None, None
    top = unit.top
    pair: Terms = {link[0]: (1.0, top), link[min(_step(link), len(link) - 1)]: (-1.0, top)}
    reach = range(60)
    answers = unit.dots([(pair, 2.0 ** (top - s)) for s in reach])
    bits = _kept(answers, np.array([2.0 ** (top - s) for s in reach]))
    if bits is None:
        return None, None
    unit_value = 2.0 ** (top - bits)
    return bits, _rounding(
        unit.dots([(pair, x * unit_value) for x in (1.5, -1.5, 0.75, -0.75)]) / unit_value
    )


def _output_rounding(unit: Unit) -> str:
    """One and three quarters of a last place, of both signs, beside a power of two."""
    e = max(unit.bottom, -20) + 2
    c = 2.0 ** (e + unit.precision + 1)
    asked = [({0: (sign * 1.5, e + 1)}, sign * c * 1.5) for sign in (1.0, -1.0)]
    asked += [({0: (sign * 1.0, e)}, sign * c * 1.5) for sign in (1.0, -1.0)]
    d = (unit.dots(asked) - np.array([c, -c, c, -c]) * 1.5) / 2.0 ** (e + 2)
    names: dict[tuple[float, ...], str] = {
        (1.0, -1.0, 0.0, 0.0): "nearest",
        (0.0, 0.0, 0.0, 0.0): "zero",
    }
    names |= {(0.0, -1.0, 0.0, -1.0): "down", (1.0, 0.0, 1.0, 0.0): "up"}
    return names.get(tuple(float(x) + 0.0 for x in d), "unknown")


def _compared(unit: Unit, cases: int = 24) -> dict[str, float]:
    """Return, for every known model that can compute the formats, its share of equal outputs."""
    i = unit.i
    plain = mods.check(i)
    parts = [images(i, plain, cls, 0, np.arange(cases)) for cls in classes_for(i)]
    given = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    got = unit.subject(i, given, plain)
    return {
        name: float(execute.equal_bits(i, got, want).mean())
        for name, want in known.answers(i, given)
    }
