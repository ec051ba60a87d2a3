"""Results of array operations compared, bit for bit."""

from __future__ import annotations

from collections import Counter

import numpy as np

from .cases import Case
from .failures import Failure
from .operation import ArrayOperation, Arrays
from .streams import Array


def wrong(i: ArrayOperation, got: Arrays, want: Arrays, nan: str) -> Arrays:
    """Return where results differ, bool arrays by name.

    Parameters
    ----------
    nan : "any" or "exact"
        Whether any NaN equals any other where the operation fixes none.
    """
    found = {}
    for name, x in want.items():
        ignored = i.ignored(name, got, want, nan)
        found[name] = got[name] != x if ignored is None else (got[name] != x) & ~ignored
    return found


def cases(differences: Arrays) -> Array:
    """Return which cases differ anywhere, bool (n,)."""
    parts = [x.reshape(len(x), -1).any(axis=1) for x in differences.values()]
    return np.logical_or.reduce(parts)


def places(differences: Arrays) -> tuple[tuple[int, int, int], ...]:
    """Return (row, column, cases) of the wrong items of the first result, of all its fragments."""
    found: Counter[tuple[int, int]] = Counter()
    first = next(iter(differences.values()))
    if first.ndim > 2:
        heat = first.reshape(len(first), -1, *first.shape[-2:]).any(axis=1).sum(axis=0)
        for row, column in np.argwhere(heat):
            found[int(row), int(column)] = int(heat[row, column])
    return tuple((*place, count) for place, count in sorted(found.items()))


def failure(case: Case, got: Arrays, want: Arrays, nan: str) -> Failure:
    """Return what is wrong with one case, from its results (1, …)."""
    i: ArrayOperation = case.instruction
    off = wrong(i, got, want, nan)
    count = sum(int(x.sum()) for x in off.values())
    for name, x in off.items():
        for at in np.argwhere(x):
            place = tuple(int(n) for n in at[1:])
            mine, theirs = (i.show(name, side[name][(0, *place)]) for side in (got, want))
            index = f"[{','.join(map(str, place))}]" if place else ""
            text = f"{name}{index}: got {mine}, want {theirs}; {count} items differ"
            return Failure(case, count, element=place, got=mine, want=theirs, message=text)
    raise AssertionError("a case that failed differs somewhere")


__all__ = ["cases", "failure", "places", "wrong"]
