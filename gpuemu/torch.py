"""PyTorch bridge: matrix products on another chip's arithmetic, with gradients.

`matmul` and `linear` are a custom operator with autograd: forward and both backward products run
as chains of one matrix instruction, so that training sees the other chip's rounding throughout.
PyTorch is imported here only; install it with `pip install 'gpuemu[torch]'`.
"""

from __future__ import annotations

from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError(f"{error}; gpuemu.torch needs it: pip install 'gpuemu[torch]'") from None

from .backends import host
from .errors import BadType
from .mfma.instructions import Instruction, instruction
from .mfma.matmul import matmul as product

_DTYPES = {
    "f32": torch.float32,
    "xf32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}


@torch.library.custom_op("gpuemu::matmul", mutates_args=())  # type: ignore[untyped-decorator]
def _matmul(
    a: torch.Tensor, b: torch.Tensor, mnemonic: str, arch: str, backend: str
) -> torch.Tensor:
    found = instruction(mnemonic, arch)
    # Host tensors do not choose CUDA: "auto" stays where the data is.
    if backend == "auto" and not a.is_cuda:
        backend = "host" if host.available() else "numpy"
    result: torch.Tensor = product(a, b, instruction=found, backend=backend)
    return result


@_matmul.register_fake  # type: ignore[untyped-decorator]
def _(a: torch.Tensor, b: torch.Tensor, mnemonic: str, arch: str, backend: str) -> torch.Tensor:
    out = _DTYPES[instruction(mnemonic, arch).formats["D"]]
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*lead, a.shape[-2], b.shape[-1]), dtype=out)


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, *ctx.options = inputs
    ctx.save_for_backward(a, b)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    g = gradient.to(a.dtype)
    to_a = _matmul(g, b.transpose(-1, -2), *ctx.options) if ctx.needs_input_grad[0] else None
    to_b = _matmul(a.transpose(-1, -2), g, *ctx.options) if ctx.needs_input_grad[1] else None
    return _summed(to_a, a), _summed(to_b, b), None, None, None


def _summed(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """Return a gradient summed over the batch dimensions that were broadcast, in the operand's
    dtype.
    """
    if gradient is None:
        return None
    return gradient.sum_to_size(like.shape).to(like.dtype)


_matmul.register_autograd(_backward, setup_context=_save)


def matmul(
    a: torch.Tensor, b: torch.Tensor, *, instruction: Instruction, backend: str = "auto"
) -> torch.Tensor:
    """Return a @ b as a chain of one instruction computes it, differentiable.

    Parameters
    ----------
    a, b : tensor (..., M, K) and (..., K, N)
        Of the instruction's dtype: float16, bfloat16, float32 or float64.
    instruction : Instruction
    backend : "auto", "cuda", "host", "numpy" or "check"
        "auto": CUDA for CUDA tensors, else the host build, else NumPy.

    Returns
    -------
    tensor (..., M, N)
        Of the accumulator's dtype.

    Raises
    ------
    BadType
        For dtypes that the instruction does not take.
    """
    for name, x in (("a", a), ("b", b)):
        fmt = instruction.formats[name.upper()]
        if fmt not in _DTYPES or x.dtype != _DTYPES[fmt]:
            raise BadType(
                f"{name} has dtype {x.dtype}; {instruction.mnemonic} ({instruction.arch}) takes "
                f"{fmt}, and the bridge "
                f"knows {', '.join(_DTYPES)}"
            )
    result: torch.Tensor = _matmul(a, b, instruction.mnemonic, instruction.arch, backend)
    return result


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    instruction: Instruction,
    backend: str = "auto",
) -> torch.Tensor:
    """Return x @ weight.T + bias as `torch.nn.functional.linear`, the product by one instruction's
    arithmetic.

    The product is rounded to x's dtype before the bias is added in it.
    """
    flat = x.reshape(-1, x.shape[-1])
    y = matmul(flat, weight.transpose(-1, -2), instruction=instruction, backend=backend).to(x.dtype)
    y = y.reshape(*x.shape[:-1], weight.shape[0])
    return y if bias is None else y + bias
