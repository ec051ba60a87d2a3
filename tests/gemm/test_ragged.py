"""Ragged shapes: plans, results, alignment, and that nothing outside the logical extents is read or
written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.errors import BadShape, BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    Descriptor,
    EnableInputStreaming,
    Function,
    Precision,
    Size,
    Type,
    WithPipeline,
    matmul,
    plan_ragged,
)

from .problems import bits, operands

HALF = Size(32, 16, 16) + Precision("f16", "f16", "f32") + Function("MM") + SM(900) + Block()
SINGLE = HALF.replace(Precision("f32"))
BYTE = HALF.replace(Precision("i8", "i8", "i32"), Size(32, 16, 32))


def test_decision_rule() -> None:
    def rule(extents: Any, **facts: Any) -> str:
        return plan_ragged(HALF, extents, **facts).strategy

    assert rule((64, 32, 48)) == "exact"
    assert rule((65, 32, 48)) == "pad"
    assert rule((65, 32, 48), output_fixed=True) == "mask"
    assert rule((48, 24, 24), pad_inputs=False) == "split"
    assert (
        rule((65, 32, 48), pad_inputs=False) == "pad"
    )  # a remainder of one row is no mma.sync tile
    assert rule((65, 32, 48), pad_inputs=False, output_fixed=True) == "mask"
    plan = plan_ragged(HALF, (65, 32, 48), pad_inputs=False)
    assert plan.reason == (
        "the inputs should not be padded, but a remainder of (1, 16, 16) runs as fma, the tile "
        "(32, 16, 16) as mma_sync"
    )
    assert (
        plan_ragged(SINGLE, (65, 33, 49), pad_inputs=False).strategy == "split"
    )  # FMA takes any remainder


def test_explicit_strategies_that_the_facts_forbid() -> None:
    with pytest.raises(BadValue, match="ragged='cut'; legal: auto, pad, mask, split"):
        plan_ragged(HALF, (65, 32, 48), "cut")
    for strategy in ("pad", "mask"):
        with pytest.raises(
            BadValue, match=f"ragged='{strategy}' pads A and B, which pad_inputs=False forbids"
        ):
            plan_ragged(HALF, (65, 32, 48), strategy, pad_inputs=False)
    with pytest.raises(BadValue, match=r"ragged='split': a remainder of \(1, 16, 16\) runs as fma"):
        plan_ragged(HALF, (65, 32, 48), "split")
    with pytest.raises(BadValue, match="an empty product"):
        plan_ragged(HALF, (0, 16, 16))
    with pytest.raises(BadValue, match="legal: three, M, N and K"):
        plan_ragged(HALF, (16, 16))


def test_wgmma_remainders_are_multiples_of_64() -> None:
    d = (
        Size(128, 64, 32)
        + Precision("f16", "f16", "f32")
        + Function("MM")
        + SM(900, "arch_specific")
        + Block()
    )
    d = d + WithPipeline() + EnableInputStreaming() + Alignment(16, 16, 16)
    plan = plan_ragged(d, (192, 64, 64), "split")
    assert [piece.descriptor.size for piece in plan.pieces] == [(128, 64, 32), (64, 64, 32)]
    assert all(piece.descriptor.mma_class == "wgmma" for piece in plan.pieces)
    with pytest.raises(
        BadValue, match=r"a remainder of \(32, 64, 32\) runs as mma_sync, the tile .* as wgmma"
    ):
        plan_ragged(d, (160, 64, 64), "split")


def test_waste_and_kernels() -> None:
    plan = plan_ragged(HALF, (48, 16, 16))
    assert (plan.executed, plan.wasted, plan.kernels) == ((64, 16, 16), 0.25, 1)
    plan = plan_ragged(SINGLE, (33, 17, 17), "split")
    assert (plan.executed, plan.wasted, plan.kernels, len(plan.pieces)) == ((33, 17, 17), 0.0, 8, 8)
    assert [piece.accumulates for piece in plan.pieces] == [False, True] * 4
    assert plan_ragged(HALF, (32, 16, 16)).wasted == 0


@settings(max_examples=60, deadline=None)
@given(st.tuples(st.integers(1, 80), st.integers(1, 40), st.integers(1, 70)))
def test_split_covers_every_multiply_add_once(extents: tuple[int, int, int]) -> None:
    plan = (
        plan_ragged(SINGLE, extents, "split")
        if any(e % t for e, t in zip(extents, (32, 16, 16), strict=True))
        else (plan_ragged(SINGLE, extents))
    )
    seen = np.zeros(extents, int)
    for piece in plan.pieces:
        seen[slice(*piece.m), slice(*piece.n), slice(*piece.k)] += 1
        for (start, stop), tile in zip(
            (piece.m, piece.n, piece.k), piece.descriptor.size, strict=True
        ):
            assert (stop - start) % tile == 0
    assert (seen == 1).all()


EXTENTS = [
    (1, 1, 1),
    (33, 16, 16),
    (32, 17, 16),
    (32, 16, 17),
    (47, 23, 29),
    (31, 15, 15),
    (64, 32, 32),
]


@pytest.mark.parametrize("extents", EXTENTS, ids=str)
@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_integers_are_exact_under_every_strategy(extents: Any, strategy: str, backend: str) -> None:
    d = BYTE.replace(Precision("i16", "i16", "i64"))
    a, b, c = operands(d, 1, extents=extents)
    want = 3 * (a.astype(np.int64) @ b.astype(np.int64)) - 2 * c
    got = matmul(d, a, b, c, alpha=3, beta=-2, ragged=strategy, backend=backend)
    assert got.shape == want.shape
    assert np.array_equal(got, want)


@pytest.mark.parametrize("order", ["row_major", "col_major"])
@pytest.mark.parametrize("parts", ["real", "complex"])
def test_padding_is_zero_and_results_are_those_of_the_padded_problem(
    order: Any, parts: str
) -> None:
    d = HALF + Arrangement(order, order, order) + Type(parts)
    a, b, c = operands(d, 2, extents=(47, 23, 29))
    grown = [
        np.zeros((*shape, *x.shape[2:]), x.dtype)
        for x, shape in ((a, (64, 32)), (b, (32, 32)), (c, (64, 32)))
    ]
    for x, y in zip(grown, (a, b, c), strict=True):
        x[: y.shape[0], : y.shape[1]] = y
    lay = (
        (lambda x: x.swapaxes(0, 1).copy().swapaxes(0, 1))
        if order == "col_major"
        else (lambda x: x)
    )
    want = matmul(d, *map(lay, grown), alpha=2, beta=1, backend="numpy")[:47, :23]
    for strategy in ("pad", "mask"):
        for backend in ("numpy", "host"):
            got = matmul(d, a, b, c, alpha=2, beta=1, ragged=strategy, backend=backend)
            assert np.array_equal(bits(got), bits(want))


def test_split_along_k_chains_through_c() -> None:
    a, b, c = operands(HALF, 3, extents=(32, 16, 24))
    first = matmul(HALF, a[:, :16], b[:16], c, alpha=2, beta=3, backend="numpy")
    tail = HALF.replace(Size(32, 16, 8))
    want = matmul(tail, a[:, 16:], b[16:], first, alpha=2, beta=1, backend="numpy")
    for backend in ("numpy", "host", "check"):
        got = matmul(HALF, a, b, c, alpha=2, beta=3, ragged="split", backend=backend)
        assert np.array_equal(bits(got), bits(want))


def guarded(
    x: np.ndarray[Any, Any], order: str, guard: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a view with x's values inside a larger buffer of guard values, and the buffer."""
    memory = x.T if order == "col_major" else x
    buffer = np.full((memory.shape[0] + 6, memory.shape[1] + 10), guard, x.dtype)
    view = buffer[3:-3, 5:-5]
    view[...] = memory
    return (view.T if order == "col_major" else view), buffer


@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
@pytest.mark.parametrize(
    "d",
    [SINGLE, SINGLE + Arrangement("col_major", "row_major", "row_major")],
    ids=["default", "other"],
)
def test_guards_are_neither_read_nor_written(backend: str, strategy: str, d: Descriptor) -> None:
    """NaN guards around A, B and C poison the result if read; guards around the output show
    writes."""
    extents = (45, 19, 21)
    plain = operands(d, 4, extents=extents)
    views, buffers = zip(
        *(guarded(x, o, np.nan) for x, o in zip(plain, d.arrangement, strict=True)), strict=True
    )
    kept = [x.copy() for x in buffers]
    out, around = guarded(np.zeros((45, 19), "f4"), d.arrangement[2], -7.5)
    want = matmul(d, *plain, alpha=2, beta=1, ragged=strategy, backend="numpy")
    assert matmul(d, *views, alpha=2, beta=1, out=out, ragged=strategy, backend=backend) is out
    assert np.isfinite(want).all()
    assert np.array_equal(bits(out), bits(want))
    inside = np.zeros(around.shape, bool)
    inside[3:-3, 5:-5] = True
    assert (around[~inside] == -7.5).all()
    for x, y in zip(buffers, kept, strict=True):
        assert np.array_equal(bits(x), bits(y))


def test_alignment_of_sub_matrices() -> None:
    d = SINGLE + Alignment(16, 4, 4)
    memory = np.zeros((48, 20), "f4")
    a, b = memory[:, :17], np.zeros((16, 17), "f4").T  # rows of 80 bytes: every row starts on 16
    assert matmul(d, a, b, ragged="split", backend="numpy").shape == (48, 16)
    odd = np.zeros((48, 17), "f4")  # rows of 68 bytes: row 32 still starts on 16, k = 16 as well
    assert matmul(d, odd, b, ragged="split", backend="numpy").shape == (48, 16)
    tall = d.replace(Size(30, 16, 16))
    with pytest.raises(
        BadValue, match=r"the remainder of A starts at .* not aligned to the 16 bytes"
    ):
        matmul(tall, odd, b, ragged="split", backend="numpy")
    # left to choose, the plan falls back to padding
    assert matmul(tall, odd, b, pad_inputs=False, backend="numpy").shape == (48, 16)


def test_out_must_fit() -> None:
    a, b, _ = operands(HALF, 5, extents=(33, 16, 16))
    with pytest.raises(BadShape, match=r"out is \(32, 16\); the result is \(33, 16\)"):
        matmul(HALF, a, b, out=np.zeros((32, 16), "f4", order="F"), backend="numpy")
