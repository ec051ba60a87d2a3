"""The PyTorch bridge, forward and backward, on the host build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma.matmul import matmul

torch = pytest.importorskip("torch", reason="torch is not installed")

import gpuemu.torch as bridge  # noqa: E402

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")
BF16 = gpuemu.instruction("v_mfma_f32_32x32x8_bf16", "gfx942")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def numpy_product(a: Any, b: Any) -> Any:
    """Return the oracle's product of bfloat16 tensors, as a float32 tensor."""
    images = [x.detach().cpu().contiguous().view(torch.int16).numpy() for x in (a, b)]
    bits = [x.view(np.uint16) for x in images]
    return torch.from_numpy(matmul(*bits, instruction=BF16, bits=True, backend="numpy"))


@pytest.mark.parametrize("device", DEVICES)
def test_forward_and_backward_are_the_products(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b, g = (rng.standard_normal(s).astype(np.float16) for s in ((7, 20), (20, 5), (7, 5)))
    ta = torch.tensor(a, device=device, requires_grad=True)
    tb = torch.tensor(b, device=device, requires_grad=True)
    y = bridge.matmul(ta, tb, instruction=F16)
    assert y.dtype == torch.float32
    assert np.array_equal(y.detach().cpu().numpy(), matmul(a, b, instruction=F16, backend="numpy"))
    y.backward(torch.tensor(g, device=device).float())
    want_a = matmul(g, b.T, instruction=F16, backend="numpy").astype(np.float16)
    want_b = matmul(a.T, g, instruction=F16, backend="numpy").astype(np.float16)
    assert np.array_equal(ta.grad.cpu().numpy(), want_a)
    assert np.array_equal(tb.grad.cpu().numpy(), want_b)


@pytest.mark.parametrize("device", DEVICES)
def test_linear(device: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, device=device).bfloat16().requires_grad_()
    w = torch.randn(4, 16, device=device).bfloat16().requires_grad_()
    bias = torch.randn(4, device=device).bfloat16()
    g = torch.randn(2, 3, 4, device=device).bfloat16()
    y = bridge.linear(x, w, bias, instruction=BF16)
    y.backward(g)
    rows, gradient = x.detach().reshape(6, 16), g.reshape(6, 4)
    product = numpy_product(rows, w.detach().T).bfloat16().to(device)
    assert torch.equal(y.reshape(6, 4), product + bias)
    assert torch.equal(x.grad.reshape(6, 16).cpu(), numpy_product(gradient, w).bfloat16())
    # The transpose is what autograd turns back into the weight's own order.
    assert torch.equal(w.grad.T.cpu(), numpy_product(rows.T, gradient).bfloat16())


def test_dtype_is_checked() -> None:
    with pytest.raises(gpuemu.errors.BadType, match="takes f16"):
        bridge.matmul(torch.zeros(2, 2), torch.zeros(2, 2), instruction=F16)


def test_operator_is_registered_correctly() -> None:
    a = torch.randn(3, 4).half().requires_grad_()
    b = torch.randn(4, 2).half().requires_grad_()
    torch.library.opcheck(
        torch.ops.gpuemu.matmul.default, (a, b, F16.mnemonic, F16.arch, "host"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )  # fmt: skip
