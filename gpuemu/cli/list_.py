"""`gpuemu list`: the instruction table."""

from __future__ import annotations

from typing import Any

import typer

from ._output import Json, console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("list")(list_)


def list_(
    pattern: str = typer.Argument(
        "*", help="Shell pattern of the mnemonic, alias or builtin name."
    ),
    arch: str = typer.Option("*", "--arch", "-a", help="Pattern of the architecture."),
    kind: str = typer.Option(
        None, help="mfma, smfmac, mfma_f8f6f4 or mfma_scale.", show_default=False
    ),
    json: bool = Json,
) -> None:
    """List the instructions: shape, cycles, arithmetic model, and how sure their bits are."""
    from ..difftest.cases import select
    from ..mfma.instructions import instructions

    instructions(kind=kind)  # refuses an unknown kind
    rows = select(pattern, arch, (kind,) if kind else ())
    if json:
        print_json([facts(row) for row in rows])
        return
    made = table(
        "Instruction", "Arch", "M x N x K", "Blk", "Cycles", "Fidelity", right=("Blk", "Cycles")
    )
    for row in rows:
        shape = f"{row.M}x{row.N}x{row.K}"
        made.add_row(row.mnemonic, row.arch, shape, str(row.blocks), str(row.cycles), row.fidelity)
    console().print(made)
    console().print(
        f"{len(rows)} instructions; `gpuemu show NAME --arch ARCH` has every fact of one."
    )


def facts(row: Any) -> dict[str, Any]:
    """Return every fact of a row, as JSON has it."""
    from dataclasses import asdict

    return asdict(row)
