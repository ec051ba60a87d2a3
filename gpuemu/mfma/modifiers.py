"""Modifiers of a call and their legality: the one place where both are decided.

Three modes. `strict` (default) accepts what the manuals define and raises for the rest. `llvm`
accepts every value that the LLVM assembler encodes and computes it by the general formula.
`truncate` keeps the low bits of the encoding's fields, as the compiler builtins do.

Two questions on which AMD's own texts disagree are switches:

- `broadcast`: "grouped" (cbsz splits the blocks into groups of 2**cbsz, each reads its block number
  abid; the ROCm parameter page, the calculator, the field tables of the guides) or "lane_block"
  (all lanes read the abid-th of 2**cbsz spans of lanes; section 7.1.5.1 of the CDNA3 guide and
  AMD's emulator).
- `output_layout` of the f64 4x4x4 instruction: "calculator" (lane 16 i + 4 b + j) or "formula" (the
  guide's general formula, lane 4 i + 16 b + j).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import BadType, BadValue, IllegalModifier
from .instructions import F8F6F4, Instruction

LEGALITIES = ("strict", "llvm", "truncate")
BROADCASTS = ("grouped", "lane_block")
OUTPUT_LAYOUTS = ("calculator", "formula")

Legality = Literal["strict", "llvm", "truncate"]


@dataclass(frozen=True)
class Modifiers:
    """The modifiers of one call, after `check`: constants that the kernels may rely on.

    Attributes
    ----------
    cbsz, abid, blgp : int
    neg : tuple of three int
        Negate A, B, C; f64 on gfx942 and gfx950.
    op_sel : tuple of two int
        The byte (0..3) of the scale registers of A and B.
    broadcast : "grouped" or "lane_block"
    output_layout : "calculator" or "formula"
    """

    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    neg: tuple[int, int, int] = (0, 0, 0)
    op_sel: tuple[int, int] = (0, 0)
    broadcast: str = "grouped"
    output_layout: str = "calculator"

    def index_set(self, instruction: Instruction) -> int:
        """Return the index set that a sparse call reads: abid where cbsz % 4 is 0, else 0."""
        sets = instruction.modifiers.index_sets
        return self.abid % sets if sets > 1 and self.cbsz % 4 == 0 else 0

    def non_default(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults: what a replay line has to say."""
        default = Modifiers()
        return {k: v for k, v in vars(self).items() if v != getattr(default, k)}


def constant(name: str, value: Any) -> int:
    """Return a modifier as int; what a compiler would call non-constant raises `BadType`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise BadType(
            f"{name}={value!r} is a {type(value).__name__}; modifiers are constants of the "
            "instruction: legal is an int"
        )
    return int(value)


def _constants(name: str, value: Any, length: int) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) != length:
        raise BadType(f"{name}={value!r}; legal: a tuple of {length} ints")
    return tuple(constant(f"{name}[{n}]", item) for n, item in enumerate(value))


def _choice(name: str, value: Any, legal: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in legal:
        raise BadValue(f"{name}={value!r}; legal: {', '.join(legal)}")
    return str(value)


def check(
    instruction: Instruction,
    *,
    cbsz: Any = 0,
    abid: Any = 0,
    blgp: Any = 0,
    neg: Any = (0, 0, 0),
    op_sel: Any = (0, 0),
    legality: str = "strict",
    broadcast: str = "grouped",
    output_layout: str = "calculator",
) -> Modifiers:
    """Validate the modifiers of a call.

    Parameters
    ----------
    instruction : Instruction
    cbsz, abid, blgp : int
        On f64 of gfx942 and gfx950, blgp is the builtin's argument: its bits 0, 1, 2 negate A, B,
        C. On f8f6f4, cbsz and blgp name the formats of A and B.
    neg : (int, int, int)
    op_sel : (int, int)
    legality : "strict", "llvm" or "truncate"
    broadcast, output_layout : str
        See the module's text.

    Returns
    -------
    Modifiers
        With blgp moved to neg where it means that.

    Raises
    ------
    IllegalModifier, BadType, BadValue
        Naming the value, the rule, the instruction and what would be legal.
    """
    _choice("legality", legality, LEGALITIES)
    found = Modifiers(
        constant("cbsz", cbsz),
        constant("abid", abid),
        constant("blgp", blgp),
        _constants("neg", neg, 3),  # type: ignore[arg-type]
        _constants("op_sel", op_sel, 2),  # type: ignore[arg-type]
        _choice("broadcast", broadcast, BROADCASTS),
        _choice("output_layout", output_layout, OUTPUT_LAYOUTS),
    )
    if legality == "truncate":
        found = replace(found, cbsz=found.cbsz & 7, abid=found.abid & 15, blgp=found.blgp & 7)
        found = _truncate_unused(instruction, found)
    _check_fields(instruction, found)
    if legality == "strict":
        _check_strict(instruction, found)
    elif legality == "llvm":
        _check_llvm(instruction, found)
    if instruction.modifiers.blgp == "neg" and found.blgp:
        bits = found.blgp
        found = replace(found, blgp=0, neg=(bits & 1, bits >> 1 & 1, bits >> 2 & 1))
    if instruction.formats["D"] == "f64":
        found = replace(found, cbsz=0, abid=0)  # the guides: ignored; `strict` has refused them
    return found


def _where(instruction: Instruction) -> str:
    return f"({instruction.mnemonic}, {instruction.arch})"


def _truncate_unused(instruction: Instruction, m: Modifiers) -> Modifiers:
    """Drop what the encoding has no field for: a builtin's surplus bits reach no silicon."""
    rules = instruction.modifiers
    if instruction.kind == "smfmac":
        return replace(m, blgp=0)
    if rules.cbsz == "format":
        return replace(m, abid=0)
    return m


def _check_fields(instruction: Instruction, m: Modifiers) -> None:
    """Raise for what no encoding field can hold, in every mode."""
    where = _where(instruction)
    rules = instruction.modifiers
    for name, value, top in (("cbsz", m.cbsz, 7), ("abid", m.abid, 15), ("blgp", m.blgp, 7)):
        if not 0 <= value <= top:
            raise IllegalModifier(f"{name}={value}; the encoding's field holds 0..{top} {where}")
    for n, bit in enumerate(m.neg):
        if bit not in (0, 1):
            raise IllegalModifier(f"neg[{n}]={bit}; legal: 0 or 1 {where}")
    if any(m.neg) and rules.blgp != "neg":
        raise IllegalModifier(
            f"neg={m.neg}; legal only on f64 of gfx942 and gfx950: (0, 0, 0) {where}"
        )
    if any(m.neg) and m.blgp:
        raise IllegalModifier(
            f"neg={m.neg} and blgp={m.blgp} are the same field of f64; give one of them {where}"
        )
    for n, byte in enumerate(m.op_sel):
        if not 0 <= byte <= 3:
            raise IllegalModifier(
                f"op_sel[{n}]={byte}; legal: 0..3, the byte of the scale register {where}"
            )
    if any(m.op_sel) and instruction.kind != "mfma_scale":
        raise IllegalModifier(f"op_sel={m.op_sel}; only mfma_scale reads scales: (0, 0) {where}")
    if rules.cbsz == "format":
        for name, value in (("cbsz", m.cbsz), ("blgp", m.blgp)):
            if value >= len(F8F6F4):
                raise IllegalModifier(
                    f"{name}={value} is a reserved format code; "
                    f"legal: 0..4 = {', '.join(F8F6F4)} {where}"
                )
    if m.output_layout != "calculator" and not (
        instruction.formats["D"] == "f64" and instruction.blocks > 1
    ):
        raise IllegalModifier(
            f"output_layout={m.output_layout!r} is a switch of "
            f"the f64 4x4x4 instruction only {where}"
        )


def _check_strict(instruction: Instruction, m: Modifiers) -> None:
    where, rules = _where(instruction), instruction.modifiers
    if rules.cbsz == "broadcast":
        if m.cbsz > rules.cbsz_max:
            raise IllegalModifier(
                f"cbsz={m.cbsz}; {instruction.mnemonic} has {instruction.blocks} blocks, "
                f"so cbsz<={rules.cbsz_max} ({instruction.arch})"
            )
        if m.abid >= 1 << m.cbsz:
            raise IllegalModifier(
                f"abid={m.abid} needs cbsz>={m.abid.bit_length()}; {instruction.mnemonic} has "
                f"{instruction.blocks} blocks, so cbsz<={rules.cbsz_max}; "
                f"legal with cbsz={m.cbsz}: abid 0..{(1 << m.cbsz) - 1} ({instruction.arch})"
            )
    elif rules.cbsz == "none" and instruction.kind == "mfma":
        reason = (
            "f64 has no broadcast" if instruction.formats["D"] == "f64" else "it has a single block"
        )
        if m.cbsz or m.abid:
            raise IllegalModifier(
                f"cbsz={m.cbsz}, abid={m.abid}; {reason}: legal is 0 for both {where}"
            )
    elif instruction.kind == "smfmac":
        if m.cbsz > rules.cbsz_max:
            raise IllegalModifier(
                f"cbsz={m.cbsz}; legal on a sparse instruction: 0..{rules.cbsz_max} {where}"
            )
        if m.abid > rules.abid_max:
            raise IllegalModifier(
                f"abid={m.abid}; {rules.index_sets} index set(s) of {rules.index_bits} bits: "
                f"legal: 0..{rules.abid_max} {where}"
            )
    elif m.abid:
        raise IllegalModifier(
            f"abid={m.abid}; an f8f6f4 instruction has no abid operand: legal is 0 {where}"
        )
    if m.blgp > rules.blgp_max:
        what = (
            "f64 of gfx90a documents no blgp"
            if instruction.kind == "mfma"
            else "the encoding has no blgp operand"
        )
        raise IllegalModifier(f"blgp={m.blgp}; {what}: legal is 0 {where}")


def _check_llvm(instruction: Instruction, m: Modifiers) -> None:
    """Raise for operands that the assembler does not have; field widths were checked before."""
    where, rules = _where(instruction), instruction.modifiers
    if instruction.kind == "smfmac" and m.blgp:
        raise IllegalModifier(
            f"blgp={m.blgp}; the assembler has no blgp operand on a sparse instruction {where}"
        )
    if rules.cbsz == "format" and m.abid:
        raise IllegalModifier(f"abid={m.abid}; the assembler has no abid operand on f8f6f4 {where}")
