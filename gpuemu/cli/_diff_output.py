"""What `gpuemu diff` shows: a bar, failures with the lines that repeat them, a verdict."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import console, print_json, table

if TYPE_CHECKING:
    from ..difftest.campaign.campaign import Campaign
    from ..difftest.campaign.records import Record
    from ..difftest.campaign.tally import Row, Tally

SHOWN = 10  # failures with their replay lines; the table has them all
BATCH_ONLY = " (in a batch only: the case by itself is equal)"


@contextlib.contextmanager
def progress(
    campaign: Campaign, tally: Tally, *, quiet: bool
) -> Iterator[Callable[[list[Record]], None]]:
    """Show a bar with rate and failures; yields the function that moves it on."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from ..difftest.campaign.campaign import shares

    columns = (
        TextColumn("{task.description:<24.24}"),
        BarColumn(None),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]}/s  {task.fields[failed]} failed"),
        TimeRemainingColumn(),
    )
    total = float(sum(shares(campaign))) if campaign.cases else campaign.seconds
    bar = Progress(
        *columns, console=console(stderr=True), transient=True, disable=quiet, expand=True
    )
    started, outputs = time.monotonic(), 0
    with bar:
        task = bar.add_task("", total=total, rate="0", failed=tally.total("failed_cases"))

        def update(records: list[Record]) -> None:
            nonlocal outputs
            outputs += sum(record.outputs for record in records)
            spent = time.monotonic() - started
            bar.update(
                task,
                completed=tally.total("cases") if campaign.cases else spent,
                description=records[-1].instruction if records else "",
                rate=_short(outputs / max(spent, 1e-9)),
                failed=tally.total("failed_cases"),
            )

        yield update


def _short(value: float) -> str:
    for power, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.3g} {name}"
    return f"{value:.3g}"


@contextlib.contextmanager
def shrinking(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show that failing cases are made small; yields the function that names an instruction."""
    if quiet:
        yield lambda _: None
        return
    with console(stderr=True).status("") as status:
        yield lambda name: status.update(f"making the first failing case of {name} small")


def summary(
    campaign: Campaign, tally: Tally, seconds: float, interrupted: bool, cut: bool
) -> dict[str, Any]:
    """Return a campaign's counts as JSON has them; `cut`: Ctrl-C ended the shrinking."""
    return {
        "subject": campaign.subject,
        "reference": campaign.reference,
        "instructions": len(tally.rows),
        "cases": tally.total("cases"),
        "outputs": tally.total("outputs"),
        "sampled": tally.total("sampled"),
        "failed_cases": tally.total("failed_cases"),
        "seed": campaign.seed,
        "seconds": round(seconds, 2),
        "interrupted": interrupted,
        "interrupted_while_shrinking": cut,
    }


def failure(campaign: Campaign, row: Row, *, again: bool = True) -> dict[str, Any]:
    """Return an instruction's first failure: where, which bits, and the lines that repeat it.

    Parameters
    ----------
    campaign : Campaign
    row : Row
    again : bool
        Whether the case may be run once more, which finds the bits.
    """
    from ..difftest import runner
    from ..difftest.campaign import drive

    assert row.first is not None and row.case is not None
    case, record = row.case, row.first
    got, want, what = "", "", record.what
    if again and record.verdict == "differ":
        sides = [drive.side(x, campaign.timeout) for x in (campaign.subject, row.against)]
        found, _ = runner.check(
            case.instruction, case.modifiers, [case], case.images(), *sides, nan=campaign.nan
        )
        if found:
            got, want = found[0].got, found[0].want
        elif not what.endswith(BATCH_ONLY):
            what += BATCH_ONLY
    facts = {
        "instruction": record.instruction,
        "arch": record.arch,
        "modifiers": case.modifiers.non_default(),
        "class": record.cls,
        "case": case.number,
        "what": what,
        "got": got,
        "want": want,
        "replay": f"gpuemu replay {shlex.quote(record.replay)}",
    }
    if record.small:
        facts["small"] = f"gpuemu replay {shlex.quote(record.small)}"
    return facts


def options(modifiers: dict[str, Any]) -> str:
    """Return modifiers, or what else a configuration chooses, as they follow a name."""
    from ..difftest.report.totals import modifiers_text

    return f" {modifiers_text(modifiers)}" if modifiers else ""


def show(
    facts: dict[str, Any],
    failures: list[dict[str, Any]],
    tally: Tally,
    folder: Path | None,
    *,
    json: bool,
) -> None:
    """Print a campaign's result, as JSON or as text."""
    if json:
        rows = [
            {
                "instruction": row.instruction,
                "arch": row.arch,
                "cases": row.cases,
                "failed_cases": row.failed_cases,
            }
            for row in tally.rows.values()
        ]
        print_json(facts | {"failures": failures, "results": rows})
        return
    out = console()
    for found in failures[:SHOWN]:
        name = f"{found['instruction']} ({found['arch']}){options(found['modifiers'])}"
        out.print(
            f"MISMATCH {name}, inputs {found['class']}",
            style="bold red",
        )
        out.print(f"  {found['what']}")
        typer.echo(f"  {found['replay']}")
        if "small" in found:
            typer.echo(f"  {found['small']}")
    if tally.failing:
        made = table("Instruction", "Arch", "Cases", "Failed", right=("Cases", "Failed"))
        for row in tally.failing:
            made.add_row(row.instruction, row.arch, str(row.cases), str(row.failed_cases))
        out.print(made)
    if facts["interrupted"]:
        out.print("interrupted; so far:")
    if facts["interrupted_while_shrinking"]:
        out.print("interrupted while shrinking:")
    failed = facts["failed_cases"]
    out.print(
        f"{facts['subject']} against {facts['reference']}: {facts['instructions']} "
        f"instructions, {facts['cases']:,} cases, {facts['outputs']:,} outputs, "
        f"{facts['seconds']} s: {f'{failed} cases differ' if failed else 'all bits equal'}"
    )
    if facts["reference"] != "numpy":
        out.print(f"computed by numpy as well: a sample of {facts['sampled']:,} cases")
    if (facts["interrupted"] or facts["interrupted_while_shrinking"]) and folder is not None:
        typer.echo(f"go on with: gpuemu diff --resume {shlex.quote(str(folder))}")
