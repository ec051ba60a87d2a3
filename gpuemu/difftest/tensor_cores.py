"""The tensor cores of the GPU at hand as a subject: one `mma.sync` in place of an instruction of
its shape and formats.

A subject named "tensor-core:f16" is asked through the AMD instruction whose K and formats are those
of the `mma.sync` shape, which lends its register layout and nothing of its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import cuda
from ..errors import BadValue
from ..mfma.instructions import Instruction, instruction
from ..mfma.modifiers import Modifiers
from .images import Images

Array = np.ndarray[Any, Any]

PREFIX = "tensor-core:"
WARPS = 4  # of a thread block; two warps a case


@dataclass(frozen=True)
class TensorCore:
    """One kind of `mma.sync`.

    Attributes
    ----------
    mma : str
        Its PTX name behind "mma.sync.aligned.".
    mnemonic, arch : str
        The instruction that lends shape, formats and register layout.
    least_sm : int
        Oldest compute capability that has it, as 80 for 8.0.
    """

    mma: str
    mnemonic: str
    arch: str
    least_sm: int

    @property
    def double(self) -> bool:
        """Tell whether operands are binary64."""
        return ".f64" in self.mma

    @property
    def defines(self) -> dict[str, int | str]:
        """Return what specialises `tensor_probe.cu`."""
        return {"MMA": self.mma} | ({"DOUBLE": 1} if self.double else {})

    def instruction(self) -> Instruction:
        """Return the instruction that lends its shape."""
        return instruction(self.mnemonic, self.arch)


# Shapes of the PTX ISA, section "Matrix multiply-accumulate operation using mma instruction".
KINDS: dict[str, TensorCore] = {
    "f16": TensorCore("m16n8k16.row.col.f32.f16.f16.f32", "v_mfma_f32_16x16x16_f16", "gfx942", 80),
    "bf16": TensorCore(
        "m16n8k16.row.col.f32.bf16.bf16.f32", "v_mfma_f32_16x16x16_bf16", "gfx942", 80
    ),
    "tf32": TensorCore(
        "m16n8k8.row.col.f32.tf32.tf32.f32", "v_mfma_f32_16x16x8_xf32", "gfx942", 80
    ),
    "f8e4m3fn": TensorCore(
        "m16n8k32.row.col.f32.e4m3.e4m3.f32", "v_mfma_f32_16x16x32_fp8_fp8", "gfx950", 89
    ),
    "f8e5m2": TensorCore(
        "m16n8k32.row.col.f32.e5m2.e5m2.f32", "v_mfma_f32_16x16x32_bf8_bf8", "gfx950", 89
    ),
    "f64": TensorCore("m8n8k4.row.col.f64.f64.f64.f64", "v_mfma_f64_16x16x4_f64", "gfx942", 80),
}


def kind(name: str) -> TensorCore:
    """Return the row of a subject's name.

    >>> kind("tensor-core:f64").mnemonic
    'v_mfma_f64_16x16x4_f64'
    """
    short = name.removeprefix(PREFIX)
    if short not in KINDS:
        raise BadValue(f"subject {name!r}; legal: {', '.join(PREFIX + x for x in KINDS)}")
    return KINDS[short]


def operands(core: TensorCore, i: Instruction, images: Images) -> tuple[Array, Array, Array]:
    """Return A (n, 16, words), B (n, 16 columns, words) and C (n, 16, 16) as the kernel reads them.

    Words are uint32, or float64 where operands are; C is float32 or float64.
    """
    found: Any = i
    A, B, C = (found.unpack(m, images[m.lower()])[:, 0] for m in ("A", "B", "C"))
    word = np.dtype(np.float64 if core.double else np.uint32)
    rows = (np.ascontiguousarray(x).view(word) for x in (A, B.swapaxes(1, 2)))
    return (*rows, np.ascontiguousarray(C))  # type: ignore[return-value]


def run(core: TensorCore, i: Instruction, images: Images, m: Modifiers) -> Array:
    """Return D, uint32 (n, vgprs, 64), as the GPU at hand computes it.

    Raises
    ------
    BadValue
        For another instruction than the one that lends its shape, modifiers, or an older GPU.
    BackendUnavailable
        Without a CUDA device.
    """
    if i is not core.instruction() or m.non_default():
        raise BadValue(
            f"{i.mnemonic} ({i.arch}) {m.non_default() or ''} on a tensor core; legal: "
            f"{core.mnemonic} ({core.arch}) without modifiers"
        )
    cuda.require()
    import cupy

    if int(cupy.cuda.Device().compute_capability) < core.least_sm:
        raise BadValue(f"mma.sync {core.mma} needs compute capability {core.least_sm / 10}")
    a, b, c = (cupy.asarray(x) for x in operands(core, i, images))
    d = cupy.empty_like(c)
    blocks = -(-2 * len(c) // WARPS)
    probe = cuda.kernel("tensor_probe.cu", "tensor_probe", core.defines)
    probe((blocks,), (32 * WARPS,), (a, b, c, d, np.int64(len(c))))
    return np.asarray(i.pack("D", d.get()[:, None]))
