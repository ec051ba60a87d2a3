"""Programs: files or listings of matrix instructions, checked whole before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import AssemblyError, BadType, GpuemuError
from . import execute
from .assembly import AssemblyCall, Statement, constant_accumulator, parse_statement, read_listing
from .assembly.builtins import is_builtin_call
from .assembly.operands import Registers
from .assembly.reader import check_mode
from .assembly.slots import by_mnemonic
from .instructions import ARCHITECTURES
from .layouts import LANES

Array = np.ndarray[Any, Any]

# How many faults of a text one error lists.
_SHOWN_FAULTS = 20

_MATRIX_PREFIXES = ("v_mfma", "v_smfmac")


@dataclass(frozen=True)
class Step:
    """One instruction of a program, ready to run.

    Attributes
    ----------
    number : int
        The line of the text, from 1.
    call : AssemblyCall
    made : execute.Call
        The validated call: instruction, modifiers, arithmetic model.
    constant : uint32 array (vgprs, 64) or None
        The register image of C where that is an inline constant.
    """

    number: int
    call: AssemblyCall
    made: execute.Call
    constant: Array | None

    @property
    def reads(self) -> dict[str, Registers]:
        """Return the registers of the operands that `gpuemu.execute` names a, b, c, idx, …."""
        o = self.call.operands
        c = o.D if self.call.instruction.sparse else o.C
        found = {
            "a": o.A,
            "b": o.B,
            "c": c,
            "idx": o.idx,
            "scale_a": o.scale_a,
            "scale_b": o.scale_b,
        }
        return {name: value for name, value in found.items() if isinstance(value, Registers)}


def constant_image(call: AssemblyCall) -> Array | None:
    """Return the register image (vgprs, 64) of a C that is an inline constant, else None."""
    bits = constant_accumulator(call)
    if bits is None:
        return None
    image = np.empty((call.instruction.vgprs["D"], LANES), np.uint32)
    image[:] = bits & 0xFFFFFFFF
    if call.instruction.formats["D"] == "f64":
        image[1::2] = bits >> 32
    return image


def make_step(call: AssemblyCall, number: int = 1, **switches: Any) -> Step:
    """Return a step of a call.

    Parameters
    ----------
    call : AssemblyCall
    number : int
        The line to name in errors.
    **switches
        broadcast, output_layout, model; see `gpuemu.execute`.

    Raises
    ------
    GpuemuError
        For what encodes but has no defined result (a scalar register as C, reserved format codes).
    """
    made = execute.call(
        call.instruction,
        switches.pop("model", None),
        cbsz=call.cbsz,
        abid=call.abid,
        blgp=call.blgp,
        neg=call.neg,
        op_sel=call.op_sel,
        legality=call.legality,
        **switches,
    )
    return Step(number, call, made, constant_image(call))


@dataclass(frozen=True)
class Program:
    """Matrix instructions in the order of a text, and the statements that were skipped.

    Attributes
    ----------
    arch : str
    steps : tuple of Step
    skipped : tuple of Statement
        Other instructions, where the reader was asked to skip them.
    """

    arch: str
    steps: tuple[Step, ...]
    skipped: tuple[Statement, ...] = ()

    @classmethod
    def read(
        cls,
        text: str,
        arch: str,
        legality: str = "strict",
        *,
        skip_unknown: bool = False,
        **switches: Any,
    ) -> Program:
        """Read an assembly file or a disassembly listing.

        Parameters
        ----------
        text : str
        arch : str
        legality : "strict" or "llvm"
        skip_unknown : bool
            Other instructions are left out (and kept in `skipped`) instead of refused.
        **switches
            broadcast, output_layout, model; see `gpuemu.execute`.

        Raises
        ------
        AssemblyError
            Listing every line that is no legal matrix instruction.

        >>> line = "v_mfma_f32_4x4x1_16b_f32 a[0:3], v0, v1, "
        >>> text = line + "0 ; first\\n" + line + "a[0:3]"
        >>> [str(step.call.operands.C) for step in Program.read(text, "gfx942").steps]
        ['0', 'a[0:3]']
        """
        check_mode(arch, legality)
        if not isinstance(text, str):
            raise BadType(f"the program is a {type(text).__name__}; legal: a string")
        steps, skipped, faults = [], [], []
        for statement in read_listing(text):
            if not _is_matrix(statement):
                skipped.append(statement)
                continue
            try:
                call = parse_statement(statement, arch, legality)
                steps.append(make_step(call, statement.number, **switches))
            except GpuemuError as error:
                faults.append(f"line {statement.number}: {error}")
        if skipped and not skip_unknown:
            faults += [f"line {s.number}: {s.mnemonic} is no matrix instruction" for s in skipped]
            _raise_faults(faults, "skip_unknown=True or --skip-unknown leaves such lines out")
        _raise_faults(faults)
        return cls(arch, tuple(steps), tuple(skipped))

    @property
    def registers(self) -> dict[str, int]:
        """Return how many registers of each bank ("v", "a") the program needs."""
        needed = {"v": 0, "a": 0}
        for step in self.steps:
            for operand in (step.call.operands.D, *step.reads.values()):
                needed[operand.bank] = max(needed[operand.bank], operand.last + 1)
        return needed

    def check_registers(self, sizes: dict[str, int]) -> None:
        """Raise `AssemblyError` where a step names a register that a wavefront does not have."""
        faults = [
            f"line {step.number}: {operand} of {step.call.instruction.mnemonic}; the wavefront has "
            f"{sizes[operand.bank]} registers in bank {operand.bank!r}"
            for step in self.steps
            for operand in dict.fromkeys((step.call.operands.D, *step.reads.values()))
            if operand.last >= sizes[operand.bank]
        ]
        _raise_faults(faults)


def _is_matrix(statement: Statement) -> bool:
    """Tell whether a statement should be a matrix instruction, of whatever architecture."""
    name = statement.mnemonic
    if any(by_mnemonic(arch, name) for arch in ARCHITECTURES):
        return True
    if is_builtin_call(statement.text):
        raise AssemblyError(
            f"line {statement.number}: a builtin call names no registers, so no program has it; "
            "legal: assembly (str(gpuemu.parse(...)) gives a line with registers)"
        )
    return name.lower().startswith(_MATRIX_PREFIXES)


def _raise_faults(faults: Sequence[str], *hint: str) -> None:
    if not faults:
        return
    more = len(faults) - _SHOWN_FAULTS
    tail = [f"and {more} more"] if more > 0 else []
    raise AssemblyError("\n".join([*faults[:_SHOWN_FAULTS], *tail, *hint]))
