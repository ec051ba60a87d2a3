"""What `gpuemu matmul` says of a product: errors in ulp, distances, and casts that round once."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma import matmul_statistics as statistics

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")
I8 = gpuemu.instruction("v_mfma_i32_32x32x16_i8", "gfx942")
BF16 = gpuemu.instruction("v_mfma_f32_32x32x8_bf16", "gfx942")
F64 = gpuemu.instruction("v_mfma_f64_16x16x4_f64", "gfx942")
F32 = gpuemu.instruction("v_mfma_f32_16x16x4_f32", "gfx942")
FP8 = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")


def test_exact_and_ulp_errors() -> None:
    rng = np.random.default_rng(1)
    A = (rng.standard_normal((3, 50)) * 2.0 ** rng.integers(-10, 10, (3, 50))).astype(np.float16)
    B = rng.standard_normal((50, 4)).astype(np.float16)
    C = rng.standard_normal((3, 4)).astype(np.float32)
    want = statistics.exact(F16, A, B, C)
    for i in range(3):
        for j in range(4):
            true = Fraction(float(C[i, j]))
            true += sum(Fraction(float(A[i, k])) * Fraction(float(B[k, j])) for k in range(50))
            assert want[i, j] == float(true)
    D = want.astype(np.float32)
    found = statistics.summary(statistics.ulp_errors(D, want))
    assert found["exactly rounded"] == found["finite"] == 12
    away = np.nextafter(D, np.float32(np.inf))
    assert statistics.summary(statistics.ulp_errors(away, want))["bias"] > 0.5


def test_distance_counts_representable_numbers() -> None:
    D = np.array([1.0, -0.0, np.nan, 2.0], np.float32)
    E = np.array([np.nextafter(np.float32(1), np.float32(2)), 0.0, np.nan, 2.0], np.float32)
    found = statistics.distance(D, E, F16)
    assert (found["differing"], found["max ulp"], found["first"]) == (2, 1.0, [0])
    assert found["max at"] == [0]
    away = statistics.distance(D, np.array([1, 0, 3, 4], np.float32), F16)
    assert (away["max at"], away["first"]) == ([3], [1])
    assert statistics.distance(D, D.copy(), F16)["max at"] is None


def test_counterparts() -> None:
    with pytest.raises(errors.BadValue, match="gfx908 has no"):
        statistics.counterparts(gpuemu.instruction("v_mfma_f64_16x16x4_f64", "gfx942"), ["gfx908"])
    with pytest.raises(errors.BadValue, match="'gfx906'"):
        statistics.counterparts(F16, ["gfx906"])


def test_what_has_no_errors_to_measure() -> None:
    with pytest.raises(errors.BadType, match="errors of int32 results are not measured; legal"):
        statistics.ulp_errors(np.zeros(2, np.int32), np.zeros(2))
    with pytest.raises(errors.GpuemuError, match="no output is finite"):
        statistics.summary(np.array([np.nan, np.inf]))
    mixed = gpuemu.instruction("v_mfma_f32_16x16x128_f8f6f4", "gfx950")
    with pytest.raises(errors.BadType, match="takes several formats: round B to one first"):
        statistics.cast(np.zeros((2, 2)), mixed, "B")


@pytest.mark.parametrize(
    ("i", "given", "rounded"),
    [
        # Just above a tie: float32 on the way would make ties of them, which go down.
        (F16, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-10),
        (BF16, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
        (F16, 1 + 2.0**-11, 1.0),
        (F16, 1e6, np.inf),
        (FP8, 1e6, np.nan),
        (F32, 1e300, np.inf),
        (F64, 1 + 2.0**-52, 1 + 2.0**-52),
        (I8, 1.75, 2),
        (I8, -2.5, -2),
        (I8, 127.4, 127),
    ],
)
def test_cast_rounds_once(i: gpuemu.Instruction, given: float, rounded: float) -> None:
    found = statistics.cast(np.array([[given]]), i, "A")
    assert found.dtype == i.operand_format("A").dtype
    assert np.array_equal(found.astype(np.float64), [[rounded]], equal_nan=True)


def test_cast_takes_every_dtype_of_real_numbers() -> None:
    for dtype in (np.int64, np.uint16, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        assert statistics.cast(np.array([3], dtype), F16, "A") == np.float16(3)


@pytest.mark.parametrize(
    ("i", "x", "kind", "message"),
    [
        (I8, [1, 127.5], errors.BadValue, r"A holds 127\.5; i8 has -128 to 127"),
        (I8, [np.nan], errors.BadValue, "A holds nan; i8 has -128 to 127"),
        (F16, [1j], errors.BadType, "A has dtype complex128, which is not rounded; legal: real"),
        (F16, ["x"], errors.BadType, "A has dtype <U1"),
        (BF16, [2**60 + 1], errors.BadValue, r"A holds integers beyond 2\*\*53"),
    ],
)
def test_cast_refuses(i: gpuemu.Instruction, x: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        statistics.cast(np.array(x), i, "A")


def test_integers_are_apart_by_their_difference() -> None:
    D, E = np.array([7, -3, 5], np.int32), np.array([7, -8, 6], np.int32)
    found = statistics.distance(D, E, I8)
    assert (found["differing"], found["max ulp"], found["max at"]) == (2, 5.0, [1])


def test_the_axis_of_a_histogram_leaves_far_errors_out() -> None:
    near = np.linspace(-2.0, 1.0, 1000)
    assert statistics.histogram_range(near) == (-2.0, 1.0)
    low, high = statistics.histogram_range(np.append(near, [-4000.0, 3000.0]))
    assert -6 < low < -5 and high == -low
    assert statistics.histogram_range(np.append(np.zeros(99), 7.0)) == (0.0, 7.0)
    assert statistics.histogram_range(np.zeros(3)) == (0.0, 0.0)


def test_a_histogram_counts_what_is_beyond_its_axis(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = np.concatenate([np.linspace(-2.0, 1.0, 1000), [-4000.0, -9.0, 3000.0, np.nan]])
    statistics.histogram(found, tmp_path / "h.svg", "<one>")
    text = (tmp_path / "h.svg").read_text()
    assert "<!-- 2 beyond -5" in text and "<!-- 1 beyond 5" in text
    statistics.histogram(np.zeros(3), tmp_path / "h.svg", "<one>")
    assert "beyond" not in (tmp_path / "h.svg").read_text()


def test_a_histogram_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(errors.GpuemuError, match=r"pip install 'gpuemu\[plot\]'"):
        statistics.histogram(np.zeros(3), tmp_path / "h.png", "<one>")
