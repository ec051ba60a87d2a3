"""`gpuemu replay`: repeat one case that `diff` printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ._diff_output import options
from ._output import Json, console, print_json, table
from ._values import nan_rule

if TYPE_CHECKING:
    from ..difftest.cases import Case


MOST_WORDS = 24  # that are shown


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(replay)


def replay(
    text: str = typer.Argument(help="The JSON that `gpuemu diff` printed, or @FILE."),
    subject: str = typer.Option(None, help="In place of the one in the text.", show_default=False),
    reference: str = typer.Option(
        None, help="In place of the one in the text.", show_default=False
    ),
    nan: str = typer.Option(
        None,
        help="any: NaNs are all equal; exact: their bits count. Default: as in the text, else any.",
        show_default=False,
    ),
    timeout: float = typer.Option(
        None,
        help="Seconds that a callable or program may take. Default: as in the text, else 60.",
        show_default=False,
    ),
    json: bool = Json,
) -> None:
    """Repeat one case that `gpuemu diff` printed; exit code 1 where the two still differ."""
    from pathlib import Path

    from ..difftest import cases, runner, subjects
    from ..errors import BadFile

    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{text[1:]}: cannot be read: {error}") from None
    case, beside = cases.from_json(text)
    nan = nan_rule(beside.get("nan", "any") if nan is None else nan)
    seconds = beside.get("timeout") if timeout is None else timeout

    def side(name: str) -> subjects.Subject:
        subjects.refuse(name, [case.instruction])
        return subjects.load(name, seconds)

    tested = side(subject or beside.get("subject") or subjects.default())
    expected = case.expected()
    if expected is not None and reference is None:
        against = subjects.Subject("the expected bits", lambda *_: expected)
    else:
        against = side(reference or beside.get("reference", "numpy"))
    failures, failed = runner.check(
        case.instruction, case.modifiers, [case], case.images(), tested, against, nan=nan
    )
    if json:
        facts = {
            "differs": bool(failed),
            "what": failures[0].text() if failed else "",
            "case": _facts(case),
        }
        print_json(facts)
    else:
        _print(case, failures[0].text() if failed else "", tested.name, against.name)
    if failed:
        raise typer.Exit(1)


def _words(case: Case) -> Any:
    from ..difftest.operation import ArrayOperation

    if not isinstance(case.instruction, ArrayOperation):
        made = table("Operand", "VGPR", "Lane", "Word", right=("VGPR", "Lane"))
        for name, vgpr, lane, word in case.words or ():
            made.add_row(name, str(vgpr), str(lane), f"{word:08X}")
        return made
    made = table("Operand", "Index", "Bits")
    for name, items in _facts(case)["inputs"].items():
        if name in case.instruction.described:
            continue
        for at, bits in items.items():
            made.add_row(name, at.replace(":", ", "), bits)
    return made


def _facts(case: Case) -> dict[str, Any]:
    import json

    return dict(json.loads(case.to_json()))


def _print(case: Case, difference: str, subject: str, reference: str) -> None:
    from ..difftest.operation import ArrayOperation

    out = console()
    i = case.instruction
    name = f"{i.mnemonic} ({i.arch}){options(case.modifiers.non_default())}"
    out.print(f"{name}: {subject} against {reference}", style="bold")
    if isinstance(i, ArrayOperation):
        text = i.describe(case.images(), case.modifiers)
        if text:
            out.print(text)
    if case.words is not None and len(case.words) <= MOST_WORDS:
        out.print(_words(case))
    out.print(difference or "all bits equal", style="bold red" if difference else "")
