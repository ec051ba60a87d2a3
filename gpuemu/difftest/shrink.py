"""Make a failing case small: default modifiers, few items, simple items.

Every step offers candidates and keeps the first that still fails. Candidates go through subject and
reference as one batch, so that a device tries hundreds at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import GpuemuError
from ..mfma import modifiers as mods
from . import array_results, lane_items, runner
from .cases import Case
from .catalogue import Row
from .operation import ArrayOperation, Arrays, count_of, joined, part_of
from .streams import Array
from .subject import Subject, SubjectFailed, SubjectHung, SubjectKeepsDying

BATCH = 256
ROUNDS = 100
SECONDS = 60.0  # after which a case is small enough: a subject may die at every candidate


class Shrinker:
    """Subject, reference and comparison, asked about many operands at once."""

    def __init__(self, i: Row, subject: Subject, reference: Subject, nan: str) -> None:
        self.instruction, self.subject, self.reference, self.nan = i, subject, reference, nan
        self.items: Any = i.items if isinstance(i, ArrayOperation) else lane_items
        self.end = time.monotonic() + SECONDS

    def failing(self, operands: Arrays, m: Any) -> Array:
        """Return which cases of a batch fail, bool (n,)."""
        i, count = self.instruction, count_of(operands)
        want = self.reference(i, operands, m)
        try:
            got = self.subject(i, operands, m)
        except SubjectFailed as error:
            if isinstance(error, SubjectHung) and not isinstance(error, SubjectKeepsDying):
                raise
            if count == 1:
                return np.ones(1, bool)
            parts = [part_of(operands, slice(n, n + 1)) for n in range(count)]
            return np.concatenate([self.failing(part, m) for part in parts])
        if isinstance(i, ArrayOperation):
            return array_results.cases(array_results.wrong(i, got, want, self.nan))
        wrong = runner.wrong_registers(i, got, want, self.nan)
        return np.asarray(wrong.any(axis=(1, 2)))

    def first(self, candidates: list[Arrays], m: Any) -> Arrays | None:
        """Return the first candidate that fails."""
        for start in range(0, len(candidates), BATCH):
            if time.monotonic() > self.end:
                return None
            part = candidates[start : start + BATCH]
            found = np.flatnonzero(self.failing(joined(part), m))
            if len(found):
                return candidates[start + int(found[0])]
        return None


def shrink(case: Case, subject: Subject, reference: Subject, *, nan: str = "any") -> Case | None:
    """Return a small case that fails like this one, with its inputs written out; None where it
    does not fail, or where the subject hangs.

    Parameters
    ----------
    case : Case
    subject, reference : Subject
    nan : "any" or "exact"
    """
    try:
        return _shrink(case, subject, reference, nan)
    except SubjectHung:
        return None


def _shrink(case: Case, subject: Subject, reference: Subject, nan: str) -> Case | None:
    tool = Shrinker(case.instruction, subject, reference, nan)
    operands = case.images()
    if not tool.failing(operands, case.modifiers)[0]:
        return None
    operands, m = _simple_modifiers(tool, operands, case.modifiers)
    operands = _few_items(tool, operands, m)
    operands, m = _simple_modifiers(tool, operands, m)
    operands = _simple_indices(tool, _simple_items(tool, operands, m), m)
    return replace(case, modifiers=m).with_images(operands)


def _simple_modifiers(tool: Shrinker, operands: Arrays, m: Any) -> tuple[Arrays, Any]:
    """Return operands and modifiers with as many at their defaults, or as small, as still fail."""
    if isinstance(tool.instruction, ArrayOperation):
        names = tuple(tool.instruction.factors)
    else:
        names = ("op_sel", "neg", "blgp", "abid", "cbsz")
    for name in names:
        for tried in _plainer(tool.instruction, m, name):
            if time.monotonic() > tool.end:
                return operands, m
            try:
                part = _cropped(tool.instruction, operands, tried)
                if part is not None and tool.failing(part, tried)[0]:
                    operands, m = part, tried
                    break
            except SubjectHung:
                raise
            except GpuemuError:
                continue  # illegal, or an index set that nobody has filled
    return operands, m


def _plainer(i: Row, m: Any, name: str) -> Iterator[Any]:
    """Yield modifiers in which one is plainer, the plainest first."""
    if isinstance(i, ArrayOperation):
        levels = i.factors[name]
        for level in levels[: levels.index(m[name])]:
            yield i.check(m.all() | {name: level})
        return
    if i.modifiers.cbsz == "format" and name in ("cbsz", "blgp"):
        return  # another format would take other registers
    for value in _smaller(getattr(m, name)):
        try:
            yield mods.check(i, **vars(replace(m, **{name: value})))
        except GpuemuError:
            continue


def _cropped(i: Row, operands: Arrays, m: Any) -> Arrays | None:
    """Return the corner of operands that other modifiers take; None where they take more."""
    if not isinstance(i, ArrayOperation):
        return operands
    found = {}
    for name, empty in i.empty(m).items():
        if any(x > y for x, y in zip(empty.shape, operands[name].shape, strict=True)):
            return None
        found[name] = operands[name][tuple(map(slice, empty.shape))]
    return found


def _smaller(value: Any) -> list[Any]:
    if isinstance(value, int):
        return list(range(value))
    singles = [
        tuple(0 if n == at else x for n, x in enumerate(value))
        for at in range(len(value))
        if value[at]
    ]
    return [(0,) * len(value), *singles] if any(value) else []


def _few_items(tool: Shrinker, operands: Arrays, m: Any) -> Arrays:
    """Set ever smaller groups of items to zero, as delta debugging does."""
    for name in [name for name in operands if name != "idx"]:
        empty = np.full_like(operands[name], tool.items.neutral(name))
        if tool.failing(operands | {name: empty}, m)[0]:
            operands = operands | {name: empty}
    parts = 2
    places = tool.items.places(tool.instruction, operands, m)
    while places:
        size = -(-len(places) // parts)
        groups = [places[n : n + size] for n in range(0, len(places), size)]
        # Keeping one group alone is the fastest way down, dropping one the surest.
        kept = []
        if 1 < len(groups) <= 8:
            kept = [
                tool.items.without(operands, [p for p in places if p not in set(group)])
                for group in groups
            ]
        found = tool.first([*kept, *(tool.items.without(operands, group) for group in groups)], m)
        if found is not None:
            operands = found
            places = tool.items.places(tool.instruction, operands, m)
            parts = max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(places))
    return operands


def _simple_items(tool: Shrinker, operands: Arrays, m: Any) -> Arrays:
    """Replace items by one, by positive ones, by ones with fewer mantissa bits, while they still
    fail.
    """
    for _ in range(ROUNDS):
        candidates = []
        for place in tool.items.places(tool.instruction, operands, m):
            candidates += list(tool.items.simpler(tool.instruction, operands, m, place))
        found = tool.first(candidates, m)
        if found is None:
            return operands
        operands = found
    return operands


def _simple_indices(tool: Shrinker, operands: Arrays, m: Any) -> Arrays:
    """Let the indices choose the first two of every four columns where lanes do not matter."""
    if "idx" not in operands:
        return operands
    lanes = operands["idx"].shape[-1]
    tried = {name: np.repeat(image, lanes, axis=0) for name, image in operands.items()}
    tried["idx"][np.arange(lanes), :, np.arange(lanes)] = lane_items.IDX_WORD
    plain = operands | {"idx": operands["idx"].copy()}
    plain["idx"][..., tool.failing(tried, m)] = lane_items.IDX_WORD
    return plain if tool.failing(plain, m)[0] else operands
