"""Ends of ranges: split K, subnormal vectors, outputs without a product, more bits than a type."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gpuemu.backends import host
from gpuemu.errors import BadValue
from gpuemu.gemm import RequiredMantissaBits
from gpuemu.gemm.emulation import emulated_matmul, emulation_report, scheme, slices

needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())


def dot(x: Any, y: Any) -> Fraction:
    return sum(
        (Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x, y, strict=True)), Fraction(0)
    )


@needs_host
@pytest.mark.parametrize(("k", "ranges"), [(33024, 1), (33025, 1), (33026, 2)])
def test_only_a_longer_k_is_split(k: int, ranges: int) -> None:
    a = np.ones((1, k))
    assert emulated_matmul(a, a.T, split_k="auto", backend="host")[0, 0] == k
    assert emulation_report().k_ranges == ranges


@needs_host
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [15, 31, 61])
def test_each_range_has_its_bound_and_each_addition_rounds(dtype: Any, bits: int) -> None:
    """Halves of one sign each that cancel: the worst case of adding rounded parts."""
    random = np.random.default_rng(bits)
    k, count = 33040, scheme.slices_for(bits)
    a, b = (random.uniform(0.5, 1.0, s).astype(dtype) for s in ((1, k), (k, 1)))
    b[k // 2 :] *= -1
    got = emulated_matmul(a, b, mantissa_bits=bits, split_k="auto", backend="host")
    want, allowed, total = Fraction(0), Fraction(0), Fraction(0)
    unit = Fraction(1, 2 ** scheme.PRECISION[np.dtype(dtype).name])
    for first, last in scheme.k_ranges(k, scheme.SPLIT_K):
        x, y = a[:, first:last], b[first:last]
        shifts = int(slices.shared_shift(x)[0] + slices.shared_shift(y.T)[0])
        part = dot(x[0], y[:, 0])
        absolute, relative = scheme.slices_bound(
            last - first, count, False, np.dtype(dtype).name, shifts
        )
        want, total = want + part, total + abs(part)
        allowed += absolute + relative * abs(part)
    assert abs(Fraction(float(got[0, 0])) - want) <= allowed + unit * (total + allowed)


@needs_host
def test_ranges_overflow_each_for_itself() -> None:
    a, b = np.full((1, 33040), 1e308), np.ones((33040, 1))
    b[1::2] = -1  # within each range
    assert emulated_matmul(a, b, split_k="auto", backend="check")[0, 0] == 0
    b[:, 0] = np.where(np.arange(33040) < 16520, 1, -1)  # between the two
    assert np.isnan(emulated_matmul(a, b, split_k="auto", backend="check")[0, 0])


@needs_host
@pytest.mark.parametrize("bits", [7, 15, 23, 31, 39, 47, 55, 63])
def test_vectors_of_double_subnormals_keep_their_bits(bits: int) -> None:
    least = 5e-324
    a = np.array([[3 * least, 64 * least, 0], [0, -least, 2.0**-1022]])
    b = np.array([[2.0**1000, 1.0], [2.0**1000, 0], [1.0, 1.0]])
    for control in ("fixed", "dynamic"):
        got = emulated_matmul(a, b, mantissa_bits=bits, mantissa_control=control, backend="check")
        assert got[0].tolist() == [67 * 2.0**-74, 3 * least]
        assert got[1, 1] == 2.0**-1022


@pytest.mark.parametrize("dense", [False, True])
def test_exact_zeros_need_no_bits(dense: bool) -> None:
    """Outputs that no product reaches; where blocks of K hide that, native is the safe answer."""
    eye = np.kron(np.eye(8), np.ones((42, 42)))
    if dense:
        eye[:2] = np.arange(336) % 2, (np.arange(336) + 1) % 2  # rows that never meet
    got = emulated_matmul(eye, eye.T, mantissa_bits=7, mantissa_control="dynamic", backend="numpy")
    report = emulation_report()
    assert (got == eye @ eye.T).all()
    assert report.scheme == ("native" if dense else "slices")
    assert report.note == (
        "native: of some output the estimate sees no product above zero" if dense else ""
    )


@needs_host
def test_no_check_of_native_products() -> None:
    """Their bits are a library's, which no oracle knows; "auto" emulates on both sides."""
    a, b = np.array([[1.0, 1e-300]]), np.array([[1e-300], [1.0]])
    emulated_matmul(a, b, mantissa_control="dynamic", backend="check")
    assert emulation_report().scheme == "native"
    emulated_matmul(a, b, scheme="auto", backend="check")
    assert emulation_report().scheme == "crt"


@needs_host
@pytest.mark.parametrize("bits", [62, 63])
@pytest.mark.parametrize("chosen", ["slices", "auto"])
def test_eight_slices_hold_63_bits(bits: int, chosen: str) -> None:
    a = np.array([[1.0, 2.0**-52]])
    got = emulated_matmul(a, a.T, mantissa_bits=bits, scheme=chosen, backend="check")
    assert got[0, 0] == 1.0 and emulation_report().planes == 8
    with pytest.raises(BadValue, match="required_mantissa_bits: bits=64; legal: 1 to 63"):
        RequiredMantissaBits(64)
