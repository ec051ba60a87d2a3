"""`gpuemu cost`: cycles and registers of a program, and cheaper instructions of the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table
from ._program import Legality, ProgramFile, RequiredArch, SkipUnknown, read_program

if TYPE_CHECKING:
    from ..mfma.assembly.cost import Cost
    from ..mfma.program import Step


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cost")(cost)


def cost(
    program: Path = ProgramFile,
    arch: str = RequiredArch,
    skip_unknown: bool = SkipUnknown,
    legality: str = Legality,
    json: bool = Json,
) -> None:
    """Count the cycles of a program, and name faster instructions with the same bits."""
    from ..mfma.assembly import cost as costs

    made = read_program(program, arch, legality, skip_unknown)
    found = [(step, costs.cost(step.call)) for step in made.steps]
    cycles = sum(c.cycles for _, c in found)
    flops = sum(c.flops for _, c in found)
    total = {
        "instructions": len(found),
        "cycles": cycles,
        "passes": sum(c.passes for _, c in found),
        "flops": flops,
        "flops_per_cycle": flops * costs.CORES // cycles if cycles else 0,
        "vgprs": made.registers["v"],
        "accvgprs": made.registers["a"],
    }
    if json:
        print_json({"total": total, "steps": [_facts(step, c) for step, c in found]})
        return
    out = console()
    numbers = ("cycles", "passes", "FLOP/CU/cycle", "registers")
    shown = table("line", "instruction", *numbers, "same bits, faster", right=numbers)
    for step, c in found:
        shown.add_row(
            str(step.number),
            str(step.call),
            *(str(n) for n in (c.cycles, c.passes, c.flops_per_cycle, c.registers)),
            ", ".join(i.mnemonic for i in c.cheaper) or "-",
        )
    out.print(shown)
    out.print(
        f"{total['instructions']} instructions, {cycles} cycles ({total['passes']} passes), "
        f"{total['flops_per_cycle']} FLOP a cycle of a compute unit; "
        f"{total['vgprs']} VGPRs and {total['accvgprs']} AccVGPRs used"
    )


def _facts(step: Step, c: Cost) -> dict[str, Any]:
    return {
        "line": step.number,
        "instruction": str(step.call),
        **{k: v for k, v in vars(c).items() if k != "cheaper"},
        "cheaper": [i.mnemonic for i in c.cheaper],
    }
