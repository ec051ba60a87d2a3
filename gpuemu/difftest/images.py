"""Cases as register images: matrices of a class packed, with index sets and scales where a call
reads them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from ..mfma.registers import LANES
from . import items
from .generators import InputClass
from .spec import Spec
from .streams import Stream, key_of

Array = np.ndarray[Any, Any]
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
        found[name.lower()] = instruction.pack(name, matrix, **chosen)
    return found


def _sparse(spec: Spec, s: Stream, m: Modifiers, B: Array) -> tuple[Array, Array]:
    """Return random index registers, and B with its rows where the index set that is read points.

    All rows of A choose the same columns, so that a product stands where the class has put it.
    The other rows of B and the other index sets hold random bits that must not matter.
    """
    i = spec.instruction
    idx = np.zeros((s.count, 1, LANES), np.uint32)
    for group in range(8):
        idx |= s.choose(INDEX_PAIRS, 1, LANES).astype(np.uint32) << np.uint32(4 * group)
    where = i.layout("K", cbsz=m.cbsz, abid=m.abid, legality="llvm")[0, :, ::4]
    lane, first = where[..., 1], where[..., 2].astype(np.uint32)
    pairs = s.choose(INDEX_PAIRS, i.K // 4)
    wanted = np.broadcast_to(pairs[:, None].astype(np.uint32), (s.count, i.M, i.K // 4))
    for group in range(i.K // 4):
        at = lane[:, group]
        cleared = idx[:, 0, at] & ~(np.uint32(15) << first[:, group])
        idx[:, 0, at] = cleared | wanted[:, :, group] << first[:, group]
    columns = np.stack([pairs & 3, pairs >> 2], axis=-1) + 4 * np.arange(i.K // 4)[:, None]
    dense = (s.words(1, i.K, i.N) >> np.uint64(64 - spec.b.bits)).astype(B.dtype)
    at = columns.reshape(s.count, 1, i.products, 1)
    np.put_along_axis(dense, np.broadcast_to(at, B.shape), B, axis=2)
    return idx, dense


def _scales(s: Stream, cls: InputClass) -> Array:
    """Return E8M0 codes in all four bytes of every lane: mostly near 1, any code in the wild
    classes.
    """
    wild = cls.name in ("raw", "specials", "overflow")
    image = np.zeros((s.count, 1, LANES), np.uint32)
    plain = s.below(2, 1, 1) == 0
    for byte in range(4):
        code = (
            s.below(256, 1, LANES) if wild else np.where(plain, 127, s.between(117, 137, 1, LANES))
        )
        image |= code.astype(np.uint32) << np.uint32(8 * byte)
    return image
