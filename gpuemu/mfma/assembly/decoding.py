"""Machine words become a call again, or an error that names the field and what it may hold."""

from __future__ import annotations

from ...errors import AssemblyError
from ..instructions import Instruction
from .call import AssemblyCall, Operands, third_field
from .encoding import ENCODING, FIELDS, PREFIX_FIELDS, SCALE_PREFIX, VGPR, split
from .operands import Constant, Registers, is_constant
from .slots import OPERANDS, by_opcode, format_registers


def _fail(data: bytes, message: str) -> AssemblyError:
    return AssemblyError(f"words {data.hex(' ', 4)}: {message}")


def _row(data: bytes, word: dict[str, int], arch: str, scaled: bool) -> Instruction:
    if word["encoding"] != ENCODING:
        raise _fail(
            data, f"bits 31:23 are {word['encoding']:#x}; legal: {ENCODING:#x}, the matrix encoding"
        )
    row = by_opcode(arch, word["op"], scaled=scaled)
    if row is None:
        kind = "scaled matrix instruction" if scaled else "matrix instruction"
        raise _fail(data, f"opcode {word['op']} is no {kind} of {arch}")
    return row


def _prefix(data: bytes) -> dict[str, int]:
    word = split(PREFIX_FIELDS, data)
    if word["encoding"] != ENCODING or word["op"] != SCALE_PREFIX:
        raise _fail(
            data, f"16 bytes start with {ENCODING:#x} in bits 31:23 and opcode {SCALE_PREFIX:#x}"
        )
    for name in PREFIX_FIELDS:
        if name.startswith("unused") and word[name]:
            low, width = PREFIX_FIELDS[name]
            raise _fail(data, f"bits {low + width - 1}:{low} are {word[name]:#x}; legal: 0")
    return word


def _register(data: bytes, code: int, accumulator: int, count: int, name: str) -> Registers:
    if code < VGPR:
        raise _fail(data, f"source code {code} of {name} is no vector register; legal: 256..511")
    return Registers("a" if accumulator else "v", code - VGPR, count)


def _accumulator(
    data: bytes, row: Instruction, word: dict[str, int], bank: int
) -> Registers | Constant:
    if word["src2"] >= VGPR:
        return _register(data, word["src2"], bank, row.vgprs["C"], "C")
    if not is_constant(word["src2"]):
        raise _fail(
            data, f"source code {word['src2']} of C is neither a register nor an inline constant"
        )
    return Constant(word["src2"], 64 if row.formats["C"] == "f64" else 32)


def decode(data: bytes, arch: str, legality: str) -> AssemblyCall:
    """Return the call that machine words encode; `encode` of it gives the words back.

    Raises
    ------
    AssemblyError, IllegalModifier
        Where they encode no legal matrix instruction of the architecture.
    """
    if len(data) not in (8, 16):
        raise AssemblyError(
            f"{len(data)} bytes {data[:16].hex(' ', 4)}; legal: 8, or 16 for a scaled instruction"
        )
    scaled = len(data) == 16
    prefix = _prefix(data[:8]) if scaled else {}
    word = split(FIELDS, data[-8:])
    row = _row(data, word, arch, scaled)
    _check_unused(data, word, row)
    blgp, neg = third_field(row, word["blgp"])
    call = AssemblyCall(
        row,
        _operands(data, word, prefix, row),
        cbsz=word["cbsz"],
        abid=0 if row.formats["A"] == "f8f6f4" else word["abid"],
        blgp=blgp,
        neg=neg,
        op_sel=_bytes(prefix) if scaled else (0, 0),
        legality=legality,
    )
    call.check()
    return call


def _check_unused(data: bytes, word: dict[str, int], row: Instruction) -> None:
    """Raise for bits without use that are not what the encoder writes."""
    scaled = int(row.kind == "mfma_scale")
    if row.formats["A"] == "f8f6f4" and word["abid"] != scaled:
        raise _fail(data, f"ABID is {word['abid']}; legal on {row.mnemonic}: {scaled}")
    if row.registers == "accumulation" and word["acc_cd"]:
        raise _fail(data, f"bit 15 is 1; legal on {row.arch}: 0, C and D lie in AccVGPRs")
    if row.kind == "smfmac" and word["blgp"]:
        raise _fail(data, f"bits 63:61 are {word['blgp']}; legal on {row.mnemonic}: 0")


def _operands(
    data: bytes, word: dict[str, int], prefix: dict[str, int], row: Instruction
) -> Operands:
    bank = 1 if row.registers == "accumulation" else word["acc_cd"]
    count_a, count_b = (
        format_registers(word[field]) if row.formats[matrix] == "f8f6f4" else row.vgprs[matrix]
        for matrix, field in (("A", "cbsz"), ("B", "blgp"))
    )
    return Operands(
        D=Registers("a" if bank else "v", word["vdst"], row.vgprs["D"]),
        A=_register(data, word["src0"], word["acc_a"], count_a, "A"),
        B=_register(data, word["src1"], word["acc_b"], count_b, "B"),
        C=_accumulator(data, row, word, bank) if "C" in OPERANDS[row.kind] else None,
        idx=_register(data, word["src2"], 0, 1, "idx") if row.kind == "smfmac" else None,
        scale_a=_register(data, prefix["src0"], 0, 1, "scale_a") if prefix else None,
        scale_b=_register(data, prefix["src1"], 0, 1, "scale_b") if prefix else None,
    )


def _bytes(prefix: dict[str, int]) -> tuple[int, int]:
    low, high = prefix["op_sel"], prefix["op_sel_hi"]
    return (low & 1) + 2 * (high & 1), (low >> 1) + 2 * (high >> 1)
