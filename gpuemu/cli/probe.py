"""`gpuemu probe`: how an unknown matrix unit computes."""

from __future__ import annotations

import typer

from ._output import Arch, Json, console, integers, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(probe)


def probe(
    subject: str = typer.Argument(
        help="package.module:function, a program, cuda, host, numpy, or tensor-core:KIND."
    ),
    instruction: str = typer.Option(
        None, "--instruction", "-i", help="Its shape and formats.", show_default=False
    ),
    arch: str = Arch,
    timeout: float = typer.Option(60.0, help="Seconds that the subject may take for a batch."),
    json: bool = Json,
) -> None:
    """Find out how a matrix unit computes: links, kept bits, roundings, flushing, nearest model.

    The instruction lends its shape, formats and register layout; nothing is assumed of the
    arithmetic but that zero products add nothing. KIND is f16, bf16, tf32, f8e4m3fn, f8e5m2 or f64:
    this GPU's own mma.sync, which needs no --instruction.
    """
    from ..difftest import probe as probes
    from ..difftest import subjects, tensor_cores
    from ..errors import BadValue
    from ..mfma.instructions import instruction as find

    if instruction is not None:
        i = find(instruction, arch)
    elif subject.startswith(tensor_cores.PREFIX):
        i = tensor_cores.kind(subject).instruction()
    else:
        raise BadValue(f"subject {subject!r} needs --instruction, for its shape and formats")
    found = probes.probe(subjects.load(subject, timeout), i)
    if json:
        print_json(vars(found) | {"links": [list(link) for link in found.links]})
        return
    out = console()
    out.print(f"{subject} on the shape of {i.mnemonic} ({i.arch})", style="bold")
    made = table("", "")
    made.show_header = False
    made.add_row("products of a link", str(found.group or "unknown"))
    made.add_row("links, by k", "; ".join(map(integers, found.links)) or "unknown")
    made.add_row("order of links", found.order)
    for name in ("product", "accumulator"):
        bits, rounding, note = (
            getattr(found, f"{name}_{what}") for what in ("bits", "rounding", "note")
        )
        text = note if bits is None else f"{bits}, the rest: {rounding or 'not asked'}"
        made.add_row(f"{name} bits kept", text)
    if found.cut_together:
        made.add_row("products cut together, by k", integers(found.cut_together))
    unseen = "unknown: too few bits are kept to show it, or no rule fits"
    rounding = found.output_rounding
    made.add_row("result rounding", unseen if rounding == "unknown" else rounding)
    for what in ("inputs", "accumulator", "outputs"):
        value = getattr(found, f"flush_{what}")
        made.add_row(
            f"subnormal {what}", {True: "flushed", False: "kept", None: "out of reach"}[value]
        )
    made.add_row("equal models", ", ".join(found.exact_models) or "none")
    made.add_row("nearest model", f"{found.nearest}, {found.agreement:.2%} of outputs equal")
    out.print(made)
