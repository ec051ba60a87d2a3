"""The architectural state: 64 Local tile registers in four hands, capacity, sticky flags."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import BadShape, BadType, BadValue, TileAllocationFault
from .descriptor import (
    FULL_MASK,
    HAND_SIZE,
    HANDS,
    LAYOUTS,
    PES,
    REGISTERS,
    SIZE_CODES,
    Descriptor,
    Tile,
    is_whole,
    participates,
    register_name,
    size_bytes,
    whole_pair,
)
from .numeric import DataType, data_type

Array = np.ndarray[Any, Any]

CORE_CAPACITY = 256 * 1024  # bytes, all PEs together


@dataclass
class Machine:
    """Registers, capacity and flags; instructions change them only through `publish`.

    Parameters
    ----------
    fragments : int
        4: every PE owns a fragment; 1: the single fragment of the public executable model.
    capacity : int
        Bytes of the whole core.
    """

    fragments: int = PES
    capacity: int = CORE_CAPACITY
    flags: int = 0
    registers: dict[int, Tile] = field(default_factory=dict)
    # Of each hand, its registers by age, newest first: what relative names count.
    published: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in HANDS))

    def tile(self, index: int) -> Tile:
        """Return a register's tile; its arrays are read-only.

        Raises
        ------
        BadValue
            For an index outside 0 to 63, or a register that is not allocated.
        """
        index = self.check_index(index)
        if index not in self.registers:
            allocated = ", ".join(map(register_name, sorted(self.registers))) or "none"
            raise BadValue(
                f"register {register_name(index)} is not allocated; allocated: {allocated}"
            )
        return self.registers[index]

    def release(self, index: int) -> None:
        """Free a register; raise `BadValue` where it is not allocated."""
        self.tile(index)
        del self.registers[index]
        self.published[index // HAND_SIZE].remove(index)

    def used(self) -> int:
        """Return the bytes that are allocated, over all PEs."""
        return sum(
            tile.mask.bit_count() * tile.descriptor.capacity for tile in self.registers.values()
        )

    def check_capacity(self, mask: int, capacity: int, without: int | None = None) -> None:
        """Raise `TileAllocationFault` where `capacity` bytes on each selected PE do not fit."""
        old = self.registers.get(without) if without is not None else None
        used = self.used() - (old.mask.bit_count() * old.descriptor.capacity if old else 0)
        need = mask.bit_count() * capacity
        if used + need > self.capacity:
            raise TileAllocationFault(
                f"{mask.bit_count()} PEs x {capacity} bytes = {need} bytes; {used} of "
                f"{self.capacity} are allocated"
            )

    def free_register(self, hand: int) -> int:
        """Return the lowest free register of a hand; raise `TileAllocationFault` without one."""
        for index in range(hand * HAND_SIZE, (hand + 1) * HAND_SIZE):
            if index not in self.registers:
                return index
        raise TileAllocationFault(
            f"hand {HANDS[hand]} has no free register; all {HAND_SIZE} are allocated"
        )

    def publish(self, index: int, tile: Tile) -> None:
        """Make a complete tile a register's contents, the newest of its hand."""
        for array in (tile.bits, tile.defined):
            array.flags.writeable = False
        queue = self.published[index // HAND_SIZE]
        if index in queue:
            queue.remove(index)
        queue.insert(0, index)
        self.registers[index] = tile

    def write(
        self,
        index: int,
        array: Any,
        dtype: str,
        *,
        valid: tuple[int, int] | None = None,
        columns: int | None = None,
        capacity: int | None = None,
        mask: int = FULL_MASK,
        layout: str = "RowMajor",
        defined: Any = True,
    ) -> None:
        """Fill a register from an array, as a tile load would.

        Parameters
        ----------
        index : int
            Register, 0 to 63.
        array : array, shape (rows, columns) or (fragments, rows, columns)
            Element bits (unsigned) or values of the element type's dtype. Two dimensions: every
            selected fragment gets the same. It fills the upper left corner of the tile.
        dtype : str
            Element type.
        valid : (int, int)
            ValidRow and ValidCol; by default the array's extents.
        columns : int
            Physical columns; by default the next power of two from the array's.
        capacity : int
            Bytes a PE, 128 to 65536; by default the smallest that holds the array.
        mask : int
            PE_MASK of the allocation.
        layout : str
            Layout that the descriptor records.
        defined : bool or array of bool, of the array's shape
            Which of the given elements are defined.

        Raises
        ------
        BadShape, BadType, BadValue
            For arrays, types and masks that do not fit.
        TileAllocationFault
            Where shape or capacity cannot be represented; nothing has changed then.
        """
        index = self.check_index(index)
        row = data_type(dtype)
        bits = element_bits(array, row, "array")
        if bits.ndim not in (2, 3) or (bits.ndim == 3 and bits.shape[0] != self.fragments):
            raise BadShape(
                f"array has shape {bits.shape}; legal: (rows, columns) or ({self.fragments}, rows, "
                f"columns)"
            )
        if not isinstance(mask, int) or not 0 < mask <= FULL_MASK:
            raise BadValue(f"mask={mask!r}; legal: 0b0001 to 0b1111, the highest bit PE0")
        if layout not in LAYOUTS:
            raise BadValue(f"layout={layout!r}; legal: {', '.join(LAYOUTS)}")
        extent_rows, extent_columns = extents = bits.shape[-2:]
        if valid is not None:
            extents = whole_pair(valid, "ValidRow and ValidCol, 1 or more")
        columns = columns or 1 << max(extent_columns - 1, 0).bit_length()
        capacity = capacity or _smallest_capacity(extent_rows, columns, row)
        if capacity not in map(size_bytes, SIZE_CODES):
            raise BadValue(f"capacity={capacity} bytes; legal: a power of two from 128 to 65536")
        descriptor = Descriptor.derive(row, capacity, columns, extents, layout)
        if extent_rows > descriptor.rows or extent_columns > columns:
            raise BadShape(
                f"array of {extent_rows} x {extent_columns} in a tile of {descriptor.shape}"
            )
        self.check_capacity(mask, capacity, without=index)
        self.publish(index, self._filled(descriptor, mask, bits, defined))

    def _filled(self, descriptor: Descriptor, mask: int, bits: Array, defined: Any) -> Tile:
        marks = np.broadcast_to(np.asarray(defined, np.bool_), bits.shape)
        payload = np.zeros((self.fragments, *descriptor.shape), descriptor.dtype.storage)
        definedness = np.zeros(payload.shape, np.bool_)
        corner = (slice(None), slice(bits.shape[-2]), slice(bits.shape[-1]))
        payload[corner], definedness[corner] = bits, marks
        if self.fragments == PES:
            absent = [pe for pe in range(PES) if not participates(mask, pe)]
            definedness[absent] = False
        payload[~definedness] = 0
        return Tile(descriptor, mask, payload, definedness)

    def snapshot(self) -> bytes:
        """Return a digest of every architectural bit: equal digests mean equal state."""
        state = hashlib.sha256(repr((self.capacity, self.flags, self.published)).encode())
        for index in sorted(self.registers):
            tile = self.registers[index]
            state.update(repr((index, tile.descriptor, tile.mask)).encode())
            state.update(tile.bits.tobytes() + tile.defined.tobytes())
        return state.digest()

    @staticmethod
    def check_index(index: int) -> int:
        """Return a register's index as a plain integer; raise `BadType` or `BadValue`."""
        if not is_whole(index):
            raise BadType(f"register {index!r}; legal: an integer from 0 to {REGISTERS - 1}")
        if not 0 <= index < REGISTERS:
            raise BadValue(
                f"register {index}; legal: 0 to {REGISTERS - 1} (T 0.., U 16.., M 32.., N 48..)"
            )
        return int(index)


def _smallest_capacity(rows: int, columns: int, dtype: DataType) -> int:
    need = rows * columns * dtype.bits // 8
    return next(
        (size_bytes(code) for code in SIZE_CODES if size_bytes(code) >= need),
        size_bytes(SIZE_CODES[-1]),
    )


def element_bits(array: Any, dtype: DataType, name: str) -> Array:
    """Return element bits of an array: bits, the type's own dtype, or integers in range.

    Raises
    ------
    BadType
        For another dtype: values are never converted.
    BadValue
        For an integer outside 0 to 2^bits - 1.
    """
    items = np.asarray(array)
    if not items.dtype.isnative:
        items = items.astype(items.dtype.newbyteorder("="))
    if items.dtype == dtype.storage:
        return items
    if items.dtype == dtype.dtype or (
        items.dtype.kind == "i" and items.dtype.itemsize == dtype.storage.itemsize
    ):
        return items.view(dtype.storage)
    if items.dtype.kind in "iu":
        if items.size and not 0 <= int(items.min()) <= int(items.max()) < 1 << dtype.bits:
            worst = int(items.min()) if int(items.min()) < 0 else int(items.max())
            raise BadValue(
                f"{name} holds {worst}; {dtype.name} bits are 0 to {(1 << dtype.bits) - 1}"
            )
        return items.astype(dtype.storage)
    raise BadType(
        f"{name} has dtype {items.dtype}; {dtype.name} wants {dtype.dtype}, or its bits as "
        f"{dtype.storage}"
    )
