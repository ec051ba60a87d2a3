"""An instruction with operands and modifiers: what text, builtin calls and words all become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...errors import AssemblyError
from .. import modifiers
from ..instructions import Instruction
from . import encoding, printing
from .operands import Constant, Registers
from .slots import Operand, SlotName, operands_fault, slots, strict_fault


@dataclass(frozen=True)
class Operands:
    """The operands of one call; those that the instruction does not take are None.

    On a sparse instruction the accumulator is D alone, and C is None.
    """

    D: Registers
    A: Registers
    B: Registers
    C: Operand | None = None
    idx: Registers | None = None
    scale_a: Registers | None = None
    scale_b: Registers | None = None

    def given(self) -> Mapping[SlotName, Operand]:
        """Return the operands that are there, by name."""
        found: dict[Any, Operand] = {k: v for k, v in vars(self).items() if v is not None}
        return MappingProxyType(found)


@dataclass(frozen=True)
class AssemblyCall:
    """One instruction with registers and modifiers; calls are equal where they encode alike.

    Attributes
    ----------
    instruction : Instruction
    operands : Operands
    cbsz, abid, blgp : int
        The fields as encoded, but neg of f64.
    neg : tuple of three int
        Negate A, B, C; f64 on gfx942 and gfx950.
    op_sel : tuple of two int
        The byte (0..3) of the scale registers of A and B.
    legality : "strict", "llvm" or "truncate"
        The mode that it was checked in, and runs in.
    """

    instruction: Instruction
    operands: Operands
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    neg: tuple[int, int, int] = (0, 0, 0)
    op_sel: tuple[int, int] = (0, 0)
    legality: str = field(default="strict", compare=False)

    @property
    def arch(self) -> str:
        """Return the architecture."""
        return self.instruction.arch

    def __str__(self) -> str:
        """Return the assembly line, as LLVM prints it."""
        return printing.assembly(self)

    def to_builtin(self) -> str:
        """Return the call of the compiler builtin, with names for its vectors."""
        return printing.builtin(self)

    def encode(self) -> bytes:
        """Return the machine words: 8 bytes, or 16 where scales are read; low address first.

        >>> from gpuemu.mfma.assembly import parse
        >>> parse("v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 1.0", arch="gfx942").encode().hex()
        '0000c2d3040bca03'
        """
        return encoding.encode(self)

    def check_modifiers(self) -> modifiers.Modifiers:
        """Return the modifiers as the emulation takes them.

        Raises
        ------
        IllegalModifier
            Where the mode forbids them; also for what the assembler encodes and nothing defines
            (the reserved format codes of f8f6f4).
        """
        return modifiers.check(
            self.instruction,
            cbsz=self.cbsz,
            abid=self.abid,
            blgp=self.blgp,
            neg=self.neg,
            op_sel=self.op_sel,
            legality=self.legality,
        )

    def fault(self) -> tuple[SlotName, str] | None:
        """Return the operand and the rule that it breaks, or None where the call is legal."""
        given = self.operands.given()
        for slot in slots(self.instruction):
            reason = slot.why_not(given[slot.name])
            if reason is not None:
                return slot.name, reason
        found = operands_fault(self.instruction, given, self.cbsz, self.blgp)
        if found is None and self.legality != "llvm":
            found = strict_fault(self.instruction, given)
        return found

    def check(self) -> None:
        """Raise `AssemblyError` or `IllegalModifier` where an operand or modifier is not legal."""
        found = self.fault()
        if found is not None:
            raise AssemblyError(f"{found[1]} ({self.instruction.mnemonic}, {self.arch})")
        if self.legality != "llvm":
            self.check_modifiers()


def third_field(instruction: Instruction, bits: int) -> tuple[int, tuple[int, int, int]]:
    """Return (blgp, neg) of the field in bits 63:61, which is neg on f64 of gfx942 and gfx950.

    A builtin's constant that does not fit the field stays in blgp, for `check` to refuse.
    """
    if instruction.modifiers.blgp == "neg" and 0 <= bits <= 7:
        return 0, (bits & 1, bits >> 1 & 1, bits >> 2 & 1)
    return bits, (0, 0, 0)


def constant_accumulator(call: AssemblyCall) -> int | None:
    """Return the bits that every element of C has where C is a constant, else None.

    Raises
    ------
    AssemblyError
        Where C is a scalar register, whose value is not emulated.
    """
    c = call.operands.C
    if not isinstance(c, Constant):
        return None
    if not c.emulated:
        raise AssemblyError(
            f"C is {c}, a scalar register that is not emulated; legal: registers or a constant"
        )
    return c.bits
