"""One batch of one operation under one set of modifiers: run, compare bits, say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mfma.instructions import Instruction
from . import array_results
from .cases import Case
from .catalogue import Row
from .failures import Failure
from .operation import ArrayOperation, Arrays, count_of, part_of
from .streams import Array
from .subject import Subject, SubjectFailed, SubjectHung


def wrong_registers(i: Instruction, got: Array, want: Array, nan: str = "any") -> Array:
    """Return where two D images differ, bool (n, vgprs, 64), of the library of the images.

    Parameters
    ----------
    nan : "any" or "exact"
        Whether any NaN equals any other, or bits decide.
    """
    wrong = got != want
    if nan == "exact" or i.formats["D"] == "i32":
        return wrong
    if i.formats["D"] == "f32":
        return wrong & ~(_is_nan32(got) & _is_nan32(want))
    both = wrong[:, ::2] | wrong[:, 1::2]
    both &= ~(_is_nan64(got) & _is_nan64(want))
    return both.repeat(2, axis=1)


def _is_nan32(image: Array) -> Array:
    return (image & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)


def _is_nan64(image: Array) -> Array:
    low, high = image[:, ::2], image[:, 1::2] & np.uint32(0x7FFFFFFF)
    top = np.uint32(0x7FF00000)
    return (high > top) | ((high == top) & (low != np.uint32(0)))


def check(
    i: Row,
    m: Any,
    cases: list[Case],
    operands: Arrays,
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
        at, why = first_without_answer(i, m, operands, subject, error)
        return [Failure(cases[at], message=str(why))], len(cases)
    if isinstance(i, ArrayOperation):
        bad = np.flatnonzero(array_results.cases(array_results.wrong(i, got, want, nan)))
        parts = [(part_of(got, slice(n, n + 1)), part_of(want, slice(n, n + 1))) for n in bad]
        found = [array_results.failure(cases[n], *x, nan) for n, x in zip(bad, parts, strict=True)]
        return found, len(bad)
    wrong = wrong_registers(i, got, want, nan)
    bad = np.flatnonzero(wrong.any(axis=(1, 2)))
    return [failure(cases[n], got[n], want[n], wrong[n]) for n in bad], len(bad)


def first_without_answer(
    i: Row, m: Any, operands: Arrays, subject: Subject, error: SubjectFailed
) -> tuple[int, SubjectFailed]:
    """Return a case that the subject fails on by itself, found by halving, and how.

    A subject that hangs, or keeps dying, is not asked again.
    """
    first, last = 0, count_of(operands)
    while last - first > 1 and not isinstance(error, SubjectHung):
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle, last)):
            try:
                subject(i, part_of(operands, slice(low, high)), m)
            except SubjectFailed as again:
                first, last, error = low, high, again
                break
        else:
            count = last - first
            return first, SubjectFailed(f"{error} (in a batch of {count} only, not in its halves)")
    return first, error


def failure(case: Case, got: Array, want: Array, wrong: Array) -> Failure:
    """Return what is wrong with one case, from its images (vgprs, 64)."""
    i = case.instruction
    vgpr, lane = (int(n) for n in np.argwhere(wrong)[0])
    wide = i.formats["D"] == "f64"
    vgpr -= vgpr % 2 if wide else 0
    where = i.layout("D", output_layout=case.modifiers.output_layout)
    element = np.argwhere((where[..., 0] == vgpr) & (where[..., 1] == lane))[0]

    def bits(image: Array) -> str:
        high = f"{int(image[vgpr + 1, lane]):08X}" if wide else ""
        return high + f"{int(image[vgpr, lane]):08X}"

    place = tuple(int(n) for n in element)
    return Failure(case, int(wrong.sum()), vgpr, lane, place, bits(got), bits(want))


__all__ = ["Failure", "check", "failure", "first_without_answer", "wrong_registers"]
