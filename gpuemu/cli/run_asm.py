"""`gpuemu run-asm`: a program of matrix instructions on register files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._output import check_outputs, write_whole
from ._program import (
    Broadcast,
    Legality,
    OutputLayout,
    ProgramFile,
    Registers,
    RequiredArch,
    SkipUnknown,
    make_wavefront,
    read_program,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run-asm")(run_asm)


def run_asm(
    output: Annotated[Path, typer.Option("-o", "--output", help="Registers after, .npz.")],
    program: Path = ProgramFile,
    arch: str = RequiredArch,
    registers: Path | None = Registers,
    skip_unknown: bool = SkipUnknown,
    legality: str = Legality,
    broadcast: str = Broadcast,
    output_layout: str = OutputLayout,
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
) -> None:
    """Run a program: check it whole, execute it, write the registers to a file."""
    check_outputs(output)
    switches = {"broadcast": broadcast, "output_layout": output_layout}
    made = read_program(program, arch, legality, skip_unknown, **switches)
    wavefront = make_wavefront(made, registers, legality, backend)
    wavefront.run(made)
    write_whole(output, lambda path: _save(path, wavefront.vgprs, wavefront.accvgprs))
    skipped = f", {len(made.skipped)} lines skipped" if made.skipped else ""
    typer.echo(
        f"{len(made.steps)} instructions on {wavefront.backend}{skipped}; registers in {output}"
    )


def _save(path: Path, v: Any, a: Any) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.savez(file, v=v, a=a)
