"""The tuned kernels on CPU threads against the oracle: ragged edges, every orientation, every kind
of values.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma import matmul_device, matmul_oracle, matmul_tuned
from gpuemu.mfma.matmul_device import Chain, Matrices

from . import simulator
from .operands import KINDS, accumulators, bits, chain_of, columns_dense, places

ROWS = (
    ("v_mfma_f32_32x32x2f32", "gfx908", 0, 0),
    ("v_mfma_f32_16x16x16f16", "gfx90a", 0, 0),
    ("v_mfma_f32_32x32x4bf16", "gfx90a", 0, 0),
    ("v_mfma_f32_32x32x8f16", "gfx908", 0, 0),
    ("v_mfma_f32_32x32x4bf16", "gfx908", 0, 0),
    ("v_mfma_f32_32x32x8_f16", "gfx942", 0, 0),
    ("v_mfma_f32_4x4x4_16b_bf16", "gfx942", 0, 0),
    ("v_mfma_f32_16x16x8_xf32", "gfx942", 0, 0),
    ("v_mfma_f32_16x16x32_fp8_bf8", "gfx942", 0, 0),
    ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", 1, 4),
)
DOUBLES = (
    ("v_mfma_f64_16x16x4f64", "gfx90a", (133, 70, 37)),
    ("v_mfma_f64_4x4x4_4b_f64", "gfx942", (128, 136, 68)),
)
ORDERS = ("rr", "cr", "rc", "rr", "cc", "rc", "cr")


@pytest.mark.parametrize(("mnemonic", "arch", "cbsz", "blgp"), ROWS)
def test_tuned_kernel(mnemonic: str, arch: str, cbsz: int, blgp: int) -> None:
    chain = chain_of(gpuemu.instruction(mnemonic, arch), cbsz, blgp)
    i, m = chain.instruction, chain.modifiers
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    rng = np.random.default_rng(i.opcode)
    M, N, K = tuned.rows + 5, tuned.columns // 2 + 6, max(37, i.K + 32)
    for kind, order in zip(KINDS, ORDERS, strict=True):
        A = bits(i.operand_format("A", m.cbsz, m.blgp), (2, M, K), kind, rng)
        B = bits(i.operand_format("B", m.cbsz, m.blgp), (2, K, N), kind, rng)
        C = accumulators(chain, (2, M, N), kind, rng)
        A = columns_dense(A) if order[0] == "c" else A
        B = columns_dense(B) if order[1] == "c" else B
        D = np.zeros_like(C)
        x = Matrices(A, B, C)
        blocks = 2 * -(-M // tuned.rows) * -(-N // tuned.columns)
        args = [matmul_device.problem(x, D), matmul_device.pointers(x, D)]
        simulator.launch(
            tuned.source, tuned.name, tuned.defines, blocks, matmul_tuned.THREADS, args
        )
        want = matmul_oracle.chain(i, chain.model, m, A, B, C)
        assert np.array_equal(D, want), (kind, order, np.argwhere(want != D)[:3])


@pytest.mark.parametrize("change", [{"CHUNK": 32}, {"KEPT": "float"}])
def test_tile_sizes_do_not_matter(change: dict[str, int | str]) -> None:
    chain = chain_of(gpuemu.instruction("v_mfma_f32_16x16x8_xf32", "gfx942"))
    i = chain.instruction
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    rng = np.random.default_rng(0)
    A = bits(i.operand_format("A"), (1, 70, 52), "wide", rng)
    B = bits(i.operand_format("B"), (1, 52, 41), "wide", rng)
    C = accumulators(chain, (1, 70, 41), "wide", rng)
    D = np.zeros_like(C)
    x = Matrices(A, B, C)
    args = [matmul_device.problem(x, D), matmul_device.pointers(x, D)]
    defines = tuned.defines | change
    simulator.launch(tuned.source, tuned.name, defines, 2, matmul_tuned.THREADS, args)
    want = matmul_oracle.chain(i, chain.model, chain.modifiers, A, B, C)
    assert np.array_equal(D, want)


@pytest.mark.parametrize(("mnemonic", "arch", "shape"), DOUBLES)
def test_double_kernel(mnemonic: str, arch: str, shape: tuple[int, int, int]) -> None:
    chain = chain_of(gpuemu.instruction(mnemonic, arch))
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    i = chain.instruction
    rng = np.random.default_rng(i.opcode)
    M, N, K = shape
    for kind, order in zip(KINDS[:4], ("rr", "cr", "rc", "cc"), strict=True):
        A = bits(i.operand_format("A"), (1, M, K), kind, rng)
        B = bits(i.operand_format("B"), (1, K, N), kind, rng)
        C = accumulators(chain, (1, M, N), kind, rng)
        A = columns_dense(A) if order[0] == "c" else A
        B = columns_dense(B) if order[1] == "c" else B
        D = np.zeros_like(C)
        x = Matrices(A, B, C)
        blocks = -(-M // tuned.rows) * -(-N // tuned.columns)
        args = [matmul_device.problem(x, D), matmul_device.pointers(x, D), np.array(i.K, np.int32)]
        simulator.launch(
            tuned.source, tuned.name, tuned.defines, blocks, matmul_tuned.THREADS, args
        )
        want = matmul_oracle.chain(i, chain.model, chain.modifiers, A, B, C)
        assert np.array_equal(D, want), (kind, order, np.argwhere(want != D)[:3])


def test_no_links_beyond_the_padded_k() -> None:
    chain = chain_of(gpuemu.instruction("v_mfma_f32_32x32x2f32", "gfx908"))
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    # Whole instructions, but no whole chunk: -0 stays -0 only as long as no zero of B is added.
    negative_zero = np.uint32(1 << 31)
    A = np.zeros((1, 3, 18), np.uint32)
    B = np.full((1, 18, 3), np.float32(-1).view(np.uint32))
    C = np.full((1, 3, 3), negative_zero)
    D = np.zeros_like(C)
    x = Matrices(A, B, C)
    args = [matmul_device.problem(x, D), matmul_device.pointers(x, D)]
    simulator.launch(tuned.source, tuned.name, tuned.defines, 1, matmul_tuned.THREADS, args)
    assert np.array_equal(D, C)


UNDERFLOWS = (
    ("v_mfma_f32_32x32x8_bf16", "gfx942"),
    ("v_mfma_f32_4x4x4_16b_bf16", "gfx942"),
    ("v_mfma_f32_32x32x4_xf32", "gfx942"),
    ("v_mfma_f32_16x16x32_bf16", "gfx950"),
    ("v_smfmac_f32_32x32x16_bf16", "gfx942"),
)


def underflowing(chain: Chain, K: int) -> Matrices:
    """Return operands whose sums are -0 in their last link, or in their first, where links of zeros
    follow and make it +0.
    """
    i = chain.instruction
    stored = K // 2 if i.sparse else K
    A, B = np.zeros((1, 2, stored), np.float32), np.full((1, K, 1), 2.0**-75, np.float32)
    A[0, 0, -1] = A[0, 1, 0] = -(2.0**-76)
    codes = (
        np.ascontiguousarray(x.astype(fmt.dtype)).view(fmt.storage)
        for x, fmt in ((A, i.operand_format("A")), (B, i.operand_format("B")))
    )
    chosen = np.tile(np.array([0, 1], np.uint8), (1, 2, stored // 2)) if i.sparse else None
    return Matrices(*codes, np.zeros((1, 2, 1), np.uint32), chosen)


@pytest.mark.parametrize(("mnemonic", "arch"), UNDERFLOWS)
def test_no_links_beyond_the_chain(mnemonic: str, arch: str) -> None:
    chain = chain_of(gpuemu.instruction(mnemonic, arch))
    i, tuned = chain.instruction, matmul_tuned.plan(chain)
    assert tuned is not None
    for K in (i.K // 2, i.K, 3 * i.K):
        x = underflowing(chain, K)
        D = np.ones_like(x.c)
        args = [matmul_device.problem(x, D), matmul_device.pointers(x, D)]
        simulator.launch(tuned.source, tuned.name, tuned.defines, 1, matmul_tuned.THREADS, args)
        want = matmul_oracle.chain(i, chain.model, chain.modifiers, x.a, x.b, x.c, x.chosen)
        assert want[0, 0, 0] == 1 << 31 or K < i.K
        assert np.array_equal(D, want), K


@pytest.mark.gpu
@pytest.mark.parametrize(("mnemonic", "arch"), UNDERFLOWS)
def test_no_links_beyond_the_chain_on_cuda(mnemonic: str, arch: str) -> None:
    import cupy

    chain = chain_of(gpuemu.instruction(mnemonic, arch))
    for K in (chain.instruction.K // 2, chain.instruction.K, 3 * chain.instruction.K):
        x = underflowing(chain, K)
        given = Matrices(
            *(None if m is None else cupy.asarray(m) for m in (x.a, x.b, x.c, x.chosen))
        )
        want = matmul_oracle.chain(
            chain.instruction, chain.model, chain.modifiers, x.a, x.b, x.c, x.chosen
        )
        for tuned in (True, False):
            got = cupy.ones((1, 2, 1), np.uint32)
            matmul_device.run_cuda(chain, given, got, tuned=tuned)
            assert np.array_equal(got.get(), want), tuned


def test_what_has_no_tuned_kernel() -> None:
    i = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
    assert matmul_tuned.plan(chain_of(i)) is None


@pytest.mark.gpu
@pytest.mark.parametrize(
    "instruction", gpuemu.instructions(), ids=lambda i: f"{i.mnemonic}-{i.arch}"
)
def test_tuned_equals_plain_on_cuda(instruction: gpuemu.Instruction) -> None:
    import cupy

    chain = chain_of(instruction)
    i, m = instruction, chain.modifiers
    if i.kind == "mfma_scale":
        pytest.skip("scaled products have the plain kernel alone; test_chain covers it")
    rng = np.random.default_rng(i.opcode)
    for kind, (M, N, K) in zip(KINDS, 4 * [(203, 170, 301), (256, 136, 304)], strict=False):
        K -= K % 4 if i.sparse else 0
        A = cupy.asarray(bits(i.operand_format("A", m.cbsz, m.blgp), (2, M, K), kind, rng))
        chosen = None
        if i.sparse:
            A = A[..., : K // 2]
            chosen = cupy.asarray(places(A.shape, rng))
        B = cupy.asarray(bits(i.operand_format("B", m.cbsz, m.blgp), (2, K, N), kind, rng))
        C = cupy.asarray(accumulators(chain, (2, M, N), kind, rng))
        x = Matrices(A, B, C, chosen)
        got = [cupy.empty((2, M, N), chain.accumulator) for _ in range(2)]
        for d, tuned in zip(got, (True, False), strict=True):
            matmul_device.run_cuda(chain, x, d, tuned=tuned)
        assert bool((got[0] == got[1]).all()), kind
