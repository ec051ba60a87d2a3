"""`gpuemu diff`: random cases of many instructions through two implementations, compared bit for
bit.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..difftest.runner import Failure, Result

INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(diff)


def diff(
    subject: str = typer.Option(
        None,
        help="cuda, host, numpy, or package.module:function. Default: cuda, else host.",
        show_default=False,
    ),
    reference: str = typer.Option(
        "numpy", help="What the subject is compared with; named likewise."
    ),
    instruction: str = typer.Option("*", "--instruction", "-i", help="Shell pattern of the name."),
    arch: str = typer.Option("*", "--arch", "-a", help="Pattern of the architecture."),
    input_class: list[str] = typer.Option(
        [], "--class", help="Input class; may be repeated. Default: all.", show_default=False
    ),
    modifiers: str = typer.Option(
        "all", help="all: every legal combination in turn; none: only the default."
    ),
    cases: int = typer.Option(
        4000, "--cases", "-n", min=1, help="Cases (wavefronts), spread over the instructions."
    ),
    seed: int = typer.Option(0, "--seed", "-s", help="Another seed, other cases."),
    nan: str = typer.Option("any", help="any: NaNs are all equal; exact: their bits count."),
    shrink: bool = typer.Option(True, help="Make the first failing case of an instruction small."),
    save: Path = typer.Option(
        None, help="Write the failing cases to this vector file, .json.", show_default=False
    ),
    json: bool = Json,
) -> None:
    """Compare two implementations of instructions on made-up inputs, bit for bit.

    Cases depend on the seed alone. A failure prints a `gpuemu replay` line that repeats it
    anywhere. Exit code 1 after a mismatch.
    """
    from ..difftest import cases as plans
    from ..difftest import subjects
    from ..errors import BadValue

    for name, value, legal in (
        ("modifiers", modifiers, ("all", "none")),
        ("nan", nan, ("any", "exact")),
    ):
        if value not in legal:
            raise BadValue(f"{name}={value!r}; legal: {', '.join(legal)}")
    rows = plans.select(instruction, arch)
    tested = subjects.load(subject or subjects.default())
    against = subjects.load(reference)
    todo = [
        plans.plan(row, seed, tuple(input_class), only_default=modifiers == "none") for row in rows
    ]
    started = time.monotonic()
    results, interrupted = _run(todo, cases, tested, against, nan, quiet=json)
    if save:
        _save(save, results, against)
    lines = [
        _failure_facts(found, tested, against, nan, shrink)
        for result in results
        for found in result.failures
    ]
    summary = {
        "subject": tested.name,
        "reference": against.name,
        "instructions": len(results),
        "cases": sum(r.cases for r in results),
        "outputs": sum(r.outputs for r in results),
        "failed_cases": sum(r.failed_cases for r in results),
        "seed": seed,
        "seconds": round(time.monotonic() - started, 2),
        "interrupted": interrupted,
    }
    if json:
        print_json(summary | {"failures": lines, "results": [_row(r) for r in results]})
    else:
        _print(summary, lines, results)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary["failed_cases"]:
        raise typer.Exit(1)


def _run(
    todo: Any, cases: int, tested: Any, against: Any, nan: str, *, quiet: bool
) -> tuple[list[Result], bool]:
    """Run every plan; return the results so far and whether Ctrl-C ended it."""
    from ..difftest import runner

    results: list[Result] = []
    with _progress(quiet) as bar:
        shares = _shares(cases, len(todo))
        task = bar.add_task("", total=sum(shares), failed=0)

        def progress(result: Result, done: int) -> None:
            if not results or results[-1] is not result:
                results.append(result)
            bar.update(
                task,
                advance=done,
                description=result.instruction.mnemonic,
                failed=sum(r.failed_cases for r in results),
            )

        try:
            for plan, share in zip(todo, shares, strict=True):
                runner.run(plan, range(share), tested, against, nan=nan, progress=progress)
        except KeyboardInterrupt:
            return results, True
    return results, False


def _shares(cases: int, instructions: int) -> list[int]:
    """Return how many cases each instruction gets, at least one."""
    share, rest = divmod(cases, instructions)
    return [max(1, share + (n < rest)) for n in range(instructions)]


def _progress(quiet: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<33.33}"),
        BarColumn(None),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[failed]} failed"),
        TimeRemainingColumn(),
    )
    return Progress(
        *columns, console=console(stderr=True), transient=True, disable=quiet, expand=True
    )


def _failure_facts(
    found: Failure, tested: Any, against: Any, nan: str, shrink: bool
) -> dict[str, Any]:
    """Return a failure as JSON has it: where, which bits, and the lines that repeat it."""
    from ..difftest import shrink as shrinking

    case = found.case
    names = {"subject": tested.name, "reference": against.name}
    facts = {
        "instruction": case.instruction.mnemonic,
        "arch": case.instruction.arch,
        "modifiers": case.modifiers.non_default(),
        "class": case.cls,
        "case": case.number,
        "what": found.text(),
        "got": found.got,
        "want": found.want,
        "replay": f"gpuemu replay '{case.to_json(**names)}'",
    }
    if shrink:
        small = shrinking.shrink(case, tested, against, nan=nan)
        if small is not None:
            facts["small"] = f"gpuemu replay '{small.to_json(**names)}'"
    return facts


def _save(path: Path, results: list[Result], against: Any) -> None:
    """Write the first failing case of every instruction, with the reference's output."""
    import datetime

    from .. import __version__
    from ..difftest import vectors
    from ._output import write_whole

    cases = [found.case for result in results for found in result.failures]
    groups = []
    for case in cases:
        operands = case.images()
        d = against(case.instruction, operands, case.modifiers)
        groups.append(vectors.Group(case.instruction, case.modifiers, operands, d))
    today = datetime.date.today().isoformat()
    origin = vectors.Provenance("model", against.name, today, f"gpuemu {__version__}")
    write_whole(path, lambda temporary: vectors.save(temporary, origin, groups))


def _row(result: Result) -> dict[str, Any]:
    i = result.instruction
    return {
        "instruction": i.mnemonic,
        "arch": i.arch,
        "cases": result.cases,
        "failed_cases": result.failed_cases,
    }


SHOWN = 10  # failures with their replay lines; the table has them all


def _print(summary: dict[str, Any], lines: list[dict[str, Any]], results: list[Result]) -> None:
    out = console()
    for facts in lines[:SHOWN]:
        options = "".join(f" {name}:{value}" for name, value in facts["modifiers"].items())
        out.print(
            f"MISMATCH {facts['instruction']} ({facts['arch']}){options}, inputs {facts['class']}",
            style="bold red",
        )
        out.print(f"  {facts['what']}")
        typer.echo(f"  {facts['replay']}")
        if "small" in facts:
            typer.echo(f"  {facts['small']}")
    failed = [result for result in results if result.failed_cases]
    if failed:
        made = table("Instruction", "Arch", "Cases", "Failed", right=("Cases", "Failed"))
        for result in failed:
            i = result.instruction
            made.add_row(i.mnemonic, i.arch, str(result.cases), str(result.failed_cases))
        out.print(made)
    if summary["interrupted"]:
        out.print("interrupted; so far:")
    verdict = (
        f"{summary['failed_cases']} cases differ" if summary["failed_cases"] else "all bits equal"
    )
    out.print(
        f"{summary['subject']} against {summary['reference']}: {summary['instructions']} "
        f"instructions, "
        f"{summary['cases']:,} cases, {summary['outputs']:,} outputs, {summary['seconds']} s: "
        f"{verdict}"
    )
