"""TFMA's bundles as an operation of a campaign: machine code on a core, legal and not.

A case is the state of a core and a program; its result is the fault, the tiles that are new, and
the sticky flags. The classes are groups of rules; `bundle_programs` makes what they are about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArchitecturalFault, BadValue
from ..tile import Core, disassemble, split
from ..tile.descriptor import LAYOUTS, PES, register_name
from ..tile.numeric import DATA_TYPE_CODES, flag_names
from . import bundle_items
from .bundle_cores import (
    NEW,
    NEW_ELEMENTS,
    NEW_FIELDS,
    TILE_FIELDS,
    core_of,
    put,
    tile_rows,
)
from .bundle_programs import CLASSES, TILE_ELEMENTS, TILES, made
from .generators import InputClass
from .operation import ArrayOperation, Arrays, Configuration
from .streams import Array

ARCH = "pto-core"
FAULTS = (
    "",
    "Fault_TileLegality",
    "Fault_TileAllocation",
    "Fault_BundleControl",
    "Fault_IllegalInstruction",
)
PROGRAM = 80  # units of 16 bits; those behind the program are C.BSTOP, which then does nothing


class Bundles(ArrayOperation):
    """Programs of TFMA bundles on one core each.

    Operands: `program` in units of 16 bits; `tiles`, one row of `bundle_cores.TILE_FIELDS` each,
    written in this order; `tile_bits` and `undefined` of their valid elements, by fragment;
    `sticky` flags that are set already; `scalars`, r0 to r23. Results: tiles that are `new`, by
    register, rows of `bundle_cores.NEW_FIELDS`; their `bits` and which are `defined`;
    `fault`, a position in `FAULTS`; `flags` after it all.
    """

    def __init__(self) -> None:
        self.mnemonic, self.arch = "tfma_bundle", ARCH
        self.described = ("program", "tiles")
        self.axes = ("PE", "element")
        self.classes = tuple(InputClass(name, _no_matrices, True) for name in CLASSES)
        self.factors = {
            "dtype_set": ("contract", "adr0080"),
            "fault_map": ("contract", "asl-0.58.3"),
            "nan_corner": ("ieee", "asl"),
            "names": ("absolute", "relative"),
            "fragments": (PES, 1),
        }

    def empty(self, m: Configuration) -> Arrays:
        """Return a program of nothing on an empty core."""
        return {
            "program": np.zeros((1, PROGRAM), np.uint16),
            "tiles": np.zeros((1, TILES, len(TILE_FIELDS)), np.uint32),
            "tile_bits": np.zeros((1, TILES, PES, TILE_ELEMENTS), np.uint64),
            "undefined": np.zeros((1, TILES, PES, TILE_ELEMENTS), np.uint8),
            "sticky": np.zeros((1,), np.uint8),
            "scalars": np.zeros((1, 24), np.uint32),
        }

    def results(self, m: Configuration) -> Arrays:
        """Return the results of a program that does nothing."""
        return {
            "bits": np.zeros((1, NEW, PES, NEW_ELEMENTS), np.uint64),
            "defined": np.zeros((1, NEW, PES, NEW_ELEMENTS), np.uint8),
            "new": np.zeros((1, NEW, len(NEW_FIELDS)), np.uint32),
            "fault": np.zeros((1,), np.uint8),
            "flags": np.zeros((1,), np.uint8),
        }

    def operands(self, m: Configuration, cls: InputClass, seed: int, numbers: Array) -> Arrays:
        """Return programs and cores of a class."""
        empty = self.empty(m)
        found = {name: x.repeat(len(numbers), axis=0) for name, x in empty.items()}
        for n, number in enumerate(numbers.tolist()):
            case = made(cls.name, m.all(), seed, number)
            units = np.frombuffer(case.program, "<u2")
            found["program"][n, : len(units)] = units
            for t, tile in enumerate(case.tiles):
                found["tiles"][n, t] = [tile.fields[name] for name in TILE_FIELDS]
                found["tile_bits"][n, t, :, : tile.bits.shape[1]] = tile.bits
                found["undefined"][n, t, :, : tile.bits.shape[1]] = tile.undefined
            found["sticky"][n], found["scalars"][n] = case.sticky, case.scalars
        return found

    def elements(self) -> int:
        """Return the items of operands and results."""
        shapes = self.empty(self.check({})) | self.results(self.check({}))
        return sum(x.size for x in shapes.values())

    def outputs(self, m: Configuration) -> int:
        """Return 1: a program has one outcome."""
        return 1

    def compute(self, backend: str, operands: Arrays, m: Configuration) -> Arrays:
        """Return what a `Core` does on a backend."""

        def run(_: Any, program: list[int], core: Core) -> Any:
            before, fault = set(core.machine.registers), ""
            try:
                core.execute(program)
            except ArchitecturalFault as error:
                fault = error.fault
            new = sorted(set(core.machine.registers) - before)
            return fault, core.flags, {register: core.tile(register) for register in new}

        return self._each(run, operands, m, backend)

    def ask(self, function: Callable[..., Any], operands: Arrays, m: Configuration) -> Any:
        """Call `f(operation, program, core) -> fault, flags, tiles` for every case."""
        return self._each(function, operands, m, "numpy")

    def _each(
        self, function: Callable[..., Any], operands: Arrays, m: Configuration, backend: str
    ) -> Arrays:
        found = {n: x.repeat(len(operands["program"]), axis=0) for n, x in self.results(m).items()}
        for n in range(len(operands["program"])):
            core = core_of({name: x[n] for name, x in operands.items()}, m, backend)
            fault, flags, tiles = function(self, program_of(operands["program"][n]), core)
            if fault not in FAULTS:
                raise BadValue(f"fault {fault!r}; legal: {', '.join(map(repr, FAULTS))}")
            found["fault"][n], found["flags"][n] = FAULTS.index(fault), flags
            put({name: found[name][n] for name in ("bits", "defined", "new")}, tiles, m)
        return found

    @property
    def items(self) -> Any:
        """Return `bundle_items`: words and tiles go whole."""
        return bundle_items

    def describe(self, operands: Arrays, m: Configuration) -> str:
        """Return the tiles, and the program as assembly; words that are none of a bundle's in
        hex.
        """
        tiles = [
            f"{register_name(row['register'] - 1)}: {DATA_TYPE_CODES[row['dtype']].name}, "
            f"{row['capacity']} bytes, {row['columns']} columns, valid {row['valid_rows']} x "
            f"{row['valid_columns']}, mask {row['mask']:04b}, {LAYOUTS[row['layout']]}"
            for row in tile_rows(operands["tiles"][0])
            if row
        ]
        return "\n".join([*tiles, *map(_shown, program_of(operands["program"][0]))])

    def ignored(self, name: str, got: Arrays, want: Arrays, nan: str) -> Array | None:
        """Return where elements are undefined: their bits mean nothing."""
        return want["defined"] == 0 if name == "bits" else None

    def show(self, name: str, value: Any) -> str:
        """Return faults and flags by name, bits in hex."""
        if name == "fault":
            return FAULTS[int(value)] or "no fault"
        return flag_names(int(value)) if name == "flags" else super().show(name, value)


def _no_matrices(*_: Any) -> Any:
    raise NotImplementedError("a bundle's operands are made by bundle_programs.made")


def _shown(word: int) -> str:
    try:
        return disassemble([word])
    except ArchitecturalFault:
        return f"{word:#x}"


def program_of(units: Array) -> list[int]:
    """Return the words of a program, without the C.BSTOPs behind it but one."""
    words = split(units.astype("<u2").tobytes())
    last = max((n for n, word in enumerate(words) if word), default=-1)
    return words[: last + 2]


ROWS = (Bundles(),)

__all__ = ["FAULTS", "ROWS", "Bundles", "program_of"]
