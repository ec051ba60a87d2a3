"""The host build at its ends: numbers of planes that it was not built for, and results below the
least subnormal.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from gpuemu.backends import host
from gpuemu.gemm.emulation import emulated_matmul

needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())


def pointer(x: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


@needs_host
@pytest.mark.parametrize(
    ("crt", "planes", "status"),
    [(0, 0, 1), (0, 1, 0), (0, 8, 0), (0, 9, 1), (1, 2, 1), (1, 3, 0), (1, 16, 0), (1, 17, 1)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_planes(dtype: Any, crt: int, planes: int, status: int) -> None:
    x = np.ones((1, 16), dtype)
    out, exponents = np.full((planes + 1, 16), 85, np.int8), np.zeros(1, np.int32)
    layout = np.array([1, 16, 16, 16, 1, 16 * (planes + 1), 16], np.int64)
    encode = host.library("emulation").gpuemu_emulation_encode
    bits, limit = 8 * x.itemsize, ctypes.c_uint32(1 << 20)
    arrays = (pointer(x), pointer(layout), pointer(out), pointer(exponents))
    assert encode(bits, crt, planes, 0, *arrays, limit, 20) == status
    assert (out[planes] == 85).all()
    assert (out == 85).all() == bool(status)


@needs_host
@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -149), (np.float64, -1074)])
@pytest.mark.parametrize(
    ("significand", "below", "units"),
    [(1.0, 0, 1), (1.5, 1, 1), (-1.125, 1, -1), (1.0, 1, 0), (1.5, 2, 0), (-1.0, 9, 0)],
)
def test_residues_round_to_the_least_subnormal_or_to_zero(
    dtype: Any, least: int, significand: float, below: int, units: int
) -> None:
    """Times 2**-below of the least subnormal: half of it is a tie, and goes to even."""
    half = (least - below) // 2
    a = np.full((1, 1), np.ldexp(significand, half), dtype)
    b = np.full((1, 1), np.ldexp(1.0, least - below - half), dtype)
    bits = 23 if dtype == np.float32 else 52
    got = emulated_matmul(a, b, mantissa_bits=bits, scheme="crt", backend="check")
    want = np.copysign(np.ldexp(abs(units), least), significand).astype(dtype)
    assert got.tobytes() == want.tobytes()


@needs_host
@pytest.mark.parametrize("rounding", ["truncate", "nearest"])
@pytest.mark.parametrize("bits", [7, 15, 23, 31])
def test_vectors_of_subnormals_are_sliced_whole(bits: int, rounding: str) -> None:
    """Their common exponent lies below the least normal one: digits are shifted up."""
    a = np.array([[3, -5, 1, 0], [1, 0, 0, 0]], np.float32) * np.float32(2.0**-149)
    b = np.array([[2.0**100, 1.5], [-(2.0**99), 1], [1, -3], [7, 2]], np.float32)
    got = emulated_matmul(
        a, b, mantissa_bits=bits, scheme="slices", slice_rounding=rounding, backend="check"
    )
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)  # few bits: exact
    assert got.tobytes() == want.tobytes()
