"""Speed of descriptors through their kernels: one square product a precision, tensor cores and
plain path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.backends import cuda
from gpuemu.gemm import (
    SM,
    Alignment,
    Block,
    BlockDim,
    Function,
    Precision,
    Size,
    WithPipeline,
    suggest_pipeline,
)

pytestmark = pytest.mark.skipif(not cuda.available(), reason=cuda.why_unavailable())

# precision, tile, architecture of the descriptor (None: the device's), extent; the last one asks
# for Ampere's sums, which any other chip forms in software
PROBLEMS = [
    (("f16", "f16", "f32"), (128, 128, 32), None, 4096),
    (("bf16", "bf16", "f32"), (128, 128, 32), None, 4096),
    (("tf32", "tf32", "f32"), (128, 128, 16), None, 4096),
    (("i8", "i8", "i32"), (128, 128, 64), None, 4096),
    (("f64", "f64", "f64"), (64, 64, 16), None, 2048),
    (("f32", "f32", "f32"), (128, 128, 16), None, 2048),
    (
        ("f16", "f16", "f32"),
        (64, 64, 32),
        800,
        1024,
    ),
]


@pytest.mark.parametrize(
    ("names", "tile", "arch", "extent"), PROBLEMS, ids=lambda x: str(x).replace(" ", "")
)
def test_pipeline(benchmark: Any, names: Any, tile: Any, arch: int | None, extent: int) -> None:
    import cupy

    from gpuemu.gemm.device import device_sm

    d = (
        Size(*tile)
        + Precision(*names)
        + Function("MM")
        + SM(arch or device_sm())
        + Block()
        + BlockDim(256)
    )
    d = d + WithPipeline() + Alignment(16, 16, 16)
    rng = np.random.default_rng(0)
    kind = d.precision.a.dtype
    values = (
        rng.integers(-100, 100, (extent, extent))
        if d.precision.a.is_integer
        else rng.standard_normal((extent, extent))
    )
    host = values.astype(kind)
    a = cupy.asarray(host.view("u2") if names[0] == "bf16" else host)
    p = suggest_pipeline(d, a, a.T, clamp_depth=True)

    def once() -> None:
        p.value.execute(backend="cuda")
        cupy.cuda.Device().synchronize()

    once()
    benchmark.pedantic(once, rounds=5, iterations=1)
    seconds = benchmark.stats.stats.median
    benchmark.extra_info["tflops"] = 2 * extent**3 / seconds / 1e12
