"""A matrix unit of unknown arithmetic, asked for single dot products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadValue
from ..mfma import execute
from ..mfma import modifiers as mods
from ..mfma.instructions import Instruction
from . import items
from .images import Images
from .subjects import Subject

Array = np.ndarray[Any, Any]

Terms = dict[int, tuple[float, int]]  # product number -> (significand with sign, exponent)
Question = tuple[Terms, float]  # the products that are not zero, and the accumulator


class Unit:
    """A subject on one instruction.

    Raises
    ------
    BadValue
        For an instruction that is not a dense one of floats; while asking, for a unit that does not
        add, or gives two answers to one question.
    """

    def __init__(self, subject: Subject, i: Instruction) -> None:
        if not i.operand_format("D").is_float or i.kind != "mfma":
            raise BadValue(f"{i.mnemonic} ({i.arch}): probes ask dense floating-point instructions")
        self.subject, self.i = subject, i
        self.a, self.b, self.c = (i.operand_format(m) for m in ("A", "B", "C"))
        self.precision = self.c.mantissa_bits + 1
        self._must_add()

    @property
    def top(self) -> int:
        """Return the exponent of the largest product that probes use."""
        return min(int(self.a.emax + self.b.emax - 1), 60)

    @property
    def bottom(self) -> int:
        """Return the exponent of the smallest product of normal numbers, or of the result's."""
        return max(int(self.a.emin + self.b.emin), -60)

    def answers(self, given: Images) -> Array:
        """Return D, uint32 (n, vgprs, 64), of register images, asked for twice."""
        first, again = (self.subject(self.i, given, mods.check(self.i)) for _ in range(2))
        differ = int(np.sum(~execute.equal_bits(self.i, first, again)))
        if differ:
            raise BadValue(
                f"{self.subject.name} gave two answers to the same inputs: {differ} outputs "
                f"differ; legal: a unit whose D depends on A, B and C alone"
            )
        return np.asarray(first)

    def dots(self, questions: list[Question]) -> Array:
        """Return D[0, 0], as float64, of products and an accumulator."""
        n, i = len(questions), self.i
        A, B, C = (np.zeros((n, *i.shape(m))) for m in "ABC")
        for at, (terms, c) in enumerate(questions):
            C[at, 0, 0, 0] = c
            for k, (significand, exponent) in terms.items():
                low = max(self.a.emin, exponent - self.b.emax)
                high = min(self.a.emax, exponent - self.b.emin)
                left = int(np.clip(exponent - exponent // 2, low, high))
                A[at, 0, 0, k] = significand * 2.0**left
                B[at, 0, k, 0] = 2.0 ** (exponent - left)
        d = self._run(A, B, C)
        wrong = np.flatnonzero(~np.isfinite(d))
        if len(wrong):
            at = int(wrong[0])
            raise self._refusal(questions[at], d[at], "a finite number")
        return d

    def _refusal(self, question: Question, d: float, wanted: str) -> BadValue:
        terms, c = question
        products = [f"{s:g} * 2**{e} at k={k}" for k, (s, e) in terms.items()]
        return BadValue(
            f"{self.subject.name} answers {d:g} for {' + '.join([*products, f'C = {c:g}'])}; "
            f"legal: {wanted}"
        )

    def _must_add(self) -> None:
        """Refuse a unit in which a product or an accumulator alone does not come out."""
        alone: list[Question] = [({k: (1.0, 0)}, 0.0) for k in range(self.i.K)]
        asked = [*alone, ({}, 1.0)]
        for question, d in zip(asked, self.dots(asked), strict=True):
            if d != 1.0:
                raise self._refusal(question, d, "1, the only term of the sum")

    def _run(self, A: Array, B: Array, C: Array) -> Array:
        i = self.i
        pairs = (("A", self.a, A), ("B", self.b, B), ("C", self.c, C))
        given = {m.lower(): i.pack(m, items.encode(fmt, x)) for m, fmt, x in pairs}
        d = i.unpack("D", self.answers(given))
        return np.asarray(d[:, 0, 0, 0].astype(np.float64))

    def subnormal(self) -> tuple[bool, bool, bool | None]:
        """Return whether subnormal inputs, accumulators and results are flushed."""
        A, B, C = (np.zeros((3, *self.i.shape(m))) for m in "ABC")
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
