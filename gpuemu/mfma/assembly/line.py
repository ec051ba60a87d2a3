"""An assembly line becomes a call; the forms are those that the LLVM 22 assembler accepts."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...errors import GpuemuError, UnknownInstruction
from ..instructions import ALL_NAMES, ARCHITECTURES, Instruction
from .call import AssemblyCall, Operands, third_field
from .operands import SPECIAL_NAMES, Constant, constant_of_integer, constant_of_real
from .register_text import RegisterCursor
from .slots import FIELD_MAX, MODIFIERS, Operand, Slot, by_mnemonic, mnemonics, slots
from .tokens import Token, fail, tokens

_ARRAY_MODIFIERS = ("neg", "op_sel", "op_sel_hi")


@dataclass
class _Found:
    """What was read of a line so far; columns are kept for the errors that come later."""

    operands: dict[str, Operand] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)


class LineParser(RegisterCursor):
    """One pass over the tokens of a line."""

    def __init__(self, text: str, arch: str, legality: str) -> None:
        super().__init__(text, tokens(text))
        self.arch = arch
        self.legality = legality
        self.found = _Found()

    def parse(self) -> AssemblyCall:
        """Return the call of the line."""
        while (
            self.token.kind in ("name", "integer") and self.tokens[self.place + 1].text == ":"
        ):  # labels
            self.take()
            self.take()
        mnemonic = self.take()
        instruction = self._instruction(mnemonic)
        for slot in slots(instruction):
            self._slot(slot, instruction)
            self.skip(",")
        self._modifiers(instruction)
        call = self._call(instruction)
        self._check(call, mnemonic)
        return call

    def _instruction(self, mnemonic: Token) -> Instruction:
        if mnemonic.kind != "name":
            found = "the end of the line" if mnemonic.kind == "end" else repr(mnemonic.text)
            fail(self.text, mnemonic.column, f"expected a mnemonic, found {found}")
        row = by_mnemonic(self.arch, mnemonic.text)
        if row is not None:
            return row
        elsewhere = [arch for arch in ARCHITECTURES if by_mnemonic(arch, mnemonic.text)]
        if elsewhere:
            hint = f"it exists on {', '.join(elsewhere)}"
        else:
            near = difflib.get_close_matches(mnemonic.text.lower()[:64], mnemonics(self.arch), n=3)
            hint = f"near names: {', '.join(near)}" if near else ALL_NAMES
        where = f"column {mnemonic.column}: {mnemonic.text}"
        raise UnknownInstruction(f"{where} is no matrix instruction of {self.arch}; {hint}")

    def _slot(self, slot: Slot, instruction: Instruction) -> None:
        token = self.token
        if token.kind == "end":
            self.fail(f"{instruction.mnemonic} needs {slot.name}; legal: {slot.legal()}")
        if token.kind == "name" and self.peek().text == ":":
            self.fail(f"found {token.text}: where {slot.name} belongs; legal: {slot.legal()}")
        operand = self._operand(slot)
        reason = slot.why_not(operand)
        if reason is not None:
            fail(self.text, token.column, reason)
        self.found.operands[slot.name] = operand
        self.found.columns[slot.name] = token.column

    def _operand(self, slot: Slot) -> Operand:
        registers = self.registers()
        if registers is not None:
            return registers
        token = self.token
        if token.kind == "name" and token.text in SPECIAL_NAMES:
            self.take()
            return Constant(SPECIAL_NAMES[token.text], slot.width)
        if slot.constants == "none":
            fail(self.text, token.column, f"{slot.name} is no register; legal: {slot.legal()}")
        constant = self._constant(slot)
        if constant is None:
            shown = self.text[token.column - 1 : self.tokens[self.place - 1].after - 1]
            fail(
                self.text,
                token.column,
                f"{shown} is no inline constant of {slot.width} bits; legal: integers -16..64, "
                "0.5, 1.0, 2.0, 4.0, their negatives, 1/(2 pi), or the bits of one of these",
            )
        return constant

    def _constant(self, slot: Slot) -> Constant | None:
        minus = self.token.text == "-" and self.token.kind == "operator"
        if minus and self.peek().text == "[":
            self.fail("a register list takes no sign")
        negative = minus and self.peek().kind == "real"
        if negative:
            self.take()
        if self.token.kind == "real":
            value = float(self.take().value)
            return constant_of_real(-value if negative else value, slot.width)
        return constant_of_integer(self.integer(), slot.width)

    def _modifiers(self, instruction: Instruction) -> None:
        allowed = MODIFIERS[instruction.kind]
        reached = 0
        while self.token.kind != "end":
            token = self.token
            name = "blgp" if token.text == "neg" else token.text
            if token.kind != "name" or self.peek().text != ":":
                self.fail(
                    f"{token.text!r} follows the operands; "
                    f"legal: {', '.join(allowed)}, each with ':'"
                )
            if name not in allowed:
                self.fail(
                    f"{instruction.mnemonic} takes no {token.text}; legal: {', '.join(allowed)}"
                )
            if allowed.index(name) < reached:
                self.fail(
                    f"{token.text} comes too late or twice; the order is {', '.join(allowed)}"
                )
            reached = allowed.index(name) + 1
            self.take()
            colon = self.take()
            if name == "blgp":
                self._check_spelling(instruction, token, colon)
            self.found.columns[name] = token.column
            self.found.values[name] = (
                self._array(token) if token.text in _ARRAY_MODIFIERS else self._value(token)
            )
            self.skip(",")

    def _check_spelling(self, instruction: Instruction, token: Token, colon: Token) -> None:
        """Raise where the third field is spelled neg but means blgp, or the other way round.

        The assembler tells the two by the letters `neg:`; with a space before the colon, neg is
        blgp.
        """
        negates = instruction.modifiers.blgp == "neg"
        spelled = token.text == "neg" and colon.column == token.after
        if negates == spelled:
            return
        legal = "neg:[a,b,c]" if negates else "blgp:0..7"
        fail(
            self.text, token.column, f"{instruction.mnemonic} takes no {token.text}; legal: {legal}"
        )

    def _value(self, token: Token) -> int:
        start = self.token
        value = self.integer()
        top = FIELD_MAX[token.text]
        if not 0 <= value <= top:
            fail(self.text, start.column, f"{token.text} is {value}; the field holds 0..{top}")
        return value

    def _array(self, token: Token) -> int:
        """Return the bits of an array such as [1,0,1], the first lowest."""
        self.expect("[", f"after {token.text}:")
        bits = 0
        for n in range(4):
            start = self.token
            bit = self.integer()
            if bit not in (0, 1):
                fail(self.text, start.column, f"{token.text} holds {bit}; legal: 0 or 1")
            bits |= bit << n
            if self.skip("]"):
                break
            if n == 3:
                self.fail(f"{token.text} has at most 4 members; expected ']'")
            self.expect(",", f"or ']' in {token.text}")
        if token.text == "neg" and bits > 7:
            fail(
                self.text,
                token.column,
                "neg has a fourth member of 1; legal: 3 members, of A, B and C",
            )
        return bits

    def _call(self, instruction: Instruction) -> AssemblyCall:
        values = self.found.values
        blgp, neg = third_field(instruction, values.get("blgp", 0))
        low, high = values.get("op_sel", 0), values.get("op_sel_hi", 0)
        operands: Any = self.found.operands
        return AssemblyCall(
            instruction,
            Operands(**operands),
            cbsz=values.get("cbsz", 0),
            abid=values.get("abid", 0),
            blgp=blgp,
            neg=neg,
            op_sel=((low & 1) + 2 * (high & 1), (low >> 1 & 1) + 2 * (high >> 1 & 1)),
            legality=self.legality,
        )

    def _check(self, call: AssemblyCall, mnemonic: Token) -> None:
        fault = call.fault()
        if fault is not None:
            fail(self.text, self.found.columns[fault[0]], fault[1])
        if self.legality == "llvm":
            return
        try:
            call.check_modifiers()
        except GpuemuError as error:
            self._locate(error, mnemonic)

    def _locate(self, error: GpuemuError, mnemonic: Token) -> NoReturn:
        """Raise an error of the modifiers again, with the column of the first that it names."""
        named = (
            ("blgp" if name == "neg" else name)
            for name in re.findall(r"cbsz|abid|blgp|neg|op_sel", str(error))
        )
        column = next(
            (self.found.columns[name] for name in named if name in self.found.columns),
            mnemonic.column,
        )
        raise type(error)(f"column {column}: {error}") from None
