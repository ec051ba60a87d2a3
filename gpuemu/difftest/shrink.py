"""Make a failing case small: default modifiers, few words, simple words.

Every step offers candidates and keeps the first that still fails. Candidates go through subject and
reference as one batch, so that a device tries hundreds at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import GpuemuError
from ..formats import Format
from ..mfma import modifiers as mods
from ..mfma.execute import equal_bits
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from .cases import Case, empty_images
from .images import Images
from .subjects import Subject, SubjectFailed

Array = np.ndarray[Any, Any]
Place = tuple[str, int, int, int, int]  # operand, VGPR, lane, first bit, bits

BATCH = 256
ROUNDS = 12


class Shrinker:
    """Subject, reference and comparison, asked about many operands at once."""

    def __init__(self, i: Instruction, subject: Subject, reference: Subject, nan: str) -> None:
        self.instruction, self.subject, self.reference, self.nan = i, subject, reference, nan

    def failing(self, operands: Images, m: Modifiers) -> Array:
        """Return which cases of a batch fail, bool (n,)."""
        i = self.instruction
        want = self.reference(i, operands, m)
        try:
            got = self.subject(i, operands, m)
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
            part = candidates[start : start + BATCH]
            batch = {name: np.concatenate([c[name] for c in part]) for name in part[0]}
            found = np.flatnonzero(self.failing(batch, m))
            if len(found):
                return candidates[start + int(found[0])]
        return None


def shrink(case: Case, subject: Subject, reference: Subject, *, nan: str = "any") -> Case | None:
    """Return a small case that fails like this one, with its inputs written out; None where it
    does not fail.

    Parameters
    ----------
    case : Case
    subject, reference : Subject
    nan : "any" or "exact"
    """
    tool = Shrinker(case.instruction, subject, reference, nan)
    operands = case.images()
    if not tool.failing(operands, case.modifiers)[0]:
        return None
    m = _simple_modifiers(tool, operands, case.modifiers)
    operands = _few_items(tool, operands, m)
    m = _simple_modifiers(tool, operands, m)
    operands = _simple_items(tool, operands, m)
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


def _places(i: Instruction, operands: Images, m: Modifiers) -> list[Place]:
    """Return the items that are not zero, of every operand; index registers stay as they are."""
    found: list[Place] = []
    for name, image in operands.items():
        bits = _item_bits(i, name, m)
        if name == "idx":
            continue
        for vgpr, lane in np.argwhere(image[0]):
            if bits >= 32 or bits == 6:
                found.append((name, int(vgpr), int(lane), 0, 32))
                continue
            word = int(image[0, vgpr, lane])
            firsts = [first for first in range(0, 32, bits) if word >> first & ((1 << bits) - 1)]
            found += [(name, int(vgpr), int(lane), first, bits) for first in firsts]
    return found


def _item_bits(i: Instruction, name: str, m: Modifiers) -> int:
    fmt = _format(i, name, m)
    return fmt.bits if fmt else 8


def _format(i: Instruction, name: str, m: Modifiers) -> Format | None:
    return i.operand_format(name.upper(), m.cbsz, m.blgp) if name in ("a", "b", "c") else None


def _without(operands: Images, places: list[Place]) -> Images:
    found = {name: image.copy() for name, image in operands.items()}
    for name, vgpr, lane, first, bits in places:
        mask = ((1 << bits) - 1) << first & 0xFFFFFFFF
        found[name][0, vgpr, lane] &= np.uint32(~mask & 0xFFFFFFFF)
    return found


def _few_items(tool: Shrinker, operands: Images, m: Modifiers) -> Images:
    """Set ever smaller groups of items to zero, as delta debugging does."""
    for name in [name for name in operands if name != "idx"]:
        empty = empty_images(tool.instruction, m)[name]
        if tool.failing(operands | {name: empty}, m)[0]:
            operands = operands | {name: empty}
    parts = 2
    places = _places(tool.instruction, operands, m)
    while places:
        size = -(-len(places) // parts)
        groups = [places[n : n + size] for n in range(0, len(places), size)]
        # Keeping one group alone is the fastest way down, dropping one the surest.
        kept = []
        if 1 < len(groups) <= 8:
            kept = [
                _without(operands, [p for p in places if p not in set(group)]) for group in groups
            ]
        found = tool.first([*kept, *(_without(operands, group) for group in groups)], m)
        if found is not None:
            operands = found
            places = _places(tool.instruction, operands, m)
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
        for place in _places(tool.instruction, operands, m):
            candidates += list(_simpler(tool.instruction, operands, m, place))
        found = tool.first(candidates, m)
        if found is None:
            return operands
        operands = found
    return operands


def _simpler(i: Instruction, operands: Images, m: Modifiers, place: Place) -> Iterator[Images]:
    name, vgpr, lane, first, bits = place
    fmt = _format(i, name, m)
    if fmt is None or not fmt.is_float or fmt.bits in (6, 64):
        return
    word = int(operands[name][0, vgpr, lane])
    item = word >> first & ((1 << bits) - 1)
    one = fmt.bias << fmt.mantissa_bits
    low = fmt.mantissa_bits
    options = [one, item & ((1 << bits - 1) - 1), item >> low << low]
    options += [item & ~((1 << n) - 1) for n in (low // 2, low // 4)]
    for option in dict.fromkeys(options):
        simpler = (option.bit_count(), option) < (item.bit_count(), item)
        if option != item and option and (option == one or (simpler and item != one)):
            changed = operands[name].copy()
            changed[0, vgpr, lane] = word & ~(((1 << bits) - 1) << first) | option << first
            yield operands | {name: changed}
