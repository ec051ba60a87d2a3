"""`gpuemu diff`: a campaign of made-up cases through two implementations, compared bit for bit."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from . import _diff_files as files
from . import _diff_output as output
from ._output import Json, check_outputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..difftest.campaign.campaign import Campaign
    from ..difftest.campaign.folder import Folder
    from ..difftest.campaign.tally import Row, Tally

INTERRUPTED = 130
CASES = 4000

# What a campaign that goes on may be given once more; the rest is in its folder.
_FREE = {"resume", "cluster", "report", "shrink", "save", "json"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(diff)


def diff(
    context: typer.Context,
    subject: str = typer.Option(
        None,
        help="cuda, host, numpy, reference, a program (a path with a slash), or "
        "package.module:function. Default: cuda, else host.",
        show_default=False,
    ),
    reference: str = typer.Option(
        "numpy", help="What the subject is compared with; named likewise."
    ),
    instruction: str = typer.Option(
        "*",
        "--instruction",
        "-i",
        help="Shell patterns of names, with commas between them. One that fits matrix "
        "instructions means these alone; others are tfma_fp16 … (TFMA on tiles), tfma_bundle (its "
        "machine code), emulated_f32_slices … (emulated GEMM). Everything: '*,tfma*,emulated*'.",
    ),
    arch: str = typer.Option(
        "*",
        "--arch",
        "-a",
        help="Pattern of the architecture: gfx908 …; of TFMA pto, pto-adr0080 and pto-core (the "
        "contract's element types, all others, bundles); of emulated GEMM int8.",
    ),
    input_class: list[str] = typer.Option(
        [], "--class", help="Input class; may be repeated. Default: all.", show_default=False
    ),
    modifiers: str = typer.Option(
        "all",
        help="all: every legal combination of modifiers, or configurations in which every two "
        "choices meet, in turn; none: only the default.",
    ),
    cases: int = typer.Option(
        None,
        "--cases",
        "-n",
        min=1,
        help="Cases (wavefronts, tiles, products), spread over the instructions. Default: "
        f"{CASES}, or no limit with --seconds.",
        show_default=False,
    ),
    seconds: float = typer.Option(
        None, help="End after so many seconds, more than 0.", show_default=False
    ),
    seed: int = typer.Option(0, "--seed", "-s", help="Another seed, other cases."),
    nan: str = typer.Option("any", help="any: NaNs are all equal; exact: their bits count."),
    sample: int = typer.Option(
        1000, min=0, help="One case in so many is computed by numpy too, whatever the reference."
    ),
    timeout: float = typer.Option(
        None, help="Seconds that a callable or program may take for a call.", show_default=False
    ),
    shrink: bool = typer.Option(True, help="Make the first failing case of an instruction small."),
    save: Path = typer.Option(
        None,
        help="Write the first failing case of each instruction, as it was made, to this vector "
        "file: .json, or .npz for one instruction.",
        show_default=False,
    ),
    out: Path = typer.Option(
        None, help="Keep the campaign's state and results in this folder.", show_default=False
    ),
    resume: Path = typer.Option(
        None, help="Go on with the campaign of this folder.", show_default=False
    ),
    cluster: str = typer.Option(
        None,
        help="tcp://HOST:PORT of a Dask scheduler, or a number of local processes.",
        show_default=False,
    ),
    report: Path = typer.Option(None, help="Write an HTML report.", show_default=False),
    json: bool = Json,
) -> None:
    """Compare two implementations of instructions on made-up inputs, bit for bit: matrix
    instructions, TFMA, and emulated GEMM.

    Cases depend on the seed alone. A failure prints a `gpuemu replay` line that repeats it
    anywhere. Exit code 1 after a mismatch. With --out, Ctrl-C or a crash loses nothing that was
    finished: --resume goes on.
    """
    from ..difftest import subjects
    from ..difftest.campaign import campaign as campaigns
    from ..difftest.campaign import drive, engine, folder
    from ..difftest.catalogue import choose
    from ..errors import BadValue

    check_outputs(save, report)
    if seconds is not None and not seconds > 0:
        raise BadValue(f"seconds={seconds:g}; legal: more than 0")
    if resume is not None:
        _refuse_beside_resume(context)
        state = folder.Folder.open(resume)
    else:
        rows = choose(instruction, arch)  # refused before any subject is looked for
        tested = subject or subjects.default()
        wanted = campaigns.Campaign(
            subject=tested,
            reference=reference,
            instruction=instruction,
            arch=arch,
            classes=tuple(input_class),
            modifiers=modifiers,
            seed=seed,
            nan=nan,
            cases=cases or (0 if seconds else CASES),
            seconds=seconds or 0.0,
            sample=sample,
            timeout=timeout,
            batch=campaigns.BATCH_ON_DEVICE
            if engine.on_device(tested, reference)
            else campaigns.BATCH,
        )
        wanted.plans()
        for name in (tested, reference):
            subjects.refuse(name, rows)
        state = folder.Folder(Path(), wanted)
    drive.side.cache_clear()
    for name in (state.campaign.subject, state.campaign.reference):
        drive.side(name, state.campaign.timeout)  # what cannot be loaded is said before all else
    if save:
        files.refuse_to_save(plan.instruction for plan in state.campaign.plans())
    with contextlib.ExitStack() as stack:
        stack.callback(drive.side.cache_clear)
        kept: folder.Folder | None = None
        if resume is not None:
            kept = stack.enter_context(state)
        elif out is not None:
            kept = stack.enter_context(folder.Folder.create(out, state.campaign))
        elif report is not None:
            spare = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            kept = stack.enter_context(folder.Folder.create(spare, state.campaign))
        started = time.monotonic()
        tally, interrupted = _run(state.campaign, kept, cluster, quiet=json)
        failures, cut = [], False
        try:
            if shrink and not interrupted:
                with output.shrinking(quiet=json) as note:
                    _shrink(state.campaign, kept, tally, note)
            for row in tally.failing:
                failures.append(output.failure(state.campaign, row))
                _keep_what(kept, row, failures[-1]["what"])
        except KeyboardInterrupt:
            cut = True
            known = tally.failing[len(failures) :]
            failures += [output.failure(state.campaign, row, again=False) for row in known]
        seconds = time.monotonic() - started
        facts = output.summary(state.campaign, tally, seconds, interrupted, cut)
        output.show(facts, failures, tally, resume or out, json=json)
        try:
            if report is not None and kept is not None:
                files.report(report, kept, facts)
        finally:
            if save:
                files.save(save, state.campaign, tally)
    if interrupted or cut:
        raise typer.Exit(INTERRUPTED)
    if facts["failed_cases"]:
        raise typer.Exit(1)


def _refuse_beside_resume(context: typer.Context) -> None:
    from ..errors import BadValue

    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if name not in _FREE and source is not None and source.name == "COMMANDLINE":
            option = "class" if name == "input_class" else name
            raise BadValue(
                f"--{option}={value} beside --resume; the folder says what the campaign is; "
                f"legal: {', '.join('--' + n for n in sorted(_FREE - {'resume'}))}"
            )


def _run(
    campaign: Campaign, kept: Folder | None, cluster: str | None, *, quiet: bool
) -> tuple[Tally, bool]:
    """Run what is missing; return all that was found and whether Ctrl-C ended it."""
    from ..difftest.campaign import drive
    from ..difftest.campaign.tally import Tally
    from ..difftest.cluster import pool

    tally = Tally()
    if kept is not None:
        tally.add(kept.records())
    try:
        with pool(cluster) as workers, output.progress(campaign, tally, quiet=quiet) as update:
            for records in drive.drive(campaign, kept, workers.imap):
                tally.add(records)
                update(records)
    except KeyboardInterrupt:
        return tally, True
    return tally, False


def _shrink(
    campaign: Campaign, kept: Folder | None, tally: Tally, note: Callable[[str], None]
) -> None:
    from ..difftest.campaign import drive

    for row in tally.failing:
        note(row.instruction)
        small = drive.smaller(campaign, row)
        if small is not None and small is not row.first:
            row.first = small
            if kept is not None:
                kept.append([small])


def _keep_what(kept: Folder | None, row: Row, what: str) -> None:
    """Record what running a failing case once more has shown."""
    from dataclasses import replace

    if row.first is not None and what != row.first.what:
        row.first = replace(row.first, what=what)
        if kept is not None:
            kept.append([row.first])
