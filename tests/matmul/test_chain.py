"""A whole product is the chain of `gpuemu.execute` on packed registers, for every instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import cuda
from gpuemu.mfma import device
from gpuemu.mfma.instructions import Instruction
from gpuemu.mfma.matmul import matmul

from .operands import accumulators, bits, chain_of, dense_2_4

Array = np.ndarray[Any, Any]

BACKENDS = ["numpy", "host", pytest.param("cuda", marks=pytest.mark.gpu)]


def name_of(instruction: Instruction) -> str:
    return f"{instruction.mnemonic}-{instruction.arch}"


def padded(x: Array, rows: int, columns: int) -> Array:
    out = np.zeros((rows, columns), x.dtype)
    out[: x.shape[0], : x.shape[1]] = x
    return out


def in_block_0(instruction: Instruction, x: Array) -> Array:
    out = np.zeros((instruction.blocks, *x.shape), x.dtype)
    out[0] = x
    return out


def by_registers(
    i: Instruction, A: Array, B: Array, C: Array, scales: Any, m: dict[str, int]
) -> Array:
    """Return D of one tile: instruction after instruction on register images."""
    d = i.pack("C", in_block_0(i, padded(C, i.M, i.N)))
    for first in range(0, A.shape[1], i.K):
        a_part = padded(A[:, first : first + i.K], i.M, i.K)
        b = i.pack("B", in_block_0(i, padded(B[first : first + i.K], i.K, i.N)), **m)
        more: dict[str, Any] = {}
        if i.sparse:
            a, more["idx"] = i.pack_sparse(a_part, bits=True)
        else:
            a = i.pack("A", in_block_0(i, a_part), **m)
        if scales is not None:
            blocks = slice(first // 32, (first + i.K) // 32)
            codes = (
                padded(scales[0][:, blocks], i.M, i.K // 32),
                padded(scales[1][blocks].T, i.N, i.K // 32),
            )
            more["scale_a"], more["scale_b"] = (c.T.reshape(1, 64).astype(np.uint32) for c in codes)
        d = gpuemu.execute(i, a, b, d, backend="host", **m, **more)
    D: Array = i.unpack("D", d)[0, : A.shape[0], : B.shape[1]]
    return D


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("instruction", gpuemu.instructions(), ids=name_of)
def test_equals_chained_execute(instruction: Instruction, backend: str) -> None:
    i, rng = instruction, np.random.default_rng(instruction.opcode)
    mixed = i.modifiers.cbsz == "format"
    m = {"cbsz": 1, "blgp": 4} if mixed else {}
    chain = chain_of(i, **m)
    scaled = i.kind == "mfma_scale"
    M, N = max(1, i.M - 3), max(1, i.N - 1)
    K = 2 * i.K + (32 if scaled else 4 if i.sparse else max(1, i.K // 2))
    for kind in ("normal", "wide", "bits"):
        make = dense_2_4 if i.sparse else bits
        A = make(i.operand_format("A", **m), (M, K), kind, rng)
        B = bits(i.operand_format("B", **m), (K, N), kind, rng)
        C = accumulators(chain, (M, N), kind, rng).view(i.operand_format("C").storage)
        scales = None
        if scaled:
            K_padded = -(-K // i.K) * i.K
            scales = tuple(
                rng.integers(120, 134, s).astype(np.uint8) for s in ((M, K // 32), (K // 32, N))
            )
            unit = [
                np.full((M, K_padded // 32), 127, np.uint8),
                np.full((K_padded // 32, N), 127, np.uint8),
            ]
            unit[0][:, : K // 32], unit[1][: K // 32] = scales
            want = by_registers(i, A, B, C, unit, m)
        else:
            want = by_registers(i, A, B, C, None, m)
        more: dict[str, Any] = (
            {} if scales is None else {"scale_a": scales[0], "scale_b": scales[1]}
        )
        got = matmul(A, B, C, instruction=i, backend=backend, bits=True, **m, **more)
        assert np.array_equal(got.view(np.uint8), want.view(np.uint8)), kind


def test_config_matches_the_host_build() -> None:
    from gpuemu.backends import host
    from gpuemu.mfma import matmul_device

    x = matmul_device.Matrices(np.zeros((1, 2, 3), np.uint16), np.zeros((1, 3, 4), np.uint16))
    fields = matmul_device.problem(x, np.zeros((1, 2, 4), np.uint32))
    assert host.library("matmul").gpuemu_matmul_problem_fields() == fields.size
    assert len(device.CONFIG_FIELDS) == host.library("mfma").gpuemu_mfma_config_fields()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
@pytest.mark.parametrize(
    ("mnemonic", "on"),
    [
        ("v_mfma_f32_32x32x8_f16", "gfx942"),
        ("v_mfma_f32_32x32x2_f32", "gfx942"),
        ("v_mfma_f64_16x16x4_f64", "gfx942"),
        ("v_mfma_f32_32x32x8f16", "gfx90a"),
        ("v_mfma_f32_32x32x4bf16", "gfx908"),
        ("v_smfmac_f32_16x16x32_f16", "gfx942"),
        ("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942"),
    ],
)
def test_kernels_compile(mnemonic: str, on: str, arch: str) -> None:
    from gpuemu.mfma import matmul_device, matmul_tuned

    chain = chain_of(gpuemu.instruction(mnemonic, on))
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    assert cuda.cubin(tuned.source, tuned.defines, arch)
    source, defines, _ = matmul_device.plain_source(chain)
    assert cuda.cubin(source, defines, arch)
    for shared in ("matmul_bytes.cu", "matmul_epilogue.cu", "matmul_sparse.cu"):
        assert cuda.cubin(shared, {}, arch)
