"""CUDA against the oracle: every sparse row, every pair of f8f6f4 formats, scaled and not."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import ahead, cuda
from gpuemu.errors import BadValue
from gpuemu.mfma import device, models, sparse
from gpuemu.mfma import execute as door
from gpuemu.mfma import modifiers as mods
from tests.mfma import register_inputs as inputs

pytestmark = pytest.mark.gpu

SPARSE = gpuemu.instructions(kind="smfmac")
NARROW = (*gpuemu.instructions(kind="mfma_scale"), *gpuemu.instructions(kind="mfma_f8f6f4"))
PAIRS = [(cbsz, blgp) for cbsz in range(5) for blgp in range(5)]
WAVES = len(inputs.CATEGORIES)


def kernels() -> list[tuple[str, dict[str, int | str]]]:
    """Return source and definitions of every kernel that this file launches on dense images."""
    calls = [(i, mods.Modifiers()) for i in SPARSE]
    calls += [(i, mods.Modifiers(cbsz=x, blgp=y)) for i in NARROW for x, y in PAIRS]
    made = [device.kernel_source(i, models.get(i.model), m) for i, m in calls]
    return [(k.source, k.defines) for k in made]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile on every core first, each process of pytest its share: one after the other takes
    minutes.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    arch, mine = cuda.device_arch(), kernels()[worker::workers]
    with ThreadPoolExecutor(max(1, ahead.cores() // workers)) as pool:
        list(pool.map(lambda kernel: cuda.cubin_path(*kernel, arch), mine))


def stacked(i: gpuemu.Instruction, m: mods.Modifiers, rng: np.random.Generator) -> dict[str, Any]:
    """Return one wavefront of every category of inputs."""
    waves = [
        (inputs.operand(i, "A", m, category, rng), inputs.operand(i, "B", m, category, rng))
        for category in inputs.CATEGORIES
    ]
    given: dict[str, Any] = dict.fromkeys(("a", "b", "c", "idx", "scale_a", "scale_b"))
    given["a"], given["b"] = (np.stack(x) for x in zip(*waves, strict=True))
    given["c"] = np.stack([inputs.accumulator(i, rng) for _ in waves])
    return given


def same(i: gpuemu.Instruction, given: dict[str, Any], legality: str, **modifiers: Any) -> None:
    call = door.call(i, legality=legality, **modifiers)
    strict = legality == "strict"
    got = door.run(call, given, "cuda", strict_index=strict).get()
    door.compare(call, got, door.run(call, given, "numpy", strict_index=strict), "cuda")


@pytest.mark.parametrize("row", SPARSE, ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_sparse_rows(row: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(row.opcode)
    given = stacked(row, mods.Modifiers(), rng)
    legal = np.stack([inputs.ascending_index(row, rng) for _ in range(WAVES)])
    anything = rng.integers(0, 1 << 32, legal.shape, dtype=np.uint32)
    for abid in range(max(row.modifiers.index_sets, 1)):
        same(row, given | {"idx": legal}, "strict", abid=abid)
    same(row, given | {"idx": anything}, "llvm", cbsz=1, abid=row.modifiers.abid_max)


@pytest.mark.parametrize(("cbsz", "blgp"), PAIRS)
@pytest.mark.parametrize("row", NARROW, ids=lambda i: i.mnemonic)
def test_f8f6f4_rows(row: gpuemu.Instruction, cbsz: int, blgp: int) -> None:
    rng = np.random.default_rng(10 * cbsz + blgp)
    given = stacked(row, mods.Modifiers(cbsz=cbsz, blgp=blgp), rng)
    op_sels = [(0, 0)]
    if row.kind == "mfma_scale":
        op_sels = [(byte, (byte + cbsz + blgp) % 4) for byte in range(4)]
        for name in ("scale_a", "scale_b"):
            ranges = [(107, 148), (0, 256)] * (WAVES // 2)
            given[name] = np.stack([inputs.scale_register(rng, *r) for r in ranges])
    for op_sel in op_sels:
        same(row, given, "strict", cbsz=cbsz, blgp=blgp, op_sel=op_sel)


def test_one_index_for_a_batch_and_strided_operands() -> None:
    row = gpuemu.instruction("v_smfmac_f32_16x16x64_bf8_fp8", "gfx942")
    rng = np.random.default_rng(0)
    given = stacked(row, mods.Modifiers(), rng)
    given["idx"] = inputs.ascending_index(row, rng)
    same(row, given, "strict", abid=1)
    given["b"] = given["b"][:1]
    given["a"] = np.repeat(given["a"], 2, axis=0)[::2]
    same(row, given, "strict")


def test_the_index_is_checked_on_the_device() -> None:
    import cupy

    row = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    idx = cupy.full((1000, 1, 64), 0x44444444, cupy.uint32)
    m = mods.check(row, abid=1)
    sparse.check_index(row, idx, m)
    idx[777, 0, 42] = 0x44446144
    sparse.check_index(row, idx, mods.check(row, abid=0))
    with pytest.raises(
        BadValue, match=r"wavefront \(777,\), lane 42, bits 8 to 11 .* columns 1 and 0"
    ):
        sparse.check_index(row, idx, m)


def test_device_arrays_stay_on_the_device() -> None:
    import cupy

    row = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    rng = np.random.default_rng(1)
    given = stacked(row, mods.Modifiers(), rng)
    idx = inputs.ascending_index(row, rng)
    want = gpuemu.execute(row, given["a"], given["b"], given["c"], idx=idx, backend="numpy")
    a, b, c, fields = (cupy.asarray(x) for x in (given["a"], given["b"], given["c"], idx))
    got = gpuemu.execute(row, a, b, c, idx=fields)
    assert isinstance(got, cupy.ndarray)
    assert np.array_equal(got.get(), want)
    dense = row.unpack_sparse(a, fields)
    assert isinstance(dense, cupy.ndarray)
    again, packed = row.pack_sparse(dense)
    assert isinstance(again, cupy.ndarray) and isinstance(packed, cupy.ndarray)
