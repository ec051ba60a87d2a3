"""The host build against the oracle, bit for bit: every precision, class, storage order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import GpuemuError, Mismatch
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    EnableInputStreaming,
    Type,
    WithPipeline,
    device,
    execute,
)
from gpuemu.gemm.call import make_call

from .problems import (
    PRECISIONS,
    ROWS,
    bits,
    describe,
    moderate,
    needs_host,
    operands,
    random_bits,
)


@needs_host
@pytest.mark.parametrize("names", PRECISIONS, ids="-".join)
@pytest.mark.parametrize("arch", [800, 890, 900])
@pytest.mark.parametrize("fill", [random_bits, moderate], ids=["raw bits", "moderate"])
def test_host_equals_oracle(names: Any, arch: int, fill: Any) -> None:
    for seed, size in enumerate(((16, 8, 32), (7, 5, 3), (16, 8, 8))):
        d = describe(names, size, SM(arch))
        a, b, c = operands(d, seed, fill)
        execute(d, a, b, backend="check")
        execute(d, a, b, c, alpha=3, beta=2, backend="check")


@needs_host
@pytest.mark.parametrize("names", [x for x in PRECISIONS if "u" not in "".join(x)], ids="-".join)
def test_complex_host_equals_oracle(names: Any) -> None:
    for seed, size in enumerate(((16, 8, 32), (3, 5, 7))):
        d = describe(names, size, Type("complex"))
        a, b, c = operands(d, seed, random_bits if seed else moderate)
        execute(d, a, b, backend="check")
        execute(d, a, b, c, alpha=2 - 1j, beta=-1 + 3j, backend="check")
        execute(d, a, b, c, alpha=2, beta=3, backend="check")


@needs_host
def test_wgmma_descriptors_add_as_wgmma_does() -> None:
    gates = WithPipeline() + EnableInputStreaming() + Alignment(16, 16, 16)
    for names in (
        ("f8e4m3fn", "f8e5m2", "f32"),
        ("f8e4m3fn", "f8e4m3fn", "f16"),
        ("f16", "f16", "f32"),
    ):
        d = describe(names, (64, 8, 32), SM(900, "arch_specific")) + gates
        assert d.mma_class == "wgmma"
        p = gemm.suggest_pipeline(d, *operands(d)[:2], clamp_depth=True)
        assert p
        p.value.execute(backend="check")


@needs_host
@pytest.mark.parametrize("orders", list(np.ndindex(2, 2, 2)), ids=str)
def test_every_arrangement_and_leading_dimension(orders: tuple[int, ...]) -> None:
    chosen = [("row_major", "col_major")[i] for i in orders]
    d = describe(("f32",) * 3, (5, 7, 3)) + Arrangement(*chosen)  # type: ignore[arg-type]
    plain = operands(d)
    want = execute(d, *plain, beta=1, backend="numpy")
    strided = []
    for x, order in zip(plain, chosen, strict=True):
        memory = x.T if order == "col_major" else x
        wide = np.full((memory.shape[0], memory.shape[1] + 3), np.nan, x.dtype)
        view = wide[:, : memory.shape[1]]
        view[...] = memory
        strided.append(view.T if order == "col_major" else view)
    for backend in ("numpy", "host"):
        got = execute(d, *strided, beta=1, backend=backend)
        assert got.flags.f_contiguous == (chosen[2] == "col_major")
        assert np.array_equal(bits(got), bits(want))


@needs_host
def test_check_finds_a_wrong_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = device.run_host

    def broken(*args: Any) -> Any:
        result = real(*args)
        result.memory.view(np.uint32)[0, 1] ^= 1
        return result

    monkeypatch.setattr(device, "run_host", broken)
    d = describe(("f32",) * 3, (4, 4, 4)) + ROWS
    with pytest.raises(
        Mismatch,
        match=r"differ in 1 of 16 elements; first at C\[0, 1\]: [0-9A-F]{8}, oracle .*; repeat",
    ):
        execute(d, *operands(d)[:2], backend="check")


@needs_host
def test_a_kind_of_sum_that_c_does_not_have() -> None:
    call = make_call(describe(("i8", "i8", "i32")), *operands(describe(("i8", "i8", "i32")))[:2])
    with pytest.raises(GpuemuError, match=r"the host build refused Arithmetic.*fused.* with C of "):
        device.run_host(replace(call, how=replace(call.how, kind="fused")))
