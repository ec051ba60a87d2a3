"""What is refused before a product is computed, and what `backend="check"` says of a wrong bit."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.backends import cuda, host
from gpuemu.mfma import matmul_compute, matmul_tuned, panels, repeats
from gpuemu.mfma.matmul import matmul
from gpuemu.mfma.matmul_device import Chain
from gpuemu.mfma.modifiers import check

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")


@pytest.mark.skipif(not host.available(), reason=host.why_unavailable())
def test_check_says_where_the_first_wrong_bit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    real = matmul_compute.matmul_device.run_host

    def broken(*args: Any) -> None:
        real(*args)
        args[-1].reshape(-1)[7] += 1

    monkeypatch.setattr(matmul_compute.matmul_device, "run_host", broken)
    A, B = np.ones((3, 8), np.float16), np.ones((8, 5), np.float16)
    with pytest.raises(errors.Mismatch) as raised:
        matmul(A, B, instruction=F16, backend="check")
    said = str(raised.value)
    assert "host and the oracle differ in 1 of 15 outputs; first: (1, 2): host 41000001, " in said
    assert "oracle 41000000. Repeat with the same matrices: gpuemu.matmul(A, B, C, " in said


@pytest.mark.parametrize(
    ("devices", "kind", "message"),
    [
        ([], errors.BadValue, r"devices=\[\]; legal: at least one of 0..1"),
        ([0, 2], errors.BadValue, r"2.*legal.*0..1"),
        ([-1], errors.BadValue, "-1"),
        ([True], errors.BadType, "bool"),
        ([0.0], errors.BadType, "float"),
        ([1, 0, 1], errors.BadValue, r"devices=\[1, 0, 1\] names one twice"),
    ],
)
def test_devices(
    monkeypatch: pytest.MonkeyPatch, devices: Any, kind: type[Exception], message: str
) -> None:
    two: Any = ModuleType("cupy")
    two.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 2))
    monkeypatch.setitem(sys.modules, "cupy", two)
    with pytest.raises(kind, match=message):
        panels.check_devices(devices)
    assert panels.check_devices([np.int64(1), 0]) == [1, 0]


def test_models_without_a_tuned_kernel() -> None:
    """A model of the user's own runs on the plain kernel where no tuned one has its parameters."""
    own = gpuemu.models()[F16.model]
    for model, tuned in (
        (own, True),
        (dataclasses.replace(own, name="n", output_rounding="zero"), False),
        (dataclasses.replace(own, name="n", product_rounding="up"), False),
    ):
        chain = Chain(F16, model, check(F16))
        assert (matmul_tuned.plan(chain) is not None) == tuned


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what stands for a machine of CUDA devices, the first of them current."""
    cupy: Any = ModuleType("cupy")
    cupy.ndarray, cupy.asarray = OnDevice, lambda x: OnDevice(x, 0)
    cupy.cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0),
        runtime=SimpleNamespace(memGetInfo=lambda: (1000, 2000), getDevice=lambda: 0),
    )
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "")
    return cupy  # type: ignore[no-any-return]


class OnDevice:
    """What stands for an array of a CUDA device."""

    __module__ = "cupy"

    def __init__(self, memory: Any, device: int) -> None:
        self.memory, self.device = memory, SimpleNamespace(id=device)
        self.dtype, self.shape, self.strides = memory.dtype, memory.shape, memory.strides
        self.__cuda_array_interface__ = memory.__array_interface__

    def get(self) -> Any:
        return self.memory


@pytest.mark.usefixtures("device")
def test_check_of_a_product_that_outgrows_the_device() -> None:
    A, B = np.ones((16, 16), np.float16), np.ones((16, 16), np.float16)
    message = (
        "the matrices take 2048 bytes, which do not fit into the device's free memory; legal with "
        "backend 'check': fewer rows or columns a call; backend 'cuda' computes it in panels"
    )
    with pytest.raises(errors.BadValue, match=message):
        matmul(A, B, instruction=F16, backend="check")
    with pytest.raises(errors.BadValue, match=r"devices=\[0\] with backend 'check'; legal"):
        matmul(A, B, instruction=F16, backend="check", devices=[0])


@pytest.mark.usefixtures("device")
def test_panels_take_arrays_of_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(product: Any, operands: dict[str, Any], *_: Any) -> Any:
        assert operands["A"].tobytes() == A.tobytes() and operands["B"].tobytes() == B.tobytes()
        return np.zeros((3, 5), np.float32)

    monkeypatch.setattr(panels, "run", run)
    A, B = np.ones((3, 8), np.float16), np.full((8, 5), 2, np.float16)
    there = OnDevice(A, 1), OnDevice(B, 0)
    assert isinstance(matmul(*there, instruction=F16, devices=[0, 1]), OnDevice)
    with pytest.raises(errors.BadValue, match=r"matrix A of .* lies on CUDA device 1"):
        matmul(*there, instruction=F16)


@pytest.mark.usefixtures("device")
def test_a_repeated_call_has_its_operands_where_they_were() -> None:
    x = np.zeros((4, 64), np.uint32)
    keys = {
        repeats.key(
            F16, tuple(OnDevice(x, d) for d in devices), (0, 0, 0), ("strict", "auto"), None
        )
        for devices in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    }
    assert len(keys) == 4 and None not in keys
