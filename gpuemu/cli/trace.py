"""`gpuemu trace`: a program step by step, with the registers that each step changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table
from ._program import (
    Broadcast,
    Legality,
    OutputLayout,
    ProgramFile,
    Registers,
    RequiredArch,
    SkipUnknown,
    make_wavefront,
    read_program,
)

if TYPE_CHECKING:
    import numpy as np

    from ..mfma.program import Step


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("trace")(trace)


def trace(
    program: Path = ProgramFile,
    arch: str = RequiredArch,
    registers: Path | None = Registers,
    lanes: int = typer.Option(4, min=1, max=64, help="How many lanes to show."),
    wave: int = typer.Option(0, min=0, help="Which wavefront of a batch to show."),
    skip_unknown: bool = SkipUnknown,
    legality: str = Legality,
    broadcast: str = Broadcast,
    output_layout: str = OutputLayout,
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
    json: bool = Json,
) -> None:
    """Trace a program: after each step, the changed registers in hexadecimal and decimal."""
    from ..errors import BadValue
    from ..mfma.program import Program

    switches = {"broadcast": broadcast, "output_layout": output_layout}
    made = read_program(program, arch, legality, skip_unknown, **switches)
    wavefront = make_wavefront(made, registers, legality, backend)
    made.check_registers({"v": wavefront.vgprs.shape[-2], "a": wavefront.accvgprs.shape[-2]})
    waves = wavefront.vgprs[..., 0, 0].size if wavefront.batch else 1
    if wave >= waves:
        raise BadValue(f"wave={wave}; the registers hold {waves} wavefront(s), from 0 on")
    found = []
    for step in made.steps:
        name = str(step.call.operands.D)
        before = _of_wave(wavefront.read(name), wave)
        wavefront.run(Program(made.arch, (step,)))
        found.append(_record(step, before, _of_wave(wavefront.read(name), wave), lanes))
    if json:
        print_json(found)
    else:
        for record in found:
            _print(record, lanes)


def _of_wave(image: Any, wave: int) -> np.ndarray[Any, Any]:
    from ..backends.arrays import to_numpy

    host = to_numpy(image)
    chosen: np.ndarray[Any, Any] = host.reshape(-1, *host.shape[-2:])[wave]
    return chosen


def _record(step: Step, before: Any, after: Any, lanes: int) -> dict[str, Any]:
    """Return one step: changed registers with the first lanes, as bits and as numbers."""
    import numpy as np

    row, d = step.made.instruction, step.call.operands.D
    double = row.formats["D"] == "f64"
    numbers = {"f32": np.float32, "i32": np.int32}
    changed = []
    for n in range(0, d.count, 2 if double else 1):
        if double:
            wide = after[n].astype(np.uint64) | after[n + 1].astype(np.uint64) << np.uint64(32)
            name, bits, values = (
                f"{d.bank}[{d.first + n}:{d.first + n + 1}]",
                wide,
                wide.view(np.float64),
            )
        else:
            name, bits = f"{d.bank}{d.first + n}", after[n]
            values = after[n].view(numbers[row.formats["D"]])
        if (before[n : n + (2 if double else 1)] != after[n : n + (2 if double else 1)]).any():
            width = 16 if double else 8
            changed.append({
                "register": name,
                "bits": [f"{int(x):0{width}X}" for x in bits[:lanes]],
                "values": [_number(x.item()) for x in values[:lanes]],
            })  # fmt: skip
    return {
        "line": step.number,
        "instruction": str(step.call),
        "model": step.made.model.name,
        "fidelity": row.fidelity if step.made.model.name == row.model else step.made.model.fidelity,
        "changed": changed,
    }


def _number(value: float) -> float | str:
    """Return a number as JSON has it; infinities and NaN as text."""
    return value if value - value == 0 else str(value)


def _print(record: dict[str, Any], lanes: int) -> None:
    out = console()
    out.print(f"line {record['line']}: {record['instruction']}", style="bold")
    out.print(f"  model {record['model']} ({record['fidelity']})")
    if not record["changed"]:
        out.print("  no register changes")
        return
    made = table("", *(f"lane {n}" for n in range(lanes)))
    for item in record["changed"]:
        cells = zip(item["bits"], item["values"], strict=True)
        made.add_row(item["register"], *(f"{bits} {_shown(bits, value)}" for bits, value in cells))
    out.print(made)


def _shown(bits: str, value: float | str) -> str:
    """Return a number in the fewest digits that tell it from its neighbours in its format."""
    import numpy as np

    single = len(bits) == 8 and isinstance(value, float)
    return str(np.float32(value)) if single else str(value)
