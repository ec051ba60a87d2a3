"""An AMD target in place of SM: the same description through the CDNA matrix cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.errors import BadValue, UnknownInstruction
from gpuemu.gemm import (
    SM,
    Arrangement,
    Block,
    Function,
    Precision,
    RequiredMantissaBits,
    Size,
    Target,
    Type,
    WithPipeline,
    compare,
    execute,
    matmul,
    suggest_pipeline,
)
from gpuemu.gemm.target import select_instruction
from gpuemu.mfma.instructions import instruction
from gpuemu.mfma.matmul import matmul as mfma_matmul

from .problems import bits, operands

D = Size(32, 32, 16) + Precision("f16", "f16", "f32") + Function("MM") + Block()


@pytest.mark.parametrize(
    ("arch", "names", "mnemonic"),
    [
        ("gfx942", ("f16", "f16", "f32"), "v_mfma_f32_16x16x16_f16"),
        ("gfx950", ("f16", "f16", "f32"), "v_mfma_f32_16x16x32_f16"),
        ("gfx942", ("f64", "f64", "f64"), "v_mfma_f64_16x16x4_f64"),
        ("gfx942", ("i8", "i8", "i32"), "v_mfma_i32_16x16x32_i8"),
        ("gfx942", ("tf32", "tf32", "f32"), "v_mfma_f32_16x16x8_xf32"),
        ("gfx908", ("f32", "f32", "f32"), "v_mfma_f32_16x16x4f32"),
    ],
)
def test_the_instruction_with_the_longest_k_is_chosen(arch: str, names: Any, mnemonic: str) -> None:
    chosen = select_instruction(Target(arch), names)
    assert chosen.K == instruction(mnemonic, arch=arch).K
    assert chosen.arch == arch
    assert chosen.kind == "mfma"


def test_a_description_runs_on_an_amd_target() -> None:
    d = D + Target("gfx942", "v_mfma_f32_32x32x8_f16")
    a, b, c = operands(d, 1)
    want = mfma_matmul(
        a, b, instruction=instruction("v_mfma_f32_32x32x8_f16", arch="gfx942"), backend="numpy"
    )
    assert np.array_equal(bits(execute(d, a, b, backend="numpy")), bits(want))
    got = execute(d, a, b, c, alpha=2, beta=-1, backend="numpy")
    assert np.array_equal(got, np.float32(2) * want + np.float32(-1) * c)
    p = suggest_pipeline(d + WithPipeline(), a, b, depth=1)
    assert np.array_equal(p.value.execute(backend="numpy"), want)


def test_ragged_extents_on_an_amd_target() -> None:
    d = D.replace(Precision("i8", "i8", "i32")) + Target("gfx942")
    a, b, c = operands(d, 2, extents=(33, 17, 19))
    want = a.astype(np.int32) @ b.astype(np.int32) + c
    for strategy in ("pad", "mask", "split"):
        assert np.array_equal(matmul(d, a, b, c, beta=1, ragged=strategy, backend="numpy"), want)


def test_traits_of_an_amd_target() -> None:
    d = D + Target("gfx950")
    assert d.is_complete_execution
    assert (d.mma_class, d.instruction, d.why_not_wgmma) == (
        "mfma",
        None,
        ("the target is gfx950",),
    )
    assert d.shared_memory_available == 160 * 1024
    with pytest.raises(BadValue, match="sm needs SM"):
        _ = d.sm


def test_compare_shows_where_two_chips_part() -> None:
    d = D.replace(Size(32, 32, 8)) + Arrangement("row_major", "row_major", "row_major") + SM(800)
    a, b = np.zeros((32, 8), "f2"), np.zeros((8, 32), "f2")
    a[3, :5], b[:5, 5] = (2.0**13, -(2.0**13), -0.5, -0.25, -0.125), (2.0**10, 2.0**10, 1, 1, 1)
    found = compare(
        d, a, b, [SM(900), Target("gfx942"), Target("gfx908"), Target("gfx90a")], backend="numpy"
    )
    assert list(found.results) == ["sm_90", "gfx942", "gfx908", "gfx90a"]
    assert not found
    by_pair = {(x.left, x.right): x for x in found.differences}
    exact = by_pair["sm_90", "gfx908"]
    assert len(by_pair) == 6
    assert all(x.total == 32 * 32 for x in by_pair.values())
    assert {x.first for x in by_pair.values() if x.count} == {(3, 5)}
    assert exact.bits is not None
    assert exact.bits[1] == "BF600000"  # CDNA1 gives the exact -0.875
    same = compare(d, a * 0, b, [SM(900), Target("gfx942")], backend="numpy")
    assert same
    assert same.differences[0].count == 0


def test_refusals_name_the_target() -> None:
    large = D.replace(Size(256, 256, 64)) + Target("gfx942")
    a, b, _ = operands(large)
    with pytest.raises(BadValue, match=r"needs .* bytes of shared memory; gfx942 has 65536"):
        execute(large, a, b)
    with pytest.raises(BadValue, match=r"do not fit in the 65536 bytes .* of gfx942; legal"):
        suggest_pipeline(large + WithPipeline(), a, b, depth=16)
    d = Size(32, 32, 16) + Precision("f32") + Function("MM") + Block() + WithPipeline()
    d = d + RequiredMantissaBits(23) + Target("gfx942")
    a, b, _ = operands(d)
    assert suggest_pipeline(d, a, b, depth=1, emulation="auto").value.emulation_slices == 3


def test_rejections() -> None:
    a, b, _ = operands(D, 3)
    with pytest.raises(BadValue, match="gfx942 has no dense matrix instruction for"):
        execute(D.replace(Precision("f16")) + Target("gfx942"), a, b)
    with pytest.raises(BadValue, match=r"multiplies .*bf16.* the descriptor has"):
        execute(D + Target("gfx942", "v_mfma_f32_32x32x8_bf16"), a, b)
    with pytest.raises(UnknownInstruction):
        execute(D + Target("gfx942", "v_mfma_nothing"), a, b)
    with pytest.raises(BadValue, match="an AMD target multiplies real matrices"):
        complex_ = D + Type("complex") + Target("gfx942")
        execute(complex_, *operands(complex_)[:2])
    with pytest.raises(BadValue, match=r"1 target\(s\): a comparison needs two"):
        compare(D, a, b, [SM(900)])
    with pytest.raises(BadValue, match="sm_90 is given twice"):
        compare(D, a, b, [SM(900), SM(900)], backend="numpy")
