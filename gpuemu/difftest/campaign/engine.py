"""Many cases of one instruction at a time: generated, computed by both sides, compared.

Where subject and reference both run on the device, the cases are made there and stay there: counts
come back, and the failing cases. Cases are dealt out to pieces, of one input class and one set of
modifiers each.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...backends import cuda
from ...mfma import execute
from ...mfma.modifiers import Modifiers
from ..cases import Plan
from ..images import Images, formats_only, images
from ..runner import Failure, first_without_answer
from ..streams import Array
from ..subject import Subject, SubjectFailed, SubjectHung
from . import reference as second
from .comparison import Comparison, to_host
from .pieces import Outcome, Piece, pieces, sampled


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
        All of their cases are in memory at a time.
    subject, reference : Subject
    nan : "any" or "exact"
    sample : int
        One case in so many, and the first of every class, is computed by the NumPy oracle too; 0:
        none.
    end : float, optional
        A moment of `time.time`: once it has passed and one set of modifiers is done, no other is
        begun. Pieces that were not reached have no outcome.
    """
    given = list(todo)
    groups: dict[Any, list[Piece]] = defaultdict(list)
    for piece in given:
        key: tuple[int, ...] = tuple(formats_only(plan.instruction, piece.modifiers).values())
        if plan.instruction.sparse:
            key = (*key, piece.modifiers.index_set(plan.instruction))
        groups[key].append(piece)
    found: dict[int, Outcome] = {}
    hung = ""
    for group in groups.values():
        if found and _over(end):
            break
        made = _Group(plan, group, subject, reference, nan, sample, hung)
        for outcome in made.outcomes(end):
            found[id(outcome.piece)] = outcome
        hung = made.hung
    return [found[id(piece)] for piece in given if id(piece) in found]


def _over(end: float | None) -> bool:
    return end is not None and time.time() >= end


def on_device(subject: str, reference: str) -> bool:
    """Tell whether both sides take arrays that lie on the device, and there is one."""
    return {subject, reference} <= {"cuda", second.NAME} and cuda.available()


def _on_device(side: Subject) -> Callable[..., Any]:
    return second.run if side.name == second.NAME else side.function


class _Group:
    """Pieces whose operands have the same formats: one set of arrays.

    `hung` says why the subject is not to be asked again, "" while it is: it hung here or before.
    """

    def __init__(
        self,
        plan: Plan,
        group: list[Piece],
        subject: Subject,
        reference: Subject,
        nan: str,
        sample: int,
        hung: str = "",
    ) -> None:
        self.hung = hung
        self.plan, self.instruction, self.nan = plan, plan.instruction, nan
        self.pieces, self.subject, self.reference = group, subject, reference
        device = on_device(subject.name, reference.name)
        self.xp: Any = np
        self.calls: tuple[Callable[..., Any], Callable[..., Any]] = (subject, reference)
        if device:
            import cupy

            self.xp = cupy
            self.calls = _on_device(subject), _on_device(reference)
        self.numbers = np.concatenate([piece.numbers for piece in group])
        ends = np.cumsum([len(piece.numbers) for piece in group])
        self.spans = [
            slice(int(e) - len(p.numbers), int(e)) for e, p in zip(ends, group, strict=True)
        ]
        self.operands = self._generate()
        self.sampled = sampled(plan, self.numbers, reference.name, sample)
        self.unanswered: dict[int, Failure] = {}

    def _generate(self) -> Images:
        xp = self.xp
        rows: dict[str, list[Array]] = defaultdict(list)
        for piece, span in zip(self.pieces, self.spans, strict=True):
            rows[piece.cls].append(np.arange(span.start, span.stop))
        found: Images = {}
        by_name = {cls.name: cls for cls in self.plan.classes}
        for name, parts in rows.items():
            at = np.concatenate(parts)
            numbers = xp.asarray(self.numbers[at])
            m = self.pieces[0].modifiers
            made = images(self.instruction, m, by_name[name], self.plan.seed, numbers)
            for operand, image in made.items():
                if operand not in found:
                    found[operand] = xp.empty((len(self.numbers), *image.shape[1:]), np.uint32)
                found[operand][xp.asarray(at)] = image
        return found

    def _part(self, at: Any) -> Images:
        return {name: image[at] for name, image in self.operands.items()}

    def outcomes(self, end: float | None) -> list[Outcome]:
        """Return the outcome of every piece that was reached before the end."""
        xp, i = self.xp, self.instruction
        shape = (len(self.numbers), i.vgprs["D"], 64)
        got, want = xp.empty(shape, np.uint32), xp.empty(shape, np.uint32)
        truth = np.empty((len(self.sampled), *shape[1:]), np.uint32)
        reached, last = 0, 0
        for m, members in self._by_modifiers():
            if reached and _over(end):
                break
            reached += len(members)
            span = slice(self.spans[members[0]].start, self.spans[members[-1]].stop)
            last = span.stop
            want[span] = self.calls[1](i, self._part(span), m)
            self._ask_oracle(truth, span, m)
            if self.hung:
                got[span] = want[span]
                self._all_unanswered(members, f"not asked again: {self.hung}")
                continue
            try:
                got[span] = self.calls[0](i, self._part(span), m)
            except SubjectHung as error:
                self.hung, got[span] = str(error), want[span]
                self._all_unanswered(members, self.hung)
            except SubjectFailed:
                got[span] = want[span]
                self.hung = self._one_by_one(members, got, m)
        asked = int(np.searchsorted(self.sampled, last))
        compared = Comparison(
            self.plan,
            self.numbers[:last],
            got[:last],
            want[:last],
            self.sampled[:asked],
            truth[:asked],
            self.nan,
        )
        return [self._outcome(n, compared) for n in range(reached)]

    def _outcome(self, n: int, compared: Comparison) -> Outcome:
        piece, span = self.pieces[n], self.spans[n]
        low, high = np.searchsorted(self.sampled, (span.start, span.stop))
        count = len(piece.numbers) if self.reference.name == "numpy" else int(high - low)
        if n in self.unanswered:
            cases, why = len(piece.numbers), self.unanswered[n]
            return Outcome(piece, count, cases, failure=why, answered=False)
        return compared.outcome(piece, span, count)

    def _by_modifiers(self) -> list[tuple[Modifiers, list[int]]]:
        found: dict[Modifiers, list[int]] = defaultdict(list)
        for n, piece in enumerate(self.pieces):
            found[piece.modifiers].append(n)
        return list(found.items())

    def _ask_oracle(self, truth: Array, span: slice, m: Modifiers) -> None:
        low, high = np.searchsorted(self.sampled, (span.start, span.stop))
        if high > low:
            at = self.xp.asarray(self.sampled[low:high])
            given = {name: to_host(image) for name, image in self._part(at).items()}
            call: dict[str, Any] = {**given, **m.non_default()}
            truth[low:high] = execute.execute(
                self.instruction, **call, legality="llvm", backend="numpy"
            )

    def _all_unanswered(self, members: list[int], message: str) -> None:
        for n in members:
            case = self.plan.case(int(self.pieces[n].numbers[0]))
            self.unanswered[n] = Failure(case, message=message)

    def _one_by_one(self, members: list[int], got: Array, m: Modifiers) -> str:
        """Ask for every piece alone; return why the subject is not to be asked again."""
        for position, n in enumerate(members):
            part = self._part(self.spans[n])
            try:
                got[self.spans[n]] = self.subject(self.instruction, part, m)
            except SubjectFailed as error:
                at, why = first_without_answer(self.instruction, m, part, self.subject, error)
                case = self.plan.case(int(self.pieces[n].numbers[at]))
                self.unanswered[n] = Failure(case, message=str(why))
                if isinstance(why, SubjectHung):
                    self._all_unanswered(members[position + 1 :], f"not asked again: {why}")
                    return str(why)
        return ""


__all__ = ["Outcome", "Piece", "on_device", "pieces", "run"]
