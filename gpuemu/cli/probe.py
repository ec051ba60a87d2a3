"""`gpuemu probe`: how an unknown matrix unit computes."""

from __future__ import annotations

import typer

from ._output import Json, console, integers, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(probe)


def probe(
    subject: str = typer.Argument(help="package.module:function, a program, cuda, host or numpy."),
    instruction: str = typer.Option(..., "--instruction", "-i", help="Its shape and formats."),
    arch: str = typer.Option(..., "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950."),
    json: bool = Json,
) -> None:
    """Find out how a matrix unit computes: links, kept bits, roundings, flushing, nearest model.

    The instruction lends its shape, formats and register layout; nothing is assumed of the
    arithmetic but that zero products add nothing.
    """
    from ..difftest import probe as probes
    from ..difftest import subjects
    from ..mfma.instructions import instruction as find

    i = find(instruction, arch)
    found = probes.probe(subjects.load(subject), i)
    if json:
        print_json(vars(found) | {"links": [list(link) for link in found.links]})
        return
    out = console()
    out.print(f"{subject} on the shape of {i.mnemonic} ({i.arch})", style="bold")
    made = table("", "")
    made.show_header = False
    made.add_row("products of a link", str(found.group))
    made.add_row("links, by k", "; ".join(integers(link) for link in found.links))
    made.add_row("order of links", found.order)
    for name in ("product", "accumulator"):
        bits, rounding = (getattr(found, f"{name}_{what}") for what in ("bits", "rounding"))
        text = (
            "all that the formats can ask for" if bits is None else f"{bits}, the rest: {rounding}"
        )
        made.add_row(f"{name} bits kept", text)
    made.add_row("result rounding", found.output_rounding)
    for what in ("inputs", "accumulator", "outputs"):
        value = getattr(found, f"flush_{what}")
        made.add_row(
            f"subnormal {what}", {True: "flushed", False: "kept", None: "out of reach"}[value]
        )
    made.add_row("equal models", ", ".join(found.exact_models) or "none")
    made.add_row("nearest model", f"{found.nearest}, {found.agreement:.2%} of outputs equal")
    out.print(made)
