"""Register-level throughput of every arithmetic class, on every backend that this machine has.

`extra_info` holds instructions/s and multiply-adds/s; `bench/mfma_report.py` sets them beside their
bounds and beside MMA-Sim.
"""

from __future__ import annotations

from typing import Any

import pytest

import gpuemu
from bench.mfma_report import CLASSES, inputs
from gpuemu.backends import cuda, host

WAVES = {"numpy": 1 << 6, "host": 1 << 8, "cuda": 1 << 17}
REASONS = {"numpy": "", "host": host.why_unavailable(), "cuda": cuda.why_unavailable()}


@pytest.mark.parametrize("backend", WAVES)
@pytest.mark.parametrize(
    ("arch", "name", "peer"), CLASSES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_register_level(benchmark: Any, arch: str, name: str, peer: Any, backend: str) -> None:
    if REASONS[backend]:
        pytest.skip(REASONS[backend])
    i = gpuemu.instruction(name, arch)
    x: dict[str, Any] = inputs(i, WAVES[backend])

    def call() -> None:
        gpuemu.execute(i, **x, legality="llvm", backend=backend)
        if backend == "cuda":
            cupy.cuda.Device().synchronize()

    if backend == "cuda":
        import cupy

        x = {key: cupy.asarray(value) for key, value in x.items()}
    benchmark.pedantic(call, rounds=5, iterations=1, warmup_rounds=1)
    rate = WAVES[backend] / benchmark.stats.stats.median
    benchmark.extra_info["instructions/s"] = rate
    benchmark.extra_info["MAC/s"] = rate * i.M * i.N * i.products * i.blocks
