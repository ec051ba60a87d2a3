"""The PyTorch bridge, forward and backward, on the host build."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma.matmul import matmul

torch = pytest.importorskip("torch", reason="torch is not installed")

import gpuemu.torch as bridge  # noqa: E402

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")
BF16 = gpuemu.instruction("v_mfma_f32_32x32x8_bf16", "gfx942")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


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
    y = bridge.linear(x, w, bias, instruction=BF16)
    assert y.shape == (2, 3, 4)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert x.grad is not None
    assert w.grad.shape == w.shape
    assert torch.allclose(
        y.float(), torch.nn.functional.linear(x.float(), w.float(), bias.float()), atol=0.2
    )


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
