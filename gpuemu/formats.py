"""Number formats: one data row each, exact values, and the bridge to NumPy and ml_dtypes.

Sources: IEEE 754-2019 (f64, f32, f16), OCP OFP8 1.0 and OCP MX 1.0 (f8e4m3fn, f8e5m2, f6*, f4*,
f8e8m0fnu), and AMD's CDNA3 instruction set guide (the FNUZ 8-bit floats: one NaN, 0x80, no
infinities, no negative zero). `xf32` is a 32-bit float of which the multiplier uses 10 mantissa
bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np

from .errors import BadType, UnknownFormat

Nan = Literal["ieee", "all-ones", "negative-zero", "none"]


@dataclass(frozen=True)
class Format:
    """One number format.

    Attributes
    ----------
    name : str
        The project's name, after MLIR's spelling.
    bits : int
        Width of one item in a register or packed array.
    exponent_bits, mantissa_bits, bias : int
        Of the encoding; an integer format has none.
    infinities : bool
        Whether the largest exponent with a zero mantissa means infinity.
    nan : str
        Which codes are NaN: "ieee" (largest exponent, mantissa not zero), "all-ones" (magnitude
        bits all set), "negative-zero" (that code alone), "none".
    dtype_name : str
        The dtype of NumPy or ml_dtypes that holds one item per element.
    """

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    infinities: bool
    nan: Nan
    dtype_name: str
    kind: Literal["float", "signed", "unsigned", "scale"] = "float"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype of NumPy or ml_dtypes that holds one item per element."""
        found: np.dtype[Any] = _dtype(self.dtype_name)
        return found

    @property
    def storage(self) -> np.dtype[Any]:
        """Return the unsigned dtype of the same element size: items as bits."""
        return np.dtype(f"u{self.dtype.itemsize}")

    @property
    def is_float(self) -> bool:
        """Tell whether this is a floating-point format (E8M0 scales are not)."""
        return self.kind == "float"

    @property
    def emin(self) -> int:
        """Return the exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """Return the exponent of the largest finite number."""
        top = (1 << self.exponent_bits) - 1
        reserved = self.nan == "ieee" or (self.nan == "all-ones" and self.mantissa_bits == 0)
        return top - self.bias - (1 if reserved else 0)

    def classify(self, code: int) -> Literal["finite", "inf", "nan"]:
        """Return what one code means."""
        sign_bit = 1 << (self.bits - 1)
        if self.kind == "scale":
            return "nan" if code == 0xFF else "finite"
        if not self.is_float:
            return "finite"
        if self.nan == "negative-zero":
            return "nan" if code == sign_bit else "finite"
        magnitude = code & (sign_bit - 1)
        if self.nan == "all-ones":
            return "nan" if magnitude == sign_bit - 1 else "finite"
        if self.nan == "none":
            return "finite"
        exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        if exponent != (1 << self.exponent_bits) - 1:
            return "finite"
        return "nan" if mantissa else "inf"

    def value(self, code: int) -> Fraction:
        """Return the exact value of a finite code.

        >>> FORMATS["f8e4m3fn"].value(0x7E)
        Fraction(448, 1)
        """
        if self.kind == "scale":
            return Fraction(2) ** (code - self.bias)
        if not self.is_float:
            signed = self.kind == "signed" and code >> (self.bits - 1)
            return Fraction(code - (1 << self.bits) if signed else code)
        sign = -1 if code >> (self.bits - 1) else 1
        exponent, mantissa = divmod(code & ((1 << (self.bits - 1)) - 1), 1 << self.mantissa_bits)
        if exponent == 0:
            exponent = 1
        else:
            mantissa += 1 << self.mantissa_bits
        return sign * mantissa * Fraction(2) ** (exponent - self.bias - self.mantissa_bits)


_ROWS = (
    Format("f64", 64, 11, 52, 1023, True, "ieee", "float64"),
    Format("f32", 32, 8, 23, 127, True, "ieee", "float32"),
    Format("xf32", 32, 8, 23, 127, True, "ieee", "float32"),
    Format("f16", 16, 5, 10, 15, True, "ieee", "float16"),
    Format("bf16", 16, 8, 7, 127, True, "ieee", "bfloat16"),
    Format("f8e4m3fnuz", 8, 4, 3, 8, False, "negative-zero", "float8_e4m3fnuz"),
    Format("f8e5m2fnuz", 8, 5, 2, 16, False, "negative-zero", "float8_e5m2fnuz"),
    Format("f8e4m3fn", 8, 4, 3, 7, False, "all-ones", "float8_e4m3fn"),
    Format("f8e5m2", 8, 5, 2, 15, True, "ieee", "float8_e5m2"),
    Format("f6e2m3fn", 6, 2, 3, 1, False, "none", "float6_e2m3fn"),
    Format("f6e3m2fn", 6, 3, 2, 3, False, "none", "float6_e3m2fn"),
    Format("f4e2m1fn", 4, 2, 1, 1, False, "none", "float4_e2m1fn"),
    Format("f8e8m0fnu", 8, 8, 0, 127, False, "all-ones", "float8_e8m0fnu", "scale"),
    Format("i8", 8, 0, 0, 0, False, "none", "int8", "signed"),
    Format("u8", 8, 0, 0, 0, False, "none", "uint8", "unsigned"),
    Format("i32", 32, 0, 0, 0, False, "none", "int32", "signed"),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}


@cache
def _dtype(name: str) -> np.dtype[Any]:
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def get(name: str) -> Format:
    """Return a format by name; raise `UnknownFormat` with the known names."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownFormat(f"format {name!r}; legal: {', '.join(FORMATS)}") from None


def bits_of(
    array: np.ndarray[Any, Any], fmt: Format, name: str, *, bits: bool = True
) -> np.ndarray[Any, Any]:
    """Return the items of an array as unsigned bits, after checking that its dtype is the format's.

    Parameters
    ----------
    array : ndarray
        Of the format's dtype, or (with `bits`) of the unsigned dtype of the same element size.
    fmt : Format
        The format that the array is read as.
    name : str
        What to call the array in an error.
    bits : bool
        Whether unsigned integers are accepted as bits.

    Returns
    -------
    ndarray
        A view where memory allows it.

    Raises
    ------
    BadType
        For any other dtype: formats are never converted, and an OCP array is never read as FNUZ.
    """
    if array.dtype == fmt.dtype:
        return array.view(fmt.storage) if array.dtype != fmt.storage else array
    if bits and array.dtype == fmt.storage:
        return array
    legal = f"{fmt.dtype}" + (
        f" or its bits as {fmt.storage}"
        if bits
        else f" ({fmt.storage} bits only with bits=True or --bits)"
    )
    raise BadType(f"{name} has dtype {array.dtype}; {fmt.name} wants {legal}")
