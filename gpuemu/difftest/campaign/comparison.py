"""D of both sides and of the oracle's sample, compared: the outcome of every piece of a group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import device_cases
from ..cases import Plan
from ..runner import Failure, failure, wrong_registers
from ..streams import Array, namespace
from .pieces import Outcome, Piece


def to_host(array: Any) -> Array:
    """Return an array of NumPy or CuPy as NumPy."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.get())


@dataclass(frozen=True)
class Comparison:
    """D of the cases of a group.

    Attributes
    ----------
    plan : Plan
    numbers : int64 array (n,)
    got, want : uint32 array (n, vgprs, 64)
        Of the subject and of the reference, on the device or not.
    sampled : int64 array (s,)
        The positions that the oracle computed, ascending.
    truth : uint32 array (s, vgprs, 64)
        What it computed.
    nan : "any" or "exact"
    """

    plan: Plan
    numbers: Array
    got: Any
    want: Any
    sampled: Array
    truth: Array
    nan: str

    def wrong(self, got: Any, want: Any) -> Any:
        """Return the registers that differ, of the library of the arrays."""
        return wrong_registers(self.plan.instruction, got, want, self.nan)

    @cached_property
    def differing(self) -> Any:
        """Return the registers in which subject and reference differ."""
        return self.wrong(self.got, self.want)

    @cached_property
    def refuted(self) -> Array:
        """Return of every sampled case whether the oracle contradicts a side, bool (s,)."""
        found = np.zeros(len(self.sampled), bool)
        if len(found):
            at = namespace(self.got).asarray(self.sampled)
            for side in (self.got, self.want):
                found |= self.wrong(to_host(side[at]), self.truth).any(axis=(1, 2))
        return found

    @cached_property
    def failing(self) -> Array:
        """Return the positions of the cases that failed, ascending."""
        if namespace(self.got) is np:
            bad = self.differing.any(axis=(1, 2))
        else:
            result = self.plan.instruction.formats["D"]
            kind = "exact" if self.nan == "exact" or result == "i32" else result
            bad = device_cases.differing(self.got, self.want, kind).get().astype(bool)
        bad[self.sampled[self.refuted]] = True
        return np.flatnonzero(bad)

    def outcome(self, piece: Piece, span: slice, sampled: int) -> Outcome:
        """Return the outcome of a piece that lies at a span of positions."""
        low, high = np.searchsorted(self.failing, (span.start, span.stop))
        if low == high:
            return Outcome(piece, sampled)
        heat = to_host(self.differing[span].sum(axis=0))
        places = tuple((int(v), int(x), int(heat[v, x])) for v, x in np.argwhere(heat))
        what, oracle_only = self._first(int(self.failing[low]))
        return Outcome(piece, sampled, int(high - low), places, what, oracle_only=oracle_only)

    def _first(self, at: int) -> tuple[Failure, bool]:
        """Return what is wrong with a case, and whether the oracle alone says so."""
        case = self.plan.case(int(self.numbers[at]))
        mine, theirs = to_host(self.got[at]), to_host(self.want[at])
        wrong = self.wrong(mine[None], theirs[None])[0]
        if wrong.any():
            return failure(case, mine, theirs, wrong), False
        truth = self.truth[np.searchsorted(self.sampled, at)]
        return failure(case, mine, truth, self.wrong(mine[None], truth[None])[0]), True
