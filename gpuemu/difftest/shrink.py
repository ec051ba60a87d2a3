"""Make a failing case small: default modifiers, few words, simple words.

Every step offers candidates and keeps the first that still fails. Candidates go through subject and
reference as one batch, so that a device tries hundreds at a time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import GpuemuError
from ..mfma import modifiers as mods
from ..mfma.execute import equal_bits
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from . import lane_items
from .cases import Case
from .images import Images
from .subject import Subject, SubjectFailed, SubjectHung

Array = np.ndarray[Any, Any]

BATCH = 256
ROUNDS = 100
SECONDS = 60.0  # after which a case is small enough: a subject may die at every candidate


class Shrinker:
    """Subject, reference and comparison, asked about many operands at once."""

    def __init__(self, i: Instruction, subject: Subject, reference: Subject, nan: str) -> None:
        self.instruction, self.subject, self.reference, self.nan = i, subject, reference, nan
        self.end = time.monotonic() + SECONDS

    def failing(self, operands: Images, m: Modifiers) -> Array:
        """Return which cases of a batch fail, bool (n,)."""
        i = self.instruction
        want = self.reference(i, operands, m)
        try:
            got = self.subject(i, operands, m)
        except SubjectHung:
            raise
        except SubjectFailed:
            if len(want) == 1:
                return np.ones(1, bool)
            parts = [{name: x[n : n + 1] for name, x in operands.items()} for n in range(len(want))]
            return np.concatenate([self.failing(part, m) for part in parts])
        same = got == want if self.nan == "exact" else equal_bits(i, got, want)
        return np.asarray(~same.reshape(len(want), -1).all(axis=1))

    def first(self, candidates: list[Images], m: Modifiers) -> Images | None:
        """Return the first candidate that fails."""
        for start in range(0, len(candidates), BATCH):
            if time.monotonic() > self.end:
                return None
            part = candidates[start : start + BATCH]
            batch = {name: np.concatenate([c[name] for c in part]) for name in part[0]}
            found = np.flatnonzero(self.failing(batch, m))
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
    m = _simple_modifiers(tool, operands, case.modifiers)
    operands = _few_items(tool, operands, m)
    m = _simple_modifiers(tool, operands, m)
    operands = _simple_indices(tool, _simple_items(tool, operands, m), m)
    return replace(case, modifiers=m).with_images(operands)


def _simple_modifiers(tool: Shrinker, operands: Images, m: Modifiers) -> Modifiers:
    """Return the modifiers with as many at their defaults, or as small, as still fail."""
    for name in ("op_sel", "neg", "blgp", "abid", "cbsz"):
        if tool.instruction.modifiers.cbsz == "format" and name in ("cbsz", "blgp"):
            continue  # another format would take other registers
        for value in _smaller(getattr(m, name)):
            try:
                tried = replace(m, **{name: value})
                mods.check(tool.instruction, **vars(tried))
                if tool.failing(operands, tried)[0]:
                    m = tried
                    break
            except GpuemuError:
                continue  # illegal, or an index set that nobody has filled
    return m


def _smaller(value: Any) -> list[Any]:
    if isinstance(value, int):
        return list(range(value))
    singles = [
        tuple(0 if n == at else x for n, x in enumerate(value))
        for at in range(len(value))
        if value[at]
    ]
    return [(0,) * len(value), *singles] if any(value) else []


def _few_items(tool: Shrinker, operands: Images, m: Modifiers) -> Images:
    """Set ever smaller groups of items to zero, as delta debugging does."""
    for name in [name for name in operands if name != "idx"]:
        empty = np.full_like(operands[name], lane_items.neutral(name))
        if tool.failing(operands | {name: empty}, m)[0]:
            operands = operands | {name: empty}
    parts = 2
    places = lane_items.places(tool.instruction, operands, m)
    while places:
        size = -(-len(places) // parts)
        groups = [places[n : n + size] for n in range(0, len(places), size)]
        # Keeping one group alone is the fastest way down, dropping one the surest.
        kept = []
        if 1 < len(groups) <= 8:
            kept = [
                lane_items.without(operands, [p for p in places if p not in set(group)])
                for group in groups
            ]
        found = tool.first([*kept, *(lane_items.without(operands, group) for group in groups)], m)
        if found is not None:
            operands = found
            places = lane_items.places(tool.instruction, operands, m)
            parts = max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(places))
    return operands


def _simple_items(tool: Shrinker, operands: Images, m: Modifiers) -> Images:
    """Replace items by one, by positive ones, by ones with fewer mantissa bits, while they still
    fail.
    """
    for _ in range(ROUNDS):
        candidates = []
        for place in lane_items.places(tool.instruction, operands, m):
            candidates += list(lane_items.simpler(tool.instruction, operands, m, place))
        found = tool.first(candidates, m)
        if found is None:
            return operands
        operands = found
    return operands


def _simple_indices(tool: Shrinker, operands: Images, m: Modifiers) -> Images:
    """Let the indices choose the first two of every four columns where lanes do not matter."""
    if "idx" not in operands:
        return operands
    lanes = operands["idx"].shape[-1]
    tried = {name: np.repeat(image, lanes, axis=0) for name, image in operands.items()}
    tried["idx"][np.arange(lanes), :, np.arange(lanes)] = lane_items.IDX_WORD
    plain = operands | {"idx": operands["idx"].copy()}
    plain["idx"][..., tool.failing(tried, m)] = lane_items.IDX_WORD
    return plain if tool.failing(plain, m)[0] else operands
