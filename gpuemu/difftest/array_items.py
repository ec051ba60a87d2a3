"""The items of array operands: found, cleared, made simpler; see `lane_items` for registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .lane_items import simpler_codes
from .operation import ArrayOperation, Arrays

Place = tuple[Any, ...]  # operand, its indices


def places(i: ArrayOperation, operands: Arrays, m: Any) -> list[Place]:
    """Return the items that are not zero."""
    return [(name, *map(int, at)) for name, x in operands.items() for at in np.argwhere(x[0])]


def without(operands: Arrays, cleared: list[Place]) -> Arrays:
    """Return operands in which some items are zero."""
    found = {name: x.copy() for name, x in operands.items()}
    for name, *at in cleared:
        found[name][(0, *at)] = 0
    return found


def neutral(name: str) -> int:
    """Return the item of an operand that says the least."""
    return 0


def simpler(i: ArrayOperation, operands: Arrays, m: Any, place: Place) -> Iterator[Arrays]:
    """Yield operands in which one item is simpler: one, positive, of fewer bits."""
    name, *at = place
    fmt = i.item_format(name)
    if fmt is None:
        return
    for option in simpler_codes(fmt, int(operands[name][(0, *at)])):
        changed = operands[name].copy()
        changed[(0, *at)] = option
        yield operands | {name: changed}
