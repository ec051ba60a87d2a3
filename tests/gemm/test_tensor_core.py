"""Fused sums against golden results of the published tensor-core model (mmasim 2.1.1), bit for
bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import host
from gpuemu.gemm.elements import ELEMENTS
from gpuemu.gemm.pipeline import Refusal

from .problems import bits

FILE = Path(__file__).parent.parent / "vectors" / "gemm" / "tensor_core.npz"
with np.load(FILE) as _vectors:
    VECTORS: dict[str, Any] = dict(_vectors)
CASES = sorted({name.rpartition("/")[0] for name in VECTORS})


def run(case: str, backend: str) -> tuple[Any, Any]:
    """Return the project's result and the golden one."""
    sm, kind, a, b, d = case.partition("/")[0].split("-")
    left, right = (
        VECTORS[f"{case}/A"].view(ELEMENTS[a].dtype),
        VECTORS[f"{case}/B"].view(ELEMENTS[b].dtype),
    )
    want = VECTORS[f"{case}/D"].view(ELEMENTS[d].dtype)
    (m, k), n = left.shape, right.shape[1]
    problem = (
        gemm.Size(m, n, k // 4)
        + gemm.Precision(a, b, d)
        + gemm.Function("MM")
        + gemm.Block()
        + gemm.WithPipeline()
    )
    problem = problem + gemm.Arrangement("row_major", "row_major", "row_major")
    if kind == "wgmma":
        problem = (
            problem
            + gemm.SM(900, "arch_specific")
            + gemm.EnableInputStreaming()
            + gemm.Alignment(16, 16, 16)
        )
        assert problem.mma_class == "wgmma"
    else:
        problem = problem + gemm.SM(int(sm))
        assert problem.mma_class == "mma_sync"
    assert gemm.arithmetic(problem).published
    p = gemm.suggest_pipeline(problem, left, right, depth=1)
    assert not isinstance(p, Refusal)
    return p.execute(backend=backend), want


@pytest.mark.parametrize("case", CASES)
def test_oracle_and_host_equal_the_published_model(case: str) -> None:
    for backend in ("numpy", "host") if host.available() else ("numpy",):
        got, want = run(case, backend)
        assert np.array_equal(bits(got), bits(want)), backend


def test_every_published_generation_is_covered() -> None:
    from gpuemu.gemm.instructions import TENSOR_CORES

    covered = {int(case.split("-")[0]) for case in CASES}
    assert {arch for arch, core in TENSOR_CORES.items() if core.published} == covered
