"""The oracle against rational arithmetic, and inside the bounds that its models imply."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.gemm import (
    SM,
    execute,
    oracle,
)
from gpuemu.gemm.arithmetic import Arithmetic
from gpuemu.gemm.elements import ELEMENTS

from .problems import (
    ROWS,
    bits,
    describe,
    needs_host,
    operands,
)


def rounded(value: Fraction, significand: int, least: int) -> Fraction:
    """Round to nearest even by integers."""
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    exponent = max(exponent, least)
    unit = Fraction(2) ** (exponent - significand + 1)
    return round(value / unit) * unit


@pytest.mark.parametrize(
    ("name", "significand", "least"), [("f16", 11, -14), ("f32", 24, -126), ("f64", 53, -1022)]
)
def test_fma_chain_against_fractions(name: str, significand: int, least: int) -> None:
    rng = np.random.default_rng(1)
    dtype = ELEMENTS[name].dtype
    scale = 2.0 ** rng.integers(-9 if name == "f16" else -30, 3, (3, 40))
    scale[:, ::7] *= 2.0 ** (least // 2 + 3)  # products around the subnormals
    a, b, c = (rng.standard_normal((3, 40)) * scale).astype(dtype).astype(np.float64)
    got = oracle.chain(a[:, None], b[None, :], c[:, None] + 0 * b[None, :], ELEMENTS[name])
    for i, j in np.ndindex(40, 40):
        exact = Fraction(a[i]) * Fraction(b[j]) + Fraction(c[i])
        assert Fraction(got[i, j]) == rounded(exact, significand, least)


def test_fma64_at_the_ends_of_the_range() -> None:
    big, tiny = 2.0**1023, 2.0**-1074
    cases = [
        (big, 2.0, 0.0, np.inf),
        (big, 2.0, -big, big),
        (big, -2.0, 0.0, -np.inf),
        (big, 2.0, -np.inf, -np.inf),
        (tiny, 0.5, 0.0, 0.0),
        (tiny, 0.75, 0.0, tiny),
        (tiny, 0.5, tiny, 2 * tiny),
        (-tiny, 0.5, 0.0, -0.0),
        (np.inf, 0.0, 1.0, np.nan),
        (np.nan, 1.0, 1.0, np.nan),
        (big, 1.0, -big, 0.0),
        (1.0, 1.0, np.nan, np.nan),
    ]
    for a, b, c, want in cases:
        got = oracle.fma64(np.array(a), np.array(b), np.array(c))
        assert bits(got) == bits(np.array(want)), (a, b, c)


def test_fma64_keeps_the_sign_of_zero() -> None:
    cases = [
        (-0.0, 1.0, -0.0, -0.0),
        (0.0, -1.0, -0.0, -0.0),
        (0.0, 1.0, -0.0, 0.0),
        (-0.0, 1.0, 0.0, 0.0),
        (1.0, 1.0, -1.0, 0.0),
        (-0.0, 1.0, 2.0, 2.0),
    ]
    a, b, c, want = np.array(cases).T
    assert np.array_equal(bits(oracle.fma64(a, b, c)), bits(want))


@needs_host
def test_a_chain_of_f64_keeps_a_product_that_vanishes_below_zero() -> None:
    d = describe(("f64",) * 3, (8, 8, 2)) + ROWS
    a, b = np.empty((8, 2)), np.ones((2, 8))
    a[:], b[0] = (-1e-200, -0.0), 1e-200
    assert np.signbit(execute(d, a, b, backend="check")).all()


@pytest.mark.parametrize(("name", "bits_"), [("f32", 24), ("f64", 53)])
@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_sums_just_below_a_tie_round_once(name: str, bits_: int, backend: str) -> None:
    """(1 + x)(1 - x) = 1 - x^2 lies just below half a unit of c, whose last bit is odd."""
    dtype = ELEMENTS[name].dtype
    x = 2.0 ** (1 - bits_)
    c = 2.0**bits_ * (1 + 2.0 ** (1 - bits_))
    d = describe((name,) * 3, (1, 1, 2)) + ROWS
    a = np.array([[c, 1 + x]], dtype)
    b = np.array([[1], [1 - x]], dtype)
    assert execute(d, a, b, backend=backend)[0, 0] == c
    assert execute(d, a, -b, backend=backend)[0, 0] == -c


HOPPER = Arithmetic("fused", 16, 16, 25, -133, 23)


AMPERE = Arithmetic("fused", 16, 8, 24, -132, 23)


def fused_by_fractions(a: Any, b: Any, c: float, how: Arithmetic, least: int) -> Fraction:
    """Add one group as the published model says, in rational arithmetic."""

    def exponent(x: float, floor: int) -> int:
        return max(int(np.frexp(x)[1]) - 1, floor) if x else floor

    terms = [
        (Fraction(x) * Fraction(y), exponent(x, least) + exponent(y, least))
        for x, y in zip(a, b, strict=True)
    ]
    terms.append((Fraction(c), exponent(c, -126)))
    top = max(e if t else how.zero_exponent for t, e in terms)
    unit = Fraction(2) ** (top - how.fraction)
    total = sum(int(t / unit) for t, _ in terms) * unit  # int truncates
    if total == 0:
        return total
    high = -126
    while abs(total) >= Fraction(2) ** (high + 1):
        high += 1
    last = Fraction(2) ** (high - how.output_fraction)
    return int(total / last) * last


@pytest.mark.parametrize("how", [HOPPER, AMPERE], ids=["hopper", "ampere"])
def test_fused_sum_against_fractions(how: Arithmetic) -> None:
    rng = np.random.default_rng(2)
    f16, f32 = ELEMENTS["f16"], ELEMENTS["f32"]
    for spread in (0, 3, 12, 24):
        a, b = (
            rng.standard_normal((6, how.group)) * 2.0 ** rng.integers(-spread, 1, (6, how.group))
            for _ in "ab"
        )
        a, b = a.astype("f2").astype(float), b.astype("f2").astype(float)
        a[0, 3] = 0
        c = (
            (rng.standard_normal((6, 6)) * 2.0 ** rng.integers(-spread, 4, (6, 6)))
            .astype("f4")
            .astype(float)
        )
        c[1] = 0
        got = oracle.fused_sum(a, b.T.copy(), c, (f16, f16, f32), how)
        for i, j in np.ndindex(6, 6):
            assert Fraction(got[i, j]) == fused_by_fractions(a[i], b[j], c[i, j], how, -14)


def test_one_input_two_generations() -> None:
    d = describe(("f16", "f16", "f32"), (16, 8, 16)) + ROWS
    a, b = np.zeros((16, 16), "f2"), np.zeros((16, 8), "f2")
    a[0, 0], b[0, 0] = 1, 1
    a[0, 1:3], b[1:3, 0] = 2.0**-12, 2.0**-13  # 2^-25 twice: Ampere drops both, Hopper keeps them
    a[0, 3], b[3, 0] = -1, 1
    got = [float(execute(d.replace(SM(arch)), a, b, backend="numpy")[0, 0]) for arch in (800, 900)]
    assert got == [0.0, 2.0**-24]


def test_integers_wrap() -> None:
    d = describe(("i16", "i16", "i64"), (2, 2, 4))
    a = np.full((2, 4), -(2**15), "i2")
    b = np.asfortranarray(np.full((4, 2), -(2**15), "i2"))
    assert execute(d, a, b, backend="numpy").tolist() == [[2**32] * 2] * 2
    d = describe(("i8", "i8", "i32"), (2, 2, 4))
    a, b = np.full((2, 4), -128, "i1"), np.asfortranarray(np.full((4, 2), -128, "i1"))
    c = np.asfortranarray(np.full((2, 2), 2**31 - 1, "i4"))
    assert (
        execute(d, a, b, c, beta=1, backend="numpy").tolist()
        == [[2**16 + 2**31 - 1 - 2**32] * 2] * 2
    )


@pytest.mark.parametrize(
    "names", [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f8e4m3fn", "f8e4m3fn", "f32")]
)
@pytest.mark.parametrize("arch", [890, 900, 1000])
def test_fused_sums_stay_inside_the_bound_that_follows_from_the_model(
    names: Any, arch: int
) -> None:
    """A group cuts L + 1 terms by less than 2^(top - F) each, then the sum by 2^(1 - P) of itself.

    With top's power of two at most the largest term times 1 (a term may be up to 4 times its power)
    every step errs by at most (L + 1) 2^-F T + 2^(1-P) T', where T and T' are bounded by the
    running sum of magnitudes |A| |B|: after K / L steps (K / L) ((L + 1) 2^-F + 2^(1-P)) |A| |B| to
    first order, times 1.01 for the rest.
    """
    d = describe(names, (32, 16, 128), SM(arch))
    how = gemm.arithmetic(d)
    a, b = operands(d, 5)[:2]
    got = execute(d, a, b, backend="numpy").astype(float)
    wide_a, wide_b = a.astype(float), b.astype(float)
    steps = 128 // how.group
    factor = (
        1.01
        * steps
        * ((how.group + 1) * 2.0**-how.fraction + 2.0 ** (1 - (how.output_fraction + 1)))
    )
    assert (np.abs(got - wide_a @ wide_b) <= factor * (np.abs(wide_a) @ np.abs(wide_b))).all()
