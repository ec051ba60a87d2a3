"""The items of a bundle's case: words of the program and source tiles, which go whole, and element
bits; see `lane_items` for registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tile import join, split
from ..tile.numeric import DATA_TYPE_CODES
from . import array_items
from .array_items import Place, neutral
from .lane_items import simpler_codes
from .operation import ArrayOperation, Arrays
from .tile_cases import format_of


def _words(operands: Arrays) -> list[int]:
    words = split(operands["program"][0].astype("<u2").tobytes())
    last = max((n for n, word in enumerate(words) if word), default=-1)
    return words[: last + 1]


def places(i: ArrayOperation, operands: Arrays, m: Any) -> list[Place]:
    """Return words, tiles, and items of the rest that are not zero."""
    rest = {name: x for name, x in operands.items() if name not in ("program", "tiles")}
    words = [("program", n) for n in range(len(_words(operands)))]
    tiles = [("tiles", int(n)) for n in np.flatnonzero(operands["tiles"][0, :, 0])]
    return [*words, *tiles, *array_items.places(i, rest, m)]


def without(operands: Arrays, cleared: list[Place]) -> Arrays:
    """Return operands without some words and tiles, and with some items zero."""
    gone = {place[1] for place in cleared if place[0] == "program"}
    found = array_items.without(operands, [place for place in cleared if place[0] != "program"])
    kept = [word for n, word in enumerate(_words(operands)) if n not in gone]
    units = np.frombuffer(join(kept), "<u2")
    found["program"][0] = 0
    found["program"][0, : len(units)] = units
    return found


def simpler(i: ArrayOperation, operands: Arrays, m: Any, place: Place) -> Iterator[Arrays]:
    """Yield operands in which the bits of one element are simpler."""
    name, *at = place
    if name != "tile_bits":
        return
    dtype = DATA_TYPE_CODES[int(operands["tiles"][0, at[0], 1])]
    if dtype.bits and not dtype.unused_bits:
        for option in simpler_codes(format_of(dtype), int(operands[name][(0, *at)])):
            changed = operands[name].copy()
            changed[(0, *at)] = option
            yield operands | {name: changed}


__all__ = ["neutral", "places", "simpler", "without"]
