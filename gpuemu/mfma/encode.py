"""Rounding numbers to the codes of a narrow floating-point format.

All steps are exact in float64 but the one rounding, of a significand scaled to a whole number.
Nothing here goes through ml_dtypes: the tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import formats
from ..errors import BadType, BadValue

Array = np.ndarray[Any, Any]

_ROUND = {"nearest": np.rint, "zero": np.trunc}
SOURCES = ("float16", "bfloat16", "float32", "float64")


def to_float64(values: Array, name: str) -> Array:
    """Return an array of f16, bf16, f32 or f64 as float64; raise `BadType` for another dtype."""
    if values.dtype.name not in SOURCES:
        raise BadType(f"{name} has dtype {values.dtype}; legal: {', '.join(SOURCES)}")
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return values.astype(np.float64)


def largest_code(fmt: formats.Format) -> int:
    """Return the code of the largest finite number.

    >>> hex(largest_code(formats.get("f8e4m3fn")))
    '0x7e'
    """
    if fmt.nan == "ieee":
        return (((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits) - 1
    return (1 << (fmt.bits - 1)) - (2 if fmt.nan == "all-ones" else 1)


def nan_code(fmt: formats.Format) -> int | None:
    """Return the code that stands for every NaN here, or None where the format has none."""
    top = (1 << (fmt.bits - 1)) - 1
    ieee = (((1 << (fmt.exponent_bits + 1)) - 1) << fmt.mantissa_bits) >> 1
    codes = {"ieee": ieee, "all-ones": top, "negative-zero": top + 1}
    return codes.get(fmt.nan)


def encode(values: Any, fmt: str, *, rounding: str = "nearest", saturate: bool = True) -> Array:
    """Return numbers rounded to a format of at most 16 bits, as its codes.

    Parameters
    ----------
    values : float16, bfloat16, float32 or float64 array
    fmt : str
        Such as "f8e4m3fn", "f8e5m2fnuz", "f6e2m3fn", "f4e2m1fn".
    rounding : "nearest" (ties to even) or "zero"
    saturate : bool
        Numbers that round beyond the largest finite one, and infinities, become that one; otherwise
        an infinity where the format has one, else NaN. Rounding to zero takes no finite number
        there.

    Returns
    -------
    ndarray
        Codes in the format's unsigned storage; every NaN is one code.

    Raises
    ------
    BadValue
        For a NaN, or with `saturate` off, in a format that has neither NaN nor infinity.

    >>> [hex(c) for c in encode(np.array([4.25, 464, 465]), "f8e4m3fn", saturate=False)]
    ['0x48', '0x7e', '0x7f']

    Source: OCP OFP8 1.0 section 5 (saturating and non-saturating conversion), OCP MX 1.0 section 5.
    """
    row = formats.get(fmt)
    if not row.is_float or row.bits > 16:
        raise BadValue(f"fmt={fmt!r}; legal: a floating-point format of at most 16 bits")
    if rounding not in _ROUND:
        raise BadValue(f"rounding={rounding!r}; legal: {', '.join(_ROUND)}")
    if not saturate and row.nan == "none":
        raise BadValue(
            f"saturate={saturate!r}; {fmt} has no code beyond its largest number: legal is True"
        )
    wide = to_float64(np.asarray(values), "values")
    nan = nan_code(row)
    if nan is None and np.isnan(wide).any():
        raise BadValue(f"values hold a NaN; {fmt} has no code for it")
    codes = _magnitudes(np.abs(wide), row, rounding, saturate)
    sign = 1 << (row.bits - 1)
    negative = np.signbit(wide) & ((codes != 0) | (row.nan != "negative-zero"))
    codes = np.where(negative, codes | sign, codes)
    if nan is not None:
        codes = np.where(np.isnan(wide), nan, codes)
    return codes.astype(row.storage)


def _magnitudes(wide: Array, fmt: formats.Format, rounding: str, saturate: bool) -> Array:
    """Return the codes of numbers that are not negative; a NaN's is arbitrary."""
    finite = np.where(np.isfinite(wide), wide, 0.0)
    _, exponent = np.frexp(finite)
    above = np.where(finite == 0, fmt.emin, np.maximum(exponent - 1, fmt.emin))
    scaled = np.ldexp(finite, fmt.mantissa_bits - above)
    # A hidden bit, or a carry out of the fraction, adds one to the exponent field.
    codes = ((above - fmt.emin).astype(np.int64) << fmt.mantissa_bits) + _ROUND[rounding](
        scaled
    ).astype(np.int64)
    # The code after the largest is infinity, or NaN in a format without infinities.
    largest = largest_code(fmt)
    beyond = largest if saturate else largest + 1
    overflow = largest if rounding == "zero" else beyond
    codes = np.where(codes > largest, overflow, codes)
    return np.where(np.isinf(wide), beyond, codes)
