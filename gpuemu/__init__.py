"""gpuemu: matrix and tile instructions of other chips, bit for bit, on the GPU that you have.

>>> import gpuemu
>>> i = gpuemu.instruction("v_mfma_f32_32x32x8_f16", arch="gfx942")
>>> i.M, i.N, i.K, i.blocks, i.fidelity
(32, 32, 8, 1, 'published-model')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from .mfma.execute import execute
from .mfma.instructions import Instruction, instruction, instructions
from .mfma.models import Model, models
from .mfma.models import register as register_model

if TYPE_CHECKING:
    from . import gemm, tile
    from .machine import info
    from .mfma.assembly import decode, parse
    from .mfma.matmul import matmul
    from .mfma.program import Program
    from .mfma.wavefront import Wavefront

__version__ = "0.1.0"

__all__ = [
    "Instruction",
    "Model",
    "Program",
    "Wavefront",
    "decode",
    "errors",
    "execute",
    "gemm",
    "info",
    "instruction",
    "instructions",
    "matmul",
    "models",
    "parse",
    "register_model",
    "tile",
]

# Loaded when first asked for: `import gpuemu` stays quick.
_LAZY = {
    "Program": "mfma.program",
    "Wavefront": "mfma.wavefront",
    "decode": "mfma.assembly",
    "info": "machine",
    "matmul": "mfma.matmul",
    "parse": "mfma.assembly",
}
_DOMAINS = ("gemm", "tile")


def __getattr__(name: str) -> Any:
    if name in _DOMAINS:
        return import_module(f".{name}", __name__)
    if name in _LAZY:
        found = getattr(import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'gpuemu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
