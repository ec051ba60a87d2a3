"""Speed of sparse and f8f6f4 instructions: multiply-adds a second over a batch of wavefronts.

Sparse rows count the products that the instruction computes, half of the dense ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import cuda
from gpuemu.mfma import device, mx, sparse
from gpuemu.mfma import execute as door

WAVES = 1 << 15 if cuda.available() else 64
BACKEND = "cuda" if cuda.available() else "host"

CASES = [
    ("v_smfmac_f32_16x16x32_f16", "gfx942", {}),
    ("v_smfmac_f32_32x32x32_fp8_fp8", "gfx942", {}),
    ("v_smfmac_i32_16x16x64_i8", "gfx942", {}),
    ("v_smfmac_f32_32x32x32_f16", "gfx950", {}),
    ("v_smfmac_f32_16x16x128_bf8_bf8", "gfx950", {}),
    ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", {}),
    ("v_mfma_f32_32x32x64_f8f6f4", "gfx950", {"cbsz": 4, "blgp": 4}),
    ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", {"cbsz": 2, "blgp": 4}),
    ("v_mfma_scale_f32_32x32x64_f8f6f4", "gfx950", {"op_sel": (1, 2)}),
]


def operands(i: gpuemu.Instruction, modifiers: dict[str, Any]) -> dict[str, Any]:
    """Return random registers without infinities and NaNs, on the backend's side."""
    rng = np.random.default_rng(0)
    call = door.call(i, **modifiers)
    m = call.modifiers
    given: dict[str, Any] = dict.fromkeys(("a", "b", "c", "idx", "scale_a", "scale_b"))
    for name in ("A", "B"):
        shape = (WAVES, i.operand_vgprs(name, m.cbsz, m.blgp), 64)
        # No item of any format has its largest exponent with this bit of every nibble clear.
        given[name.lower()] = rng.integers(0, 1 << 32, shape, dtype=np.uint32) & 0xBBBBBBBB
    given["c"] = rng.integers(0, 1 << 32, (WAVES, i.vgprs["D"], 64), dtype=np.uint32) & 0xBFFFFFFF
    if i.sparse:
        given["idx"] = np.full((WAVES, 1, 64), 0xE9DC4E94, np.uint32)
    if i.kind == "mfma_scale":
        for name in ("scale_a", "scale_b"):
            codes = rng.integers(117, 138, (WAVES, 1, 64, 4), dtype=np.uint8)
            given[name] = codes.view(np.uint32)[..., 0]
    if BACKEND == "cuda":
        import cupy

        return {k: None if x is None else cupy.asarray(x) for k, x in given.items()}
    return given


@pytest.mark.parametrize(("name", "arch", "modifiers"), CASES, ids=lambda x: str(x))
def test_instruction(benchmark: Any, name: str, arch: str, modifiers: dict[str, Any]) -> None:
    i = gpuemu.instruction(name, arch)
    given = operands(i, modifiers)
    call = door.call(i, **modifiers)
    lead = (WAVES,)
    images = device.Operands(**given)

    def run() -> None:
        if BACKEND == "cuda":
            import cupy

            device.run_cuda(i, call.model, call.modifiers, images, lead)
            cupy.cuda.Device().synchronize()
        else:
            device.run_host(i, call.model, call.modifiers, images, lead)

    benchmark.pedantic(run, rounds=10, warmup_rounds=3)
    products = WAVES * i.M * i.N * i.products
    benchmark.extra_info |= {
        "backend": BACKEND,
        "wavefronts": WAVES,
        "multiply-adds/s": products / benchmark.stats.stats.median,
    }


def test_index_check(benchmark: Any) -> None:
    """The price of strict legality: one pass over idx."""
    i = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    call = door.call(i)
    idx = operands(i, {})["idx"]
    benchmark(lambda: sparse.check_index(i, idx, call.modifiers))


@pytest.mark.parametrize("fmt", ["f8e4m3fn", "f6e2m3fn", "f4e2m1fn"])
def test_quantize(benchmark: Any, fmt: str) -> None:
    values = np.random.default_rng(0).standard_normal((512, 4096)).astype(np.float32)
    benchmark(lambda: mx.quantize(values, fmt))


def test_pack_sparse(benchmark: Any) -> None:
    i = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    dense = np.zeros((1000, 16, 32), np.float16)
    dense[..., ::2] = 1
    benchmark(lambda: i.pack_sparse(dense))
