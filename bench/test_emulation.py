"""Speed of emulated precision, for regressions; `emulation_report.py` prints every figure."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", [2048, 4096, 8192])
@pytest.mark.parametrize(
    ("dtype", "scheme", "bits"),
    [
        ("float32", "native", 23),
        ("float32", "slices", 23),
        ("float64", "slices", 52),
        ("float64", "crt", 52),
    ],
)
def test_square(benchmark: Any, dtype: str, scheme: str, bits: int, size: int) -> None:
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul

    a, b = (cupy.random.standard_normal((size, size)).astype(dtype) for _ in range(2))

    def run() -> None:
        if scheme == "native":
            a @ b
        else:
            emulated_matmul(a, b, mantissa_bits=bits, scheme=scheme)
        cupy.cuda.get_current_stream().synchronize()

    benchmark.pedantic(run, rounds=7, warmup_rounds=2)
    benchmark.extra_info["tflops"] = 2e-12 * size**3 / benchmark.stats["median"]
