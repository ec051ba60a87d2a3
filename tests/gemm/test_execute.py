"""What `execute` takes and what it refuses: operands, factors, the epilogue, the launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import BadShape, BadType, BadValue
from gpuemu.gemm import (
    Alignment,
    BlockDim,
    EnableInputStreaming,
    Size,
    StaticBlockDim,
    Type,
    WithPipeline,
    execute,
)

from .problems import (
    ROWS,
    describe,
    operand,
    operands,
)


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
        (("f32",) * 3, {"alpha": "1"}, "alpha='1'; legal: a number"),
        (("i8", "i8", "i32"), {"alpha": np.nan}, "alpha=nan: C is i32; legal: an integer"),
        (("i8", "i8", "i32"), {"alpha": np.float32(np.inf)}, "C is i32; legal: an integer"),
        (("i8", "i8", "i32"), {"beta": -np.inf}, "beta=-inf: C is i32; legal: an integer"),
        (("i16", "i16", "i64"), {"alpha": np.float64(2**63)}, "C is i64; legal: an integer"),
        (("f32",) * 3, {"alpha": 10**400}, "alpha=1000.* does not fit in binary64"),
        (("f64",) * 3, {"alpha": 10**400}, "alpha=1000.* does not fit in binary64"),
    ],
)
def test_bad_factors(names: Any, factors: Any, message: str) -> None:
    d = describe(names, (4, 4, 4))
    with pytest.raises((BadValue, BadType), match=message):
        execute(d, *operands(d)[:2], **factors)


def test_factors_are_taken_as_they_are() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS
    a, b, _ = operands(d)
    want = execute(d, a, b, alpha=2, backend="numpy")
    assert np.array_equal(execute(d, a, b, alpha=2 + 0j, backend="numpy"), want)
    large = execute(d, np.ones_like(a), np.ones_like(b), alpha=1e300, backend="numpy")
    assert np.isposinf(large).all()
    d = describe(("i16", "i16", "i64"), (1, 1, 1), Type("complex")) + ROWS
    one = np.array([[[1, 0]]], "i2")
    got = execute(d, one, one, alpha=2**53 + 1, backend="numpy")
    assert got.tolist() == [[[2**53 + 1, 0]]]


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


def returning(value: Any) -> Any:
    """Return a load operation that ignores its operand."""
    return lambda _: value


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
    with pytest.raises(BadType, match="legal: float32, or b_load_op="):
        execute(d, a, wide)
    for result, message in ((None, "NoneType"), ([[1.0]], "list")):
        with pytest.raises(BadType, match=f"the result of a_load_op is a {message}; legal: a "):
            execute(d, a, a, a_load_op=returning(result), backend="numpy")
    with pytest.raises(BadType, match=r"A has dtype complex64, .*: the conversion drops the imag"):
        execute(d, a, a, a_load_op=lambda x: x + np.complex64(1j), backend="numpy")
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


def test_what_is_no_launch() -> None:
    d = describe(("f32",) * 3, (4, 4, 4)) + BlockDim(32)
    a, b = operands(d)[:2]
    bad: list[tuple[Any, type[Exception], str]] = [
        (("a",), BadType, "launch x='a' is a str; legal: an integer"),
        (32, BadType, "launch=32 is a int; legal: a tuple of one to three integers"),
        ((32, 1, 1, 99), BadValue, r"launch=\(32, 1, 1, 99\); legal: a tuple of one to three"),
        ((), BadValue, r"launch=\(\); legal: a tuple of one to three"),
        ((32, 0), BadValue, r"launch=\(32, 0\); legal: 1 thread and more in every dimension"),
    ]
    for launch, kind, message in bad:
        with pytest.raises(kind, match=message):
            execute(d, a, b, launch=launch, backend="numpy")


def test_bits_are_accepted_where_numpy_has_no_dtype_of_its_own() -> None:
    for parts in ("real", "complex"):
        d = describe(("bf16", "bf16", "f32"), (16, 8, 32), Type(parts))
        a, b = operands(d)[:2]
        want = execute(d, a, b, backend="numpy")
        assert np.array_equal(execute(d, a.view("u2"), b.view("u2"), backend="numpy"), want)


def test_helper_operand_orders() -> None:
    rng = np.random.default_rng(0)
    assert operand(rng, 3, 5, "f16", "col_major").strides == (2, 6)
    assert operand(rng, 3, 5, "f16", "row_major", parts=2).shape == (3, 5, 2)


def test_what_is_no_descriptor() -> None:
    with pytest.raises(BadType, match="is a Size; legal: a descriptor"):
        gemm.arithmetic(Size(8, 8, 8))
    x = np.ones((16, 16), np.float32)
    for run in (execute, gemm.matmul):
        with pytest.raises(BadValue, match="without Function, SM, Block: Size"):
            run(Size(16, 16, 16), x, x)
        with pytest.raises(BadType, match="the descriptor is a str; legal: a sum of operators"):
            run("Size<16>", x, x)
