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
from gpuemu.backends import host
from gpuemu.mfma import matmul_compute, matmul_tuned, panels
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
