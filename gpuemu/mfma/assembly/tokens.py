"""Assembly text becomes tokens: names, numbers, characters and operators, each with its column.

The rules are those of the LLVM assembler for AMD targets: `;` and `//` start a comment, `/* */`
encloses one, integers are decimal, `0x`, `0b` or octal, reals may be hexadecimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from ...errors import AssemblyError

TokenKind = Literal["name", "integer", "real", "operator", "end"]

# Alternatives are tried in order; a real is therefore looked for before an integer.
_TOKEN = re.compile(
    r"""
    (?P<skip>[ \t\r]+ | (?:;|//)[^\n]* | /\*.*?\*/)
  | (?P<real>
        0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+
      | (?:[1-9][0-9]*(?:\.[0-9]*|(?=e)) | 0\.[0-9]* | \.[0-9]+(?=[eE]|[^\w$.?@]|\Z))
        (?:[eE][+-]?[0-9]* | (?![0-9+-]))
    )
  | (?P<integer>
        (?:0[xX][0-9a-fA-F]+ | 0[bB][01]+ | 0[0-7]*(?![0-9.]) | [1-9][0-9]*(?!\.))
        [uU]?[lL]?[lL]?
    )
  | (?P<character>'(?:\\.|[^'\\\n])')
  | (?P<name>[A-Za-z_.][A-Za-z0-9_.$?@]*)
  | (?P<operator>&&|\|\||==|!=|<>|<=|>=|<<|>>|[-+~!*/%&|^<>()\[\],:])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "f": "\f", "r": "\r"}


@dataclass(frozen=True)
class Token:
    """One token: its kind, its text, the value of a number, and its first column (from 1).

    `after_comment` tells that a comment in `/* */` stands before it: the assembler does not look
    past one to see whether a bracket or colon follows a name.
    """

    kind: TokenKind
    text: str
    column: int
    value: int | float = 0
    after_comment: bool = False

    @property
    def after(self) -> int:
        """Return the column that follows the token."""
        return self.column + len(self.text)


def fail(text: str, column: int, message: str) -> NoReturn:
    """Raise `AssemblyError` with the line of a text that holds a column, and a caret below it."""
    before = text[: column - 1]
    start = before.rfind("\n") + 1
    line = text[start:].partition("\n")[0].replace("\t", " ").replace("\r", " ")
    shown = column - start
    raise AssemblyError(f"column {shown}: {message}\n  {line}\n  {' ' * (shown - 1)}^", column)


def _integer(digits: str) -> int:
    digits = digits.rstrip("uUlL")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits, 2)
    return int(digits, 8) if digits[0] == "0" else int(digits)


def _real(digits: str) -> float:
    if digits[:2] in ("0x", "0X"):
        try:
            return float.fromhex(digits)
        except OverflowError:
            return float("inf")
    # The assembler takes an exponent without digits for 0.
    return float(re.sub(r"[eE][+-]?$", "", digits))


def _number(text: str, column: int, group: str, lexeme: str) -> Token:
    if group == "real":
        return Token("real", lexeme, column, _real(lexeme))
    if group == "character":
        character = _ESCAPES.get(lexeme[2], lexeme[2]) if lexeme[1] == "\\" else lexeme[1]
        if not character.isascii():
            fail(text, column, f"{lexeme} is no ASCII character")
        return Token("integer", lexeme, column, ord(character))
    value = _integer(lexeme) if len(lexeme) < 100 else 1 << 64
    if value >= 1 << 64:
        fail(text, column, f"integer {lexeme[:40]} needs more than 64 bits")
    return Token("integer", lexeme, column, value if value < 1 << 63 else value - (1 << 64))


def tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a statement, closed by one of kind "end".

    Raises
    ------
    AssemblyError
        At a character that starts no token, with its column.

    >>> [t.text for t in tokens("v_mfma v[0:3] // accumulate")]
    ['v_mfma', 'v', '[', '0', ':', '3', ']', '']
    """
    found, position, commented = [], 0, False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            fail(text, position + 1, f"{text[position]!r} starts no name, number or operator")
        group, lexeme, column = str(match.lastgroup), match.group(), position + 1
        position = match.end()
        if group == "skip":
            commented = commented or lexeme.startswith("/*")
            continue
        if group in ("real", "integer", "character"):
            token = _number(text, column, group, lexeme)
        else:
            token = Token("name" if group == "name" else "operator", lexeme, column)
        found.append(replace(token, after_comment=commented))
        commented = False
    return (*found, Token("end", "", len(text.rstrip()) + 1))
