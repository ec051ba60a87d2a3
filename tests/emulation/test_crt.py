"""The residue oracle: exact integers, its scale, its bound."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.errors import BadValue
from gpuemu.gemm.emulation import crt, emulated_matmul, scheme

from .test_slices import exact, exact_product


def test_moduli_are_pairwise_coprime_bytes() -> None:
    for i, p in enumerate(scheme.MODULI):
        assert p <= 256 and all(math.gcd(p, q) == 1 for q in scheme.MODULI[:i])


def test_modulus_counts() -> None:
    assert [scheme.moduli_for(x) for x in (7, 23, 31, 39, 52, 53, 61)] == [3, 7, 9, 11, 14, 14, 16]
    with pytest.raises(BadValue, match="legal: 1 to 61"):
        scheme.moduli_for(62)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 16))
def test_recombination_returns_the_exact_integer(seed: int, count: int) -> None:
    """Random integers up to the limit, and the products of their residues."""
    random = np.random.default_rng(seed)
    limit, exponent = scheme.residue_limit(count)
    largest = math.isqrt(limit * 2**exponent if exponent >= 0 else limit // 2**-exponent) // 4
    a = random.integers(-largest, largest + 1, (3, 8))
    b = random.integers(-largest, largest + 1, (8, 3))
    inverse = crt.inverses(count)
    x = crt.residues(a, count).astype(np.int64)
    y = crt.residues(b.T, count, inverse).astype(np.int64)
    products = np.stack([p @ q.T for p, q in zip(x, y, strict=True)])
    assert (crt.recombine(products, count) == a.astype(object) @ b.astype(object)).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 16), st.integers(1, 60), st.integers(-1040, 990))
def test_scale_is_the_largest_within_the_norm(seed: int, count: int, k: int, exponent: int) -> None:
    random = np.random.default_rng(seed)
    x = np.ldexp(random.standard_normal(k) * np.exp(4 * random.standard_normal(k)), exponent)
    scale = crt.norm_scale(x, count)
    limit, limit_exponent = scheme.residue_limit(count)
    squared = Fraction(limit) * Fraction(2) ** limit_exponent
    norm = sum((Fraction(float(v)) ** 2 for v in x), Fraction(0))
    assert norm * Fraction(4) ** scale <= squared
    # The norm is known to a factor of 1 + sqrt(K) / 2^13.
    assert not norm or norm * Fraction(4) ** (scale + 1) * Fraction(101, 100) > squared


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.sampled_from([5, 23, 31, 39, 52, 61]),
    st.sampled_from([0.0, 1.0, 4.0, 8.0]),
    st.sampled_from([np.float32, np.float64]),
)
def test_error_never_exceeds_the_bound(
    seed: int, k: int, bits: int, spread: float, dtype: Any
) -> None:
    random = np.random.default_rng(seed)
    a, b = (
        (random.standard_normal(s) * np.exp(spread * random.standard_normal(s))).astype(dtype)
        for s in ((3, k), (k, 3))
    )
    count = scheme.moduli_for(bits)
    got = exact(emulated_matmul(a, b, mantissa_bits=bits, scheme="crt", backend="numpy"))
    want = exact_product(a, b)
    _, a_scale = crt.integers(a, count)
    _, b_scale = crt.integers(b.T, count)
    x, y = exact(a), exact(b.T)
    for i, j in np.ndindex(3, 3):
        sums = (sum(map(abs, x[i]), Fraction(0)), sum(map(abs, y[j]), Fraction(0)))
        scales = (int(a_scale[i]), int(b_scale[j]))
        absolute, relative = scheme.residues_bound(*sums, k, *scales, np.dtype(dtype).name)
        error = abs(got[i][j] - want[i][j])
        assert error <= absolute + relative * abs(want[i][j])
        # The docstring's form of it, in Euclidean norms.
        norms = float(
            np.linalg.norm(a[i].astype(np.float64)) * np.linalg.norm(b[:, j].astype(np.float64))
        )
        unit = 2.0 ** -scheme.PRECISION[np.dtype(dtype).name]
        tiny = 2.0**-149 if dtype == np.float32 else 2.0**-1074
        assert (
            float(error)
            <= math.sqrt(k) * 2.0**-bits * norms * 1.0001 + 2 * unit * abs(float(want[i][j])) + tiny
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_integers_come_out_exactly(dtype: Any) -> None:
    a = np.arange(-60, 60, dtype=dtype).reshape(6, 20)
    got = emulated_matmul(a, a.T, mantissa_bits=40, scheme="crt", backend="numpy")
    assert np.array_equal(got, a @ a.T)


@settings(max_examples=300, deadline=None)
@given(st.integers(-(2**125), 2**125), st.integers(-1250, 1000))
def test_rounding_is_that_of_a_division(value: int, exponent: int) -> None:
    """Python's int / int is correctly rounded, gradual underflow included."""
    exactly = Fraction(value) * Fraction(2) ** exponent
    try:
        want = exactly.numerator / exactly.denominator
    except OverflowError:
        want = math.copysign(math.inf, value)
    assert crt.rounded(value, exponent, np.dtype(np.float64)) == want


def test_float32_is_rounded_once() -> None:
    """A tie for float32 that a detour over float64 would round the wrong way."""
    value = (1 << 60) + (1 << 36) + 1
    assert crt.rounded(value, -60, np.dtype(np.float32)) == 1 + 2.0**-23
    assert np.float32(float(Fraction(value, 1 << 60))) == 1.0
