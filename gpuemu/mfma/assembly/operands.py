"""Operands of an instruction: registers of a lane, and constants that the encoding itself holds."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Literal

Bank = Literal["v", "a"]

REGISTERS = 256  # of each bank and lane


@dataclass(frozen=True)
class Registers:
    """Consecutive registers of every lane: bank "v" (VGPRs) or "a" (AccVGPRs), the first, how many.

    >>> str(Registers("v", 4, 2)), str(Registers("a", 7, 1))
    ('v[4:5]', 'a7')
    """

    bank: Bank
    first: int
    count: int

    def __str__(self) -> str:
        if self.count == 1:
            return f"{self.bank}{self.first}"
        return f"{self.bank}[{self.first}:{self.last}]"

    @property
    def last(self) -> int:
        """Return the number of the last register."""
        return self.first + self.count - 1

    @property
    def slice(self) -> slice:
        """Return the registers as an index of a register file."""
        return slice(self.first, self.first + self.count)

    def overlaps(self, other: Registers) -> bool:
        """Tell whether two operands share a register."""
        return self.bank == other.bank and self.first <= other.last and other.first <= self.last


# Source codes of scalar registers that an operand for inline constants may name; their values are
# the wavefront's and are not emulated.
SPECIAL = {
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
SPECIAL_NAMES = {
    name: code for code, full in SPECIAL.items() for name in (full, full.removeprefix("src_"))
}

_REALS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
# 1 / (2 pi), by its bits
_INVERSE_2PI = 248
_INVERSE_2PI_BITS = {32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
_INVERSE_2PI_TEXT = {32: "0.15915494", 64: "0.15915494309189532"}


@dataclass(frozen=True)
class Constant:
    """A constant or scalar register: its 9-bit source code, and its width in bits.

    >>> str(Constant(242)), hex(Constant(242).bits), hex(Constant(193, 64).bits)
    ('1.0', '0x3f800000', '0xffffffffffffffff')
    """

    code: int
    width: Literal[32, 64] = 32

    def __str__(self) -> str:
        if self.code in SPECIAL:
            return SPECIAL[self.code]
        if self.code in _REALS:
            return str(_REALS[self.code])
        if self.code == _INVERSE_2PI:
            return _INVERSE_2PI_TEXT[self.width]
        return str(_small_integer(self.code))

    @property
    def emulated(self) -> bool:
        """Tell whether the value is a constant; a scalar register's is not known here."""
        return self.code not in SPECIAL

    @property
    def bits(self) -> int:
        """Return the constant's bits, of `width` bits; integers are sign-extended."""
        if self.code in _REALS:
            form = "<f" if self.width == 32 else "<d"
            return int.from_bytes(struct.pack(form, _REALS[self.code]), "little")
        if self.code == _INVERSE_2PI:
            return _INVERSE_2PI_BITS[self.width]
        return _small_integer(self.code) & (1 << self.width) - 1


def _small_integer(code: int) -> int:
    """Return the integer of source codes 128..192 (0..64) and 193..208 (-1..-16)."""
    return code - 128 if code <= 192 else 192 - code


def is_constant(code: int) -> bool:
    """Tell whether a source code is an inline constant or one of the special scalar registers."""
    return 128 <= code <= 208 or code in SPECIAL or code in _REALS or code == _INVERSE_2PI


@cache
def _codes(width: Literal[32, 64]) -> dict[int, int]:
    codes = (*range(128, 209), *_REALS, _INVERSE_2PI)
    return {Constant(code, width).bits: code for code in codes}


def constant_of_bits(bits: int, width: Literal[32, 64]) -> Constant | None:
    """Return the inline constant with these bits, or None where there is none."""
    code = _codes(width).get(bits)
    return None if code is None else Constant(code, width)


def constant_of_integer(value: int, width: Literal[32, 64]) -> Constant | None:
    """Return the inline constant of an integer that fits the width, signed or unsigned, or None."""
    if not -(1 << width - 1) <= value < 1 << width:
        return None
    return constant_of_bits(value & (1 << width) - 1, width)


def constant_of_real(value: float, width: Literal[32, 64]) -> Constant | None:
    """Return the inline constant that a real rounds to, without over- or underflow, or None."""
    if width == 64:
        return constant_of_bits(int.from_bytes(struct.pack("<d", value), "little"), 64)
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        return None
    rounded = struct.unpack("<f", packed)[0]
    if rounded != value and abs(rounded) < 2.0**-126:
        return None
    return constant_of_bits(int.from_bytes(packed, "little"), 32)
