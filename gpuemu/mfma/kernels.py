"""The register-level kernel of an instruction and a model: its source, its shape, its memory."""

from __future__ import annotations

from dataclasses import dataclass

from .config import CONFIG_FIELDS, TYPES, config
from .instructions import Instruction
from .layouts import LANES
from .models import Model
from .modifiers import Modifiers

SHARED_MEMORY = 48 * 1024  # bytes a block may take without asking


def value_bytes(algorithm: int) -> int:
    """Return the bytes of one decoded item in a wavefront's shared memory."""
    return {0: 4, 1: 8, 2: 8, 3: 4, 4: 8, 5: 4}[algorithm]


def wave_bytes(instruction: Instruction, algorithm: int) -> int:
    """Return the shared memory of a wavefront, as `Wave::bytes` counts it."""
    size = value_bytes(algorithm)
    pad = 16 // size
    stride = instruction.products + (pad if instruction.products >= 2 * pad else 0)
    items = instruction.blocks * (instruction.M * stride + instruction.K * instruction.N)
    dense = instruction.M * instruction.products if instruction.sparse else 0
    return (items * size + dense + 15) // 16 * 16


@dataclass(frozen=True)
class KernelSource:
    """What specialises a register-level kernel, and how it is launched.

    Attributes
    ----------
    source : str
        The file of `cuda_src`.
    defines : dict
        Preprocessor definitions.
    waves : int
        Wavefronts of a block.
    threads : int
        Threads of a wavefront.
    shared : int
        Bytes of shared memory of a block.
    """

    source: str
    defines: dict[str, int | str]
    waves: int
    threads: int
    shared: int


def kernel_source(
    instruction: Instruction, model: Model, m: Modifiers, dense: bool = True
) -> KernelSource:
    """Return the register-level kernel of an instruction and a model.

    f64 and dense i8 run on the tensor cores, which compute the same bits; the rest runs lane by
    lane. `dense` says that every register image is (vgprs, 64) without gaps and the batch has one
    dimension.
    """
    fields = config(instruction, model, m)
    defines: dict[str, int | str] = {"GPUEMU_CONFIG": ",".join(map(str, fields))}
    if dense:
        defines["GPUEMU_DENSE"] = 1
    name = TYPES[fields[0]]
    if name == "Fma64" or (name == "Integer" and not instruction.sparse):
        return KernelSource("mfma_tensor.cu", defines | {"WAVES": 8}, 8, 32, 0)
    size = wave_bytes(instruction, fields[0])
    waves = max(1, min(4, SHARED_MEMORY // size))
    if name == "Aligned":
        name = "Aligned<i32>" if fields[CONFIG_FIELDS.index("narrow")] else "Aligned<i64>"
    defines |= {"ALGORITHM": name, "WAVES": waves}
    return KernelSource("mfma.cu", defines, waves, LANES, waves * size)


def kernel_shape(instruction: Instruction, m: Modifiers) -> Modifiers:
    """Return the modifiers that change a kernel's shape (formats of f8f6f4), the rest default."""
    if instruction.modifiers.cbsz == "format":
        return Modifiers(cbsz=m.cbsz, blgp=m.blgp)
    return Modifiers()
