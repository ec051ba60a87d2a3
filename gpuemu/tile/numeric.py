"""The numeric facts of the tile machine: element types, padding values, sticky flags.

Source: PTO ISA 0.58.3, DataType codes and the hardware numeric profile
`pto-hardware-numeric-0.58.3-ieee-v1` (nearest even, subnormals kept, one canonical NaN a type,
tininess after rounding). No arithmetic here: the oracle and the device code share these rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from ..errors import BadType, BadValue

PROFILE = "pto-hardware-numeric-0.58.3-ieee-v1"

NV, DZ, OF, UF, NX = 1, 2, 4, 8, 16
FLAG_NAMES = {NV: "NV", DZ: "DZ", OF: "OF", UF: "UF", NX: "NX"}

NAN_CORNERS = ("ieee", "asl")


def flag_names(flags: int) -> str:
    """Return the names of the flags that are set.

    >>> flag_names(OF | NX)
    'OF|NX'
    """
    return "|".join(name for bit, name in FLAG_NAMES.items() if flags & bit) or "none"


class PadValue(IntEnum):
    """What fills the destination outside its valid region, by its code in B.DATR."""

    ZERO = 0
    MAX = 1
    MIN = 2
    NULL = 3


@dataclass(frozen=True)
class DataType:
    """One element type.

    Attributes
    ----------
    name : str
        As written in assembly.
    code : int
        In the DataType fields of BSTART and B.DATR.
    bits : int
        Element width; 0 for a type that no elementwise operation takes.
    kind : str
        "float", "signed", "unsigned", or "other" (known by name only).
    exponent_bits, mantissa_bits : int
        Of a float's encoding.
    unused_bits : int
        Low bits of the element that must be zero: TF32 and HF32 lie at the top of a 32-bit word.
    infinities : bool
        Whether the largest exponent with a zero mantissa is an infinity; E4M3 has none and one NaN.
    dtype_name : str
        NumPy's or ml_dtypes' dtype that reads an element as its value.
    """

    name: str
    code: int
    bits: int = 0
    kind: Literal["float", "signed", "unsigned", "other"] = "other"
    exponent_bits: int = 0
    mantissa_bits: int = 0
    unused_bits: int = 0
    infinities: bool = True
    dtype_name: str = ""

    @property
    def storage(self) -> np.dtype[Any]:
        """Return the unsigned dtype that holds one element's bits."""
        return np.dtype(f"u{self.bits // 8}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype whose value an element's bits are."""
        if hasattr(np, self.dtype_name):
            return np.dtype(self.dtype_name)
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.dtype_name))
        return found

    @property
    def sign_bit(self) -> int:
        """Return the bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def emin(self) -> int:
        """Return the exponent of the smallest normal number."""
        return 2 - (1 << (self.exponent_bits - 1))

    @property
    def infinity(self) -> int:
        """Return the bits of +infinity (for E4M3, of its NaN: where an overflow goes)."""
        if not self.infinities:
            return self.sign_bit - 1
        return ((1 << self.exponent_bits) - 1) << (self.mantissa_bits + self.unused_bits)

    @property
    def canonical_nan(self) -> int:
        """Return the bits of the only NaN that arithmetic delivers."""
        quiet = 1 << (self.mantissa_bits - 1 + self.unused_bits) if self.infinities else 0
        return self.infinity | quiet

    def pad_bits(self, pad: PadValue) -> int:
        """Return an element's bits under a PadValue; Max and Min are the largest finite magnitudes.

        >>> hex(data_type("FP16").pad_bits(PadValue.MIN))
        '0xfbff'
        """
        if pad in (PadValue.ZERO, PadValue.NULL):
            return 0
        if self.kind == "float":
            largest = self.infinity - (1 << self.unused_bits)
            return largest | (self.sign_bit if pad == PadValue.MIN else 0)
        if self.kind == "signed":
            return self.sign_bit - 1 if pad == PadValue.MAX else self.sign_bit
        return 2 * self.sign_bit - 1 if pad == PadValue.MAX else 0


_ROWS = (
    DataType("FP64", 0, 64, "float", 11, 52, dtype_name="float64"),
    DataType("FP32", 1, 32, "float", 8, 23, dtype_name="float32"),
    DataType("TF32", 2, 32, "float", 8, 10, unused_bits=13, dtype_name="float32"),
    DataType("HF32", 3, 32, "float", 8, 11, unused_bits=12, dtype_name="float32"),
    DataType("FP16", 4, 16, "float", 5, 10, dtype_name="float16"),
    DataType("BF16", 5, 16, "float", 8, 7, dtype_name="bfloat16"),
    DataType("HiF8", 6),
    DataType("E4M3", 7, 8, "float", 4, 3, infinities=False, dtype_name="float8_e4m3fn"),
    DataType("E5M2", 8, 8, "float", 5, 2, dtype_name="float8_e5m2"),
    DataType("E3M2", 9),
    DataType("E2M3", 10),
    DataType("E2M1X2", 11),
    DataType("E1M2X2", 12),
    DataType("E8M0", 13),
    DataType("HiF4X2", 14),
    DataType("S64", 16, 64, "signed", dtype_name="int64"),
    DataType("S32", 17, 32, "signed", dtype_name="int32"),
    DataType("S16", 18, 16, "signed", dtype_name="int16"),
    DataType("S8", 19, 8, "signed", dtype_name="int8"),
    DataType("S4X2", 20),
    DataType("U64", 24, 64, "unsigned", dtype_name="uint64"),
    DataType("U32", 25, 32, "unsigned", dtype_name="uint32"),
    DataType("U16", 26, 16, "unsigned", dtype_name="uint16"),
    DataType("U8", 27, 8, "unsigned", dtype_name="uint8"),
    DataType("U4X2", 28),
)

DATA_TYPES = {row.name: row for row in _ROWS}
DATA_TYPE_CODES = {row.code: row for row in _ROWS}
DTYPE_NONE = 31
ELEMENT_TYPES = tuple(row.name for row in _ROWS if row.bits)


def data_type(name: str) -> DataType:
    """Return an element type by name; raise `BadValue` with the names that have elements."""
    if not isinstance(name, str):
        raise BadType(f"data type {name!r}; legal: one of {', '.join(ELEMENT_TYPES)}, as a string")
    row = DATA_TYPES.get(name)
    if row is None or not row.bits:
        raise BadValue(f"data type {name!r}; legal: {', '.join(ELEMENT_TYPES)}")
    return row


def pad_value(pad: PadValue | str) -> PadValue:
    """Return a PadValue by name; raise `BadValue` with the four names."""
    try:
        return pad if isinstance(pad, PadValue) else PadValue[pad.upper()]
    except (KeyError, AttributeError):
        raise BadValue(f"pad value {pad!r}; legal: Zero, Max, Min, Null") from None
