"""CUDA against the oracle on a device: every row, every modifier, a million outputs a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.backends import cuda
from gpuemu.difftest import generators
from gpuemu.mfma.modifiers import Modifiers
from tests.mfma.cases import ROWS, assert_same, inputs, options, row_parameters, sweep

pytestmark = pytest.mark.gpu

OUTPUTS = 1 << 20  # compared for every model
ROWS_OF_MODEL = {i.model: sum(j.model == i.model for j in ROWS) for i in ROWS}


@row_parameters()
def test_a_million_outputs_of_every_class(i: gpuemu.Instruction) -> None:
    wavefront = i.blocks * i.M * i.N * len(generators.classes_for(i))
    count = -(-OUTPUTS // (ROWS_OF_MODEL[i.model] * wavefront))
    x = inputs(i, Modifiers(), count)
    assert_same(i, gpuemu.execute(i, **x, backend="cuda"), gpuemu.execute(i, **x, backend="numpy"))


@row_parameters()
def test_every_modifier(i: gpuemu.Instruction) -> None:
    for m in sweep(i):
        x = inputs(i, m, 1, ("unique", "raw"))
        got = gpuemu.execute(i, **x, **options(m), backend="cuda")
        assert_same(i, got, gpuemu.execute(i, **x, **options(m), backend="numpy"), str(m))


I = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")  # noqa: E741


def images(count: int) -> dict[str, Any]:
    return inputs(I, Modifiers(), count, ("normal",))


def test_cupy_in_cupy_out_on_the_callers_stream() -> None:
    import cupy

    x = {name: cupy.asarray(v) for name, v in images(64).items()}
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        d = gpuemu.execute(I, **x)
    stream.synchronize()
    assert isinstance(d, cupy.ndarray)
    assert_same(I, d.get(), gpuemu.execute(I, **images(64), backend="numpy"))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.reshape(4, 4, 4, *x.shape[1:]).transpose(2, 0, 1, 3, 4),
        lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    ],
)
def test_any_strides(view: Any) -> None:
    import cupy

    host = {name: view(v) for name, v in images(64).items()}
    device = {name: view(cupy.asarray(v)) for name, v in images(64).items()}
    assert_same(I, gpuemu.execute(I, **device).get(), gpuemu.execute(I, **host, backend="numpy"))


def test_torch_tensors_on_the_device() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = {name: torch.from_numpy(v.view(np.int32)).cuda() for name, v in images(8).items()}
    d = gpuemu.execute(I, **x)
    assert d.is_cuda and d.dtype == torch.int32
    assert_same(I, d.cpu().numpy().view(np.uint32), gpuemu.execute(I, **images(8), backend="numpy"))


def test_own_models_on_the_device() -> None:
    from tests.mfma.test_models import OWN_MODELS

    for i, model in OWN_MODELS:
        x = inputs(i, Modifiers(), 2)
        got = gpuemu.execute(i, **x, model=model, backend="cuda")
        assert_same(i, got, gpuemu.execute(i, **x, model=model, backend="numpy"), str(model))


def test_subnormals_survive_the_compiler() -> None:
    """In, out, and as the accumulator: what CuPy's own compile options would flush."""
    for name, arch in (
        ("v_mfma_f32_16x16x4_f32", "gfx942"),
        ("v_mfma_f32_16x16x16_bf16", "gfx942"),
        ("v_mfma_f32_16x16x8bf16", "gfx908"),
    ):
        i = gpuemu.instruction(name, arch)
        A = np.zeros(i.shape("A"), np.float32)
        A[..., 0] = 2.0**-130
        B = np.ones(i.shape("B"), np.float32)
        C = np.full(i.shape("C"), 2.0**-140, np.float32)
        D = i(
            A.astype(i.operand_format("A").dtype),
            B.astype(i.operand_format("B").dtype),
            C,
            backend="cuda",
        )
        assert (D == 2.0**-130 + 2.0**-140).all()


def test_check_mode_runs_on_the_device() -> None:
    gpuemu.execute(I, **images(4), backend="check")


def test_kernels_refuse_python_numbers() -> None:
    kernel = next(iter(cuda._loaded.values()))
    with pytest.raises(errors.BadType, match="a NumPy scalar or struct"):
        kernel((1,), (1,), (1.5,))
