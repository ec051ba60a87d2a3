"""`gpuemu bench`: how fast this machine runs instructions, and what got slower since."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table

if TYPE_CHECKING:
    from ..mfma.instructions import Instruction


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)


def bench(
    instruction: str = typer.Option(
        None,
        "--instruction",
        "-i",
        help="Pattern; default: one of each arithmetic.",
        show_default=False,
    ),
    arch: str = typer.Option("*", "--arch", "-a", help="Pattern of the architecture."),
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
    waves: int = typer.Option(256, min=1, help="Wavefronts of a call."),
    seconds: float = typer.Option(0.2, min=0.01, help="Time for each instruction."),
    compare: tuple[Path, Path] = typer.Option(
        None,
        metavar="OLD NEW",
        help="Measure nothing: say what got slower from one file to the other, each of this "
        "command's --json or pytest-benchmark's.",
        show_default=False,
    ),
    threshold: float = typer.Option(
        1.1, help="With --compare: a median this many times the old one is slower.", min=1.0
    ),
    json: bool = Json,
) -> None:
    """Measure instructions and multiply-adds a second at register level, arrays in place.

    With --compare the exit code is 1 where something got slower.
    """
    if compare is not None:
        _compare(*compare, threshold, json)
        return
    from .. import dispatch
    from ..difftest import across
    from ..difftest.cases import select

    if instruction is None:
        archs = {row.arch for row in select("*", arch)}
        rows = [row for row in across.representatives() if row.arch in archs]
    else:
        rows = list(select(instruction, arch))
    chosen = dispatch.resolve(backend)
    found = [_measure(row, chosen, waves, seconds) for row in rows]
    if json:
        print_json({"facts": _facts(), "rows": found})
        return
    made = table("Instruction", "Arch", "Instr/s", "MAC/s", right=("Instr/s", "MAC/s"))
    for row in found:
        rates = (f"{row[name]:.3g}" for name in ("instructions_per_s", "macs_per_s"))
        made.add_row(row["instruction"], row["arch"], *rates)
    out = console()
    out.print(made)
    out.print(f"backend {chosen}, {waves} wavefronts a call")


def _facts() -> dict[str, Any]:
    """Return device, versions and date of a measurement."""
    from ..machine import info

    return info() | {"date": time.strftime("%Y-%m-%d %H:%M:%S")}


def _measure(i: Instruction, backend: str, waves: int, seconds: float) -> dict[str, Any]:
    import numpy as np

    from .. import execute
    from ..difftest.generators import CLASSES
    from ..difftest.images import images
    from ..mfma import modifiers

    given: dict[str, Any] = dict(
        images(i, modifiers.check(i), CLASSES["normal"], 0, np.arange(waves))
    )
    if backend == "cuda":
        from ..backends import arrays

        given = {name: arrays.to_cupy(x) for name, x in given.items()}
    given["backend"] = backend
    _finished(execute(i, **given))  # compiles
    # Calls by the handful, so that the host's part of one hides behind the device's of another.
    handful = 16 if backend == "cuda" else 1
    times: list[float] = []
    begun = time.perf_counter()
    while not times or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        for _ in range(handful):
            d = execute(i, **given)
        _finished(d)
        times.append((time.perf_counter() - started) / handful)
    median = statistics.median(times)
    macs = i.M * i.N * i.products * i.blocks
    return {
        "instruction": i.mnemonic,
        "arch": i.arch,
        "backend": backend,
        "waves": waves,
        "median_s": median,
        "fastest_s": min(times),
        "slowest_s": max(times),
        "samples": len(times),
        "instructions_per_s": waves / median,
        "macs_per_s": waves / median * macs,
    }


def _finished(d: Any) -> None:
    """Wait for the device that holds an array."""
    if hasattr(d, "device") and hasattr(d.device, "synchronize"):
        d.device.synchronize()


def _compare(old: Path, new: Path, threshold: float, as_json: bool) -> None:
    """Print the medians of two files side by side; exit 1 where one got slower."""
    from ..errors import BadValue
    from ._timings import read

    before, after = read(old), read(new)
    both = [name for name in before.medians if name in after.medians]
    if not both:
        raise BadValue(
            f"{old} and {new} have no benchmark in common; "
            f"{old} has {', '.join(list(before.medians)[:3])}, …"
        )
    rows: list[dict[str, Any]] = [
        {"name": name, "old_s": x, "new_s": y, "ratio": y / x, "slower": y / x > threshold}
        for name in both
        for x, y in [(before.medians[name], after.medians[name])]
    ]
    rows.sort(key=lambda row: -row["ratio"])
    slower = sum(row["slower"] for row in rows)
    only = {
        "only_old": [name for name in before.medians if name not in after.medians],
        "only_new": [name for name in after.medians if name not in before.medians],
    }
    if as_json:
        sides = {"old": before.facts, "new": after.facts, "threshold": threshold}
        print_json({**sides, "slower": slower, **only, "rows": rows})
    else:
        out = console()
        made = table("Benchmark", "Old", "New", "Ratio", right=("Old", "New", "Ratio"))
        for row in rows:
            style = "bold red" if row["slower"] else "green" if row["ratio"] < 1 / threshold else ""
            times = (_time(row[side]) for side in ("old_s", "new_s"))
            made.add_row(row["name"], *times, f"{row['ratio']:.2f}", style=style)
        out.print(made)
        if before.facts != after.facts:
            out.print(f"old: {before.facts}\nnew: {after.facts}")
        for side, names in only.items():
            if names:
                out.print(f"{side.replace('_', ' in the ')} file: {len(names)}")
        out.print(f"{slower} of {len(rows)} slower by more than {threshold:g} times")
    if slower:
        raise typer.Exit(1)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
