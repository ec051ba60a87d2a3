"""Tile registers: names, PE masks, sizes, descriptors, and what one register holds.

Source: PTO ISA 0.58.3. A register holds one fragment for each of four PEs (or a single one, as the
public executable model does), each of the descriptor's physical shape, with one definedness bit an
element. A PE_MASK is four bits, PE0 the highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadType, TileAllocationFault
from .numeric import DataType

Array = np.ndarray[Any, Any]

HANDS = "TUMN"
HAND_SIZE = 16
REGISTERS = len(HANDS) * HAND_SIZE
PES = 4
FULL_MASK = 0b1111
MAX_COLUMNS, MAX_EXTENT = 32768, 65535
SIZE_CODES = range(1, 11)  # of a B.IOT destination: 128 B to 64 KiB a PE
LAYOUTS = ("RowMajor", "ColumnMajor", "ZN", "NZ", "CUBE_M16", "CUBE_M32", "CUBE_N8")


def size_bytes(code: int) -> int:
    """Return the capacity in bytes, for each PE, of a SizeCode.

    >>> size_bytes(1), size_bytes(10)
    (128, 65536)
    """
    return 64 << code


def register_name(index: int) -> str:
    """Return the assembly name of a register.

    >>> register_name(0), register_name(63)
    ('T#1', 'N#16')
    """
    return f"{HANDS[index // HAND_SIZE]}#{1 + index % HAND_SIZE}"


def participates(mask: int, pe: int) -> bool:
    """Tell whether a PE takes part under a PE_MASK, whose highest bit is PE0."""
    return bool(mask >> (PES - 1 - pe) & 1)


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer, Python's or NumPy's; a truth value is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole_pair(valid: Any, legal: str) -> tuple[int, int]:
    """Return ValidRow and ValidCol as plain integers; raise `BadType` for anything else.

    >>> whole_pair([np.int64(3), 5], "(1, 1) to (8, 8)")
    (3, 5)
    """
    if not isinstance(valid, (tuple, list)) or len(valid) != 2 or not all(map(is_whole, valid)):
        raise BadType(f"valid={valid!r}; legal: {legal}, two integers")
    return int(valid[0]), int(valid[1])


@dataclass(frozen=True)
class Descriptor:
    """What a tile register says about its contents; extents and capacity are those of one PE."""

    dtype: DataType
    capacity: int
    rows: int
    columns: int
    valid_rows: int
    valid_columns: int
    layout: str = "RowMajor"

    @classmethod
    def derive(
        cls,
        dtype: DataType,
        capacity: int,
        columns: int,
        valid: tuple[int, int],
        layout: str = "RowMajor",
    ) -> Descriptor:
        """Derive the physical rows, which no instruction encodes.

        Raises
        ------
        TileAllocationFault
            Where the shape cannot be represented, with the rule that it breaks.

        Examples
        --------
        >>> from gpuemu.tile.numeric import data_type
        >>> Descriptor.derive(data_type("FP32"), 128, 8, (1, 8)).rows
        4
        """
        if columns & (columns - 1) or not 1 <= columns <= MAX_COLUMNS:
            raise TileAllocationFault(
                f"Col={columns}; legal: a power of two from 1 to {MAX_COLUMNS}"
            )
        rows, rest = divmod(8 * capacity, columns * dtype.bits)
        if rest or not 1 <= rows <= MAX_EXTENT:
            raise TileAllocationFault(
                f"Row=8*{capacity}/({columns}*{dtype.bits}) for {capacity} bytes of {columns} "
                f"{dtype.name} columns; "
                f"legal: a whole number from 1 to {MAX_EXTENT}"
            )
        for name, extent, limit in (("ValidRow", valid[0], rows), ("ValidCol", valid[1], columns)):
            if not 1 <= extent <= limit:
                raise TileAllocationFault(
                    f"{name}={extent}; legal: 1 to {limit} (physical {rows} x {columns})"
                )
        return cls(dtype, capacity, rows, columns, *valid, layout)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the physical extents."""
        return self.rows, self.columns

    @property
    def valid(self) -> tuple[slice, slice]:
        """Return the index of the valid region within a fragment."""
        return slice(self.valid_rows), slice(self.valid_columns)


@dataclass(frozen=True)
class Tile:
    """One allocated register: descriptor, PE_MASK, and for each fragment bits and definedness.

    Attributes
    ----------
    bits : ndarray, unsigned, shape (fragments, rows, columns)
        Element bits; an undefined element reads 0.
    defined : ndarray of bool, the same shape
        Which elements hold a defined value.
    """

    descriptor: Descriptor
    mask: int
    bits: Array
    defined: Array

    @property
    def values(self) -> Array:
        """Return the bits as values: float16, bfloat16, int8, …; TF32 and HF32 as float32."""
        return self.bits.view(self.descriptor.dtype.dtype)

    @property
    def valid_bits(self) -> Array:
        """Return the bits of the valid region, (fragments, valid rows, valid columns)."""
        rows, columns = self.descriptor.valid
        return self.bits[:, rows, columns]

    @property
    def contents_defined(self) -> bool:
        """Tell whether every valid element of every fragment that the mask selects is defined."""
        return self.undefined(self.mask) is None

    def undefined(self, mask: int) -> tuple[int, int, int] | None:
        """Return fragment, row, column of the first undefined valid element under a mask."""
        rows, columns = self.descriptor.valid
        for fragment in range(len(self.bits)):
            if len(self.bits) == 1 or participates(mask, fragment):
                holes = np.argwhere(~self.defined[fragment, rows, columns])
                if len(holes):
                    return fragment, int(holes[0][0]), int(holes[0][1])
        return None
