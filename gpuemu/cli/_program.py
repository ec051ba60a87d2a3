"""What the commands on assembly share: programs and register files from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import BadFile

if TYPE_CHECKING:
    from ..mfma.program import Program
    from ..mfma.wavefront import Wavefront

NAMES = {"v": "VGPRs", "a": "AccVGPRs"}

ProgramFile = typer.Argument(help="Assembly file or disassembly listing; - reads standard input.")
RequiredArch = typer.Option(..., "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950.")
Legality = typer.Option(
    "strict", help="strict, llvm (what the assembler accepts) or truncate (builtins' constants)."
)
SkipUnknown = typer.Option(False, "--skip-unknown", help="Leave other instructions out.")
Registers = typer.Option(
    None, help="Registers before: .npz of v and a, uint32 (..., registers, 64); default: zeros."
)
Broadcast = typer.Option("grouped", help="Reading of cbsz and abid: grouped or lane_block.")
OutputLayout = typer.Option("calculator", help="Output layout of f64 4x4x4: calculator or formula.")


def read_program(
    path: Path, arch: str, legality: str, skip_unknown: bool, **switches: Any
) -> Program:
    """Return the program of a file, and say on standard error what was skipped."""
    from ..mfma.program import Program
    from ._files import read_text

    program = Program.read(read_text(path), arch, legality, skip_unknown=skip_unknown, **switches)
    for statement in program.skipped:
        typer.echo(f"skipped line {statement.number}: {statement.text.strip()}", err=True)
    return program


def make_wavefront(
    program: Program, registers: Path | None, legality: str, backend: str
) -> Wavefront:
    """Return a wavefront with the registers of a file, or with as many zeros as a program needs."""
    from ..mfma.wavefront import Wavefront
    from ._values import load_arrays

    files: dict[str, Any] = dict(program.registers)
    if registers is not None:
        loaded = load_arrays(registers)
        wrong = sorted(set(loaded) - set(files))
        if wrong or not loaded:
            raise BadFile(f"{registers}: arrays {', '.join(wrong) or 'none'}; legal: v and a")
        files |= loaded
    return Wavefront(
        program.arch, vgprs=files["v"], accvgprs=files["a"], legality=legality, backend=backend
    )
