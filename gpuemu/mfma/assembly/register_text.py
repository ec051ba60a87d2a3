"""Registers in text: v3, a[0:3], acc[0:3], [v0,v1]."""

from __future__ import annotations

import re

from ...errors import BadType
from .expressions import Cursor
from .operands import REGISTERS, Bank, Registers
from .tokens import Token, fail, tokens

_BANKS: dict[str, Bank] = {"v": "v", "a": "a", "acc": "a"}
_REGISTER = re.compile(r"(v|acc|a)([0-9]{1,10})")


class RegisterCursor(Cursor):
    """A cursor that reads registers."""

    def registers(self) -> Registers | None:
        """Return the registers at the cursor, or None where there are none."""
        token = self.token
        if token.text == "[" and token.kind == "operator":
            return self._register_list()
        if token.kind != "name":
            return None
        if token.text in _BANKS and self.peek().text == "[":
            self.take()
            return self._register_range(_BANKS[token.text], token)
        match = _REGISTER.fullmatch(token.text)
        if match is None or int(match[2]) >= 1 << 32:
            return None
        self.take()
        return self._in_file(_BANKS[match[1]], int(match[2]), int(match[2]), token)

    def _register_range(self, bank: Bank, token: Token) -> Registers:
        self.expect("[", "of a register range")
        first = last = self.integer()
        if self.skip(":"):
            last = self.integer()
        self.expect("]", "after a register range")
        return self._in_file(bank, first, last, token)

    def _in_file(self, bank: Bank, first: int, last: int, token: Token) -> Registers:
        if not 0 <= first <= last < REGISTERS:
            shown = f"{bank}[{first}:{last}]"
            fail(
                self.text,
                token.column,
                f"{shown} is no ascending range of registers 0..{REGISTERS - 1}",
            )
        return Registers(bank, first, last - first + 1)

    def _register_list(self) -> Registers:
        start = self.take()
        members: list[Registers] = []
        while True:
            token = self.token
            member = self.registers() if token.text != "[" else None
            if member is None or member.count != 1:
                fail(self.text, token.column, "expected a single register in the list")
            if members and (member.bank, member.first) != (members[-1].bank, members[-1].first + 1):
                fail(self.text, token.column, f"{member} does not follow {members[-1]} in the list")
            members.append(member)
            if self.skip("]"):
                return self._in_file(members[0].bank, members[0].first, members[-1].last, start)
            self.expect(",", "or ']' in the list of registers")


def read_registers(text: str) -> Registers:
    """Return the registers that a text names, such as "v[0:3]" or "a7".

    >>> read_registers("acc[4:7]")
    Registers(bank='a', first=4, count=4)
    """
    if not isinstance(text, str):
        raise BadType(
            f"registers {text!r} are a {type(text).__name__}; legal: text such as 'v[0:3]'"
        )
    cursor = RegisterCursor(text, tokens(text))
    found = cursor.registers()
    if found is None or cursor.token.kind != "end":
        fail(text, 1, "expected registers, such as v[0:3] or a7")
    return found
