"""The tuned product of a sparse A on CPU threads against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma import matmul_device, matmul_oracle, matmul_tuned
from gpuemu.mfma.matmul_device import Chain, Matrices
from gpuemu.mfma.models import Model

from . import simulator
from .operands import KINDS, accumulators, bits, chain_of, columns_dense, places

ORDERS = ("rr", "cr", "rc", "rr", "cc", "rc", "cr")
DENSE_GROUPS = Model("dense_groups", "aligned", group=8, dense_grouping=True)
ROWS = (
    ("v_smfmac_f32_16x16x32_f16", "gfx942", None),
    ("v_smfmac_f32_32x32x16_bf16", "gfx942", None),
    ("v_smfmac_f32_16x16x64_fp8_bf8", "gfx942", None),
    ("v_smfmac_f32_16x16x64_f16", "gfx950", None),
    ("v_smfmac_f32_16x16x32_f16", "gfx942", DENSE_GROUPS),
)


@pytest.mark.parametrize(("mnemonic", "arch", "model"), ROWS)
def test_tuned_kernel(mnemonic: str, arch: str, model: Model | None) -> None:
    own = chain_of(gpuemu.instruction(mnemonic, arch))
    chain = own if model is None else Chain(own.instruction, model, own.modifiers)
    i, m = chain.instruction, chain.modifiers
    tuned = matmul_tuned.plan(chain)
    assert tuned is not None
    rng = np.random.default_rng(i.opcode)
    M, N, K = tuned.rows + 5, tuned.columns // 2 + 6, i.K + 44
    for kind, order in zip(KINDS, ORDERS, strict=True):
        A = bits(i.operand_format("A"), (2, M, K // 2), kind, rng)
        B = bits(i.operand_format("B"), (2, K, N), kind, rng)
        chosen = places(A.shape, rng)
        C = accumulators(chain, (2, M, N), kind, rng)
        if order[0] == "c":
            A, chosen = columns_dense(A), columns_dense(chosen)
        B = columns_dense(B) if order[1] == "c" else B
        D = np.zeros_like(C)
        x = Matrices(A, B, C, chosen)
        blocks = 2 * -(-M // tuned.rows) * -(-N // tuned.columns)
        args = [matmul_device.problem(x, D), matmul_device.pointers(x, D)]
        simulator.launch(
            tuned.source, tuned.name, tuned.defines, blocks, matmul_tuned.THREADS, args
        )
        want = matmul_oracle.chain(i, chain.model, m, A, B, C, chosen)
        assert np.array_equal(D, want), (kind, order, np.argwhere(want != D)[:3])


@pytest.mark.parametrize(
    "change",
    [{"CHUNK": 32, "PER_THREAD": 2}, {"PER_THREAD": 8, "KEPT": "float"}, {"VALUE": "double"}],
)
def test_tile_sizes_do_not_matter(
    change: dict[str, int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul_tuned, "SPARSE", matmul_tuned.SPARSE | change)
    test_tuned_kernel(*ROWS[0])


def test_partial_sums_by_dense_columns_have_the_plain_kernel() -> None:
    own = chain_of(gpuemu.instruction("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942"))
    model = Model("dense_sums", "aligned", group=16, interleave=2, dense_grouping=True)
    assert matmul_tuned.plan(Chain(own.instruction, model, own.modifiers)) is None
