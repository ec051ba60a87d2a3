"""Integer expressions of the assembler: register numbers, modifier values and constants.

Values are 64-bit two's complement. The operators, their precedence and their results are those of
LLVM's assembler: a comparison that holds is -1, `>>` shifts in zeros, `a ! b` is `a | ~b`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .tokens import Token, fail

_PRECEDENCE = (
    ("||",),
    ("&&",),
    ("==", "!=", "<>", "<", "<=", ">", ">="),
    ("+", "-"),
    ("|", "^", "&", "!"),
    ("*", "/", "%", "<<", ">>"),
)
_LEVEL = {operator: level for level, row in enumerate(_PRECEDENCE) for operator in row}

# Deeper nesting is refused: Python's stack is finite.
_DEEPEST = 64


def signed(value: int) -> int:
    """Return the low 64 bits of an integer, read as two's complement."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shift_right(a: int, b: int) -> int:
    return (a & (1 << 64) - 1) >> (b & 63)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "==": lambda a, b: -(a == b),
    "!=": lambda a, b: -(a != b),
    "<>": lambda a, b: -(a != b),
    "<": lambda a, b: -(a < b),
    "<=": lambda a, b: -(a <= b),
    ">": lambda a, b: -(a > b),
    ">=": lambda a, b: -(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "!": lambda a, b: a | ~b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "<<": lambda a, b: a << (b & 63),
    ">>": _shift_right,
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


def _either(arguments: list[int]) -> int:
    result = 0
    for value in arguments:
        result |= value
    return result


def _align_to(arguments: list[int]) -> int:
    value, step = (a & (1 << 64) - 1 for a in arguments)
    return (value + step - 1) // step * step


_FUNCTIONS: dict[str, tuple[int | None, Callable[[list[int]], int]]] = {
    "max": (None, max),
    "or": (None, _either),
    "alignto": (2, _align_to),
}


class Cursor:
    """A place in a list of tokens.

    Parameters
    ----------
    text : str
        What the tokens were read from; errors show it.
    tokens : tuple of Token
    """

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self.text = text
        self.tokens = tokens
        self.place = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """Return the token at the cursor."""
        return self.tokens[self.place]

    def peek(self) -> Token:
        """Return the token after the one at the cursor, or the end where a comment hides it."""
        token = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        return self.tokens[-1] if token.after_comment else token

    def take(self) -> Token:
        """Return the token at the cursor and step over it; the end is never passed."""
        token = self.token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def skip(self, text: str) -> bool:
        """Step over an operator or name if it is next."""
        if self.token.text == text and self.token.kind in ("operator", "name"):
            self.take()
            return True
        return False

    def expect(self, text: str, what: str) -> Token:
        """Step over an operator, or raise."""
        if self.token.text != text or self.token.kind != "operator":
            self.fail(f"expected {text!r} {what}, found {self._found()}")
        return self.take()

    def fail(self, message: str, column: int | None = None) -> None:
        """Raise `AssemblyError` at a column, or at the cursor."""
        fail(self.text, self.token.column if column is None else column, message)

    def _found(self) -> str:
        return "the end of the line" if self.token.kind == "end" else repr(self.token.text)

    def integer(self, level: int = 0) -> int:
        """Return the value of the integer expression at the cursor, and step over it.

        Raises
        ------
        AssemblyError
            Where there is none, or where it divides by zero.

        >>> from .tokens import tokens
        >>> Cursor("1+2*3", tokens("1+2*3")).integer()
        7
        """
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"an expression nested deeper than {_DEEPEST}")
        left = self._primary()
        while self.token.kind == "operator" and _LEVEL.get(self.token.text, -1) >= level:
            operator = self.take()
            right = self.integer(_LEVEL[operator.text] + 1)
            if operator.text in "/%" and (right == 0 or (right == -1 and left == -1 << 63)):
                self.fail(
                    f"{left} {operator.text} {right} has no value of 64 bits", operator.column
                )
            left = signed(_BINARY[operator.text](left, right))
        self._depth -= 1
        return left

    def _primary(self) -> int:
        called = self.token.text in _FUNCTIONS and self.peek().text == "("
        token = self.take()
        if called and token.kind == "name":
            return self._function(token)
        if token.kind == "integer":
            return int(token.value)
        if token.kind == "real":  # inside an expression a real stands for its 64 bits
            return signed(int.from_bytes(struct.pack("<d", token.value), "little"))
        if token.kind == "operator" and token.text in _UNARY:
            self._depth += 1
            if self._depth > _DEEPEST:
                self.fail(f"an expression nested deeper than {_DEEPEST}")
            value = signed(_UNARY[token.text](self._primary()))
            self._depth -= 1
            return value
        if token.kind == "operator" and token.text in ("(", "["):
            value = self.integer()
            self.expect(")" if token.text == "(" else "]", "after the expression")
            return value
        found = "the end of the line" if token.kind == "end" else repr(token.text)
        hint = "; symbols have no value here" if token.kind == "name" else ""
        fail(self.text, token.column, f"expected an integer, found {found}{hint}")

    def _function(self, name: Token) -> int:
        self.expect("(", f"after {name.text}")
        arguments = [self.integer()]
        while self.skip(","):
            arguments.append(self.integer())
        self.expect(")", f"after the arguments of {name.text}")
        count, function = _FUNCTIONS[name.text]
        if count not in (None, len(arguments)):
            self.fail(f"{name.text} takes {count} arguments, found {len(arguments)}", name.column)
        if name.text == "alignto" and arguments[1] == 0:
            self.fail("alignto to a multiple of 0", name.column)
        return signed(function(arguments))
