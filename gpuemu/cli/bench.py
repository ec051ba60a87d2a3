"""`gpuemu bench`: how fast this machine runs instructions."""

from __future__ import annotations

import time
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
    backend: str = typer.Option("auto", help="auto, cuda, host or numpy."),
    waves: int = typer.Option(256, min=1, help="Wavefronts of a call."),
    seconds: float = typer.Option(0.2, min=0.01, help="Time for each instruction."),
    json: bool = Json,
) -> None:
    """Measure instructions and multiply-adds a second at register level, arrays in place."""
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
        print_json(found)
        return
    made = table("Instruction", "Arch", "Instr/s", "MAC/s", right=("Instr/s", "MAC/s"))
    for row in found:
        rates = (f"{row[name]:.3g}" for name in ("instructions_per_s", "macs_per_s"))
        made.add_row(row["instruction"], row["arch"], *rates)
    out = console()
    out.print(made)
    out.print(f"backend {chosen}, {waves} wavefronts a call")


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
    calls, started = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - started < seconds:
        d = execute(i, **given)
        calls += 1
    _finished(d)
    rate = calls * waves / (time.perf_counter() - started)
    macs = i.M * i.N * i.products * i.blocks
    return {
        "instruction": i.mnemonic,
        "arch": i.arch,
        "backend": backend,
        "waves": waves,
        "instructions_per_s": rate,
        "macs_per_s": rate * macs,
    }


def _finished(d: Any) -> None:
    """Wait for the device that holds an array."""
    if hasattr(d, "device") and hasattr(d.device, "synchronize"):
        d.device.synchronize()
