"""The whole CUDA path, from the caller's arrays to the result, on CPU threads under the sanitizers
(see cuda_on_threads.py), against the oracle: no GPU needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import host
from gpuemu.errors import BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    Function,
    Precision,
    Size,
    Type,
    execute,
    kernel_plan,
)
from gpuemu.gemm.call import make_call
from gpuemu.gemm.execute import compute

from . import cuda_on_threads
from .cuda_on_threads import SHARED, Array, asarray
from .problems import bits, operands, random_bits

pytestmark = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())


def check(
    d: gemm.Descriptor,
    patch: pytest.MonkeyPatch,
    extents: Any = None,
    sm: int = 900,
    launched: Any = None,
    shared: int = SHARED,
    sanitizer: str = "address,undefined",
) -> kernel_plan.Plan:
    """Compare one product with the oracle; return the kernel that computed it."""
    cuda_on_threads.install(patch, sm, shared, sanitizer)
    for options in ({}, {"fill": random_bits}):
        call = make_call(d, *operands(d, 1, extents=extents, **options), alpha=2, beta=1)
        compute(call, "check", launch=launched)
    return kernel_plan.plan(call, sm, shared, launched)


def describe(names: Any, size: Any, threads: Any = (64,), sm: int = 900) -> gemm.Descriptor:
    base = Size(*size) + Precision(*names) + Function("MM") + SM(sm) + Block()
    return base + BlockDim(*threads)


# Every fragment layout: one and two row halves, one and two word groups along k, and f64.
LAYOUTS = [
    (("f16", "f16", "f32"), (32, 16, 16), "m16n8k16"),
    (("f16", "f16", "f32"), (16, 8, 8), "m16n8k8"),
    (("f16", "f16", "f16"), (32, 16, 16), "m16n8k16"),
    (("f16", "f16", "f16"), (16, 8, 8), "m16n8k8"),
    (("bf16", "bf16", "f32"), (32, 16, 16), "m16n8k16"),
    (("tf32", "tf32", "f32"), (16, 16, 8), "m16n8k8"),
    (("tf32", "tf32", "f32"), (16, 16, 4), "m16n8k4"),
    (("i8", "u8", "i32"), (32, 16, 32), "m16n8k32"),
    (("i8", "u8", "i32"), (16, 8, 16), "m16n8k16"),
    (("i8", "i8", "i32"), (8, 16, 16), "m8n8k16"),
    (("f64", "f64", "f64"), (16, 16, 16), "m8n8k4"),
    (("f8e4m3fn", "f8e5m2", "f32"), (16, 8, 32), "m16n8k32"),
]


@pytest.mark.parametrize(("names", "size", "shape"), LAYOUTS)
def test_tensor_core_kernels(
    names: Any, size: Any, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, n, k = size
    plan = check(describe(names, size), monkeypatch, (m + 3, n + 5, 5 * k))
    assert plan.engine == "mma"
    assert plan.defines["MMA_SHAPE"] == shape


@pytest.mark.parametrize(
    "names", [("f32",) * 3, ("f16", "f16", "f16"), ("f64", "f64", "f32"), ("u8", "u8", "u32")]
)
def test_plain_kernels(names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = check(describe(names, (13, 11, 7), (40,)), monkeypatch, (17, 25, 50))
    assert plan.engine == "plain"


def test_another_generation_in_software(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = check(describe(("f16", "f16", "f32"), (16, 8, 16), sm=800), monkeypatch, (20, 9, 48))
    assert plan.engine == "plain"


@pytest.mark.parametrize(
    "orders", [("row_major", "col_major", "row_major"), ("col_major", "row_major", "col_major")]
)
@pytest.mark.parametrize("parts", ["real", "complex"])
def test_orders_and_complex(orders: Any, parts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        d = describe(names, (16, 8, 16)) + Arrangement(*orders) + Type(parts)
        check(d, monkeypatch, (19, 11, 32))


@pytest.mark.parametrize(
    "names",
    [("f8e4m3fn", "f8e5m2", "f32"), ("bf16", "tf32", "f16"), ("f64", "f32", "f16")],
    ids="-".join,
)
def test_complex_operands_with_and_without_a_dtype(
    names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda_on_threads.install(monkeypatch)
    d = describe(names, (7, 5, 3)) + Type("complex")
    execute(d, *operands(d, 1), alpha=2 - 1j, beta=-1 + 3j, backend="check")


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("f32",) * 3, "complex"),
        (("f16",) * 3, "complex"),
        (("f8e4m3fn", "f8e5m2", "f32"), "real"),
        (("f8e4m3fn", "f8e5m2", "f32"), "complex"),
    ],
)
def test_device_arrays_are_used_where_they_lie(
    names: Any, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operands and output amid wider memory; 8-bit floats as bits, for CuPy has no dtype of
    them."""
    cuda_on_threads.install(monkeypatch)
    d = describe(names, (7, 5, 3)) + Type(parts)

    def amid(x: Any) -> tuple[Array, Array]:
        by_column = x.strides[0] < x.strides[1]
        memory = x.swapaxes(0, 1) if by_column else x
        if x.dtype.itemsize == 1:
            memory = memory.view(np.uint8)
        outer, inner, *rest = memory.shape
        around = np.full((outer + 3, inner + 4, *rest), 93, memory.dtype)
        around[1:-2, 3:-1] = memory
        wide = asarray(around)
        inside = wide[1:-2, 3:-1]
        return (inside.swapaxes(0, 1) if by_column else inside), wide

    a, b, c = operands(d, 2)
    want = execute(d, a, b, c, alpha=3, beta=2, backend="numpy")
    left, right, old = (amid(x)[0] for x in (a, b, c))
    out, around = amid(c)
    assert execute(d, left, right, old, alpha=3, beta=2, out=out) is out
    assert np.array_equal(bits(out.get()), bits(want))
    edge = around.get()
    edge[1:-2, 3:-1] = 93
    assert (edge == 93).all()
    got = execute(d, left, right, old, alpha=3, beta=2, backend="check")
    assert isinstance(got, Array)
    assert np.array_equal(bits(got.get()), bits(want))


def test_out_may_be_an_operand_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_on_threads.install(monkeypatch)
    d = describe(("f32",) * 3, (16, 16, 16), (32,))
    a, b, c = operands(d, 2)
    want = execute(d, a, b, c, beta=2, backend="numpy")
    for which in (1, 2):  # B and C have the storage order of the result
        given = [asarray(x) for x in (a, b, c)]
        out = given[which]
        assert execute(d, *given, beta=2, out=out, backend="check") is out
        assert np.array_equal(bits(out.get()), bits(want))


def test_sixteen_byte_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    d = describe(("f16", "f16", "f32"), (32, 16, 32)) + Alignment(16, 16, 16)
    plan = check(d, monkeypatch, (45, 19, 160))
    assert plan.defines["VECTOR"] == 1


@pytest.mark.parametrize(
    ("names", "shared", "stages"),
    [
        (("f16", "f16", "f32"), 3 * 48 * 48, 3),
        (("f16", "f16", "f32"), 2 * 48 * 48, 2),
        (("f16", "f16", "f32"), 48 * 48, 1),
        (("f32",) * 3, 48 * 8, 1),
    ],
)
def test_less_shared_memory_means_fewer_stages(
    names: Any, shared: int, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = describe(names, (32, 16, 16))
    plan = check(d, monkeypatch, (37, 17, 80), shared=shared)
    assert plan.defines["STAGES"] == stages
    assert plan.shared_bytes <= shared
    a, b, _ = operands(d)
    least = 48 * 48 if stages > 1 or names[0] == "f16" else 48 * 8
    with pytest.raises(
        BadValue, match=rf"needs {least} bytes of shared memory here; the device has {least - 1}"
    ):
        kernel_plan.plan(make_call(d, a, b), 900, least - 1)


def test_more_threads_than_block_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        check(describe(names, (16, 16, 16), (8, 4, 2)), monkeypatch, launched=(8, 4, 3))
        check(describe(names, (16, 16, 16), (32,)), monkeypatch, launched=(50, 1, 1))


@pytest.mark.parametrize("names", [("f16", "f16", "f32"), ("f32",) * 3], ids="-".join)
@pytest.mark.parametrize("shared", [SHARED, 2048], ids=["ring", "one stage"])
def test_no_data_race(names: Any, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    d = describe(names, (16, 16, 16), (32,))
    check(d, monkeypatch, (16, 16, 160), shared=shared, sanitizer="thread")
