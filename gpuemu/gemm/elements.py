"""Element types of a GEMM descriptor: one data row each, and the names by which callers ask for
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

from ..errors import BadType, BadValue


@dataclass(frozen=True)
class Element:
    """One element type.

    Attributes
    ----------
    name : str
        The project's name: "f16", "tf32", "i8", …
    bits : int
        Width in memory; tf32 lies in a 32-bit word.
    kind : {"float", "signed", "unsigned"}
    dtype : numpy.dtype
        What an array of it has; tf32 arrays are float32.
    accumulates : bool
        Whether it may be the type of C.
    significand : int
        Significant bits of a float, the hidden one included; 0 for integers.
    aliases : tuple of str
        Other accepted spellings, C++ names included.
    """

    name: str
    bits: int
    kind: Literal["float", "signed", "unsigned"]
    dtype: np.dtype[Any]
    accumulates: bool
    significand: int
    aliases: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Width in bytes."""
        return self.bits // 8

    @property
    def is_integer(self) -> bool:
        """Whether the type is integral."""
        return self.kind != "float"

    def __str__(self) -> str:
        return self.name


def _integer(bits: int, signed: bool) -> Element:
    name = f"{'i' if signed else 'u'}{bits}"
    long = f"{'int' if signed else 'uint'}{bits}"
    kind: Literal["signed", "unsigned"] = "signed" if signed else "unsigned"
    return Element(name, bits, kind, np.dtype(long), bits >= 32, 0, (long, f"{long}_t"))


ELEMENTS: dict[str, Element] = {
    row.name: row
    for row in (
        Element(
            "f8e4m3fn",
            8,
            "float",
            np.dtype(ml_dtypes.float8_e4m3fn),
            False,
            4,
            ("e4m3", "float8_e4m3fn", "__nv_fp8_e4m3"),
        ),
        Element(
            "f8e5m2",
            8,
            "float",
            np.dtype(ml_dtypes.float8_e5m2),
            False,
            3,
            ("e5m2", "float8_e5m2", "__nv_fp8_e5m2"),
        ),
        Element("f16", 16, "float", np.dtype(np.float16), True, 11, ("half", "__half", "float16")),
        Element(
            "bf16",
            16,
            "float",
            np.dtype(ml_dtypes.bfloat16),
            False,
            8,
            ("bfloat16", "__nv_bfloat16"),
        ),
        Element("tf32", 32, "float", np.dtype(np.float32), False, 11, ("tfloat32", "tfloat32_t")),
        Element("f32", 32, "float", np.dtype(np.float32), True, 24, ("float", "float32")),
        Element("f64", 64, "float", np.dtype(np.float64), True, 53, ("double", "float64")),
        *(_integer(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    )
}

_BY_NAME = {name: row for row in ELEMENTS.values() for name in (row.name, *row.aliases)}
_BY_DTYPE = {row.dtype: row for row in ELEMENTS.values() if row.name != "tf32"}


# Complex dtypes that NumPy has, by the dtype of their parts.
COMPLEX: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}


def element(spelling: Any) -> Element:
    """Return the element type for a name, a NumPy or ml_dtypes dtype, or a row itself.

    Raises
    ------
    BadType
        For Python's own `float` and `int`, whose width differs from C++'s.
    BadValue
        For anything without a row.

    Examples
    --------
    >>> element("__half").name, element(np.float64).name, element("tf32").bits
    ('f16', 'f64', 32)
    """
    if isinstance(spelling, Element):
        return spelling
    if spelling in (float, int, bool, complex):
        raise BadType(
            f"Python's {spelling.__name__} is no element type (its width is not C++'s); "
            "name the width, for example 'f32' or numpy.float64"
        )
    if isinstance(spelling, str) and spelling in _BY_NAME:
        return _BY_NAME[spelling]
    try:
        found = _BY_DTYPE.get(np.dtype(spelling))
    except TypeError:
        found = None
    if found is None:
        raise BadValue(f"{spelling!r} is no element type of a GEMM; legal: {', '.join(ELEMENTS)}")
    return found
