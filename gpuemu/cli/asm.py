"""`gpuemu asm`: assembly or builtin calls to machine words, or to any of the other forms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import BadValue, GpuemuError
from ._output import Json, print_json
from ._program import Legality, RequiredArch

if TYPE_CHECKING:
    from ..mfma.assembly import AssemblyCall

FORMS = ("words", "bytes", "asm", "builtin")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("asm")(asm)


def asm(
    text: str = typer.Argument(
        help="An assembly line, a builtin call, words, or a file of lines; - reads standard input."
    ),
    arch: str = RequiredArch,
    to: str = typer.Option("words", help=f"What to print: {', '.join(FORMS)}."),
    legality: str = Legality,
    json: bool = Json,
) -> None:
    """Assemble matrix instructions: print their machine words, or another form of them."""
    if to not in FORMS:
        raise BadValue(f"--to {to}; legal: {', '.join(FORMS)}")
    calls = [_parse(number, line, arch, legality) for number, line in _lines(text)]
    if json:
        print_json([facts(call) for call in calls])
        return
    for call in calls:
        typer.echo(shown(call, to))


def _lines(text: str) -> list[tuple[int | None, str]]:
    """Return the instruction itself, or the lines of the file that it names with their numbers."""
    from ..mfma.assembly import read_listing
    from ._files import names_file, read_text

    if text != "-" and not names_file(text):
        return [(None, text)]
    return [(line.number, line.source) for line in read_listing(read_text(Path(text)))]


def _parse(number: int | None, line: str, arch: str, legality: str) -> AssemblyCall:
    from ..mfma.assembly import parse

    try:
        return parse(line, arch, legality)
    except GpuemuError as error:
        where = "" if number is None else f"line {number}: "
        raise type(error)(f"{where}{error}") from None


def shown(call: AssemblyCall, form: str) -> str:
    """Return a call in one of the forms."""
    if form == "asm":
        return str(call)
    if form == "builtin":
        return call.to_builtin()
    data = call.encode()
    if form == "bytes":
        return data.hex(" ")
    return " ".join(
        f"{int.from_bytes(data[n : n + 4], 'little'):08X}" for n in range(0, len(data), 4)
    )


def facts(call: AssemblyCall) -> dict[str, Any]:
    """Return a call as JSON has it."""
    modifiers = {name: getattr(call, name) for name in ("cbsz", "abid", "blgp", "neg", "op_sel")}
    operands = {name: str(operand) for name, operand in call.operands.given().items()}
    forms = {form: shown(call, form) for form in FORMS}
    return {
        "arch": call.arch,
        "mnemonic": call.instruction.mnemonic,
        "operands": operands,
        **modifiers,
        **forms,
    }
