"""`gpuemu gemm`: describe, run, sweep, and emulate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadValue
from ._output import check_outputs, console, print_json, save_array, table, write_whole
from ._values import load_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..gemm.descriptor import Descriptor

DescriptorText = Annotated[
    str,
    typer.Argument(
        help="Sum of operators: 'Size(64,64,32) + Precision(f16,f16,f32) + …', or the C++ form."
    ),
]
Operand = Annotated[Path, typer.Argument(help="A NumPy file (.npy).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Backend = Annotated[str, typer.Option(help="auto, cuda, host, numpy or check.")]


def register(app: typer.Typer) -> None:
    """Add the `gemm` commands to the application."""
    group = typer.Typer(
        help="GEMM problem descriptors: describe, run, sweep, emulate.", no_args_is_help=True
    )
    group.command()(describe)
    group.command()(run)
    group.command()(sweep)
    from .emulate import register as register_emulate

    register_emulate(group)
    app.add_typer(group, name="gemm")


def describe(
    descriptor: DescriptorText,
    a: Annotated[Path | None, typer.Option(help="A.npy, to check the defaults against.")] = None,
    b: Annotated[Path | None, typer.Option(help="B.npy, to check the defaults against.")] = None,
    as_json: Json = False,
) -> None:
    """Show every operator: given, defaulted, derived, with a warning for each silent default that
    does not suit."""
    from ..gemm.describe import describe as lines_of
    from ..gemm.text import parse

    d = parse(descriptor)
    lines = lines_of(d, load_array(a) if a else None, load_array(b) if b else None)
    if as_json:
        print_json({"lines": [vars(line) for line in lines], "axes": _axes(d)})
        return
    _table(
        str(d), ("operator", "value", "source", "warning"), [tuple(vars(x).values()) for x in lines]
    )
    if d.is_complete:
        rows = [(x["name"], x["state"], x["value"], x["why"], x["cost"]) for x in _axes(d)]
        _table("axes", ("axis", "state", "value", "why", "cost"), rows)


def _axes(d: Descriptor) -> list[dict[str, str]]:
    if not d.is_complete:
        return []
    return [
        {key: str(value) for key, value in vars(axis).items() if key != "options"}
        for axis in d.axes()
    ]


def run(
    descriptor: DescriptorText,
    a: Operand,
    b: Operand,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where C goes (.npy).")
    ] = None,
    c: Annotated[Path | None, typer.Option(help="C.npy.")] = None,
    alpha: Annotated[str, typer.Option(help="Factor of A B.")] = "1",
    beta: Annotated[str | None, typer.Option(help="Factor of C; default: 1 with --c.")] = None,
    ragged: Annotated[str, typer.Option(help="auto, pad, mask or split.")] = "auto",
    pad_inputs: Annotated[
        bool, typer.Option(help="Whether A and B may be copied into padded memory.")
    ] = True,
    backend: Backend = "auto",
    as_json: Json = False,
) -> None:
    """Compute alpha A B + beta C for whole matrices and report how the tiles cover them."""
    from ..gemm import matmul, plan_ragged
    from ..gemm.text import parse

    check_outputs(output)
    d = parse(descriptor)
    left, right = load_array(a), load_array(b)
    if beta is None:
        beta = "1" if c else "0"
    factors = {"alpha": _factor("alpha", alpha), "beta": _factor("beta", beta)}
    options: dict[str, Any] = {
        "ragged": ragged,
        "pad_inputs": pad_inputs,
        "backend": backend,
        **factors,
    }
    result = matmul(d, left, right, load_array(c) if c else None, **options)
    plan = plan_ragged(
        d, (left.shape[0], right.shape[1], left.shape[1]), ragged, pad_inputs=pad_inputs
    )
    report = {
        "shape": list(result.shape),
        "dtype": str(result.dtype),
        "strategy": plan.strategy,
        "reason": plan.reason,
        "tiles": [list(piece.descriptor.size) for piece in plan.pieces],
        "wasted": plan.wasted,
        "output": str(output) if output else None,
    }
    if output:
        write_whole(output, lambda path: save_array(path, result))
    if as_json:
        print_json(report)
    else:
        _table("result", ("what", "value"), [(key, str(value)) for key, value in report.items()])


def sweep(
    descriptor: DescriptorText,
    a: Operand,
    b: Operand,
    fixed: Annotated[
        list[str] | None, typer.Option(help="An axis that stays as it is; repeatable.")
    ] = None,
    free: Annotated[list[str] | None, typer.Option(help="An axis to vary; repeatable.")] = None,
    shared_memory: Annotated[
        int | None, typer.Option(min=1, help="Bytes of shared memory a block.")
    ] = None,
    registers: Annotated[int | None, typer.Option(min=1, help="Registers a thread for C.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs a variant.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many variants.")] = None,
    backend: Backend = "auto",
    as_json: Json = False,
) -> None:
    """Run every variant along the free axes: time, error against float64, shared memory,
    registers."""
    from ..gemm.sweep import sweep as run_sweep
    from ..gemm.text import parse

    d = parse(descriptor)
    measured = run_sweep(
        d,
        load_array(a),
        load_array(b),
        fixed=fixed or (),
        free=free or (),
        shared_memory_budget=shared_memory,
        register_budget=registers,
        repeats=repeats,
        backend=backend,
        limit=limit,
        progress=sys.stderr.isatty(),
    )
    if as_json:
        print_json({"backend": measured.backend, "rows": measured.records()})
        return
    rows = [
        (
            x.variant,
            x.mma_class,
            _number(x.seconds, 1e3),
            _number(x.error),
            str(x.shared_bytes),
            f"{x.registers} ({x.registers_source})",
            x.note,
        )
        for x in measured.rows
    ]
    columns = ("variant", "class", "ms", "error", "shared", "registers", "note")
    _table(f"{d} on {measured.backend}", columns, rows)


def _number(value: float | None, unit: float = 1.0) -> str:
    return "" if value is None else f"{value * unit:.3g}"


def _factor(name: str, text: str) -> complex | float:
    try:
        value = complex(text)
    except ValueError:
        raise BadValue(f"{name}={text!r} is no number; legal: such as 2, -0.5, 1+2j") from None
    return value.real if value.imag == 0 else value


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    made = table(*columns, title=title)
    for row in rows:
        made.add_row(*row)
    console().print(made)
