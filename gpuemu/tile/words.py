"""The words of a bundle: one row an encoding, one encoder and decoder for all of them.

Source: PTO ISA 0.58.3, block encodings after its ADR-0096. A word of 16 bits has bit 0 clear; one
of 64 bits has its low four bits set; all others have 32. Streams are little-endian.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import BadType, BadValue, IllegalInstructionFault

Span = tuple[int, int]  # most and least significant bit


@dataclass(frozen=True)
class Form:
    """One encoding: the bits that are fixed, and where each field lies (its high piece first)."""

    name: str
    width: int
    mask: int
    match: int
    fields: Mapping[str, tuple[Span, ...]]

    def limit(self, name: str) -> int:
        """Return the number of values that a field can hold."""
        width: int = sum(high - low + 1 for high, low in self.fields[name])
        return 1 << width


@dataclass(frozen=True)
class Word:
    """One word: its form and the value of every field.

    >>> encode("B.DIM", loop=0, register=0, immediate=8).bits == 0x00800043
    True
    """

    form: Form
    values: tuple[int, ...]

    def __getitem__(self, name: str) -> int:
        """Return a field's value."""
        return self.values[list(self.form.fields).index(name)]

    @property
    def bits(self) -> int:
        """Return the encoded word."""
        word = self.form.match
        for value, spans in zip(self.values, self.form.fields.values(), strict=True):
            for high, low in reversed(spans):
                width = high - low + 1
                word |= (value & ((1 << width) - 1)) << low
                value >>= width
        return word


_STOPS = {"C.BSTOP": (16, 0x0), "BSTOP": (32, 0x1), "L.BSTOP": (64, 0x1_0000_000F)}
_BINDING: dict[str, tuple[Span, ...]] = {
    "last": ((19, 19),),
    "size": ((18, 15),),
    "pe_mode": ((11, 9),),
    "hand": ((8, 7),),
}

_ROWS = (
    Form("BSTART.TEPL", 32, 0x000FFFFF, 0x00019181,
         {"dtype": ((31, 27),), "mode": ((26, 25),), "function": ((24, 20),)}),
    Form("B.DATR", 32, 0x000C707F, 0x00001023,
         {"cmode": ((31, 29),), "pad": ((28, 27),), "sat": ((26, 26),), "canonicalize": ((25, 25),),
          "dtype": ((24, 20),), "rmode": ((17, 15),), "layout": ((11, 7),)}),
    Form("B.DIM", 32, 0x0000007F, 0x00000043,
         {"loop": ((14, 12),), "register": ((19, 15),), "immediate": ((11, 7), (31, 20))}),
    Form("C.B.DIMI", 16, 0x003F, 0x003C, {"loop": ((15, 14),), "immediate": ((13, 6),)}),
    Form("B.IOT2", 32, 0x0000707F, 0x00004013,
         {"source0": ((25, 20),), "source1": ((31, 26),), **_BINDING}),
    Form("B.IOT1", 32, 0xFC00707F, 0x00005013, {"source0": ((25, 20),), **_BINDING}),
    Form("B.IOT0", 32, 0xFFF0707F, 0x00006013, _BINDING),
    Form("B.IOR", 32, 0x0600707F, 0x00000013,
         {"source0": ((19, 15),), "source1": ((24, 20),), "source2": ((31, 27),),
          "destination": ((11, 7),)}),
    Form("B.IOS", 32, 0xF00871FF, 0x00001013,
         {"shared": ((27, 20),), "size": ((18, 15),), "pe_mode": ((11, 9),)}),
    *(Form(name, width, (1 << width) - 1, match, {}) for name, (width, match) in _STOPS.items()),
)  # fmt: skip

FORMS = {form.name: form for form in _ROWS}
STOPS = frozenset(_STOPS)
PE_MODES = (0b0000, 0b1000, 0b0100, 0b0010, 0b0001, 0b1100, 0b1110, 0b1111)  # PE_MASK by PEMode


def encode(name: str, **fields: int) -> Word:
    """Return a word of a form from all its fields; raise `BadValue` for one that does not fit."""
    form = FORMS[name]
    if set(fields) != set(form.fields):
        raise BadValue(
            f"{name} takes the fields {', '.join(form.fields) or 'none'}, not {', '.join(fields)}"
        )
    for field, value in fields.items():
        if not 0 <= value < form.limit(field):
            raise BadValue(f"{name} {field}={value}; legal: 0 to {form.limit(field) - 1}")
    return Word(form, tuple(fields[field] for field in form.fields))


def _width(low: int) -> int:
    if low & 1 == 0:
        return 16
    return 64 if low & 0xF == 0xF else 32


def decode(bits: int) -> Word:
    """Return the word that bits encode.

    Raises
    ------
    IllegalInstructionFault
        Where no form of the tile machine matches.

    Examples
    --------
    >>> decode(0x09C19181)["function"]
    28
    """
    if isinstance(bits, bool) or not isinstance(bits, int):
        raise BadType(f"word {bits!r}; legal: an integer")
    if bits < 0 or bits >> _width(bits):
        raise BadValue(f"word {bits:#x}; its low bits say that it has {_width(bits)} bits")
    for form in _ROWS:
        if form.width == _width(bits) and bits & form.mask == form.match:
            return Word(form, tuple(_extract(bits, spans) for spans in form.fields.values()))
    raise IllegalInstructionFault(f"{bits:#0{2 + _width(bits) // 4}x} is no word of a tile bundle")


def _extract(bits: int, spans: tuple[Span, ...]) -> int:
    value = 0
    for high, low in spans:
        width = high - low + 1
        value = value << width | (bits >> low & ((1 << width) - 1))
    return value


def split(stream: bytes) -> list[int]:
    """Split a little-endian byte stream into words; raise `BadValue` where it ends inside one.

    >>> [hex(word) for word in split(bytes.fromhex("8191c1093c020000"))]
    ['0x9c19181', '0x23c', '0x0']
    """
    words, position = [], 0
    while position < len(stream):
        size = _width(stream[position]) // 8
        piece = stream[position : position + size]
        if len(piece) < size:
            raise BadValue(f"the stream ends inside the {size}-byte word at byte {position}")
        words.append(int.from_bytes(piece, "little"))
        position += size
    return words


def words_of(program: Iterable[int] | bytes) -> list[int]:
    """Return the words of a program given as integers or as a byte stream; raise `BadType` else."""
    if isinstance(program, (bytes, bytearray)):
        return split(bytes(program))
    try:
        return [operator.index(word) for word in program]
    except TypeError:
        raise BadType(f"program {program!r}; legal: bytes, or words as integers") from None


def join(program: Iterable[int]) -> bytes:
    """Return the little-endian byte stream of a program's words."""
    words = (decode(bits) for bits in words_of(program))
    return b"".join(word.bits.to_bytes(word.form.width // 8, "little") for word in words)
