"""Which operands and modifiers an instruction takes, and whether given ones are legal.

A slot is one operand of the assembly line: how many registers, of which bank, aligned how, and
whether a constant may stand there. The rules are those of the LLVM 22 assembler; `strict` adds
what the manuals leave undefined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..instructions import Instruction, instructions
from .operands import REGISTERS, Bank, Constant, Registers

Operand = Registers | Constant
SlotName = Literal["D", "A", "B", "C", "idx", "scale_a", "scale_b"]

# The operands of a line, in order, and the modifiers that may follow, in order.
OPERANDS: Mapping[str, tuple[SlotName, ...]] = {
    "mfma": ("D", "A", "B", "C"),
    "smfmac": ("D", "A", "B", "idx"),
    "mfma_f8f6f4": ("D", "A", "B", "C"),
    "mfma_scale": ("D", "A", "B", "C", "scale_a", "scale_b"),
}
MODIFIERS: Mapping[str, tuple[str, ...]] = {
    "mfma": ("cbsz", "abid", "blgp"),
    "smfmac": ("cbsz", "abid"),
    "mfma_f8f6f4": ("cbsz", "blgp"),
    "mfma_scale": ("op_sel", "op_sel_hi", "cbsz", "blgp"),
}
FIELD_MAX = {"cbsz": 7, "abid": 15, "blgp": 7}


@dataclass(frozen=True)
class Slot:
    """One operand of an instruction.

    Attributes
    ----------
    name : str
    sizes : tuple of int
        Registers that it may take.
    banks : tuple of "v" and "a"
    even : bool
        Whether several registers start at an even number.
    constants : "none", "special" (scalar registers) or "inline" (those, and inline constants)
    width : 32 or 64
        Bits of the elements, which decide the value of a constant.
    """

    name: SlotName
    sizes: tuple[int, ...]
    banks: tuple[Bank, ...]
    even: bool
    constants: Literal["none", "special", "inline"] = "none"
    width: Literal[32, 64] = 32

    def legal(self) -> str:
        """Return in words what may stand here."""
        count = " or ".join(map(str, self.sizes))
        bank = " or ".join({"v": "VGPRs", "a": "AccVGPRs"}[b] for b in self.banks)
        text = f"{count} consecutive {bank}" if self.sizes != (1,) else f"one of the {bank}"
        if self.even and self.sizes != (1,):
            text += " from an even number on"
        return text + (", or an inline constant" if self.constants == "inline" else "")

    def why_not(self, operand: Operand) -> str | None:
        """Return why an operand may not stand here, or None where it may."""
        if isinstance(operand, Constant):
            inline = self.constants == "inline" or (
                self.constants == "special" and not operand.emulated
            )
            return None if inline else f"{self.name} is {operand}; legal: {self.legal()}"
        odd = self.even and operand.count > 1 and operand.first % 2
        fits = operand.count in self.sizes and operand.bank in self.banks and not odd
        if not fits or operand.first < 0 or operand.last >= REGISTERS:
            return f"{self.name} is {operand}; legal: {self.legal()}"
        return None


@cache
def slots(instruction: Instruction) -> tuple[Slot, ...]:
    """Return the operands that an instruction takes, in the order of the assembly line."""
    either: tuple[Bank, ...] = ("v", "a")
    accumulator: tuple[Bank, ...] = ("a",) if instruction.registers == "accumulation" else either
    even, vgprs = instruction.even_aligned, instruction.vgprs
    width: Literal[32, 64] = 64 if instruction.formats["C"] == "f64" else 32

    def operand(name: Literal["A", "B"]) -> Slot:
        narrow = (6, 4) if instruction.formats[name] == "f8f6f4" else ()
        return Slot(name, (vgprs[name], *narrow), either, even)

    constants: Literal["special", "inline"] = "inline" if len(accumulator) > 1 else "special"
    every: dict[str, Slot] = {
        "D": Slot("D", (vgprs["D"],), accumulator, even),
        "A": operand("A"),
        "B": operand("B"),
        "C": Slot("C", (vgprs["C"],), accumulator, even, constants, width),
        "idx": Slot("idx", (1,), ("v",), even),
        "scale_a": Slot("scale_a", (1,), ("v",), even),
        "scale_b": Slot("scale_b", (1,), ("v",), even),
    }
    return tuple(every[name] for name in OPERANDS[instruction.kind])


def format_registers(code: int) -> int:
    """Return the registers of an f8f6f4 operand of a format code; reserved codes count as 8-bit."""
    return {2: 6, 3: 6, 4: 4}.get(code, 8)


def operands_fault(
    instruction: Instruction, operands: Mapping[SlotName, Operand], cbsz: int, blgp: int
) -> tuple[SlotName, str] | None:
    """Return the slot and the rule that operands break together, or None."""
    d, c = operands["D"], operands.get("C")
    if isinstance(c, Registers) and isinstance(d, Registers):
        if c.bank != d.bank:
            return "C", f"C is {c} and D is {d}; legal: both VGPRs or both AccVGPRs"
        partial = c.overlaps(d) and c != d and d.count > 4
        if partial and instruction.formats["A"] != "f8f6f4":
            return "C", f"C is {c} and D is {d}; legal: the same registers, or none in common"
    if instruction.formats["A"] == "f8f6f4":
        for name, field, code in (("A", "cbsz", cbsz), ("B", "blgp", blgp)):
            operand, count = operands[name], format_registers(code)  # type: ignore[index]
            if isinstance(operand, Registers) and operand.count != count:
                message = f"{name} is {operand}; legal with {field}:{code}: {count} registers"
                return name, message  # type: ignore[return-value]
    return None


def strict_fault(
    instruction: Instruction, operands: Mapping[SlotName, Operand]
) -> tuple[SlotName, str] | None:
    """Return the slot and the rule for what the assembler takes and no manual defines, or None."""
    d, c = operands["D"], operands.get("C")
    if isinstance(c, Constant) and not c.emulated:
        return (
            "C",
            f"C is {c}, a scalar register whose value no manual gives here; legal: registers"
            + ("" if instruction.registers == "accumulation" else " or an inline constant"),
        )
    if isinstance(c, Registers) and isinstance(d, Registers) and c.overlaps(d) and c != d:
        return (
            "C",
            f"C is {c} and D is {d}; no manual defines a partial overlap; "
            "legal: the same registers, or none in common",
        )
    return None


@cache
def _opcodes(arch: str) -> Mapping[tuple[int, bool], Instruction]:
    return {(row.opcode, row.kind == "mfma_scale"): row for row in instructions(arch)}


def by_opcode(arch: str, opcode: int, *, scaled: bool) -> Instruction | None:
    """Return the instruction with an opcode field, or None."""
    return _opcodes(arch).get((opcode, scaled))


@cache
def _mnemonics(arch: str) -> Mapping[str, Instruction]:
    return {name: row for row in instructions(arch) for name in (row.mnemonic, *row.aliases)}


def by_mnemonic(arch: str, name: str) -> Instruction | None:
    """Return the instruction that a mnemonic or alias names, in any case, or None."""
    return _mnemonics(arch).get(name.lower().removesuffix("_e64"))


def mnemonics(arch: str) -> tuple[str, ...]:
    """Return every mnemonic and alias of an architecture."""
    return tuple(_mnemonics(arch))
