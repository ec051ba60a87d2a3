"""Execution: the host build against the oracle, the oracle against exact arithmetic, the door's
checks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import host
from gpuemu.errors import BadShape, BadType, BadValue, Mismatch
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    Descriptor,
    EnableInputStreaming,
    Function,
    Precision,
    Size,
    StaticBlockDim,
    Type,
    WithPipeline,
    execute,
    oracle,
)
from gpuemu.gemm.arithmetic import Arithmetic
from gpuemu.gemm.elements import ELEMENTS

from .problems import PRECISIONS, bits, moderate, operand, operands, random_bits

needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())
ROWS = Arrangement("row_major", "row_major", "row_major")


def describe(
    names: Any, size: Any = (16, 8, 32), sm: SM | None = None, parts: str = "real"
) -> Descriptor:
    """Return a runnable descriptor."""
    return (
        Size(*size) + Precision(*names) + Type(parts) + Function("MM") + (sm or SM(900)) + Block()
    )


# ----------------------------------------------------------------------- host build against oracle


@needs_host
@pytest.mark.parametrize("names", PRECISIONS, ids="-".join)
@pytest.mark.parametrize("arch", [800, 890, 900])
@pytest.mark.parametrize("fill", [random_bits, moderate], ids=["raw bits", "moderate"])
def test_host_equals_oracle(names: Any, arch: int, fill: Any) -> None:
    for seed, size in enumerate(((16, 8, 32), (7, 5, 3), (16, 8, 8))):
        d = describe(names, size, SM(arch))
        a, b, c = operands(d, seed, fill)
        execute(d, a, b, backend="check")
        execute(d, a, b, c, alpha=3, beta=2, backend="check")


@needs_host
@pytest.mark.parametrize("names", [x for x in PRECISIONS if "u" not in "".join(x)], ids="-".join)
def test_complex_host_equals_oracle(names: Any) -> None:
    for seed, size in enumerate(((16, 8, 32), (3, 5, 7))):
        d = describe(names, size, parts="complex")
        a, b, c = operands(d, seed, random_bits if seed else moderate)
        execute(d, a, b, backend="check")
        execute(d, a, b, c, alpha=2 - 1j, beta=-1 + 3j, backend="check")
        execute(d, a, b, c, alpha=2, beta=3, backend="check")


@needs_host
def test_wgmma_descriptors_add_as_wgmma_does() -> None:
    gates = WithPipeline() + EnableInputStreaming() + Alignment(16, 16, 16)
    for names in (
        ("f8e4m3fn", "f8e5m2", "f32"),
        ("f8e4m3fn", "f8e4m3fn", "f16"),
        ("f16", "f16", "f32"),
    ):
        d = describe(names, (64, 8, 32), SM(900, "arch_specific")) + gates
        assert d.mma_class == "wgmma"
        p = gemm.suggest_pipeline(d, *operands(d)[:2], clamp_depth=True)
        assert p
        p.value.execute(backend="check")


@needs_host
@pytest.mark.parametrize("orders", list(np.ndindex(2, 2, 2)), ids=str)
def test_every_arrangement_and_leading_dimension(orders: tuple[int, ...]) -> None:
    chosen = [("row_major", "col_major")[i] for i in orders]
    d = describe(("f32",) * 3, (5, 7, 3)) + Arrangement(*chosen)  # type: ignore[arg-type]
    plain = operands(d)
    want = execute(d, *plain, beta=1, backend="numpy")
    strided = []
    for x, order in zip(plain, chosen, strict=True):
        memory = x.T if order == "col_major" else x
        wide = np.full((memory.shape[0], memory.shape[1] + 3), np.nan, x.dtype)
        view = wide[:, : memory.shape[1]]
        view[...] = memory
        strided.append(view.T if order == "col_major" else view)
    for backend in ("numpy", "host"):
        got = execute(d, *strided, beta=1, backend=backend)
        assert got.flags.f_contiguous == (chosen[2] == "col_major")
        assert np.array_equal(bits(got), bits(want))


# ----------------------------------------------------------------------- the oracle against exact
# arithmetic


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


# ----------------------------------------------------------------------- error bounds, derived


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


# ----------------------------------------------------------------------- epilogue


def test_beta_zero_overwrites_nan() -> None:
    d = describe(("f32",) * 3, (2, 2, 2)) + ROWS
    a = np.eye(2, dtype="f4")
    c = np.full((2, 2), np.nan, "f4")
    for backend in ("numpy", "host"):
        assert np.array_equal(execute(d, a, a, c, beta=0, backend=backend), a)
        assert np.array_equal(execute(d, a, a, c, beta=-0.0, backend=backend), a)
        assert np.isnan(execute(d, a, a, c, beta=1, backend=backend)).all()


def test_the_epilogue_rounds_every_operation() -> None:
    d = describe(("f16",) * 3, (1, 1, 1)) + ROWS
    a, one, c = np.full((1, 1), 3, "f2"), np.ones((1, 1), "f2"), np.full((1, 1), 5, "f2")
    alpha, beta = np.float16(1 / 3), np.float16(0.1)
    want = np.float16(np.float16(alpha * np.float16(3)) + np.float16(beta * np.float16(5)))
    for backend in ("numpy", "host"):
        assert execute(d, a, one, c, alpha=1 / 3, beta=0.1, backend=backend)[0, 0] == want


@pytest.mark.parametrize(
    ("names", "factors", "message"),
    [
        (("i8", "i8", "i32"), {"alpha": 0.5}, "alpha=0.5: C is i32; legal: an integer"),
        (("i8", "i8", "i32"), {"alpha": 2**31}, "legal: an integer from -2147483648 to 2147483647"),
        (("u8", "u8", "u32"), {"alpha": -1}, "legal: an integer from 0"),
        (("f32",) * 3, {"alpha": 1j}, "alpha=1j is complex; the descriptor is real"),
        (("f32",) * 3, {"beta": 1}, "beta=1 but C is missing"),
    ],
)
def test_bad_factors(names: Any, factors: Any, message: str) -> None:
    d = describe(names, (4, 4, 4))
    with pytest.raises(BadValue, match=message):
        execute(d, *operands(d)[:2], **factors)


# ----------------------------------------------------------------------- the door


def test_inputs_are_not_modified_and_out_is_written() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS
    a, b, c = operands(d)
    kept = [x.copy() for x in (a, b, c)]
    out = np.zeros((4, 4), "f4")
    for backend in ("numpy", "host"):
        assert execute(d, a, b, c, beta=1, out=out, backend=backend) is out
        assert all(np.array_equal(x, y) for x, y in zip((a, b, c), kept, strict=True))
        assert np.array_equal(out, execute(d, a, b, c, beta=1, backend="numpy"))
    same = c.copy()
    execute(d, a, b, same, beta=1, out=same, backend="check")
    assert np.array_equal(same, out)


def test_operand_rejections() -> None:
    d = describe(("f16", "f16", "f32"), (4, 6, 8)) + ROWS
    a, b, c = operands(d)
    bad: list[tuple[Any, Any, type[Exception], str]] = [
        (
            (a.astype("f4"), b),
            {},
            BadType,
            "A has dtype float32, the descriptor's A is f16: the conversion loses bits",
        ),
        ((a[None], b), {}, BadShape, r"A has shape \(1, 4, 8\); legal: \(rows, columns\)"),
        ((a, b[:5]), {}, BadShape, "the K extents 8 and 5 differ"),
        (
            (a[:3], b),
            {},
            BadShape,
            r"the operands are \(3, 6, 8\) \(M, N, K\); execute takes one tile of \(4, 6, 8\)",
        ),
        (
            (np.asfortranarray(a), b),
            {},
            BadValue,
            r"A does not lie in memory .* pass numpy.ascontiguousarray\(A\)",
        ),
        ((a[:, ::2], b[:4]), {}, BadValue, "A does not lie in memory"),
        ((a, b, c[:2]), {"beta": 1}, BadShape, "C is"),
        ((a, b), {"out": np.zeros((4, 5), "f4")}, BadShape, r"out is \(4, 5\)"),
        ((a, b), {"out": np.zeros((4, 6), "f8")}, BadType, "out has dtype float64"),
        ((a, [1]), {}, BadType, "B is a list"),
        ((a, b), {"backend": "gpu"}, BadValue, "backend='gpu'"),
    ]
    for args, options, kind, message in bad:
        with pytest.raises(kind, match=message):
            execute(d, *args, **options)


def test_conversions_are_lossless_or_asked_for() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS
    a = operands(d)[0].astype("f2")
    want = execute(d, a.astype("f4"), a.astype("f4"), backend="numpy")
    assert np.array_equal(execute(d, a, a, backend="numpy"), want)
    wide = a.astype("f8")
    assert np.array_equal(
        execute(d, wide, wide, a_load_op=np.abs, b_load_op=np.abs, backend="numpy"),
        execute(d, np.abs(a), np.abs(a), backend="numpy"),
    )
    with pytest.raises(BadType, match="legal: float32, or a b_load_op"):
        execute(d, a, wide)
    streaming = d + EnableInputStreaming()
    with pytest.raises(BadType, match="EnableInputStreaming uses operands as they lie"):
        execute(streaming, a, a)
    with pytest.raises(BadValue, match="a_load_op with EnableInputStreaming"):
        execute(streaming, want, want, a_load_op=np.abs)


def test_alignment_is_checked() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS + Alignment(16, 4, 4)
    memory = np.zeros(64, "f4")
    start = next(i for i in range(4) if memory[i:].ctypes.data % 16 == 4)
    a = memory[start : start + 16].reshape(4, 4)
    with pytest.raises(BadValue, match="not aligned to the 16 bytes"):
        execute(d, a, np.zeros((4, 4), "f4"))


def test_pipelined_descriptors_run_through_pipelines_only() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + WithPipeline()
    with pytest.raises(BadValue, match="runs through suggest_pipeline"):
        execute(d, *operands(d)[:2])


def test_a_tile_that_does_not_fit() -> None:
    d = describe(("f64",) * 3, (256, 256, 64))
    with pytest.raises(
        BadValue, match="the tile needs 786432 bytes of shared memory; sm_90 has 232448"
    ):
        execute(d, *operands(d)[:2], backend="numpy")


@pytest.mark.parametrize(
    ("own", "launch", "fine"),
    [
        ((128,), (128,), True),
        ((128,), (255,), True),
        ((128,), (196, 2), True),
        ((128,), (64,), False),
        ((16, 8), (16, 9), True),
        ((16, 8), (32, 8), False),
        ((16, 8), (16, 7), False),
        ((16, 8), (16, 8, 2), True),
        ((128,), (2048,), False),
    ],
)
def test_launch_rule(own: Any, launch: Any, fine: bool) -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + BlockDim(*own)
    a, b = operands(d)[:2]
    if fine:
        execute(d, a, b, launch=launch, backend="numpy")
        if launch != own:
            with pytest.raises(BadValue, match="StaticBlockDim promises exactly"):
                execute(d + StaticBlockDim(), a, b, launch=launch, backend="numpy")
    else:
        with pytest.raises(BadValue, match="launched with"):
            execute(d, a, b, launch=launch, backend="numpy")


@needs_host
def test_check_finds_a_wrong_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuemu.gemm import device

    real = device.run_host

    def broken(*args: Any) -> Any:
        result = real(*args)
        result.memory.view(np.uint32)[0, 1] ^= 1
        return result

    monkeypatch.setattr(device, "run_host", broken)
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS
    with pytest.raises(
        Mismatch,
        match=r"differ in 1 of 16 elements; first at C\[0, 1\]: [0-9A-F]{8}, oracle .*; repeat",
    ):
        execute(d, *operands(d)[:2], backend="check")


def test_bits_are_accepted_where_numpy_has_no_dtype_of_its_own() -> None:
    for parts in ("real", "complex"):
        d = describe(("bf16", "bf16", "f32"), parts=parts)
        a, b = operands(d)[:2]
        want = execute(d, a, b, backend="numpy")
        assert np.array_equal(execute(d, a.view("u2"), b.view("u2"), backend="numpy"), want)


def test_helper_operand_orders() -> None:
    rng = np.random.default_rng(0)
    assert operand(rng, 3, 5, "f16", "col_major").strides == (2, 6)
    assert operand(rng, 3, 5, "f16", "row_major", parts=2).shape == (3, 5, 2)


def test_what_is_no_descriptor() -> None:
    x = np.ones((16, 16), np.float32)
    for run in (execute, gemm.matmul):
        with pytest.raises(BadValue, match="without Function, SM, Block: Size"):
            run(Size(16, 16, 16), x, x)
        with pytest.raises(BadType, match="the descriptor is a str; legal: a sum of operators"):
            run("Size<16>", x, x)
