"""The slice oracle: digits by hand, the bound with exact rationals, extremes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.gemm.emulation import emulated_matmul, scheme, slices

DTYPES = (np.float32, np.float64)


def exact(x: Any) -> list[list[Fraction]]:
    """Return a matrix as rationals."""
    return [[Fraction(float(v)) for v in row] for row in np.asarray(x)]


def exact_product(a: Any, b: Any) -> list[list[Fraction]]:
    """Return A @ B without rounding."""
    columns = list(zip(*exact(b), strict=True))
    return [
        [sum((x * y for x, y in zip(r, c, strict=True)), Fraction(0)) for c in columns]
        for r in exact(a)
    ]


@pytest.mark.parametrize("bits", range(1, 62))
def test_slice_count_follows_the_documented_formula(bits: int) -> None:
    assert scheme.slices_for(bits) == -(-(bits + 1) // 8)


def test_slice_count_at_the_edges() -> None:
    bits = (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 55, 56)
    assert [scheme.slices_for(x) for x in bits] == [1, 2, 2, 3, 3, 4, 4, 5, 7, 7, 7, 8]


@pytest.mark.parametrize(
    ("largest", "shift"),
    [
        (1.0, 6),
        (1.984374, 6),
        (1.984375, 5),  # 127/64: six ones after the leading one shift one less
        (63.0, 1),
        (127.0, -1),
        (128.0, -1),
        (2.0**1023, -1017),
        (1.7976931348623157e308, -1018),
        (2.0**-1022, 1028),
        (2.0**-1023, 1029),
        (127 * 2.0**-1060, 1059),  # subnormal, seven ones
        (2.0**-1074, 1080),
        (0.0, 0),
    ],
)
def test_shared_shift(largest: float, shift: int) -> None:
    row = np.array([[0.0, -largest, largest / 4]])
    assert slices.shared_shift(row)[0] == shift
    assert np.all(np.abs(np.ldexp(row, shift)) < 127.0)


def test_float_subnormals_are_widened_first() -> None:
    row = np.array([[2.0**-149]], np.float32)
    digits, shift = slices.slice_vectors(row, 3)
    assert shift[0] == 155 and digits[:, 0, 0].tolist() == [64, 0, 0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=6),
    st.integers(1, 8),
    st.booleans(),
)
def test_digits_are_balanced_and_cut_where_they_should(
    values: list[float], count: int, nearest: bool
) -> None:
    digits, shift = slices.slice_vectors(np.array([values]), count, nearest)
    assert digits[0].min() >= -127
    unit = Fraction(2) ** -(int(shift[0]) + 8 * (count - 1))
    for k, value in enumerate(values):
        kept = sum(int(digits[i, 0, k]) * 256 ** (count - 1 - i) for i in range(count)) * unit
        left = Fraction(value) - kept
        if nearest:
            assert abs(left) <= unit / 2
        else:
            assert (
                abs(left) < unit
                and left * Fraction(value) >= 0
                and abs(kept) <= abs(Fraction(value))
            )


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.sampled_from([1, 7, 15, 23, 31, 39, 47, 52, 61]),
    st.sampled_from([0.0, 1.0, 4.0, 8.0]),
    st.booleans(),
    st.sampled_from(DTYPES),
    st.sampled_from([-1, 0, 1]),
)
def test_error_never_exceeds_the_bound(
    seed: int, k: int, bits: int, spread: float, nearest: bool, dtype: Any, sign: int
) -> None:
    """`sign` 0: both signs; else worst cases of truncation, all just below a cut."""
    random = np.random.default_rng(seed)
    a, b = (
        random.standard_normal(s) * np.exp(spread * random.standard_normal(s))
        for s in ((3, k), (k, 3))
    )
    if sign:
        count = scheme.slices_for(bits)
        worst = sign * (126.0 + sum(128 * 256.0**-i for i in range(1, count)) + 255 / 256.0**count)
        a[0], b[:, 0] = worst, worst
    a, b = a.astype(dtype), b.astype(dtype)
    count = scheme.slices_for(bits)
    got = exact(
        emulated_matmul(
            a,
            b,
            mantissa_bits=bits,
            slice_rounding="nearest" if nearest else "truncate",
            backend="numpy",
        )
    )
    want = exact_product(a, b)
    _, a_shift = slices.slice_vectors(a, count, nearest)
    _, b_shift = slices.slice_vectors(b.T, count, nearest)
    for i, j in np.ndindex(3, 3):
        shifts = int(a_shift[i] + b_shift[j])
        absolute, relative = scheme.slices_bound(k, count, nearest, np.dtype(dtype).name, shifts)
        assert abs(got[i][j] - want[i][j]) <= absolute + relative * abs(want[i][j])


def test_the_bound_is_not_idle() -> None:
    """Some product comes within a factor of ten of it: it would notice a lost diagonal."""
    a = np.full((1, 64), -(126.0 + 127.9 / 256))
    absolute, _ = scheme.slices_bound(64, 1, False, "float64", 0)
    error = abs(
        exact(emulated_matmul(a, a.T.copy(), mantissa_bits=7, backend="numpy"))[0][0]
        - exact_product(a, a.T)[0][0]
    )
    assert absolute / 10 < error <= absolute


@pytest.mark.parametrize(("count", "k"), [(7, 18816), (6, 22016), (5, 26496), (4, 33024)])
def test_published_k_limit_does_not_keep_int32(count: int, k: int) -> None:
    """33025 bounds one product of unsigned bytes; a diagonal adds several: these overflow."""
    worst = -(126.0 + sum(128 * 256.0**-i for i in range(1, count)))
    row = np.full((1, k), worst)
    digits, _ = slices.slice_vectors(row, count)
    largest = max(abs(slices.diagonal(digits, digits, d)[0, 0]) for d in range(count))
    assert k < scheme.MAX_K
    assert (largest >= 2**31) == (count > 4)  # four slices: the last K that still fits
    if count > 4:
        assert scheme.groups(count - 1, k) == 2


@pytest.mark.parametrize("count", range(1, 9))
def test_no_group_can_overflow(count: int) -> None:
    assert scheme.SUM_LIMIT * 128 * 128 < 2**31
    assert all(scheme.groups(d, 33040) * scheme.SUM_LIMIT >= (d + 1) * 33040 for d in range(count))


def test_maximum_in_the_last_element() -> None:
    a = np.ones((1, 100))
    a[0, 99] = 2.0**20
    _, shift = slices.slice_vectors(a, 3)
    assert shift[0] == 6 - 20


def test_nearest_removes_the_bias_of_truncation() -> None:
    random = np.random.default_rng(1)
    a, b = random.random((8, 1024)).astype(np.float32), random.random((1024, 8)).astype(np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    error = {
        r: np.mean(
            emulated_matmul(a, b, mantissa_bits=15, slice_rounding=r, backend="numpy") / want - 1
        )
        for r in ("truncate", "nearest")
    }
    assert error["truncate"] < -1e-5 and abs(error["nearest"]) < 5e-6
