"""The rules of TFMA's bundles, each with ways to break it: mutations of a legal program.

Nobody marks a case with the fault that it takes: that is what the two sides are asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from ..tile.descriptor import LAYOUTS, PES, register_name
from ..tile.numeric import DATA_TYPE_CODES, DATA_TYPES, ELEMENT_TYPES, DataType
from .streams import Array

MASKS = ("1111", "1110", "1100", "1000", "0100", "0010", "0001")


@dataclass
class Source:
    """A tile that is written before the program runs."""

    fields: dict[str, int]
    bits: Array  # uint64 (4, valid elements)
    undefined: Array  # uint8, likewise


@dataclass
class Made:
    """A case in the making."""

    random: Random
    dtype: DataType
    options: Mapping[str, Any]
    lines: dict[str, str] = field(default_factory=dict)
    tiles: list[Source] = field(default_factory=list)
    sticky: int = 0
    scalars: list[int] = field(default_factory=lambda: [0] * 24)
    program: bytes = b""

    def one_of(self, *options: Any) -> Any:
        """Return one of the options."""
        return self.random.choice(options)

    @property
    def extents(self) -> tuple[int, int, int]:
        """Return ValidRow, ValidCol and Col of the sources."""
        f = self.tiles[0].fields
        return f["valid_rows"], f["valid_columns"], f["columns"]


Mutation = Callable[[Made], None]


def _line(name: str, *texts: str) -> Mutation:
    """Return the mutation that replaces a line by one of several texts; `{}` is what was there."""

    def change(case: Made) -> None:
        case.lines[name] = case.one_of(*texts).replace("{}", case.lines[name])

    return change


def _word(name: str, old: str, *new: str) -> Mutation:
    """Return the mutation that replaces a part of a line."""

    def change(case: Made) -> None:
        case.lines[name] = case.lines[name].replace(old, case.one_of(*new))

    return change


def _source(change: Callable[[Made, Source], None]) -> Mutation:
    """Return a mutation of one of the three sources."""
    return lambda case: change(case, case.random.choice(case.tiles[:3]))


def _set(name: str, value: Callable[[Made, Source], int]) -> Mutation:
    def change(case: Made, tile: Source) -> None:
        tile.fields |= _fitting(tile.fields | {name: value(case, tile)}) or tile.fields

    return _source(change)


def _fitting(fields: dict[str, int]) -> dict[str, int]:
    """Return the fields of a tile that can be allocated; none where it cannot."""
    bits = DATA_TYPE_CODES[fields["dtype"]].bits
    rows, rest = divmod(8 * fields["capacity"], fields["columns"] * bits)
    fits = fields["valid_rows"] <= rows and fields["valid_columns"] <= fields["columns"]
    return {} if rest or not fits else fields


def _size(*codes: int) -> Mutation:
    """Return the mutation that gives the destination another SizeCode."""

    def change(case: Made) -> None:
        size = f"<code={case.random.choice(codes)}>"
        case.lines["final"] = re.sub("<.*>", size, case.lines["final"])

    return change


def _hole(case: Made, tile: Source) -> None:
    """Leave one element undefined, of any PE, whether the mask selects it or not."""
    tile.undefined[case.random.randrange(PES), case.random.randrange(tile.undefined.shape[1])] = 1


def _fewer(name: str) -> Mutation:
    def change(case: Made, tile: Source) -> None:
        tile.fields[name] = max(tile.fields[name] - 1, 1)
        size = tile.fields["valid_rows"] * tile.fields["valid_columns"]
        tile.bits, tile.undefined = tile.bits[:, :size], tile.undefined[:, :size]

    return _source(change)


def _unallocated(case: Made) -> None:
    free = [n for n in range(64) if n + 1 not in [t.fields["register"] for t in case.tiles]]
    name = register_name(case.random.choice(free))
    case.lines["pair"] = re.sub("[TUMN]#[0-9]+", name, case.lines["pair"], count=1)


def _other_type(case: Made, tile: Source) -> int:
    same = [x for x in ELEMENT_TYPES if DATA_TYPES[x].bits == case.dtype.bits]
    return DATA_TYPES[case.random.choice(same)].code


def _unused_bits(case: Made, tile: Source) -> None:
    """Set the low bits that TF32 and HF32 do not have, wherever the type has such."""
    if case.dtype.unused_bits:
        at = case.random.randrange(PES), case.random.randrange(tile.bits.shape[1])
        tile.bits[at] |= np.uint64(1 << case.random.randrange(case.dtype.unused_bits))


def _mask(names: tuple[str, ...], *masks: str) -> Mutation:
    """Return the mutation that gives bindings another PE_MASK, where they are still there."""

    def change(case: Made) -> None:
        mask = case.one_of(*masks)
        for name in names:
            case.lines[name] = re.sub("mask=....", f"mask={mask}", case.lines[name], count=1)

    return change


MUTATIONS: dict[str, list[Mutation]] = {
    "legal": [lambda case: None],
    "zero_mask": [
        _mask(("pair", "final"), "0000"),
        _line("pair", "B.IOT M#9, mask=0000, last; {}", "{}; B.IOT mask=0000, ->U<1KB>"),
        _mask(("final",), "0000"),
    ],
    "words": [
        _line("start", "BSTART.VEC TFMA, type=15", "BSTART.VEC TFMA, type=21"),
        _line("start", "BSTART.TEPL mode=3, function=31, FP32", ""),
        _size(11, 12, 13, 14, 15),
        _line("final", "B.IOT mask=1111, last", "{}; {}"),
        _mask(("pair",), *MASKS),
        _line("lb1", "{}; B.DATR PadValue=Max; B.DATR Min", "{}; {}", "C.B.DIMI LB3=2"),
        _line("lb1", "B.DIM LB3=2", "B.DIM LB1=r24+2", "B.DIM LB1=r31"),
        _line("lb1", "B.IOR r1, r24, r0, ->r0", "B.IOR r0, r0, r0, ->r0; B.IOR r0, r0, r0, ->r0"),
        _line("datr", "B.DATR DataType=type=21", "B.DATR DataType=type=15", "B.DATR layout=31"),
    ],
    "bindings": [
        _line("pair", "", "{}; {}", "{}; B.IOS S7<128B>, mask=1111", "B.IOS S7<128B>, mask=0000"),
        _line("final", ""),
        _word("final", "last, ", ""),
        _word("pair", "mask", "last, mask"),
        lambda case: case.lines.update(pair=case.lines["pair"] + ", ->T<128B>"),
        lambda case: case.lines.update(pair=case.lines["final"], final=case.lines["pair"]),
        _line("lb1", "{}; B.IOR r1, r0, r0, ->r0", "{}; B.IOR r0, r0, r0, ->r0"),
    ],
    "attributes": [
        _line("datr", *(f"B.DATR Max, {name}={n}" for name in ("cmode", "rmode") for n in (1, 7))),
        _line("datr", "B.DATR Max, sat=1", "B.DATR Max, canonicalize=1", "B.DATR Max, layout=1"),
        _line("datr", *(f"B.DATR Zero, DataType={x}" for x in ("FP64", "FP32", "FP16", "S8"))),
    ],
    "extents": [
        _line("lb0", "", "B.DIM LB0=0", "B.DIM LB0=65536", "B.DIM LB0=65535", "C.B.DIMI LB0=0"),
        _line("lb1", "", "B.DIM LB1=0", "B.DIM LB1=5", "B.DIM LB1=65535", "C.B.DIMI LB1=255"),
        _line("lb2", "", "B.DIM LB2=0", "B.DIM LB2=12", "B.DIM LB2=4", "B.DIM LB2=32768"),
        _line("lb2", "B.DIM LB2=64", "B.DIM LB2=65535", "B.DIM LB2=1"),
        _line("lb0", "B.DIM LB0=r7+65533", "B.DIM LB0=r5", "B.DIM LB0=r0"),
    ],
    "types": [
        _line("start", *(f"BSTART.VEC TFMA, {x}" for x in ELEMENT_TYPES)),
        _line("start", *(f"BSTART.VEC TFMA, {x}" for x in ("HiF8", "E3M2", "E8M0", "U4X2"))),
        _set("dtype", _other_type),
        _source(_unused_bits),
    ],
    "allocation": [
        _size(*range(1, 11)),
        _size(9, 10),
    ],
    "sources": [
        _unallocated,
        _source(_hole),
        _set("mask", lambda case, tile: int(case.one_of(*MASKS), 2)),
        _set("capacity", lambda case, tile: 3 * 128 - tile.fields["capacity"]),
        _set("columns", lambda case, tile: case.one_of(1, 4) * tile.fields["columns"] // 2),
        _set("layout", lambda case, tile: case.random.randrange(len(LAYOUTS))),
        _fewer("valid_rows"),
        _fewer("valid_columns"),
    ],
}

__all__ = ["MASKS", "MUTATIONS", "Made", "Mutation", "Source"]
