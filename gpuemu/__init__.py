"""gpuemu: matrix and tile instructions of other chips, bit for bit, on the GPU that you have.

>>> import gpuemu
>>> i = gpuemu.instruction("v_mfma_f32_32x32x8_f16", arch="gfx942")
>>> i.M, i.N, i.K, i.blocks, i.fidelity
(32, 32, 8, 1, 'published-model')
"""

from __future__ import annotations

from . import errors
from .mfma.execute import execute
from .mfma.instructions import Instruction, instruction, instructions
from .mfma.models import Model, models

__version__ = "0.1.0"

__all__ = [
    "Instruction",
    "Model",
    "errors",
    "execute",
    "instruction",
    "instructions",
    "models",
]
