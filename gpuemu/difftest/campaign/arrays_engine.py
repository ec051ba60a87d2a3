"""Cases of array operations: made, computed by both sides, compared; see `engine` for matrix
instructions.

The cases of one configuration are one call. They are made in NumPy; where a side is "cuda" its
kernels run on the device.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import array_results
from ..cases import Plan
from ..failures import Failure
from ..operation import Arrays, joined, part_of
from ..runner import first_without_answer
from ..streams import Array
from ..subject import Subject, SubjectFailed, SubjectHung
from .pieces import Outcome, Piece, sampled


def run(
    plan: Plan,
    todo: Iterable[Piece],
    subject: Subject,
    reference: Subject,
    *,
    nan: str = "any",
    sample: int = 0,
    end: float | None = None,
) -> list[Outcome]:
    """Run pieces of a plan; return their outcomes in the same order.

    Parameters
    ----------
    plan : Plan
    todo : pieces of the plan
    subject, reference : Subject
    nan : "any" or "exact"
    sample : int
        One case in so many, and the first of every class, is computed by the NumPy oracle too; 0:
        none.
    end : float, optional
        A `time.time()` after which no further configuration is begun; the first one always is, and
        pieces that were not reached are left out.
    """
    given = list(todo)
    groups: dict[Any, list[Piece]] = defaultdict(list)
    for piece in given:
        groups[piece.modifiers].append(piece)
    found: dict[int, Outcome] = {}
    hung = ""
    for group in groups.values():
        if found and end is not None and time.time() >= end:
            break
        made = _Call(plan, group, subject, reference, nan, sample)
        for outcome in made.outcomes(hung):
            found[id(outcome.piece)] = outcome
        hung = hung or made.hung
    return [found[id(piece)] for piece in given if id(piece) in found]


class _Call:
    """Pieces of one configuration."""

    def __init__(
        self,
        plan: Plan,
        group: list[Piece],
        subject: Subject,
        reference: Subject,
        nan: str,
        sample: int,
    ) -> None:
        self.plan, self.operation, self.m = plan, plan.instruction, group[0].modifiers
        self.pieces, self.subject, self.reference, self.nan = group, subject, reference, nan
        by_name = {cls.name: cls for cls in plan.classes}
        self.operands = joined(
            [
                self.operation.operands(self.m, by_name[piece.cls], plan.seed, piece.numbers)
                for piece in group
            ]
        )
        self.numbers = np.concatenate([piece.numbers for piece in group])
        ends = np.cumsum([len(piece.numbers) for piece in group]).tolist()
        self.spans = [slice(e - len(p.numbers), e) for e, p in zip(ends, group, strict=True)]
        self.sampled = sampled(plan, self.numbers, reference.name, sample)
        self.hung = ""

    def outcomes(self, hung: str) -> list[Outcome]:
        """Return the outcome of every piece; a subject that has hung before is not asked again."""
        want = self.reference(self.operation, self.operands, self.m)
        got, unanswered = self._answers(hung)
        wrong = array_results.wrong(self.operation, got, want, self.nan)
        truth = self._truth()
        other = np.zeros(len(self.numbers), bool)
        for sides in (got, want):
            if len(self.sampled):
                off = array_results.wrong(
                    self.operation, part_of(sides, self.sampled), truth, self.nan
                )
                other[self.sampled] |= array_results.cases(off)
        return [
            self._outcome(n, got, want, truth, wrong, other, unanswered)
            for n in range(len(self.pieces))
        ]

    def _truth(self) -> Arrays:
        if not len(self.sampled):
            return {}
        found: Arrays = self.operation.compute(
            "numpy", part_of(self.operands, self.sampled), self.m
        )
        return found

    def _answers(self, hung: str) -> tuple[Arrays, dict[int, Failure]]:
        """Return the subject's results, zeros for those pieces that it has not answered."""
        if hung:
            return self._none(), self._all(0, f"not asked again: {hung}")
        try:
            return self.subject(self.operation, self.operands, self.m), {}
        except SubjectHung as error:
            self.hung = str(error)
            return self._none(), self._all(0, self.hung)
        except SubjectFailed:
            return self._one_by_one()

    def _none(self) -> Arrays:
        empty = self.operation.results(self.m)
        return {name: x.repeat(len(self.numbers), axis=0) for name, x in empty.items()}

    def _all(self, first: int, message: str) -> dict[int, Failure]:
        pieces = list(enumerate(self.pieces))[first:]
        return {n: Failure(self.plan.case(int(p.numbers[0])), message=message) for n, p in pieces}

    def _one_by_one(self) -> tuple[Arrays, dict[int, Failure]]:
        found = self._none()
        unanswered: dict[int, Failure] = {}
        for n, piece in enumerate(self.pieces):
            part = part_of(self.operands, self.spans[n])
            try:
                for name, x in self.subject(self.operation, part, self.m).items():
                    found[name][self.spans[n]] = x
            except SubjectFailed as error:
                at, why = first_without_answer(self.operation, self.m, part, self.subject, error)
                case = self.plan.case(int(piece.numbers[at]))
                unanswered[n] = Failure(case, message=str(why))
                if isinstance(why, SubjectHung):
                    self.hung = str(why)
                    return found, unanswered | self._all(n + 1, f"not asked again: {why}")
        return found, unanswered

    def _outcome(
        self,
        n: int,
        got: Arrays,
        want: Arrays,
        truth: Arrays,
        wrong: Arrays,
        other: Array,
        unanswered: dict[int, Failure],
    ) -> Outcome:
        piece, span = self.pieces[n], self.spans[n]
        low, high = np.searchsorted(self.sampled, (span.start, span.stop))
        count = len(piece.numbers) if self.reference.name == "numpy" else int(high - low)
        if n in unanswered:
            return Outcome(piece, count, len(piece.numbers), (), unanswered[n], answered=False)
        failed = np.flatnonzero(array_results.cases(part_of(wrong, span)) | other[span])
        if not len(failed):
            return Outcome(piece, count)
        at = span.start + int(failed[0])
        case, one = self.plan.case(int(self.numbers[at])), slice(at, at + 1)
        against, oracle_only = part_of(want, one), False
        if not array_results.cases(part_of(wrong, one)).any():
            k = int(np.searchsorted(self.sampled, at))
            against, oracle_only = part_of(truth, slice(k, k + 1)), True
        what = array_results.failure(case, part_of(got, one), against, self.nan)
        places = array_results.places(part_of(wrong, span))
        return Outcome(piece, count, len(failed), places, what, oracle_only=oracle_only)


__all__ = ["run"]
