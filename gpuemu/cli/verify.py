"""`gpuemu verify`: vector files against a backend."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table
from ._values import nan_rule

if TYPE_CHECKING:
    from ..difftest.vectors import Group, Provenance


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(verify)


def verify(
    files: list[Path] = typer.Argument(help="Vector files, .json or .npz."),
    subject: str = typer.Option("numpy", help="cuda, host, numpy, or package.module:function."),
    nan: str = typer.Option("any", help="any: NaNs are all equal; exact: their bits count."),
    keep: Path = typer.Option(
        None,
        help="Keep captured files (origin silicon) whose bits all agree in this folder.",
        show_default=False,
    ),
    json: bool = Json,
) -> None:
    """Run the cases of vector files and compare bits; exit code 1 where any differs.

    Every file is read before anything runs. An instruction that reproduces vectors captured on a
    chip (origin "silicon") has the fidelity silicon-vectors as far as they reach; kept in a folder
    that GPUEMU_SILICON names, they raise its label everywhere. A capture that disagrees raises
    nothing, and takes its instruction out of the folder.
    """
    from ..difftest import keep as keeping
    from ..difftest import subjects, vectors
    from ..errors import BadValue

    nan_rule(nan)
    if keep and subject not in subjects.BACKENDS:
        raise BadValue(f"--keep with subject {subject!r}; legal: {', '.join(subjects.BACKENDS)}")
    tested = subjects.load(subject)
    loaded = [(path, *vectors.load(path)) for path in files]
    tasks = [(path, origin, group) for path, origin, groups in loaded for group in groups]
    rows = [_verify(path, origin, group, tested, nan) for path, origin, group in tasks]
    kept = []
    if keep:
        results = [
            keeping.Verified(path, origin, group.instruction, row["cases"], row["differ"])
            for (path, origin, group), row in zip(tasks, rows, strict=True)
        ]
        kept = keeping.keep(keep, results)
    if json:
        print_json(rows)
    else:
        _print(rows)
        for name, arch in kept:
            typer.echo(f"kept {name} ({arch}) in {keep}; it counts with GPUEMU_SILICON={keep}")
    if any(row["differ"] for row in rows):
        raise typer.Exit(1)


def _verify(path: Path, origin: Provenance, group: Group, tested: Any, nan: str) -> dict[str, Any]:
    from ..difftest import runner, subjects
    from ..difftest.cases import Case

    i = group.instruction
    expected = subjects.Subject(str(path), lambda *_: group.d)
    cases = [Case(i, group.modifiers, number=n) for n in range(len(group.d))]
    failures, failed = runner.check(
        i, group.modifiers, cases, group.operands, tested, expected, nan=nan
    )
    first = failures[0] if failures else None
    row = {
        "file": str(path),
        "instruction": i.mnemonic,
        "arch": i.arch,
        "modifiers": group.modifiers.non_default(),
        "origin": origin.origin,
        "device": origin.device,
        "cases": len(cases),
        "differ": failed,
        "first": f"case {first.case.number}: {first.text()}" if first else "",
        "fidelity": "silicon-vectors" if origin.origin == "silicon" and not failed else i.fidelity,
    }
    if first:
        at = slice(first.case.number, first.case.number + 1)
        one = {name: x[at] for name, x in {**group.operands, "d": group.d}.items()}
        beside = {"subject": tested.name} | ({"nan": nan} if nan != "any" else {})
        text = first.case.with_images(one).to_json(**beside)
        row["replay"] = f"gpuemu replay {shlex.quote(text)}"
    return row


def _print(rows: list[dict[str, Any]]) -> None:
    out = console()
    made = table("Instruction", "Arch", "Origin", "Cases", "Differ", right=("Cases", "Differ"))
    for row in rows:
        origin = f"{row['origin']} {row['device']}".strip()
        made.add_row(row["instruction"], row["arch"], origin, str(row["cases"]), str(row["differ"]))
    out.print(made)
    for row in rows:
        if row["differ"]:
            out.print(f"MISMATCH {row['file']}: {row['first']}", style="bold red")
            typer.echo(f"  {row['replay']}")
        elif row["fidelity"] == "silicon-vectors":
            out.print(f"{row['instruction']} ({row['arch']}): fidelity silicon-vectors here")
