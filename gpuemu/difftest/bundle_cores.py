"""Tiles of a bundle's case as rows of numbers: read into a core, and back from what a program made.

Rows may come from anybody's replay line: they are checked before a core is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..errors import BadValue
from ..tile import Core
from ..tile.descriptor import LAYOUTS, REGISTERS, Descriptor, Tile, participates, register_name
from ..tile.numeric import DATA_TYPE_CODES, FLAG_NAMES
from .bundle_programs import TILE_ELEMENTS
from .operation import Arrays, Configuration
from .streams import Array

NEW, NEW_ELEMENTS = 2, 256  # tiles that a program makes, and elements of a fragment of theirs
TILE_FIELDS = (
    "register",  # from 1; 0: no tile
    "dtype",
    "capacity",
    "columns",
    "valid_rows",
    "valid_columns",
    "mask",
    "layout",
)
NEW_FIELDS = (
    "register",  # from 1; 0: no tile
    "rows",
    "columns",
    "valid_rows",
    "valid_columns",
    "mask",
    "dtype",
    "capacity",
    "layout",
)
ALL_FLAGS = sum(FLAG_NAMES)
CODES = {code: row.name for code, row in DATA_TYPE_CODES.items() if row.bits}


def tile_rows(tiles: Array) -> list[dict[str, int] | None]:
    """Return the rows of `TILE_FIELDS` by name, None where there is no tile.

    Raises
    ------
    BadValue
        For a register, element type, layout or valid region that no row can have; the rest is
        checked where the tile is written.
    """
    return [_checked(dict(zip(TILE_FIELDS, x, strict=True))) for x in tiles.tolist()]


def _checked(row: dict[str, int]) -> dict[str, int] | None:
    if row["register"] == 0:
        return None
    if row["register"] > REGISTERS:
        raise BadValue(f"tile register={row['register']}; legal: 0 (no tile), 1 to {REGISTERS}")
    name = register_name(row["register"] - 1)
    for field, legal in (("dtype", CODES), ("layout", dict(enumerate(LAYOUTS)))):
        if row[field] not in legal:
            codes = ", ".join(f"{code} ({text})" for code, text in legal.items())
            raise BadValue(f"tile {name}: {field}={row[field]}; legal: {codes}")
    rows, columns = row["valid_rows"], row["valid_columns"]
    if not 1 <= rows * columns <= TILE_ELEMENTS:
        raise BadValue(
            f"tile {name}: {rows} x {columns} valid elements; legal: 1 to {TILE_ELEMENTS}"
        )
    return row


def core_of(case: Mapping[str, Array], m: Configuration, backend: str) -> Core:
    """Return the core of one case, before its program.

    Raises
    ------
    BadValue, TileAllocationFault
        For tiles that no core can hold, and for sticky flags that there are not.
    """
    sticky = int(case["sticky"])
    if sticky > ALL_FLAGS:
        raise BadValue(f"sticky={sticky:#x}; legal: 0 to {ALL_FLAGS:#x}, an OR of flags")
    core = Core(**m.all(), backend=backend)
    rows = tile_rows(case["tiles"])
    for row, bits, undefined in zip(rows, case["tile_bits"], case["undefined"], strict=True):
        if row is None:
            continue
        dtype = DATA_TYPE_CODES[row["dtype"]]
        valid = row["valid_rows"], row["valid_columns"]
        shape, size = (m["fragments"], *valid), valid[0] * valid[1]
        core.write(
            row["register"] - 1,
            bits[: m["fragments"], :size].astype(dtype.storage).reshape(shape),
            dtype.name,
            valid=valid,
            columns=row["columns"],
            capacity=row["capacity"],
            mask=row["mask"],
            layout=LAYOUTS[row["layout"]],
            defined=undefined[: m["fragments"], :size].reshape(shape) == 0,
        )
    core.machine.flags = sticky
    core.scalars[:] = case["scalars"].tolist()
    return core


def put(found: Arrays, tiles: Mapping[int, Tile], m: Configuration) -> None:
    """Write new tiles into their places among the results of one case, by register.

    Raises
    ------
    BadValue
        Where there are more than places.
    """
    if len(tiles) > NEW:
        names = ", ".join(register_name(register) for register in sorted(tiles))
        raise BadValue(f"{len(tiles)} new tiles, {names}; legal: at most {NEW}")
    for slot, register in enumerate(sorted(tiles)):
        tile = tiles[register]
        d: Descriptor = tile.descriptor
        rows, columns = d.shape
        found["new"][slot] = (
            register + 1,
            rows,
            columns,
            d.valid_rows,
            d.valid_columns,
            tile.mask,
            d.dtype.code,
            d.capacity,
            LAYOUTS.index(d.layout),
        )
        size = min(rows * columns, NEW_ELEMENTS)
        for fragment in _selected(tile, m):
            for name, x in (("bits", tile.bits), ("defined", tile.defined)):
                found[name][slot, fragment, :size] = np.asarray(x[fragment]).reshape(-1)[:size]


def _selected(tile: Tile, m: Configuration) -> Iterator[int]:
    for fragment in range(m["fragments"]):
        if m["fragments"] == 1 or participates(tile.mask, fragment):
            yield fragment


__all__ = ["NEW", "NEW_ELEMENTS", "NEW_FIELDS", "TILE_FIELDS", "core_of", "put", "tile_rows"]
