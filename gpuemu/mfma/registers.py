"""Matrices in and out of register images: uint32 (..., vgprs, 64), where `layouts` says.

Items are packed little-endian; 64-bit items take two VGPRs, low word first, and 6-bit items may
straddle two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import formats
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue
from . import modifiers as mods
from .instructions import Instruction, check_matrix
from .layouts import LANES, stored_layout

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=4096)
def _slots(
    instruction: Instruction, matrix: str, m: mods.Modifiers
) -> tuple[tuple[int, Array, Array], ...]:
    """Group a matrix's items by first bit: (first bit, flat matrix index, VGPR * 64 + lane)."""
    where = stored_layout(instruction, matrix, m).reshape(-1, 4)
    flat = where[:, 0] * LANES + where[:, 1]
    groups = []
    for first in np.unique(where[:, 2]):
        chosen = np.flatnonzero(where[:, 2] == first)
        groups.append((int(first), chosen, flat[chosen]))
    return tuple(groups)


def _axes(table: Array) -> tuple[int, ...] | None:
    """Return how a table orders the bits of its index, highest first.

    None where it does not, or where runs of 16 do not stay together: taking is faster then.
    """
    bits = len(table).bit_length() - 1
    weights = 1 << np.arange(bits)[::-1]
    number = np.arange(len(table))[:, None] & weights != 0
    steps = table[weights] if len(table) == 1 << bits else weights
    if not np.array_equal(np.sort(steps), weights[::-1]) or (number @ steps != table).any():
        return None
    axes = tuple(int(np.flatnonzero(weights == step)[0]) for step in steps)
    return axes if axes[-4:] == tuple(range(bits - 4, bits)) else None


@dataclass(frozen=True)
class Whole:
    """How items of 32 or 64 bits lie in the registers.

    Attributes
    ----------
    place : int array
        The item, `VGPR // words * 64 + lane`, of every matrix element.
    element : int array or None
        The inverse, where each item holds one element.
    to_matrix, to_items : tuple of int or None
        Where these tables reorder the bits of an index: the order, which copies faster.
    """

    place: Array
    element: Array | None
    to_matrix: tuple[int, ...] | None
    to_items: tuple[int, ...] | None


@lru_cache(maxsize=4096)
def whole_items(instruction: Instruction, matrix: str, m: mods.Modifiers) -> Whole:
    words = instruction.operand_format(matrix, m.cbsz, m.blgp).bits // 32
    where = stored_layout(instruction, matrix, m).reshape(-1, 4)
    place = where[:, 0] // words * LANES + where[:, 1]
    items = instruction.operand_vgprs(matrix, m.cbsz, m.blgp) // words * LANES
    if not np.array_equal(np.sort(place), np.arange(items)):
        return Whole(place, None, None, None)
    element = np.argsort(place)
    return Whole(place, element, _axes(place), _axes(element))


def _reordered(items: Array, table: Array, axes: tuple[int, ...] | None) -> Array:
    """Return items[..., table]; `axes` orders the bits of its index the same way."""
    if axes is None:
        # "wrap" has NumPy check no index: all are within bounds.
        found: Array = items.take(table, -1, mode="wrap")
        return found
    lead = items.shape[:-1]
    order = (*range(len(lead)), *(len(lead) + axis for axis in axes))
    copied = items.reshape(*lead, *(2,) * len(axes)).transpose(order).copy()
    return copied.reshape(items.shape)


def gather(instruction: Instruction, matrix: str, image: Array, m: mods.Modifiers) -> Array:
    """Return a matrix's bits (..., blocks, rows, columns) from its register image and modifiers."""
    shape = instruction.shape(matrix)
    fmt = instruction.operand_format(matrix, m.cbsz, m.blgp)
    lead, vgprs = image.shape[:-2], image.shape[-2]
    if fmt.bits >= 32:
        items = image
        if fmt.bits == 64:
            pairs = np.empty((*lead, vgprs // 2, LANES, 2), np.uint32)
            pairs[..., 0], pairs[..., 1] = image[..., ::2, :], image[..., 1::2, :]
            items = pairs.view(np.uint64)
        whole = whole_items(instruction, matrix, m)
        flat = items.reshape(*lead, vgprs * 32 // fmt.bits * LANES)
        return _reordered(flat, whole.place, whole.to_matrix).reshape(*lead, *shape)
    words = image.reshape(*lead, vgprs * LANES)
    found = np.empty((*lead, shape[0] * shape[1] * shape[2]), fmt.storage)
    for first, index, slot in _slots(instruction, matrix, m):
        items = words[..., slot] >> np.uint32(first)
        if first + fmt.bits > 32:
            items = items | words[..., slot + LANES] << np.uint32(32 - first)
        found[..., index] = items & np.uint32((1 << fmt.bits) - 1)
    return found.reshape(*lead, *shape)


def scatter(instruction: Instruction, matrix: str, bits: Array, m: mods.Modifiers) -> Array:
    """Return the register image (..., vgprs, 64) of a matrix of bits.

    Where a modifier maps many elements to one place, the last one stays.
    """
    fmt = instruction.operand_format(matrix, m.cbsz, m.blgp)
    vgprs = instruction.operand_vgprs(matrix, m.cbsz, m.blgp)
    lead = bits.shape[:-3]
    flat = bits.reshape(*lead, math.prod(bits.shape[-3:]))
    whole = whole_items(instruction, matrix, m) if fmt.bits >= 32 else None
    if whole is not None and whole.element is not None:
        items = _reordered(flat, whole.element, whole.to_items)
        if fmt.bits == 32:
            return items.astype(np.uint32, copy=False).reshape(*lead, vgprs, LANES)
        pairs = items.view(np.uint32).reshape(*lead, vgprs // 2, LANES, 2)
        image = np.empty((*lead, vgprs, LANES), np.uint32)
        image[..., ::2, :], image[..., 1::2, :] = pairs[..., 0], pairs[..., 1]
        return image
    words = np.zeros((*lead, vgprs * LANES), np.uint32)
    for first, index, slot in _slots(instruction, matrix, m):
        items = flat[..., index].astype(np.uint64)
        if fmt.bits < 32:
            words[..., slot] |= (items << np.uint64(first)).astype(np.uint32)
        else:
            words[..., slot] = items.astype(np.uint32)
        if first + fmt.bits > 32:
            words[..., slot + LANES] |= (items >> np.uint64(32 - first)).astype(np.uint32)
    return words.reshape(*lead, vgprs, LANES)


def matrix_bits(
    instruction: Instruction, matrix: str, values: Any, m: mods.Modifiers, *, bits: bool = True
) -> Array:
    """Return a matrix as unsigned bits (..., blocks, rows, columns), dtype and shape checked."""
    array = arrays.to_numpy(values, f"matrix {matrix}")
    fmt = instruction.operand_format(matrix, m.cbsz, m.blgp)
    found = formats.bits_of(
        array, fmt, f"matrix {matrix} of {instruction.mnemonic} ({instruction.arch})", bits=bits
    )
    shape = instruction.shape(matrix)
    if found.shape[-3:] != shape and instruction.blocks == 1 and found.shape[-2:] == shape[1:]:
        found = found[..., None, :, :]
    if found.shape[-3:] != shape:
        raise BadShape(
            f"matrix {matrix} has shape {array.shape}; {instruction.mnemonic} wants "
            f"(..., {shape[0]}, {shape[1]}, {shape[2]}) = (..., blocks, rows, columns)"
        )
    if fmt.bits < 8 and found.size and int(found.max()) >> fmt.bits:
        raise BadValue(
            f"matrix {matrix} holds the code {int(found.max()):#x}; {fmt.name} has {fmt.bits} bits"
        )
    return found


def register_image(instruction: Instruction, matrix: str, image: Any, vgprs: int) -> Array:
    """Return a register image as NumPy uint32 (..., vgprs, 64), dtype and shape checked."""
    array = arrays.to_numpy(image, f"registers of {matrix}")
    check_image(instruction, matrix, array, vgprs)
    return array


def check_image(instruction: Instruction, matrix: str, array: Any, vgprs: int) -> None:
    """Raise unless an array is uint32 (..., vgprs, 64)."""
    if array.dtype != np.uint32:
        raise BadType(
            f"registers of {matrix} have dtype {array.dtype}; "
            "a register image is uint32 (..., vgprs, 64)"
        )
    if array.shape[-2:] != (vgprs, LANES):
        raise BadShape(
            f"registers of {matrix} have shape {tuple(array.shape)}; "
            f"{instruction.mnemonic} ({instruction.arch}) "
            f"wants (..., {vgprs}, {LANES}) = (..., vgprs, lanes)"
        )


def pack(instruction: Instruction, matrix: str, values: Any, **modifiers: Any) -> Any:
    """Return the register image of a matrix.

    Parameters
    ----------
    instruction : Instruction
    matrix : "A", "B", "C" or "D"
    values : array (..., blocks, rows, columns)
        Of the format's dtype, or its bits as unsigned integers of the same element size. (...,
        rows, columns) where there is a single block. A of a sparse instruction has its K/2 stored
        columns.
    **modifiers
        See `modifiers.check`. The image is such that the instruction with these modifiers reads
        `values`; lanes that no element comes from are zero.

    Returns
    -------
    uint32 array (..., vgprs, 64)
        Of the caller's kind of array.

    Raises
    ------
    BadValue
        Where a modifier makes several elements share a place and their values differ.

    >>> import numpy as np
    >>> from gpuemu.mfma.instructions import instruction
    >>> i = instruction("v_mfma_i32_16x16x16i8", "gfx908")
    >>> a = np.zeros((1, 16, 16), np.int8)
    >>> a[0, 0, :4] = 1, 2, 3, 4
    >>> hex(i.pack("A", a)[0, 0])
    '0x4030201'
    """
    m = mods.check(instruction, **modifiers)
    bits = matrix_bits(instruction, check_matrix(matrix), values, m)
    image = scatter(instruction, matrix, bits, m)
    if not np.array_equal(gather(instruction, matrix, image, m), bits):
        raise BadValue(
            f"matrix {matrix}: with {m.non_default()} several elements come from one register of "
            f"{instruction.mnemonic}, and their values differ"
        )
    return arrays.like(image, values)


def unpack(instruction: Instruction, matrix: str, image: Any, **modifiers: Any) -> Any:
    """Return the matrix that a register image holds, as the instruction reads it.

    Parameters
    ----------
    instruction : Instruction
    matrix : "A", "B", "C" or "D"
    image : uint32 array (..., vgprs, 64)
    **modifiers
        See `modifiers.check`.

    Returns
    -------
    array (..., blocks, rows, columns)
        Of the format's dtype in NumPy or ml_dtypes.
    """
    m = mods.check(instruction, **modifiers)
    vgprs = instruction.operand_vgprs(check_matrix(matrix), m.cbsz, m.blgp)
    words = register_image(instruction, matrix, image, vgprs)
    fmt = instruction.operand_format(matrix, m.cbsz, m.blgp)
    return arrays.like(gather(instruction, matrix, words, m).view(fmt.dtype), image)
