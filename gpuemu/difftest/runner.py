"""Run cases through a subject and a reference, and compare bits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..mfma.execute import equal_bits
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from .cases import Case, Plan
from .images import Images, formats_only, images
from .subjects import Subject, SubjectFailed

Array = np.ndarray[Any, Any]

# Matrix elements (of A, B, C and D) that are in memory at a time, and cases of a batch.
BATCH_ELEMENTS = 1 << 21
BATCH_CASES = 4096


@dataclass(frozen=True)
class Failure:
    """One failing case: where its first wrong register is, or what the subject did instead of an
    answer.

    Attributes
    ----------
    case : Case
    registers : int
        How many registers differ; 0 where there is no answer.
    vgpr, lane : int
    element : tuple of int
        (block, row, column) of the matrix element in that register.
    got, want : str
        Hex bits of the element.
    message : str
        What went wrong, where there is no answer.
    """

    case: Case
    registers: int = 0
    vgpr: int = 0
    lane: int = 0
    element: tuple[int, ...] = ()
    got: str = ""
    want: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the failure in one line."""
        if self.message:
            return self.message
        place = ",".join(map(str, self.element))
        return (
            f"D[{place}] (VGPR {self.vgpr}, lane {self.lane}): got {self.got}, want {self.want}; "
            f"{self.registers} registers differ"
        )


@dataclass
class Result:
    """What came of the cases of one instruction."""

    instruction: Instruction
    cases: int = 0
    outputs: int = 0
    failed_cases: int = 0
    failures: list[Failure] = field(default_factory=list)


def batch_size(i: Instruction) -> int:
    """Return how many cases go through at a time."""
    elements = sum(int(np.prod(i.shape(matrix))) for matrix in ("A", "B", "C", "D"))
    return max(1, min(BATCH_CASES, BATCH_ELEMENTS // elements))


def run(
    plan: Plan,
    numbers: range,
    subject: Subject,
    reference: Subject,
    *,
    nan: str = "any",
    keep: int = 1,
    progress: Callable[[Result, int], None] = lambda result, cases: None,
) -> Result:
    """Run a range of case numbers.

    Parameters
    ----------
    plan : Plan
    numbers : range
    subject, reference : Subject
    nan : "any" or "exact"
        Whether any NaN equals any other, or bits decide.
    keep : int
        Failures to keep; all are counted.
    progress : function (result so far, cases just done)
        May raise to stop; the result so far has been reported by then.
    """
    result = Result(plan.instruction)
    size = batch_size(plan.instruction)
    for first in range(numbers.start, numbers.stop, size):
        for m, cases, operands in _groups(plan, range(first, min(first + size, numbers.stop))):
            failures, failed = check(
                plan.instruction, m, cases, operands, subject, reference, nan=nan
            )
            result.cases += len(cases)
            result.outputs += len(cases) * int(np.prod(plan.instruction.shape("D")))
            result.failed_cases += failed
            result.failures += failures[: keep - len(result.failures)]
            progress(result, len(cases))
    return result


def _groups(plan: Plan, numbers: range) -> Iterator[tuple[Modifiers, list[Case], Images]]:
    """Yield the cases by modifiers, with their operands: one call of the subject each."""
    by_modifiers: dict[Modifiers, list[tuple[Case, Images, int]]] = defaultdict(list)
    for cases in _alike(plan, numbers):
        head = cases[0]
        cls = plan.classes[plan.place(head.number)[0]]
        made = images(
            plan.instruction,
            head.modifiers,
            cls,
            plan.seed,
            np.array([case.number for case in cases]),
        )
        for position, case in enumerate(cases):
            by_modifiers[case.modifiers].append((case, made, position))
    for m, items in by_modifiers.items():
        names = items[0][1]
        operands = {name: np.stack([made[name][at] for _, made, at in items]) for name in names}
        yield m, [case for case, _, _ in items], operands


def _alike(plan: Plan, numbers: range) -> list[list[Case]]:
    """Return the cases in lists of one class, one pair of formats and one index set: generated at
    one go.
    """
    lists: dict[Any, list[Case]] = defaultdict(list)
    for number in numbers:
        case = plan.case(number)
        key = (case.cls, *formats_only(plan.instruction, case.modifiers).values())
        if plan.instruction.sparse:
            key = (*key, case.modifiers.index_set(plan.instruction))
        lists[key].append(case)
    return list(lists.values())


def check(
    i: Instruction,
    m: Modifiers,
    cases: list[Case],
    operands: Images,
    subject: Subject,
    reference: Subject,
    *,
    nan: str = "any",
) -> tuple[list[Failure], int]:
    """Run one batch of one set of modifiers; return its failures and how many cases failed."""
    want = reference(i, operands, m)
    try:
        got = subject(i, operands, m)
    except SubjectFailed as error:
        return [_no_answer(i, m, cases, operands, subject, str(error))], len(cases)
    same = got == want if nan == "exact" else equal_bits(i, got, want)
    bad = np.flatnonzero(~same.reshape(len(cases), -1).all(axis=1))
    return [_failure(cases[n], got[n], want[n], same[n]) for n in bad], len(bad)


def _no_answer(
    i: Instruction,
    m: Modifiers,
    cases: list[Case],
    operands: Images,
    subject: Subject,
    message: str,
) -> Failure:
    """Return the first case that the subject fails on by itself."""
    for n, case in enumerate(cases):
        try:
            subject(i, {name: x[n : n + 1] for name, x in operands.items()}, m)
        except SubjectFailed as error:
            return Failure(case, message=str(error))
    return Failure(
        cases[0], message=f"{message} (in a batch of {len(cases)} only, not case by case)"
    )


def _failure(case: Case, got: Array, want: Array, same: Array) -> Failure:
    i = case.instruction
    vgpr, lane = (int(n) for n in np.argwhere(~same)[0])
    wide = i.formats["D"] == "f64"
    vgpr -= vgpr % 2 if wide else 0
    where = i.layout("D", output_layout=case.modifiers.output_layout)
    element = np.argwhere((where[..., 0] == vgpr) & (where[..., 1] == lane))[0]

    def bits(image: Array) -> str:
        high = f"{int(image[vgpr + 1, lane]):08X}" if wide else ""
        return high + f"{int(image[vgpr, lane]):08X}"

    place = tuple(int(n) for n in element)
    return Failure(case, int((~same).sum()), vgpr, lane, place, bits(got), bits(want))
