"""What a call costs, and which instructions compute the same bits for less."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from ..instructions import Instruction, instructions
from ..models import models
from .call import AssemblyCall
from .operands import Registers
from .slots import format_registers

# A compute unit has four matrix cores.
CORES = 4
PASS = 4  # cycles


@dataclass(frozen=True)
class Cost:
    """What one call costs.

    Attributes
    ----------
    cycles, passes : int
        Of the matrix core; a pass is four cycles.
    flops : int
        Two for each multiply-add, dense.
    flops_per_cycle : int
        Of a compute unit.
    registers : int
        That the operands take, each counted once.
    cheaper : tuple of Instruction
        Of the same architecture and formats, whose chains along K give the same bits at a higher
        rate; the fastest first.
    """

    cycles: int
    passes: int
    flops: int
    flops_per_cycle: int
    registers: int
    cheaper: tuple[Instruction, ...]


def cycles(call: AssemblyCall) -> int:
    """Return the cycles of the matrix core; narrow formats of f8f6f4 take half."""
    narrow = call.instruction.cycles_narrow
    if narrow is not None and format_registers(call.cbsz) < 8 and format_registers(call.blgp) < 8:
        return narrow
    return call.instruction.cycles


def cost(call: AssemblyCall) -> Cost:
    """Return what a call costs.

    >>> from .reader import parse
    >>> c = cost(parse("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[4:5], 0", arch="gfx942"))
    >>> c.cycles, c.flops_per_cycle, [i.mnemonic for i in c.cheaper]
    (16, 128, ['v_mfma_f64_16x16x4_f64'])
    """
    row, taken = call.instruction, cycles(call)
    operands = [o for o in call.operands.given().values() if isinstance(o, Registers)]
    vectors = {(o.bank, n) for o in operands for n in range(o.first, o.last + 1)}
    return Cost(
        taken,
        taken // PASS,
        row.flops,
        row.flops * CORES // taken,
        len(vectors),
        cheaper(row),
    )


def chain(row: Instruction) -> tuple[Any, ...]:
    """Return what fixes the bits of an instruction's chain: formats, arithmetic, link length.

    A chain of instructions is one chain of links; where links are equally long and computed alike,
    the results are equal bit for bit, whatever the shape of the tile.
    """
    model = asdict(models()[row.model])
    for name in ("name", "fidelity", "source"):
        del model[name]
    link = min(model.pop("group"), row.products)
    if model["algorithm"] == "integer":  # exact modulo 2**32: links do not show
        link = 0
    return tuple(row.formats.values()), row.kind, link, tuple(model.values())


@cache
def cheaper(row: Instruction) -> tuple[Instruction, ...]:
    """Return the instructions that give the same bits at a higher rate; none for f8f6f4."""
    if row.formats["A"] == "f8f6f4":
        return ()
    rate = row.flops / row.cycles
    found = [
        i for i in instructions(row.arch) if chain(i) == chain(row) and i.flops / i.cycles > rate
    ]
    return tuple(sorted(found, key=lambda i: -i.flops / i.cycles))
