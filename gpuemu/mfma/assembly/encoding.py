"""Machine words: the VOP3P-MAI encoding of 64 bits, and its scaled form of 128.

Source: the field tables of the CDNA guides; the scaled form as LLVM 22 emits it (a prefix that
names the scale registers, then the f8f6f4 instruction with bit 0 of ABID set).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operands import Constant, Registers

if TYPE_CHECKING:
    from .call import AssemblyCall

# Field: lowest bit and width, in a 64-bit word whose first byte in memory is the lowest.
FIELDS = {
    "vdst": (0, 8),
    "cbsz": (8, 3),
    "abid": (11, 4),
    "acc_cd": (15, 1),
    "op": (16, 7),
    "encoding": (23, 9),
    "src0": (32, 9),
    "src1": (41, 9),
    "src2": (50, 9),
    "acc_a": (59, 1),
    "acc_b": (60, 1),
    "blgp": (61, 3),
}
# The scaled form's first word.
PREFIX_FIELDS = {
    "unused0": (0, 11),
    "op_sel": (11, 2),
    "unused1": (13, 3),
    "op": (16, 7),
    "encoding": (23, 9),
    "src0": (32, 9),
    "src1": (41, 9),
    "unused2": (50, 9),
    "op_sel_hi": (59, 2),
    "unused3": (61, 3),
}
ENCODING = 0x1A7
SCALE_PREFIX = 0x2C
VGPR = 256  # source codes from here on are vector registers


def _join(layout: dict[str, tuple[int, int]], values: dict[str, int]) -> bytes:
    word = sum(value << layout[name][0] for name, value in values.items())
    return word.to_bytes(8, "little")


def split(layout: dict[str, tuple[int, int]], word: bytes) -> dict[str, int]:
    """Return the fields of a 64-bit word, its first byte the lowest."""
    whole = int.from_bytes(word, "little")
    return {name: whole >> low & (1 << width) - 1 for name, (low, width) in layout.items()}


def _source(operand: Registers | Constant | None) -> int:
    if isinstance(operand, Constant):
        return operand.code
    return 0 if operand is None else VGPR + operand.first


def encode(call: AssemblyCall) -> bytes:
    """Return the machine words of a call, low address first."""
    row, o = call.instruction, call.operands
    scaled = row.kind == "mfma_scale"
    accumulation_only = (
        row.registers == "accumulation"
    )  # such an architecture has no bit for the bank
    word = {
        "vdst": o.D.first,
        "cbsz": call.cbsz,
        "abid": 1 if scaled else call.abid,
        "acc_cd": int(o.D.bank == "a" and not accumulation_only),
        "op": row.opcode,
        "encoding": ENCODING,
        "src0": _source(o.A),
        "src1": _source(o.B),
        "src2": _source(o.idx if row.kind == "smfmac" else o.C),
        "acc_a": int(o.A.bank == "a"),
        "acc_b": int(o.B.bank == "a"),
        "blgp": call.blgp or sum(bit << n for n, bit in enumerate(call.neg)),
    }
    if not scaled:
        return _join(FIELDS, word)
    low, high = (
        sum((byte >> bit & 1) << n for n, byte in enumerate(call.op_sel)) for bit in (0, 1)
    )
    prefix = {
        "op_sel": low,
        "op": SCALE_PREFIX,
        "encoding": ENCODING,
        "src0": _source(o.scale_a),
        "src1": _source(o.scale_b),
        "op_sel_hi": high,
    }
    return _join(PREFIX_FIELDS, prefix) + _join(FIELDS, word)
