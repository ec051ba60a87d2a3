"""Where results go: outputs that share memory with operands, that do not fit, or that are
read-only."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from gpuemu.errors import BadShape, BadType, BadValue
from gpuemu.gemm import Descriptor, WithPipeline, execute, matmul, suggest_pipeline
from gpuemu.gemm.call import Matrix, overlaps
from gpuemu.gemm.elements import ELEMENTS

from .problems import ROWS, describe, needs_host, operands

D = describe(("f32",) * 3, (32, 32, 32)) + ROWS
SQUARE = (40, 40, 40)


def square() -> tuple[Any, ...]:
    """Return A, B and C of 40 x 40, which the tile does not divide."""
    return operands(D, 1, extents=SQUARE)


def test_overlaps() -> None:
    x = np.zeros((4, 6), "f4")
    m = Matrix(x[:2, :4], ELEMENTS["f32"], "row_major")
    assert overlaps(x, None, m)
    for inside in (x[1:2, 3:4], x[::-1], x[1:, ::-1], x[:, 4:], x.T[:1]):
        assert overlaps(inside, m)
    for beside in (x[1:, 4:], x[:1:-1], x[3:1:-1, ::-1], x.copy(), x[:0]):
        assert not overlaps(beside, m)
    assert not overlaps(x, None)


@needs_host
@pytest.mark.parametrize("backend", ["numpy", "host", "check"])
@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_out_may_be_an_operand(backend: str, strategy: str, which: int) -> None:
    want = matmul(D, *square(), beta=2, ragged=strategy, backend="numpy")
    given = square()
    out = given[which]
    assert matmul(D, *given, beta=2, out=out, ragged=strategy, backend=backend) is out
    assert np.array_equal(out, want)


@needs_host
@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
def test_out_may_overlap_a_part_of_c(strategy: str) -> None:
    a, b, c = square()
    want = matmul(D, a, b, c, beta=2, ragged=strategy, backend="numpy")
    buffer = np.zeros((41, 40), "f4")
    for old, out in ((buffer[1:], buffer[:-1]), (buffer[:-1], buffer[1:])):
        old[...] = c
        matmul(D, a, b, old, beta=2, out=out, ragged=strategy, backend="host")
        assert np.array_equal(out, want)


@needs_host
@pytest.mark.parametrize("backend", ["numpy", "host", "check"])
def test_out_of_a_pipeline_may_be_an_operand(backend: str) -> None:
    d = D + WithPipeline()
    x, y, _ = operands(d, 2, extents=(64, 64, 64))
    p = suggest_pipeline(d, x, y, depth=1).value
    want = p.execute(backend="numpy")
    assert p.execute(out=x, backend=backend) is x
    assert np.array_equal(x, want)


def batch(count: int = 3) -> tuple[Descriptor, Any, Any]:
    """Return a descriptor, a buffer with one entry more than the batch has, and B."""
    d = D + WithPipeline()
    rng = np.random.default_rng(3)
    buffer, b = (rng.standard_normal((n, 32, 32)).astype("f4") for n in (count + 1, count))
    return d, buffer, b


@needs_host
@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("shift", ["reversed", "shifted"])
def test_out_of_a_batch_may_overlap_operands(backend: str, shift: str) -> None:
    for role in ("A", "B", "C"):
        d, buffer, other = batch()
        shared = buffer[:-1]
        out = shared[::-1] if shift == "reversed" else buffer[1:]
        a, b = (other, shared) if role == "B" else (shared, other)
        c = shared if role == "C" else other
        a = other if role == "C" else a
        p = suggest_pipeline(d, a, b, depth=1).value
        want = p.execute(c, beta=2, backend="numpy")
        assert p.execute(c, beta=2, out=out, backend=backend) is out
        assert np.array_equal(out, want)


def test_batches_fit_before_anything_runs() -> None:
    d, buffer, b = batch(2)
    p = suggest_pipeline(d, buffer[:2], b, depth=1).value
    five, one = np.zeros((5, 32, 32), "f4"), np.full((1, 32, 32), 7, "f4")
    with pytest.raises(BadShape, match=r"C has shape \(5, 32, 32\); legal: 2 batch entries"):
        p.execute(five, beta=1, backend="numpy")
    for out in (five, one, one[0]):
        with pytest.raises(BadShape, match=r"out has shape .*; legal: 2 batch entries"):
            p.execute(out=out, backend="numpy")
    assert (one == 7).all()
    assert np.array_equal(p.execute(five, beta=0, backend="numpy"), p.execute(backend="numpy"))
    with pytest.raises(BadShape, match=r"C is \(16, 32\)"):
        p.execute(np.zeros((2, 16, 32), "f4"), beta=1, backend="numpy")


@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
def test_out_is_validated_under_every_strategy(strategy: str) -> None:
    a, b, _ = square()
    bad: list[tuple[Any, type[Exception], str]] = [
        (np.zeros((40, 40), "i4"), BadType, "out has dtype int32"),
        (np.zeros((40, 40), "f2"), BadType, "out has dtype float16"),
        (np.zeros((1, 40, 40), "f4"), BadShape, r"out has shape \(1, 40, 40\)"),
        (np.zeros((40, 40), "f4", order="F"), BadValue, "out does not lie in memory"),
    ]
    for out, kind, message in bad:
        with pytest.raises(kind, match=message):
            matmul(D, a, b, out=out, ragged=strategy, backend="numpy")


@pytest.mark.parametrize("backend", ["numpy", "host", "check"])
def test_a_read_only_out_is_refused(backend: str) -> None:
    a, b, _ = operands(D)
    out = np.zeros((32, 32), "f4")
    out.flags.writeable = False
    p = suggest_pipeline(D + WithPipeline(), a, b, depth=1).value
    for run in (partial(execute, D, a, b), partial(matmul, D, a, b), p.execute):
        with pytest.raises(BadValue, match="out is read-only"):
            run(out=out, backend=backend)
    assert not out.any()
