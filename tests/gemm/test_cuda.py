"""CUDA against the oracle, bit for bit: every precision, order, class, and guard bytes around every
operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    EnableInputStreaming,
    Function,
    Precision,
    Size,
    Type,
    WithPipeline,
    execute,
    matmul,
    suggest_pipeline,
)

from .problems import PRECISIONS, bits, moderate, operands, random_bits
from .test_tensor_core import CASES, run

pytestmark = pytest.mark.gpu


def describe(names: Any, size: Any, arch: int = 900, parts: str = "real") -> gemm.Descriptor:
    """Return a runnable descriptor."""
    base = Size(*size) + Precision(*names) + Type(parts) + Function("MM") + SM(arch) + Block()
    return base + BlockDim(64)


def device_arch() -> int:
    """Return the architecture of the device, as a descriptor names it."""
    from gpuemu.gemm.device import device_sm

    return device_sm()


SIZES = [(32, 16, 32), (7, 5, 3), (16, 8, 8), (8, 8, 16)]


@pytest.mark.parametrize("names", PRECISIONS, ids="-".join)
@pytest.mark.parametrize("fill", [random_bits, moderate], ids=["raw bits", "moderate"])
def test_cuda_equals_oracle(names: Any, fill: Any) -> None:
    """Tensor cores where they have the descriptor's arithmetic, the plain kernel elsewhere."""
    for seed, size in enumerate(SIZES):
        if names[0] == "f8e4m3fn" and seed == 0:
            continue  # mma.sync of 8-bit floats has no published arithmetic: see the bound below
        d = describe(names, size)
        a, b, c = operands(d, seed, fill)
        execute(d, a, b, c, alpha=3, beta=2, backend="check")


@pytest.mark.parametrize("names", PRECISIONS[:4], ids="-".join)
def test_another_generation_in_software(names: Any) -> None:
    d = describe(names, (32, 16, 32), 800)
    for fill in (random_bits, moderate):
        execute(d, *operands(d, 1, fill), beta=1, backend="check")


@pytest.mark.parametrize("names", [x for x in PRECISIONS if "u" not in "".join(x)], ids="-".join)
def test_complex(names: Any) -> None:
    d = describe(names, (7, 5, 3) if names[0] == "f8e4m3fn" else (32, 16, 32), parts="complex")
    a, b, c = operands(d, 1)
    execute(d, a, b, c, alpha=2 - 1j, beta=-1 + 3j, backend="check")


@pytest.mark.parametrize("orders", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)], ids=str)
@pytest.mark.parametrize(
    "names", [("f16", "f16", "f32"), ("f64",) * 3, ("i8", "i8", "i32")], ids="-".join
)
def test_every_arrangement(orders: tuple[int, ...], names: Any) -> None:
    chosen = [("row_major", "col_major")[i] for i in orders]
    d = describe(names, (32, 24, 32)) + Arrangement(*chosen)  # type: ignore[arg-type]
    execute(d, *operands(d), beta=1, backend="check")


@pytest.mark.parametrize("case", CASES)
def test_device_equals_the_published_model(case: str) -> None:
    """Every generation's golden results: by the tensor cores where they are its own, else in
    software."""
    got, want = run(case, "cuda")
    assert np.array_equal(bits(got), bits(want))


def test_unpublished_8_bit_sums_stay_inside_a_derived_bound() -> None:
    """mma.sync of 8-bit floats on sm_90: whatever the order, every instruction of K = 32 errs by
    less than

    33 terms cut at 13 bits or more below the largest, and a result kept to 13 bits or more (the
    coarsest arithmetic that any generation has): (33 + 1) 2^-13 of the sum of magnitudes.
    """
    d = describe(("f8e4m3fn", "f8e5m2", "f32"), (32, 16, 32), device_arch()) + WithPipeline()
    a, b, _ = operands(d, 1, extents=(64, 32, 128))
    p = suggest_pipeline(d, a, b, depth=1)
    got = p.value.execute(backend="cuda").astype(float)
    wide = a.astype(float), b.astype(float)
    bound = 1.01 * 4 * 34 * 2.0**-13 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(got - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize(
    "names",
    [
        ("f16", "f16", "f32"),
        ("bf16", "bf16", "f32"),
        ("tf32", "tf32", "f32"),
        ("f64",) * 3,
        ("i8", "u8", "i32"),
        ("f32",) * 3,
    ],
    ids="-".join,
)
def test_pipelines_over_a_grid(names: Any) -> None:
    d = describe(names, (64, 64, 32)) + WithPipeline() + Alignment(16, 16, 16)
    d = d.replace(BlockDim(128))
    a, b, c = operands(d, 2, extents=(192, 128, 160))
    p = suggest_pipeline(d, a, b, clamp_depth=True)
    p.value.execute(c, alpha=2, beta=1, backend="check")


def test_wgmma_descriptors_run_with_their_own_arithmetic() -> None:
    gates = WithPipeline() + EnableInputStreaming() + Alignment(16, 16, 16)
    for names in (("f8e4m3fn", "f8e5m2", "f32"), ("f16", "f16", "f32"), ("i8", "i8", "i32")):
        d = (
            Size(64, 16, 32)
            + Precision(*names)
            + Function("MM")
            + SM(900, "arch_specific")
            + Block()
        )
        d = d + gates
        assert d.mma_class == "wgmma"
        a, b, _ = operands(d, 3, extents=(128, 32, 64))
        suggest_pipeline(d, a, b, clamp_depth=True).value.execute(backend="check")


@pytest.mark.parametrize("block", [(32,), (33,), (8, 4, 2), (1024,), (96,)], ids=str)
def test_any_block_size(block: Any) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        d = describe(names, (48, 40, 32)).replace(BlockDim(*block))
        execute(d, *operands(d, 4), beta=1, backend="check")


@pytest.mark.parametrize(
    ("own", "launch"), [((128,), (255,)), ((128,), (196, 2)), ((16, 8), (16, 9)), ((64,), (64, 3))]
)
def test_more_threads_than_block_dim(own: Any, launch: Any) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        d = describe(names, (32, 24, 32)).replace(BlockDim(*own))
        execute(d, *operands(d, 5), beta=1, launch=launch, backend="check")


@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
@pytest.mark.parametrize("names", [("f32",) * 3, ("f16", "f16", "f32"), ("f64",) * 3], ids="-".join)
def test_guards_on_the_device(strategy: str, names: Any) -> None:
    """NaN guards around the operands poison the result if read; guards around the output show
    writes."""
    import cupy

    d = describe(names, (32, 16, 16))
    extents = (48, 24, 24) if strategy == "split" else (45, 19, 21)
    a, b, c = operands(d, 6, extents=extents)
    want = matmul(d, a, b, c, alpha=2, beta=1, ragged=strategy, backend="numpy")

    def guarded(x: Any, guard: float) -> tuple[Any, Any]:
        memory = x.T if x.flags.f_contiguous else x
        buffer = cupy.full((memory.shape[0] + 6, memory.shape[1] + 10), guard, x.dtype)
        view = buffer[3:-3, 5:-5]
        view[...] = cupy.asarray(memory)
        return (view.T if x.flags.f_contiguous else view), buffer

    views = [guarded(x, np.nan)[0] for x in (a, b, c)]
    out, around = guarded(np.asfortranarray(np.zeros(extents[:2], c.dtype)), -7.5)
    assert matmul(d, *views, alpha=2, beta=1, out=out, ragged=strategy, backend="cuda") is out
    assert np.array_equal(bits(out.get()), bits(want))
    edge = around.get()
    edge[3:-3, 5:-5] = -7.5
    assert (edge == -7.5).all()


@pytest.mark.parametrize("strategy", ["pad", "mask", "split"])
def test_out_may_be_an_operand(strategy: str) -> None:
    import cupy

    d = describe(("f32",) * 3, (32, 32, 32)) + Arrangement(*["row_major"] * 3)
    host = operands(d, 11, extents=(150, 150, 150))
    want = matmul(d, *host, beta=2, ragged=strategy, backend="numpy")
    for which in range(3):
        given = [cupy.asarray(x) for x in host]
        out = given[which]
        assert matmul(d, *given, beta=2, out=out, ragged=strategy, backend="cuda") is out
        assert np.array_equal(bits(out.get()), bits(want))


def test_out_of_an_emulated_pipeline_may_overlap_c() -> None:
    import cupy

    d = describe(("f32",) * 3, (64, 64, 32)) + Arrangement(*["row_major"] * 3)
    d = d + WithPipeline() + gemm.RequiredMantissaBits(23)
    a, b, c = operands(d, 12, extents=(512, 512, 64))
    want = suggest_pipeline(d, a, b, depth=1).value.execute(c, beta=2, backend="numpy")
    buffer = cupy.zeros((513, 512), "f4")
    buffer[:-1] = cupy.asarray(c)
    p = suggest_pipeline(d, cupy.asarray(a), cupy.asarray(b), depth=1).value
    p.execute(buffer[:-1], beta=2, out=buffer[1:], backend="cuda")
    assert np.array_equal(bits(buffer[1:].get()), bits(want))


def test_cupy_in_cupy_out_on_the_callers_stream() -> None:
    import cupy

    d = describe(("f16", "f16", "f32"), (32, 16, 32))
    a, b, _ = operands(d, 7)
    with cupy.cuda.Stream() as stream:
        got = execute(d, cupy.asarray(a), cupy.asarray(b, order="F"))
        stream.synchronize()
    assert isinstance(got, cupy.ndarray)
    assert np.array_equal(got.get(), execute(d, a, b, backend="numpy"))


@pytest.mark.parametrize(
    "names", [("f32",) * 3, ("f16",) * 3, ("f8e4m3fn", "f8e5m2", "f32")], ids="-".join
)
def test_complex_operands_in_cupy(names: Any) -> None:
    """8-bit floats as bits, for CuPy has no dtype of them."""
    import cupy

    d = describe(names, (7, 5, 3), parts="complex")
    a, b, c = operands(d, 10)
    want = execute(d, a, b, c, alpha=1j, beta=2, backend="numpy")
    given = [x.view(np.uint8) if x.itemsize == 1 else x for x in (a, b, c)]
    device = [cupy.asarray(x.swapaxes(0, 1)).swapaxes(0, 1) for x in given[1:]]
    got = execute(d, cupy.asarray(given[0]), *device, alpha=1j, beta=2, backend="check")
    assert isinstance(got, cupy.ndarray)
    assert np.array_equal(bits(got.get()), bits(want))


def test_emulated_pipelines_on_the_device() -> None:
    import cupy

    d = Size(32, 16, 16) + Precision("f32") + Function("MM") + SM(900) + Block() + WithPipeline()
    d = d + gemm.RequiredMantissaBits(23)
    a, b, c = operands(d, 8, extents=(64, 32, 64))
    want = suggest_pipeline(d, a, b, depth=1).value.execute(c, alpha=2, beta=-1, backend="numpy")
    device = [cupy.asarray(x, order="K") for x in (a, b, c)]
    p = suggest_pipeline(d, device[0], device[1], depth=1)
    device[0] *= 2  # captured at creation
    got = p.value.execute(device[2], alpha=2, beta=-1)
    assert isinstance(got, cupy.ndarray)
    assert np.array_equal(bits(got.get()), bits(want))


def test_sweep_on_the_device() -> None:
    d = describe(("f32",) * 3, (64, 64, 32))
    a, b, _ = operands(d, 9, extents=(256, 256, 128))
    table = gemm.sweep(d, a, b, free=("precision",), progress=False, backend="cuda")
    assert table.backend == "cuda"
    assert [row.registers_source for row in table.rows] == ["kernel"] * 4
    assert all(row.seconds and row.error is not None for row in table.rows)
