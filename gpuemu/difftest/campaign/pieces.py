"""What a batch is dealt out to, and what comes of it: pieces, of one input class and one set of
modifiers each, and their outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...mfma.modifiers import Modifiers
from ..cases import Plan
from ..runner import Failure
from ..streams import Array, key_of, mix


@dataclass(frozen=True)
class Piece:
    """Cases of one input class and one set of modifiers.

    Attributes
    ----------
    cls : str
    modifiers : Modifiers
    numbers : int64 array
        The cases, ascending.
    """

    cls: str
    modifiers: Modifiers
    numbers: Array


@dataclass(frozen=True)
class Outcome:
    """What came of a piece.

    Attributes
    ----------
    piece : Piece
    sampled : int
        Cases that the NumPy oracle computed.
    failed_cases : int
    wrong : tuple of (VGPR, lane, count)
    failure : Failure or None
        Of the first case that failed.
    answered : bool
        False where the subject gave no answer.
    oracle_only : bool
        Whether subject and reference agree on that case, and the oracle with neither.
    """

    piece: Piece
    sampled: int
    failed_cases: int = 0
    wrong: tuple[tuple[int, int, int], ...] = ()
    failure: Failure | None = None
    answered: bool = True
    oracle_only: bool = False


def pieces(plan: Plan, numbers: range) -> list[Piece]:
    """Return a range of cases as pieces, in the order of modifiers, then classes."""
    given = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    cls, m = plan.places(given)
    key = m * len(plan.classes) + cls
    order = np.argsort(key, kind="stable")
    sorted_cases = given[order]
    keys, first = np.unique(key[order], return_index=True)
    ends = [*first[1:].tolist(), len(given)]
    found = []
    for k, start, end in zip(keys.tolist(), first.tolist(), ends, strict=True):
        at, n = divmod(k, len(plan.classes))
        found.append(Piece(plan.classes[n].name, plan.modifiers[at], sorted_cases[start:end]))
    return found


def sampled(plan: Plan, numbers: Array, reference: str, rate: int) -> Array:
    """Return which positions of `numbers` the oracle computes, too: one in `rate`, and the first
    case of every class; none for 0, or where it is the reference.
    """
    if not rate or reference == "numpy":
        return np.zeros(0, np.int64)
    i = plan.instruction
    word = mix(
        numbers.astype(np.uint64) ^ np.uint64(key_of("sample", plan.seed, i.arch, i.mnemonic))
    )
    return np.flatnonzero((word % np.uint64(rate) == 0) | (numbers < len(plan.classes)))
