"""What a campaign is, and how its cases are dealt out.

Every operation's cases are numbered (`cases.Plan`). They are taken in rounds, each a range of
numbers of every instruction, small at first: whatever stops a campaign, all instructions have had
their turn. One instruction's cases of one round are a batch, which is generated at one go; its
cases of one input class and one set of modifiers are a chunk, which is what is counted, recorded
and resumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from ...errors import BadFile, BadValue
from ..cases import MOST, Plan, plan
from ..catalogue import choose, operation_of
from ..files import check_fields, json_object
from . import engine

FIRST_TURNS = 4  # cases of every input class in the first round
GROWTH = 16  # of the rounds, until a batch is full
BATCH_ON_DEVICE = 1 << 25  # elements of A, B, C and D
BATCH = 1 << 21


@dataclass(frozen=True)
class Campaign:
    """A campaign: all that its cases and verdicts depend on.

    Attributes
    ----------
    subject, reference : str
        Names, as `subjects.load` takes them.
    instruction, arch : str
        Shell patterns, those of instructions with commas between them; see `catalogue.choose`.
    classes : tuple of str
        Input classes; none: all that apply. Operations that have none of them are left out.
    modifiers : "all" or "none"
    seed : int
    nan : "any" or "exact"
    cases : int
        Of all instructions together, shared out evenly; 0: no limit.
    seconds : float
        After which no more batches are begun; 0: no limit.
    sample : int
        One case in so many is computed by the NumPy oracle too; 0: none.
    batch : int
        Matrix elements that are in memory at a time.
    timeout : float or None
        Seconds that a user's subject may take for a call.
    """

    subject: str
    reference: str = "numpy"
    instruction: str = "*"
    arch: str = "*"
    classes: tuple[str, ...] = ()
    modifiers: str = "all"
    seed: int = 0
    nan: str = "any"
    cases: int = 4000
    seconds: float = 0.0
    sample: int = 1000
    batch: int = BATCH
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        for name, legal in (("modifiers", ("all", "none")), ("nan", ("any", "exact"))):
            if getattr(self, name) not in legal:
                raise BadValue(f"{name}={getattr(self, name)!r}; legal: {', '.join(legal)}")
        for name, low in (("cases", 0), ("sample", 0), ("batch", 1), ("seconds", 0)):
            if not low <= getattr(self, name) < math.inf:
                raise BadValue(f"{name}={getattr(self, name)}; legal: {low} or more")
        if not self.cases and not self.seconds:
            raise BadValue("a campaign without an end: give it cases or seconds")

    def plans(self) -> tuple[Plan, ...]:
        """Return the cases of every instruction, or other operation.

        Raises
        ------
        UnknownInstruction, BadValue
            Where a pattern fits nothing, or a class has no such name.
        """
        return _plans(self)

    def beside(self, reference: str) -> dict[str, Any]:
        """Return what a replay line says beside its case, compared with a reference."""
        found: dict[str, Any] = {"subject": self.subject, "reference": reference}
        if self.nan != "any":
            found["nan"] = self.nan
        if self.timeout is not None:
            found["timeout"] = self.timeout
        return found

    def to_json(self) -> str:
        """Return the campaign as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @staticmethod
    def from_json(text: str, where: str = "campaign") -> Campaign:
        """Return the campaign that a text holds.

        Raises
        ------
        BadFile
            Naming the field that is missing, unknown or wrong.
        """
        facts = json_object(text, where)
        check_fields(facts, _KINDS, where)
        if not all(isinstance(name, str) for name in facts["classes"]):
            raise BadFile(f"{where}: field 'classes' is {facts['classes']!r}; legal: names")
        try:
            return Campaign(**{**facts, "classes": tuple(facts["classes"])})
        except BadValue as error:
            raise BadFile(f"{where}: {error}") from None


# By the declared types, which are strings here, what JSON may hold.
_OF_JSON: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "tuple[str, ...]": list,
}
_KINDS = {row.name: _OF_JSON[str(row.type)] for row in fields(Campaign)}


@lru_cache(maxsize=16)
def _plans(campaign: Campaign) -> tuple[Plan, ...]:
    rows = choose(campaign.instruction, campaign.arch)
    only_default = campaign.modifiers == "none"
    known = [operation_of(row).known_classes for row in rows]
    legal = dict.fromkeys(name for names in known for name in names)
    for name in campaign.classes:
        if name not in legal:
            raise BadValue(f"input class {name!r}; legal: {', '.join(legal)}")
    found = []
    for row, names in zip(rows, known, strict=True):
        classes = tuple(name for name in campaign.classes if name in names)
        if classes or not campaign.classes:  # else no class that was asked for is one of its own
            found.append(plan(row, campaign.seed, classes, only_default=only_default))
    return tuple(found)


@dataclass(frozen=True)
class Batch:
    """Cases of one instruction that are run together: some chunks.

    Attributes
    ----------
    campaign : Campaign
    row : int
        The position of the instruction in `campaign.plans()`.
    first, last : int
        Its cases, `last` left out.
    chunk : int
        The number of the first chunk.
    skip : frozenset of int
        Chunks that are done already.
    """

    campaign: Campaign
    row: int
    first: int
    last: int
    chunk: int = 0
    skip: frozenset[int] = frozenset()

    @property
    def plan(self) -> Plan:
        """Return the cases of the instruction."""
        return self.campaign.plans()[self.row]

    def chunks(self) -> list[tuple[int, engine.Piece]]:
        """Return the chunks that are to be run, with their numbers."""
        found = enumerate(engine.pieces(self.plan, range(self.first, self.last)), self.chunk)
        return [(number, piece) for number, piece in found if number not in self.skip]


def shares(campaign: Campaign) -> list[int]:
    """Return how many cases each instruction gets, at least one."""
    count = len(campaign.plans())
    if not campaign.cases:
        return [MOST] * count
    share, rest = divmod(campaign.cases, count)
    return [max(1, share + (n < rest)) for n in range(count)]


def batches(campaign: Campaign, done: frozenset[int] = frozenset()) -> Iterator[Batch]:
    """Yield the batches of a campaign, without end where its cases have none.

    Parameters
    ----------
    campaign : Campaign
    done : frozenset of int
        Chunks to leave out.
    """
    ends = shares(campaign)
    begun = [0] * len(ends)
    turns, chunk = FIRST_TURNS, 0
    while any(first < end for first, end in zip(begun, ends, strict=True)):
        for row, (found, end) in enumerate(zip(campaign.plans(), ends, strict=True)):
            first = begun[row]
            if first >= end:
                continue
            most = max(campaign.batch // (found.operation.elements() * len(found.classes)), 1)
            last = min(first + min(turns, most) * len(found.classes), end)
            begun[row] = last
            count = _count(found, first, last)
            skip = done.intersection(range(chunk, chunk + count))
            if len(skip) < count:
                yield Batch(campaign, row, first, last, chunk, skip)
            chunk += count
        turns *= GROWTH


def _count(found: Plan, first: int, last: int) -> int:
    return len(engine.pieces(found, range(first, last)))


__all__ = ["BATCH", "BATCH_ON_DEVICE", "Batch", "Campaign", "batches", "shares"]
