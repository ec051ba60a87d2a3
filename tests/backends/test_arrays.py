"""Array bridges: what travels as it is, and what travels as bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gpuemu import errors
from gpuemu.backends import arrays

OWN = ["bool", "int8", "uint16", "float16", "float32", "float64", "complex64", "complex128"]
OTHERS = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "int4"]


@pytest.mark.parametrize("name", OWN)
def test_dtypes_of_numpy_travel_as_they_are(name: str) -> None:
    x = np.zeros(4, name)
    assert arrays.as_unsigned(x) is x


@pytest.mark.parametrize("name", OTHERS)
def test_other_dtypes_travel_as_bits(name: str) -> None:
    x = np.ones(4, getattr(ml_dtypes, name))
    bits = arrays.as_unsigned(x)
    assert bits.dtype.kind == "u" and bits.dtype.itemsize == x.dtype.itemsize
    assert bits.tobytes() == x.tobytes()


def test_numpy_arrays_are_not_copied() -> None:
    x = np.arange(4)
    assert arrays.to_numpy(x) is x
    assert arrays.like(x, np.zeros(1)) is x


@pytest.mark.parametrize("thing", [[1, 2], 3, "x", None])
def test_what_is_no_array_is_refused(thing: Any) -> None:
    with pytest.raises(errors.BadType, match=r"^registers of a is a \w+; legal: a NumPy or"):
        arrays.to_numpy(thing, "registers of a")


def test_a_foreign_array_is_known_by_its_module() -> None:
    tensor = type("Tensor", (), {"__module__": "torch"})()
    assert arrays.kind(tensor) == "torch"
    assert arrays.kind(np.float32(1)) == "numpy"
