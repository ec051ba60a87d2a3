"""The door: broadcasting, strides, kinds of arrays, check mode, untouched inputs, and errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu
from gpuemu import dispatch, errors
from gpuemu.backends import cuda, host
from gpuemu.mfma import batch as batches
from gpuemu.mfma import device, oracle
from gpuemu.mfma.modifiers import Modifiers
from tests.mfma.cases import assert_same, inputs

I = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")  # noqa: E741
BACKENDS = [
    "numpy",
    pytest.param("host", marks=pytest.mark.skipif(not host.available(), reason="no C++ compiler")),
]


def images(*lead: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(seed)
    halves = rng.standard_normal((2, *lead, 2, 64, 2)).astype(np.float16)
    c = rng.standard_normal((*lead, 4, 64)).astype(np.float32)
    a, b = (np.ascontiguousarray(x).view(np.uint32)[..., 0] for x in halves)
    return a, b, c.view(np.uint32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_leading_shapes_broadcast(backend: str) -> None:
    a, b, c = images(3, 5)
    want = gpuemu.execute(
        I, a, np.broadcast_to(b[:, :1], a.shape), np.broadcast_to(c[0, 0], c.shape), backend="numpy"
    )
    got = gpuemu.execute(I, a, b[:, :1], c[0, 0], backend=backend)
    assert got.shape == (3, 5, 4, 64)
    assert_same(I, got, want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.transpose(1, 0, 2, 3),
        lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
        lambda x: x[:, :, :, ::-1],
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0)[..., 1],
        lambda x: np.broadcast_to(x[:1, :1], x.shape),
        lambda x: x.reshape(2, 2, 3, *x.shape[2:]).transpose(2, 0, 1, 3, 4),
    ],
    ids=[
        "step",
        "reversed",
        "transposed",
        "lane-major",
        "lanes-reversed",
        "overlapping",
        "broadcast",
        "three-dims",
    ],
)
def test_any_strides(backend: str, view: Any) -> None:
    a, b, c = (view(x) for x in images(4, 3))
    dense = [np.ascontiguousarray(x) for x in (a, b, c)]
    assert_same(
        I, gpuemu.execute(I, a, b, c, backend=backend), gpuemu.execute(I, *dense, backend="numpy")
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lead", [(), (0,), (3, 0), (1, 1, 1)])
def test_any_leading_shape(backend: str, lead: tuple[int, ...]) -> None:
    assert gpuemu.execute(I, *images(*lead), backend=backend).shape == (*lead, 4, 64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_are_not_modified(backend: str) -> None:
    for name in ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16bf16_1k", "v_mfma_f64_16x16x4f64"):
        i = gpuemu.instruction(name, "gfx90a")
        x = inputs(i, Modifiers(), 2)
        before = {name: image.copy() for name, image in x.items()}
        for image in x.values():
            image.flags.writeable = False
        gpuemu.execute(i, **x, backend=backend)
        assert all((before[name] == image).all() for name, image in x.items())


def test_matrix_call_equals_registers() -> None:
    a, b, c = images()
    D = I(I.unpack("A", a), I.unpack("B", b), I.unpack("C", c), backend="numpy")
    assert D.dtype == np.float32 and D.shape == (1, 16, 16)
    assert (I.pack("D", D) == gpuemu.execute(I, a, b, c, backend="numpy")).all()


def test_matrix_call_takes_matrices_without_blocks_and_zeros_for_c() -> None:
    A, B = np.eye(16, dtype=np.float16), np.arange(256, dtype=np.float16).reshape(16, 16)
    assert (I(A, B, backend="numpy")[0] == B).all()


def test_matrix_call_wants_dtypes_unless_bits() -> None:
    i = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
    ones = np.full((1, 16, 32), 0x40, np.uint8)
    with pytest.raises(errors.BadType, match="only with bits=True"):
        i(ones, ones.transpose(0, 2, 1))
    assert i(ones, ones.transpose(0, 2, 1), bits=True, backend="numpy")[0, 0, 0] == 32
    with pytest.raises(errors.BadType, match="float8_e4m3fn; f8e4m3fnuz wants"):
        i(ones.view(ml_dtypes.float8_e4m3fn), ones.transpose(0, 2, 1))


def test_the_same_bytes_are_other_numbers_on_another_chip() -> None:
    bytes_ = np.full((1, 16, 32), 0x38, np.uint8)
    results = [
        float(
            gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", arch)(
                bytes_, bytes_.transpose(0, 2, 1), bits=True, backend="numpy"
            )[0, 0, 0]
        )
        for arch in ("gfx942", "gfx950")
    ]
    assert results == [8.0, 32.0]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"a": np.zeros((2, 64), np.int64)}, errors.BadType, "registers of a have dtype int64"),
        ({"a": np.zeros((4, 64), np.uint32)}, errors.BadShape, r"wants \(..., 2, 64\)"),
        ({"c": np.zeros((2, 64), np.uint32)}, errors.BadShape, r"wants \(..., 4, 64\)"),
        (
            {"b": np.zeros((3, 2, 64), np.uint32), "a": np.zeros((2, 2, 64), np.uint32)},
            errors.BadShape,
            "do not broadcast",
        ),
        ({"a": None}, errors.BadType, "a is missing"),
        ({"idx": np.zeros((1, 64), np.uint32)}, errors.BadType, "idx is given"),
        ({"a": [1, 2]}, errors.BadType, "a NumPy or CuPy array"),
        ({"backend": "gpu"}, errors.BadValue, "legal: one of auto, cuda, host, numpy, check"),
        ({"backend": 1}, errors.BadType, "legal: one of auto"),
        ({"instruction": "v_mfma_f32_16x16x16_f16"}, errors.BadType, "what gpuemu.instruction"),
    ],
)
def test_bad_input(change: dict[str, Any], error: type[Exception], text: str) -> None:
    a, b, c = images()
    with pytest.raises(error, match=text):
        gpuemu.execute(**({"instruction": I, "a": a, "b": b, "c": c, "backend": "numpy"} | change))


@pytest.mark.skipif(cuda.available(), reason="a CUDA device is there")
def test_cuda_without_device_says_why_and_auto_takes_numpy() -> None:
    with pytest.raises(errors.BackendUnavailable, match="backend 'cuda' is not available: "):
        gpuemu.execute(I, *images(), backend="cuda")
    assert dispatch.resolve("auto") == "numpy"


def test_host_without_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "compiler", lambda: None)
    with pytest.raises(errors.BackendUnavailable, match=r"no C\+\+ compiler found"):
        gpuemu.execute(I, *images(), backend="host")
    assert gpuemu.execute(I, *images(), backend="numpy").shape == (4, 64)


@pytest.mark.skipif(not host.available(), reason="no C++ compiler")
def test_check_compares_and_points_at_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = images(2)
    assert_same(
        I, gpuemu.execute(I, a, b, c, backend="check"), gpuemu.execute(I, a, b, c, backend="numpy")
    )
    true = oracle.execute

    def wrong(*args: Any) -> Any:
        d = true(*args)
        d[1, 2, 33] ^= 1
        return d

    monkeypatch.setattr(oracle, "execute", wrong)
    with pytest.raises(
        errors.Mismatch,
        match=r"wavefront \(1,\), VGPR 2, lane 33: \w+ [0-9A-F]{8}, oracle [0-9A-F]{8}",
    ):
        gpuemu.execute(I, a, b, c, backend="check")


def test_strides_are_expressed_without_copies_where_two_dimensions_suffice() -> None:
    x = images(4, 3)[0]
    kept, _ = batches.prepare(
        I,
        Modifiers(),
        device.Operands(x[::2], x.transpose(1, 0, 2, 3)[:, :2].transpose(1, 0, 2, 3), x[0, 0]),
        (2, 3),
    )
    assert all(np.shares_memory(part, x) for part in kept[:3])


def test_dlpack_tensors_come_back_as_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    a, b, c = (torch.from_numpy(x.view(np.int32)) for x in images(2))
    d = gpuemu.execute(I, a, b, c, backend="numpy")
    assert isinstance(d, torch.Tensor) and d.dtype == torch.int32
    assert (d.numpy().view(np.uint32) == gpuemu.execute(I, *images(2), backend="numpy")).all()
    A = torch.ones(1, 16, 16, dtype=torch.bfloat16)
    i = gpuemu.instruction("v_mfma_f32_16x16x16_bf16", "gfx942")
    assert i(A, A, backend="numpy").dtype == torch.float32


def test_jax_arrays_come_back_as_arrays() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    a, b, c = (jax.numpy.asarray(x) for x in images(2))
    d = gpuemu.execute(I, a, b, c, backend="numpy")
    assert isinstance(d, jax.Array)
    assert (np.asarray(d) == gpuemu.execute(I, *images(2), backend="numpy")).all()
