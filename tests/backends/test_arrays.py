"""Array bridges: what travels as it is, and what travels as bits."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
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


class OnDevice:
    """What stands for an array of a CUDA device."""

    def __init__(self, device: int) -> None:
        self.device = SimpleNamespace(id=device)
        self.__cuda_array_interface__: dict[str, Any] = {}


class Foreign(OnDevice):
    """The same of another library than CuPy."""


@pytest.mark.parametrize("kind", [OnDevice, Foreign])
def test_arrays_of_another_device_are_refused(
    monkeypatch: pytest.MonkeyPatch, kind: type[OnDevice]
) -> None:
    cupy: Any = ModuleType("cupy")
    cupy.ndarray, cupy.asarray = OnDevice, lambda x: OnDevice(x.device.id)
    cupy.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(id=1))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(OnDevice, "__module__", "cupy")
    assert arrays.to_cupy(kind(1), "matrix A").device.id == 1
    message = (
        r"matrix A lies on CUDA device 0, the current one is 1; legal: arrays of the current "
        r"device: call inside `with cupy.cuda.Device\(0\):`"
    )
    with pytest.raises(errors.BadValue, match=message):
        arrays.to_cupy(kind(0), "matrix A")
