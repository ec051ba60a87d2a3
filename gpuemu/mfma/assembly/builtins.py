"""A call of a compiler builtin becomes a call of the instruction, with registers of our choice."""

from __future__ import annotations

import re

from ...errors import AssemblyError, UnknownInstruction
from ..instructions import Instruction, instruction, instructions
from .call import AssemblyCall, Operands, third_field
from .expressions import Cursor
from .operands import Registers
from .slots import by_opcode, format_registers, slots
from .tokens import fail, tokens

_CALL = re.compile(r"(__builtin_amdgcn_\w+)\s*\(")
_OPEN, _CLOSE = "([{", ")]}"

# What the arguments of a builtin are, by kind of instruction; those with a field are constants.
ARGUMENTS = {
    "mfma": ("a", "b", "c", "cbsz", "abid", "blgp"),
    "smfmac": ("a", "b", "c", "idx", "cbsz", "abid"),
    "mfma_scale": ("a", "b", "c", "cbsz", "blgp", "op_sel_a", "scale_a", "op_sel_b", "scale_b"),
}
# Bits that the compiler keeps of each constant.
FIELD_BITS = {"cbsz": 3, "abid": 4, "blgp": 3, "op_sel_a": 2, "op_sel_b": 2}


def is_builtin_call(text: str) -> bool:
    """Tell whether a text calls a builtin."""
    return _CALL.search(text) is not None


def _arguments(text: str, start: int) -> list[tuple[int, str]]:
    """Return (offset, text) of the arguments after an opening parenthesis."""
    found, depth, begin = [], 0, start
    for place in range(start, len(text)):
        character = text[place]
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE and depth:
            depth -= 1
        elif character == ")":
            found.append((begin, text[begin:place]))
            rest = text[place + 1 :].strip()
            if rest not in ("", ";"):
                fail(text, place + 2, f"{rest[:20]!r} follows the call; legal: ';' or nothing")
            return found
        elif character == "," and not depth:
            found.append((begin, text[begin:place]))
            begin = place + 1
    fail(text, start, "the call has no closing parenthesis")


def _constant(text: str, offset: int, argument: str, name: str) -> int:
    column = offset + 1 + len(argument) - len(argument.lstrip())
    blank = " " * offset + argument  # so that columns are those of the whole text
    cursor = Cursor(text, tokens(blank))
    try:
        value = cursor.integer()
        if cursor.token.kind == "end":
            return value
    except AssemblyError:
        pass
    fail(text, column, f"{name} is {argument.strip()[:40]!r}; legal: a constant integer")


def _row(name: str, arch: str, text: str, column: int) -> Instruction:
    try:
        return instruction(name, arch)
    except UnknownInstruction as error:
        raise UnknownInstruction(f"column {column}: {error}") from None


def allocate(row: Instruction, cbsz: int, blgp: int) -> Operands:
    """Return operands for a call that names no registers.

    C and D are the first registers of their bank, and A, B, idx and the scales follow each other
    in the VGPRs, from even numbers on where the architecture wants that.
    """
    d = Registers("a" if row.registers == "accumulation" else "v", 0, row.vgprs["D"])
    free = d.count if d.bank == "v" else 0
    placed: dict[str, Registers] = {"D": d, "C": d}
    narrow = (
        {"A": format_registers(cbsz), "B": format_registers(blgp)}
        if row.formats["A"] == "f8f6f4"
        else {}
    )
    for slot in slots(row):
        if slot.name not in placed:
            free += free % 2 if slot.even else 0
            placed[slot.name] = Registers("v", free, narrow.get(slot.name, slot.sizes[0]))
            free = placed[slot.name].last + 1
    names = {slot.name for slot in slots(row)}
    return Operands(**{name: value for name, value in placed.items() if name in names})


def parse_builtin(text: str, arch: str, legality: str) -> AssemblyCall:
    """Return the call of a builtin; see `gpuemu.parse`.

    A scaled builtin whose scales are both the constant 0 is the unscaled instruction, as the
    compiler has it.
    """
    match = _CALL.search(text)
    if match is None:
        fail(text, 1, "expected a call of __builtin_amdgcn_mfma..., _smfmac... or _mfma_scale...")
    row = _row(match[1], arch, text, match.start() + 1)
    names, given = ARGUMENTS[row.kind], _arguments(text, match.end())
    if len(given) != len(names):
        message = (
            f"{match[1]} takes {len(names)} arguments ({', '.join(names)}), found {len(given)}"
        )
        fail(text, match.start() + 1, message)
    values = {}
    for (offset, argument), name in zip(given, names, strict=True):
        if not argument.strip():
            fail(text, offset + 1, f"argument {name} is empty")
        if name in FIELD_BITS:
            value = _constant(text, offset, argument, name)
            values[name] = value & (1 << FIELD_BITS[name]) - 1 if legality == "truncate" else value
    scales = [
        argument.strip()
        for (_, argument), name in zip(given, names, strict=True)
        if name.startswith("scale")
    ]
    if scales == ["0", "0"]:
        row = _unscaled(row)
        values.update(op_sel_a=0, op_sel_b=0)
    call = _call(row, values, legality)
    call.check()
    call.check_modifiers()
    return call


def _unscaled(row: Instruction) -> Instruction:
    found = by_opcode(row.arch, row.opcode, scaled=False)
    assert found in instructions(row.arch, "mfma_f8f6f4"), (
        "every scaled instruction has an unscaled form"
    )
    return found


def _call(row: Instruction, values: dict[str, int], legality: str) -> AssemblyCall:
    blgp, neg = third_field(row, values.get("blgp", 0))
    return AssemblyCall(
        row,
        allocate(row, values["cbsz"], blgp),
        cbsz=values["cbsz"],
        abid=values.get("abid", 0),
        blgp=blgp,
        neg=neg,
        op_sel=(values.get("op_sel_a", 0), values.get("op_sel_b", 0)),
        legality=legality,
    )
