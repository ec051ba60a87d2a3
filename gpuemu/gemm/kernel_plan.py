"""Which kernel serves a GEMM call: the engine, the compile-time constants, the launch
dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadValue
from .call import GemmCall, Matrix
from .instructions import FP8, Instruction, find_instruction, tensor_core
from .operators import ARCHITECTURES, col_major
from .storage import round_up

Dim3 = tuple[int, int, int]
Defines = dict[str, "int | str"]

# The numbers of the enums GemmFormat and GemmKind in cuda_src.
FORMATS = {
    name: number
    for number, name in enumerate(
        [
            "f8e4m3fn",
            "f8e5m2",
            "f16",
            "bf16",
            "tf32",
            "f32",
            "f64",
            "i8",
            "u8",
            "i16",
            "u16",
            "i32",
            "u32",
            "i64",
            "u64",
        ]
    )
}
KINDS = {"integer": 0, "chain": 1, "fused": 2}
LEAST_EXPONENT = {
    "f8e4m3fn": -6,
    "f8e5m2": -14,
    "f16": -14,
    "bf16": -126,
    "tf32": -126,
    "f32": -126,
}
PTX_TYPES = {"f8e4m3fn": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "i32": "s32"}


@dataclass(frozen=True)
class Plan:
    """One specialised kernel.

    Attributes
    ----------
    defines : mapping
        Its compile-time constants.
    tile : (M, N)
    block : (x, y, z)
        Threads that are launched.
    shared_bytes : int
    engine : {"mma", "plain"}
    """

    defines: Mapping[str, int | str]
    tile: tuple[int, int]
    block: Dim3
    shared_bytes: int
    engine: str


def rule(call: GemmCall) -> tuple[int, ...]:
    """Return the numbers of GemmRule: those of a fused sum."""
    how = call.how
    names = ("f16", "f16") if how.through_f16 else (call.a.element.name, call.b.element.name)
    least = (LEAST_EXPONENT.get(name, 0) for name in names)
    facts = (how.group, how.fraction, how.zero_exponent, how.output_fraction)
    return *facts, *least, int(how.through_f16)


def view(x: Matrix) -> tuple[int, int, int]:
    """Return the numbers of GemmView: format, leading dimension, storage order."""
    return FORMATS[x.element.name], x.leading, int(x.order == col_major)


def factors(call: GemmCall) -> list[int]:
    """Return alpha and beta as four bit patterns: real, imaginary, real, imaginary."""

    def bits(value: Any) -> int:
        return int(np.asarray(value, call.target.dtype).view(f"u{call.target.bytes}"))

    alpha, beta = ([bits(x) for x in side] for side in (call.alpha, call.beta))
    return [*[*alpha, 0][:2], *[*beta, 0][:2]]


def engine(call: GemmCall, sm: int) -> str:
    """Return "mma" where the device's tensor cores give the descriptor's bits, else "plain".

    Integers and f64 are the same everywhere. Fused sums differ between generations: the hardware
    serves only if its arithmetic on this device is the one that the descriptor's target has.
    """
    d = call.descriptor
    instruction = d.instruction
    if d.mma_class == "fma" or instruction is None or sm < instruction.least_sm:
        return "plain"
    if call.how.kind == "integer":  # -(-128) is no int8: complex products negate in 32 bits
        return "mma" if call.parts == 1 else "plain"
    if call.how.kind == "chain":
        return "mma"
    return "mma" if _same_sums(call, instruction, sm) else "plain"


def _same_sums(call: GemmCall, instruction: Instruction, sm: int) -> bool:
    """Tell whether `mma.sync` on a device adds as the descriptor's target does."""
    names = call.descriptor.precision.names
    if names[0] in FP8 and sm < 890:
        return False
    target_sm = call.descriptor.sm.arch
    if sm not in ARCHITECTURES:
        return False
    core = tensor_core(sm, names)
    group = min(instruction.shape[2], core.group_bytes // call.descriptor.precision.a.bytes)
    output = 10 if call.target.name == "f16" else core.output_fraction
    same = (group, core.fraction, output, core.through_f16) == (
        call.how.group,
        call.how.fraction,
        call.how.output_fraction,
        call.how.through_f16,
    )
    # Unpublished arithmetic is believed only on the very architecture that was asked for.
    return same and ((core.published and call.how.published) or sm == target_sm)


def share(m: int, n: int, workers: int) -> tuple[int, int]:
    """Return workers along M and N that share m x n pieces most evenly."""

    def load(grid: tuple[int, int]) -> tuple[int, int]:
        rows, columns = -(-m // grid[0]), -(-n // grid[1])
        return rows * columns, rows + columns

    return min(((w, workers // w) for w in range(1, workers + 1)), key=load)


def _mma_defines(instruction: Instruction, names: tuple[str, str, str]) -> Defines:
    rows, columns, depth = instruction.shape
    a, b, c = (PTX_TYPES.get(name, name) for name in names)
    return {
        "MMA_SHAPE": instruction.name,
        "MMA_A": a,
        "MMA_B": b,
        "MMA_C": c,
        "MMA_M": rows,
        "MMA_N": columns,
        "MMA_K": depth,
    }


def _work(call: GemmCall, chosen: str) -> tuple[Defines, tuple[int, int], int, int]:
    """Return constants of the engine, its grid of workers, its step along k and bytes an
    operand."""
    d = call.descriptor
    m, n, _ = d.size
    if chosen == "plain":
        return {}, share(m, n, d.block_size), call.how.group, _operand_bytes(call)
    instruction = d.instruction
    if call.target.name == "f64":  # one shape on every chip: the others give the same bits
        instruction = find_instruction(d.precision.names, (8, 8, 4), 800)
    assert instruction is not None
    rows, columns, depth = instruction.shape
    grid = share(m // rows, n // columns, max(d.block_size // 32, 1))
    return _mma_defines(instruction, d.precision.names), grid, depth, d.precision.a.bytes


def _operand_bytes(call: GemmCall) -> int:
    """Return bytes of an operand as the plain path keeps it: f32, f64, u32 or u64."""
    if call.how.kind == "integer" or call.target.name == "f64":
        return call.target.bytes
    return 8 if call.how.kind == "chain" and call.target.name == "f16" else 4


def _stride(slab: int, width: int, chosen: str) -> int:
    """Return elements between rows in shared memory, padded so that the rows that a warp reads at
    once start in different banks."""
    if chosen == "plain":
        return slab + 1
    return round_up(slab * width, 16) // width + 16 // width


def _stages(call: GemmCall, step: int, width: int, chosen: str, limit: int) -> tuple[int, int, int]:
    """Return stages, their extent along k, and bytes of shared memory: as much as fits."""
    m, n, k = call.descriptor.size
    widest = min(round_up(k * call.parts, step), round_up(128 // width, step))
    for stages in (3, 2, 1) if chosen == "mma" else (2, 1):
        for slab in range(widest, 0, -step):
            need = stages * (m + n) * _stride(slab, width, chosen) * width
            if need <= limit:
                return stages, slab, need
    raise BadValue(
        f"one step of {step} along K of a {m}x{n} tile needs {need} bytes of shared memory here; "
        f"the device has {limit}; legal: a smaller tile"
    )


def _vectorizes(call: GemmCall, chosen: str, slab: int) -> bool:
    """Tell whether A and B can be copied in 16-byte pieces: contiguous along k, aligned, whole."""
    if chosen != "mma" or call.parts == 2:
        return False
    if call.a.order == col_major or call.b.order != col_major:
        return False
    width = call.a.element.bytes
    pieces = (slab, call.extents[2], call.a.leading, call.b.leading)
    aligned = call.a.pointer % 16 == call.b.pointer % 16 == 0
    return aligned and all(x * width % 16 == 0 for x in pieces)


def plan(call: GemmCall, sm: int, shared_limit: int, launch: Dim3 | None = None) -> Plan:
    """Return the kernel for a call.

    Parameters
    ----------
    call : GemmCall
    sm : int
        The device's architecture: 900 for sm_90.
    shared_limit : int
        Bytes of shared memory that a block can have on it.
    launch : (x, y, z), optional
        Threads to launch where they are more than BlockDim.
    """
    d = call.descriptor
    chosen = engine(call, sm)
    constants, grid, step, width = _work(call, chosen)
    stages, slab, shared = _stages(call, step, width, chosen, shared_limit)
    block = launch or d.block_dim
    defines: Defines = {
        "GEMM_KIND": KINDS[call.how.kind],
        "A_FORMAT": FORMATS[call.a.element.name],
        "B_FORMAT": FORMATS[call.b.element.name],
        "C_FORMAT": FORMATS[call.target.name],
        "PARTS": call.parts,
        "STEP": call.how.step,
        "A_COL": int(call.a.order == col_major),
        "B_COL": int(call.b.order == col_major),
        "C_COL": int(call.order == col_major),
        "TILE_M": d.size[0],
        "TILE_N": d.size[1],
        "SLAB": slab,
        "STRIDE": _stride(slab, width, chosen),
        "STAGES": stages,
        "THREADS": d.block_size,
        "LAUNCHED": int(np.prod(block)),
        "GRID_M": grid[0],
        "GRID_N": grid[1],
        "VECTOR": int(_vectorizes(call, chosen, slab)),
        **constants,
    }
    names = ["GROUP", "FRACTION", "ZERO_EXPONENT", "OUTPUT_FRACTION"]
    names += ["LEAST_A", "LEAST_B", "THROUGH_F16"]
    defines |= zip(names, rule(call), strict=True)
    return Plan(defines, d.size[:2], block, shared, chosen)
