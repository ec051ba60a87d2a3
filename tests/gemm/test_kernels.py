"""Every kernel of the GEMM compiles for every architecture, without contractions or flushes nobody
wrote."""

from __future__ import annotations

import re
from itertools import product

import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import cuda
from gpuemu.gemm import kernel_plan
from gpuemu.gemm.call import make_call

from .problems import PRECISIONS, operands

pytest.importorskip("cupy", reason="NVRTC comes with the CuPy wheels")

SHARED = 163 * 1024


MMA = {
    ("f16", "f16", "f32"): "m16n8k16.row.col.f32.f16.f16.f32",
    ("f16", "f16", "f16"): "m16n8k16.row.col.f16.f16.f16.f16",
    ("bf16", "bf16", "f32"): "m16n8k16.row.col.f32.bf16.bf16.f32",
    ("tf32", "tf32", "f32"): "m16n8k8.row.col.f32.tf32.tf32.f32",
    ("f64", "f64", "f64"): "m8n8k4.row.col.f64.f64.f64.f64",
    ("i8", "u8", "i32"): "m16n8k32.row.col.s32.s8.u8.s32",
    ("f8e4m3fn", "f8e5m2", "f32"): "m16n8k32.row.col.f32.e4m3.e5m2.f32",
}


def plan(
    names: tuple[str, str, str], sm: int, parts: str = "real", order: str = "row_major"
) -> kernel_plan.Plan:
    """Return the kernel for a small tile of a precision."""
    d = (
        gemm.Size(32, 16, 32)
        + gemm.Precision(*names)
        + gemm.Type(parts)
        + gemm.Function("MM")
        + gemm.SM(sm)
    )
    d = d + gemm.Block() + gemm.BlockDim(64) + gemm.Arrangement(order, "col_major", order)
    return kernel_plan.plan(make_call(d, *operands(d)[:2]), sm, SHARED)


@pytest.mark.parametrize("names", PRECISIONS, ids="-".join)
def test_compiles(names: tuple[str, str, str]) -> None:
    assert cuda.cubin("gemm.cu", plan(names, 900).defines, "sm_90a")[:4] == b"\x7fELF"


@pytest.mark.parametrize("names", [*list(MMA), ("f32", "f32", "f32")], ids="-".join)
@pytest.mark.parametrize(("arch", "sm"), [("sm_80", 800), ("sm_100", 1000)])
def test_compiles_for_other_architectures(names: tuple[str, str, str], arch: str, sm: int) -> None:
    assert cuda.cubin("gemm.cu", plan(names, sm).defines, arch)[:4] == b"\x7fELF"


def test_the_epilogue_kernel_compiles() -> None:
    for order in (0, 1):
        defines = {"C_FORMAT": 5, "C_COL": order, "ACC_COL": 1 - order}
        assert cuda.cubin("gemm_finish.cu", defines, "sm_90a")[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "names", [("f16", "f16", "f32"), ("f64",) * 3, ("i8", "i8", "i32"), ("f32",) * 3], ids="-".join
)
def test_compiles_complex_and_column_major(names: tuple[str, str, str]) -> None:
    for parts, order in product(("real", "complex"), ("row_major", "col_major")):
        assert cuda.cubin("gemm.cu", plan(names, 900, parts, order).defines, "sm_90a")


@pytest.mark.parametrize("names", MMA, ids="-".join)
def test_tensor_cores_are_used_where_the_precision_has_them(names: tuple[str, str, str]) -> None:
    chosen = plan(names, 900)
    assert chosen.engine == "mma"
    text = cuda.ptx("gemm.cu", chosen.defines, "sm_90a")
    assert f"mma.sync.aligned.{MMA[names]}" in text
    assert ".ftz" not in text


@pytest.mark.parametrize(
    "names", [("f32",) * 3, ("f64", "f64", "f32"), ("f64", "f32", "f16")], ids="-".join
)
def test_plain_kernels_contract_nothing(names: tuple[str, str, str]) -> None:
    text = cuda.ptx("gemm.cu", plan(names, 900).defines, "sm_90a")
    assert ".ftz" not in text
    # The chain itself is written as FMAs; f16 chains and conversions have none of their own.
    assert bool(re.search(r"fma\.rn\.f32", text)) == (names[2] == "f32")
    assert not re.search(r"fma\.rn\.f64", text)


def test_another_generations_bits_come_from_the_plain_kernel() -> None:
    assert plan(("f16", "f16", "f32"), 900).engine == "mma"
    d = (
        gemm.Size(32, 16, 32)
        + gemm.Precision("f16", "f16", "f32")
        + gemm.Function("MM")
        + gemm.SM(800)
        + gemm.Block()
    )
    call = make_call(d, *operands(d)[:2])
    assert kernel_plan.engine(call, 800) == "mma"
    assert kernel_plan.engine(call, 900) == "plain"
