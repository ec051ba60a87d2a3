"""Sparse A of the SMFMAC instructions: 2:4 matrices to register images (values, idx) and back.

A lane stores two of every four dense columns of its row. Its index register holds two bits for
every stored item, item p in bits 2p and 2p + 1 of the index set that cbsz and abid choose: the
column, within the group of four, whose row of B the item multiplies. A group's two fields ascend.

Sources: CDNA3 guide 7.4, CDNA4 guide 7.5, composable_kernel's sparse tests. The page "Common MFMA
parameters" of ROCm counts two bits a group instead, and lets cbsz and abid broadcast A: see
docs/sparse.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import formats
from ..backends import arrays
from ..errors import BadShape, BadValue
from . import layouts, registers
from . import modifiers as mods
from .instructions import Instruction

Array = np.ndarray[Any, Any]

GROUP = 4  # dense columns of which two are stored

# The same bits of all eight groups of a 32-bit index register.
_FIRST = np.uint32(0x33333333)
_NO_CARRY = np.uint32(0x77777777)
_FLAG = 0x88888888


def _require_sparse(instruction: Instruction) -> None:
    if not instruction.sparse:
        raise BadValue(
            f"{instruction.mnemonic} ({instruction.arch}) is no sparse instruction; legal: "
            "v_smfmac_* of gfx942 and gfx950"
        )


def pack_sparse(
    instruction: Instruction, dense: Any, *, bits: bool = False, cbsz: int = 0, abid: int = 0
) -> tuple[Any, Any]:
    """Return the register images of a dense A of 2:4 structure.

    Parameters
    ----------
    instruction : Instruction
        A sparse one.
    dense : array (..., 1, M, K) or (..., M, K)
        Of the format of A; at most two nonzeros in every four columns 4g .. 4g + 3. A zero of
        either sign is no nonzero; a NaN is one.
    bits : bool
        Whether unsigned integers are taken as bits.
    cbsz, abid : int
        As in the call: they choose the index set that is written. The other sets are zero, so that
        images of several sets can be ORed.

    Returns
    -------
    a : uint32 array (..., vgprs, 64)
        The stored columns. Where a group has fewer than two nonzeros, its negative zeros, then its
        first zeros fill up.
    idx : uint32 array (..., 1, 64)

    Raises
    ------
    BadValue
        Where a group has more than two nonzeros, with row and group.

    >>> import numpy as np, gpuemu
    >>> i = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", arch="gfx942")
    >>> dense = np.zeros((16, 32), np.float16)
    >>> dense[0, [1, 3, 6]] = 1, 2, 4
    >>> a, idx = i.pack_sparse(dense)
    >>> [hex(v) for v in (a[0, 0], a[1, 0], idx[0, 0])]
    ['0x40003c00', '0x44000000', '0x8d']

    Source: CDNA3 guide 7.4, CDNA4 guide 7.5: two bits of idx for every stored item, cbsz and abid
    choose an index set. ROCm's page "Common MFMA parameters" says two bits a group and a broadcast
    of A; docs/sparse.md weighs the sources.
    """
    _require_sparse(instruction)
    m = mods.check(instruction, cbsz=cbsz, abid=abid)
    a, idx = compress(instruction, dense, m, bits=bits)
    return arrays.like(a, dense), arrays.like(idx, dense)


def compress(
    instruction: Instruction, dense: Any, m: mods.Modifiers, *, bits: bool
) -> tuple[Array, Array]:
    """Return the register images (values, idx) of a dense A as NumPy arrays; see `pack_sparse`."""
    fmt = instruction.operand_format("A")
    items = _dense_bits(instruction, dense, fmt, bits)
    groups = items.reshape(*items.shape[:-1], instruction.K // GROUP, GROUP)
    # Nonzeros come first, then negative zeros (no number is lost while there is room), then zeros.
    rank = _is_zero(groups, fmt).astype(np.int8) + (groups == 0)
    _check_structure(instruction, rank)
    ordered = np.sort(rank * GROUP + np.arange(GROUP, dtype=np.int8), axis=-1)
    columns = np.sort(ordered[..., :2] % GROUP, axis=-1)
    stored = np.take_along_axis(groups, columns.astype(np.intp), axis=-1)
    stored = stored.reshape(*items.shape[:-1], instruction.products)
    nibbles = (columns[..., 0] | columns[..., 1] << 2).astype(np.uint32)
    return registers.scatter(instruction, "A", stored, m), _scatter_index(instruction, nibbles, m)


def _dense_bits(instruction: Instruction, dense: Any, fmt: formats.Format, bits: bool) -> Array:
    array = arrays.to_numpy(dense, "matrix A")
    name = f"matrix A of {instruction.mnemonic} ({instruction.arch})"
    found = formats.bits_of(array, fmt, name, bits=bits)
    shape = (1, instruction.M, instruction.K)
    if found.shape[-2:] == shape[1:] and found.shape[-3:] != shape:
        found = found[..., None, :, :]
    if found.shape[-3:] != shape:
        raise BadShape(
            f"dense matrix A has shape {array.shape}; {instruction.mnemonic} wants "
            f"(..., 1, {instruction.M}, {instruction.K}) = (..., blocks, rows, dense columns); its "
            f"{instruction.products} stored columns are legal together with idx only"
        )
    return found


def _is_zero(bits: Array, fmt: formats.Format) -> Array:
    zero = bits == 0
    if fmt.is_float and fmt.nan != "negative-zero":
        zero |= bits == bits.dtype.type(1 << (fmt.bits - 1))
    return np.asarray(zero)


def _check_structure(instruction: Instruction, rank: Array) -> None:
    """Raise where more than two items of a group are nonzero (rank 0)."""
    nonzeros = np.count_nonzero(rank == 0, axis=-1)
    if nonzeros.size == 0 or int(nonzeros.max()) <= 2:
        return
    bad = np.argwhere(nonzeros > 2)
    where = tuple(int(n) for n in bad[0])
    *lead, _, row, group = where
    matrix = f"matrix {tuple(lead)}, " if lead else ""
    raise BadValue(
        f"A is not 2:4 sparse: {matrix}row {row}, group {group} (columns {GROUP * group} to "
        f"{GROUP * group + 3}) has {int(nonzeros[where])} nonzeros, and {len(bad)} group(s) have "
        f"too many; {instruction.mnemonic} ({instruction.arch}) stores at most 2 of every 4 columns"
    )


def _index_places(instruction: Instruction, m: mods.Modifiers) -> tuple[Array, Array]:
    """Return the lane and the first bit of every group's four bits, (1, M, K/4)."""
    where = layouts.layout(instruction, "K", cbsz=m.cbsz, abid=m.abid, legality="llvm")
    where = where[:, :, ::GROUP]
    return where[..., 1], where[..., 2]


def _scatter_index(instruction: Instruction, nibbles: Array, m: mods.Modifiers) -> Array:
    lanes, first = _index_places(instruction, m)
    idx = np.zeros((*nibbles.shape[:-3], 1, layouts.LANES), np.uint32)
    for bit in np.unique(first):
        here = first == bit
        idx[..., 0, lanes[here]] |= nibbles[..., here] << np.uint32(bit)
    return idx


def _gather_index(instruction: Instruction, idx: Array, m: mods.Modifiers) -> Array:
    """Return the columns (..., 1, M, K/4, 2), counted in its group, of every group's two items."""
    lanes, first = _index_places(instruction, m)
    nibbles = idx[..., 0, lanes] >> first.astype(np.uint32)
    return np.stack([nibbles & np.uint32(3), nibbles >> np.uint32(2) & np.uint32(3)], axis=-1)


def unpack_sparse(instruction: Instruction, a: Any, idx: Any, **modifiers: Any) -> Any:
    """Return the dense A that register images (values, idx) hold.

    Parameters
    ----------
    instruction : Instruction
        A sparse one.
    a : uint32 array (..., vgprs, 64)
    idx : uint32 array (..., 1, 64)
    **modifiers
        cbsz, abid, legality; see `modifiers.check`.

    Returns
    -------
    array (..., 1, M, K)
        Of A's format.

    Raises
    ------
    BadValue
        Where a group's fields do not ascend (`strict`), or name one column twice (in every mode: no
        dense matrix says that).
    """
    _require_sparse(instruction)
    m = mods.check(instruction, **modifiers)
    values = registers.register_image(instruction, "A", a, instruction.vgprs["A"])
    fields = registers.register_image(instruction, "idx", idx, 1)
    try:
        lead = np.broadcast_shapes(values.shape[:-2], fields.shape[:-2])
    except ValueError:
        raise BadShape(
            f"leading shapes do not broadcast: a {values.shape[:-2]}, idx {fields.shape[:-2]}"
        ) from None
    if modifiers.get("legality", "strict") == "strict":
        check_index(instruction, fields, m)
    columns = _gather_index(instruction, fields, m)
    if np.any(columns[..., 0] == columns[..., 1]):
        _raise_index(instruction, columns, columns[..., 0] == columns[..., 1], m)
    stored = registers.gather(instruction, "A", values, m)
    stored = stored.reshape(*stored.shape[:-1], instruction.K // GROUP, 2)
    dense = np.zeros((*lead, 1, instruction.M, instruction.K // GROUP, GROUP), stored.dtype)
    pairs = (*dense.shape[:-1], 2)
    at = np.broadcast_to(columns.astype(np.intp), pairs)
    np.put_along_axis(dense, at, np.broadcast_to(stored, pairs), axis=-1)
    dense = dense.reshape(*lead, 1, instruction.M, instruction.K)
    return arrays.like(dense.view(instruction.operand_format("A").dtype), a)


def check_index(instruction: Instruction, idx: Any, m: mods.Modifiers) -> None:
    """Raise `BadValue` where the two index fields of a group do not ascend, naming lane and group.

    Parameters
    ----------
    instruction : Instruction
    idx : uint32 array (..., 1, 64), of NumPy or CuPy
        A CuPy array is checked on its device, with one reduction, and fetched only for an error.
    m : Modifiers
        Only the index set that they choose is read.
    """
    rules = instruction.modifiers
    first = m.index_set(instruction) * rules.index_bits
    flags = np.uint32((_FLAG & ((1 << rules.index_bits) - 1)) << first)
    # In each group's four bits: 7 + second - first has its top bit set where first < second.
    ascending = (idx >> np.uint32(2) & _FIRST) + _NO_CARRY - (idx & _FIRST)
    if bool(((ascending & flags) == flags).all()):
        return
    fields = arrays.to_numpy(idx)
    columns = _gather_index(instruction, fields, m)
    _raise_index(instruction, columns, columns[..., 0] >= columns[..., 1], m)


def _raise_index(instruction: Instruction, columns: Array, bad: Array, m: mods.Modifiers) -> None:
    where = tuple(int(n) for n in np.argwhere(bad)[0])
    *lead, block, row, group = where
    lanes, first = _index_places(instruction, m)
    low, high = (int(n) for n in columns[where])
    wave = f"wavefront {tuple(lead)}, " if lead else ""
    raise BadValue(
        f"idx: {wave}lane {int(lanes[block, row, group])}, bits {int(first[block, row, group])} to "
        f"{int(first[block, row, group]) + 3} (row {row}, group {group}, index set "
        f"{m.index_set(instruction)}) name columns {low} and {high}; {instruction.mnemonic} "
        f"({instruction.arch}) wants the first below the second; {int(bad.sum())} group(s) do not. "
        "legality='llvm' computes any idx as a multiplexer"
    )
