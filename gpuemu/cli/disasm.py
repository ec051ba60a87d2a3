"""`gpuemu disasm`: machine words to assembly lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import AssemblyError, BadValue
from ._output import Json, print_json
from ._program import Legality, RequiredArch

SCALE_PREFIX = 0xD3AC  # upper half of a scaled instruction's first word


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("disasm")(disasm)


def disasm(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Hexadecimal words of 8 digits, or bytes; low address first. Or a binary file."
        ),
    ],
    arch: str = RequiredArch,
    to: str = typer.Option("asm", help="What to print: words, bytes, asm, builtin."),
    legality: str = Legality,
    json: bool = Json,
) -> None:
    """Disassemble machine words of matrix instructions."""
    from ..mfma.assembly import decode
    from .asm import FORMS, facts, shown

    if to not in FORMS:
        raise BadValue(f"--to {to}; legal: {', '.join(FORMS)}")
    calls = [decode(data, arch, legality) for data in _split(_read(words))]
    if json:
        print_json([facts(call) for call in calls])
        return
    for call in calls:
        typer.echo(shown(call, to))


def _read(words: list[str]) -> bytes:
    from ..mfma.assembly.reader import hexadecimal
    from ._files import names_file, read_bytes

    if len(words) > 1 or not names_file(words[0]):
        return hexadecimal(" ".join(words))
    return read_bytes(Path(words[0]))


def _split(data: bytes) -> list[bytes]:
    """Return the instructions of a run of words: 8 bytes each, 16 after a scale prefix."""
    found, place = [], 0
    while place < len(data):
        scaled = int.from_bytes(data[place + 2 : place + 4], "little") == SCALE_PREFIX
        found.append(data[place : place + (16 if scaled else 8)])
        place += len(found[-1])
    if not found:
        raise AssemblyError("there are no words; legal: 8 bytes an instruction")
    return found
