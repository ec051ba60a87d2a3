"""Speed of whole products, by pytest-benchmark: `pytest bench/test_matmul.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma.matmul import matmul

ROWS = [
    ("v_mfma_f32_32x32x8_f16", "gfx942"),
    ("v_mfma_f32_32x32x8f16", "gfx90a"),
    ("v_mfma_f32_32x32x8f16", "gfx908"),
    ("v_mfma_f32_32x32x2_f32", "gfx942"),
    ("v_mfma_f64_16x16x4_f64", "gfx942"),
]


@pytest.mark.parametrize(("mnemonic", "arch"), ROWS)
def test_host(benchmark: Any, mnemonic: str, arch: str) -> None:
    i = gpuemu.instruction(mnemonic, arch)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(i.operand_format("A").dtype)
    benchmark(lambda: matmul(x, x, instruction=i, backend="host"))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1024, 4096])
@pytest.mark.parametrize(("mnemonic", "arch"), ROWS)
def test_cuda(benchmark: Any, mnemonic: str, arch: str, size: int) -> None:
    import cupy

    i = gpuemu.instruction(mnemonic, arch)
    x = cupy.asarray(
        np.random.default_rng(0).standard_normal((size, size)).astype(i.operand_format("A").dtype)
    )

    def work() -> None:
        matmul(x, x, instruction=i)
        cupy.cuda.get_current_stream().synchronize()

    benchmark(work)
    benchmark.extra_info["tera_mac_s"] = size**3 / benchmark.stats["median"] / 1e12
