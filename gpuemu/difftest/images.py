"""Cases as register images: matrices of a class packed, with index sets and scales where a call
reads them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..mfma.instructions import Instruction
from ..mfma.layouts import LANES
from ..mfma.modifiers import Modifiers
from . import device_cases, items
from .generators import InputClass
from .spec import Spec
from .streams import Array, Stream, key_of, namespace

Images = dict[str, Array]

# Two ascending columns of four, as the index register holds them: the first in the low two bits.
INDEX_PAIRS = np.array([low | high << 2 for low in range(4) for high in range(low + 1, 4)])


def formats_only(instruction: Instruction, m: Modifiers) -> dict[str, int]:
    """Return the modifiers that choose formats, which is all that a matrix as it lies in
    registers depends on.
    """
    return {"cbsz": m.cbsz, "blgp": m.blgp} if instruction.modifiers.cbsz == "format" else {}


def images(
    instruction: Instruction, m: Modifiers, cls: InputClass, seed: int, cases: Array
) -> Images:
    """Return the operands of a list of cases.

    Parameters
    ----------
    instruction : Instruction
    m : Modifiers
        Only formats and the index set matter; lanes are shuffled later, by the instruction itself.
    cls : InputClass
    seed : int
    cases : int array (n,)

    Returns
    -------
    dict of name to uint32 array (n, vgprs, 64)
        "a", "b", "c", and "idx" or "scale_a" and "scale_b" where the instruction reads them.
    """
    chosen = formats_only(instruction, m)
    a, b = (instruction.operand_format(x, **chosen) for x in ("A", "B"))
    spec = Spec(instruction, a, b, instruction.operand_format("C"))
    s = Stream(key_of(seed, instruction.arch, instruction.mnemonic, cls.name), cases)
    A, B, C = (
        items.encode(f, x)
        for f, x in zip((spec.a, spec.b, spec.c), cls.generate(spec, s), strict=True)
    )
    found: Images = {}
    if instruction.sparse:
        found["idx"], B = _sparse(spec, s, m, B)
    if instruction.kind == "mfma_scale":
        found |= {"scale_a": _scales(s, cls), "scale_b": _scales(s, cls)}
    for name, matrix in (("A", A), ("B", B), ("C", C)):
        found[name.lower()] = pack(instruction, name, matrix, **chosen)
    return found


def stored_layout(i: Instruction, matrix: str, **modifiers: Any) -> Array:
    """Return `layouts.layout` of the items as they are stored: of A and of the index fields of a
    sparse instruction, its K/2 stored columns and their two-bit fields.
    """
    where = i.layout(matrix, **modifiers)
    if i.sparse and matrix in ("A", "K"):
        # Each pair of stored items is one entry, twice as wide, that four dense columns share.
        where = np.repeat(where[:, :, ::4], 2, axis=2)
        where[..., 3] //= 2
        where[:, :, 1::2, 2] += where[:, :, 1::2, 3]
    return where


@lru_cache(maxsize=1024)
def _words(i: Instruction, matrix: str, cbsz: int, blgp: int) -> tuple[Array, Array]:
    """Return, slot by slot, the item (flat index) and its shift to the left of every word of a
    register image, int64 arrays (slots, words); an item that a slot lacks has shift 32.
    """
    fmt = i.operand_format(matrix, cbsz, blgp)
    vgprs = i.operand_vgprs(matrix, cbsz, blgp)
    where = stored_layout(i, matrix, cbsz=cbsz, blgp=blgp).reshape(-1, 4)
    parts: list[list[tuple[int, int]]] = [[] for _ in range(vgprs * LANES)]
    for item, (vgpr, lane, first, _) in enumerate(where.tolist()):
        for part in range(-(-(first + fmt.bits) // 32)):
            parts[(vgpr + part) * LANES + lane].append((item, first - 32 * part))
    slots = max(map(len, parts))
    table = np.array([row + [(0, 32)] * (slots - len(row)) for row in parts])
    items, shifts = (np.ascontiguousarray(table[..., n].T) for n in range(2))
    return items, shifts


@lru_cache(maxsize=1024)
def _words_on_device(
    _device: int, i: Instruction, matrix: str, cbsz: int, blgp: int
) -> tuple[Array, Array]:
    import cupy

    item, shift = _words(i, matrix, cbsz, blgp)
    return cupy.asarray(item), cupy.asarray(shift)


def pack(i: Instruction, matrix: str, bits: Array, *, cbsz: int = 0, blgp: int = 0) -> Array:
    """Return the register image, uint32 (n, vgprs, 64), of bits (n, blocks, rows, columns) as
    storage words of the format, in the array's own library.
    """
    flat = bits.reshape(len(bits), -1)
    if namespace(bits) is not np:
        tables = _words_on_device(bits.device.id, i, matrix, cbsz, blgp)
        return device_cases.pack(flat, *tables).reshape(len(bits), -1, LANES)
    items, shifts = _words(i, matrix, cbsz, blgp)
    words = np.zeros((len(bits), items.shape[1]), np.uint32)
    for item, shift in zip(items, shifts, strict=True):
        left, right = (np.maximum(x, 0).astype(np.uint64) for x in (shift, -shift))
        words |= (flat[:, item].astype(np.uint64) << left >> right).astype(np.uint32)
    return words.reshape(len(bits), -1, LANES)


@lru_cache(maxsize=256)
def _index_fields(i: Instruction, cbsz: int, abid: int) -> tuple[Array, Array]:
    """Return the group of four columns and the first bit of every field of the index set that is
    read, (fields, lanes).
    """
    where = i.layout("K", cbsz=cbsz, abid=abid, legality="llvm")[0, :, ::4]
    group = np.broadcast_to(np.arange(i.K // 4), where.shape[:2]).ravel()
    order = np.lexsort((where[..., 2].ravel(), where[..., 1].ravel()))
    first = where[..., 2].ravel()[order].reshape(LANES, -1).T
    return group[order].reshape(LANES, -1).T, first.astype(np.uint32)


def _sparse(spec: Spec, s: Stream, m: Modifiers, B: Array) -> tuple[Array, Array]:
    """Return random index registers, and B with its rows where the index set that is read points.

    All rows of A choose the same columns, so that a product stands where the class has put it.
    The other rows of B and the other index sets hold random bits that must not matter.
    """
    i, xp = spec.instruction, s.xp
    idx = _joined(s.choose(INDEX_PAIRS, 8, 1, LANES), 4)
    pairs = s.choose(INDEX_PAIRS, i.K // 4)
    for groups, bit in zip(*_index_fields(i, m.cbsz, m.abid), strict=True):
        first = xp.asarray(bit)
        wanted = pairs[:, xp.asarray(groups)].astype(np.uint32) << first
        idx = idx & ~(xp.full_like(first, 15) << first) | wanted[:, None]
    dense = (s.words(i.K // 4, 4, i.N) >> np.uint64(64 - spec.b.bits)).astype(B.dtype)
    place = xp.arange(4)[:, None]
    kept = B.reshape(s.count, i.K // 4, 2, i.N)
    for n, column in enumerate((pairs & 3, pairs >> 2)):
        dense = xp.where(column[..., None, None] == place, kept[:, :, n : n + 1], dense)
    return idx, dense.reshape(s.count, 1, i.K, i.N)


def _scales(s: Stream, cls: InputClass) -> Array:
    """Return E8M0 codes in all four bytes of every lane: mostly near 1, any code in the wild
    classes.
    """
    wild = cls.name in ("raw", "specials", "overflow")
    plain = s.below(2, 1, 1) == 0
    if wild:
        return _joined(s.below(256, 4, 1, LANES), 8)
    return _joined(s.xp.where(plain[:, None], 127, s.between(117, 137, 4, 1, LANES)), 8)


def _joined(fields: Array, bits: int) -> Array:
    """Return registers (n, 1, lanes) of fields (n, count, 1, lanes), the first field lowest."""
    xp, count = namespace(fields), fields.shape[1]
    shifts = xp.arange(0, count * bits, bits, dtype=np.uint32)[:, None, None]
    parts = fields.astype(np.uint32) << shifts
    image = parts[:, 0].copy()
    for n in range(1, count):
        image |= parts[:, n]
    return image
