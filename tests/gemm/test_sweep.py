"""The search space: which variants there are, what a row holds, and that the figures are right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpuemu.errors import BadValue
from gpuemu.gemm import (
    SM,
    Block,
    BlockDim,
    Function,
    Precision,
    RequiredMantissaBits,
    Size,
    Type,
    WithPipeline,
)
from gpuemu.gemm.sweep import sweep, variants

from . import cuda_on_threads
from .problems import needs_host, operands

D = Size(32, 32, 16) + Precision("f32") + Function("MM") + SM(900) + Block() + BlockDim(64)


def test_variants_multiply_the_free_axes() -> None:
    names = [name for name, _ in variants(D, fixed=("emulation",))]
    assert names == ["as given"]
    made = dict(variants(D, free=("precision",), fixed=("emulation",)))
    assert list(made) == [
        "as given",
        *(f"Precision('{x}', '{x}', 'f32')" for x in ("tf32", "bf16", "f16")),
    ]
    both = list(variants(D, free=("precision", "thread_count")))
    assert len(both) == len({d for _, d in both}) == 4 * 5
    tiles = [d.size for _, d in variants(D, free=("tile_shape",), shared_memory_budget=48 * 1024)]
    assert tiles[0] == (32, 32, 16)
    assert (64, 64, 16) in tiles


def test_emulation_is_of_the_descriptors_own_precision() -> None:
    d = D + WithPipeline()
    made = [x for _, x in variants(d, free=("precision", "emulation"))]
    assert sum(RequiredMantissaBits in x for x in made) == 3
    assert all(x.precision.names == ("f32",) * 3 for x in made if RequiredMantissaBits in x)


def test_errors_are_those_of_a_direct_computation() -> None:
    a, b, _ = operands(D, 1, extents=(64, 32, 48))
    table = sweep(D, a, b, free=("precision",), backend="numpy", repeats=1, progress=False)
    wide_a, wide_b = a.astype(float), b.astype(float)
    exact, size = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
    by_name = {row.variant: row for row in table.rows}
    from gpuemu.gemm import matmul

    want = np.max(np.abs(matmul(D, a, b, backend="numpy").astype(float) - exact) / size)
    assert by_name["as given"].error == want
    half = by_name["Precision('f16', 'f16', 'f32')"]
    assert half.mma_class == "mma_sync"
    assert half.error is not None
    assert want < half.error < 2.0**-10
    assert half.shared_bytes == 2 * 32 * 16 * 2 + 32 * 32 * 4
    assert (half.registers, half.registers_source) == (16, "accumulator")
    assert all(row.seconds is not None and row.seconds > 0 for row in table.rows)


def test_a_variant_that_cannot_run_says_why() -> None:
    d = D + Type("complex")
    a, b, _ = operands(d, 2)
    table = sweep(d, a, b, free=("precision",), backend="numpy", repeats=1, progress=False)
    by_name = {row.variant: row for row in table.rows}
    assert by_name["as given"].error is not None
    assert "A has dtype complex64" in by_name["Precision('f16', 'f16', 'f32')"].note
    assert by_name["Precision('f16', 'f16', 'f32')"].seconds is None


@needs_host
def test_on_cuda_registers_are_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = operands(D, 5)
    want = sweep(D, a, b, free=("precision",), backend="numpy", repeats=1, progress=False)
    cuda_on_threads.install(monkeypatch)
    table = sweep(D, a, b, free=("precision",), backend="cuda", repeats=2, progress=False)
    assert table.backend == "cuda"
    assert [row.error for row in table.rows] == [row.error for row in want.rows]
    for row in table.rows:
        assert (row.registers, row.registers_source) == (40, "kernel")
        assert row.seconds is not None and row.seconds > 0.001  # a program starts in each


def test_a_bar_shows_progress_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    a, b, _ = operands(D, 3)
    options = {"free": ("thread_count",), "backend": "numpy", "repeats": 1}
    quiet, shown = (sweep(D, a, b, **options, progress=bar) for bar in (False, True))  # type: ignore[arg-type]
    assert [row.variant for row in shown.rows] == [row.variant for row in quiet.rows]
    assert len(shown.rows) == 5 and not capsys.readouterr().out


def test_best_records_and_limit() -> None:
    a, b, _ = operands(D, 3)
    table = sweep(D, a, b, free=("precision",), backend="numpy", repeats=1, progress=False, limit=2)
    assert len(table.rows) == 2
    assert json.loads(json.dumps(table.records()))[0]["variant"] == "as given"
    assert table.best(largest_error=1e-6).variant == "as given"
    with pytest.raises(BadValue, match=r"no variant has an error of at most -1\.0"):
        table.best(largest_error=-1.0)


@pytest.mark.parametrize("name", ["limit", "repeats", "shared_memory_budget", "register_budget"])
def test_counts_begin_at_one(name: str) -> None:
    a, b, _ = operands(D, 4)
    for value in (0, -1):
        with pytest.raises(BadValue, match=f"{name}={value}; legal: at least 1"):
            D.sweep(a, b, progress=False, backend="numpy", **{name: value})


def test_a_descriptor_sweeps_itself() -> None:
    a, b, _ = operands(D, 4)
    assert D.sweep(a, b, limit=1, backend="numpy", progress=False).rows[0].variant == "as given"
