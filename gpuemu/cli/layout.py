"""`gpuemu layout`: which lane and register holds which element."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import (
    Arch,
    Json,
    check_outputs,
    check_picture,
    console,
    integers,
    print_json,
    table,
    write_whole,
)

if TYPE_CHECKING:
    import numpy as np


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(layout)


def layout(
    name: str = typer.Argument(help="Mnemonic, alias or builtin name."),
    matrix: str = typer.Argument("D", help="A, B, C, D, K (index fields), SCALE_A or SCALE_B."),
    arch: str = Arch,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    op_sel: str = typer.Option("0,0", help="The scale bytes of A and B."),
    legality: str = "strict",
    broadcast: str = "grouped",
    output_layout: str = "calculator",
    element: str = typer.Option(
        None, help="Only row,column or block,row,column.", show_default=False
    ),
    lane: int = typer.Option(None, help="Only what this lane holds.", show_default=False),
    vgpr: int = typer.Option(None, help="Only what this register holds.", show_default=False),
    json: bool = Json,
    csv: bool = typer.Option(False, "--csv", help="Print one line an element."),
    svg: Path = typer.Option(None, help="Write a picture to this file.", show_default=False),
    png: Path = typer.Option(
        None, help="Write a picture to this file; needs matplotlib.", show_default=False
    ),
) -> None:
    """Show which lane and register holds which element of a matrix."""
    from ..errors import BadValue
    from ..mfma.instructions import instruction
    from ._values import pair

    check_outputs(svg)
    check_picture(png, "png")
    if (svg or png) and any(x is not None for x in (element, lane, vgpr)):
        raise BadValue(
            "--element, --lane or --vgpr and a picture; legal: one of them (it shows all elements)"
        )
    i = instruction(name, arch)
    options: dict[str, Any] = {
        "cbsz": cbsz,
        "abid": abid,
        "blgp": blgp,
        "op_sel": pair("op_sel", op_sel),
    }
    options |= {"legality": legality, "broadcast": broadcast, "output_layout": output_layout}
    where = i.layout(matrix.upper(), **options)
    chosen = _chosen(where, element, lane, vgpr)
    shown = {
        key: value
        for key, value in options.items()
        if value not in (0, (0, 0), "strict", "grouped", "calculator")
    }
    title = f"{i.mnemonic} ({i.arch}) matrix {matrix.upper()}" + "".join(
        f" {k}:{v}" for k, v in shown.items()
    )
    if svg or png:
        sparse_a = i.sparse and matrix.upper() == "A"
        _draw(where, i.layout("K", **options) if sparse_a else None, title, svg, png)
    elif json:
        print_json([dict(zip(FIELDS, row, strict=True)) for row in _elements(where, chosen)])
    elif csv:
        typer.echo(",".join(FIELDS))
        for row in _elements(where, chosen):
            typer.echo(",".join(map(str, row)))
    else:
        _print(where, chosen, title)


FIELDS = ("block", "row", "column", "vgpr", "lane", "first_bit", "bits")


def _chosen(where: Any, element: str | None, lane: int | None, vgpr: int | None) -> Any:
    """Return which elements were asked for, a bool array (blocks, rows, columns)."""
    import numpy as np

    from ..errors import BadValue
    from ._values import integer_list

    chosen = np.ones(where.shape[:3], bool)
    if element is not None:
        at = integer_list("element", element)
        at = [0, *at] if len(at) == 2 else at
        if len(at) != 3 or not all(
            0 <= n < size for n, size in zip(at, where.shape[:3], strict=True)
        ):
            blocks, rows, columns = where.shape[:3]
            raise BadValue(
                f"element {element}; legal: block,row,column below {blocks},{rows},{columns}"
            )
        chosen[:] = False
        chosen[tuple(at)] = True
    last = where[..., 0] + (where[..., 2] + where[..., 3] - 1) // 32
    for name, value, most in (("lane", lane, 63), ("vgpr", vgpr, int(last.max()))):
        if value is not None and not 0 <= value <= most:
            raise BadValue(f"{name} {value}; legal: 0..{most}")
    if lane is not None:
        chosen &= where[..., 1] == lane
    if vgpr is not None:
        chosen &= (where[..., 0] <= vgpr) & (vgpr <= last)
    return chosen


def _elements(where: Any, chosen: Any) -> list[tuple[int, ...]]:
    import numpy as np

    return [
        (*(int(n) for n in at), *(int(n) for n in where[tuple(at)])) for at in np.argwhere(chosen)
    ]


def _draw(where: Any, index: Any, title: str, svg: Path | None, png: Path | None) -> None:
    from .. import draw

    made = draw.picture(where, title, index)
    if svg:
        write_whole(svg, lambda path: _write_text(path, draw.svg(made)))
    if png:
        write_whole(png, lambda path: draw.png(made, path))
    for path in (svg, png):
        if path:
            typer.echo(f"wrote {path}")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _print(where: np.ndarray[Any, Any], chosen: Any, title: str) -> None:
    """Print runs: elements along one axis that lie in one register of neighbouring lanes."""
    out = console()
    out.print(title, style="bold")
    if not chosen.any():
        out.print("no element lies there")
        return
    blocks, _rows, _columns, _ = where.shape
    along_rows = _lanes_step(where, 1) > _lanes_step(where, 2)
    made = table(*(["Block"] if blocks > 1 else []), "Row", "Column", "VGPR", "Bits", "Lanes")
    for row in _runs(where, chosen, along_rows):
        made.add_row(*(row if blocks > 1 else row[1:]))
    out.print(made)


def _lanes_step(where: Any, axis: int) -> float:
    """Return how often the next element along an axis lies in the same register of another lane."""
    import numpy as np

    if where.shape[axis] < 2:
        return 0.0
    size = where.shape[axis]
    left, right = where.take(range(size - 1), axis), where.take(range(1, size), axis)
    same = (left[..., [0, 2]] == right[..., [0, 2]]).all(axis=-1) & (left[..., 1] != right[..., 1])
    return float(np.mean(same))


def _runs(where: Any, chosen: Any, along_rows: bool) -> list[tuple[str, ...]]:
    import numpy as np

    found: list[tuple[str, ...]] = []
    blocks, rows, columns, _ = where.shape
    for block in range(blocks):
        for line in range(columns if along_rows else rows):
            picked = np.flatnonzero(chosen[block, :, line] if along_rows else chosen[block, line])
            places = where[block, picked, line] if along_rows else where[block, line, picked]
            keys = places[:, 0] * 64 + places[:, 2]
            cuts = np.flatnonzero(np.diff(keys)) + 1
            for run, at in zip(np.split(picked, cuts), np.split(places, cuts), strict=True):
                if len(run) == 0:
                    continue
                vgpr, _, first, bits = (int(n) for n in at[0])
                extent = integers(run.tolist())
                row, column = (extent, str(line)) if along_rows else (str(line), extent)
                last = vgpr + (first + bits - 1) // 32
                register = f"v{vgpr}" if last == vgpr else f"v{vgpr}:{last}"
                found.append(
                    (
                        str(block),
                        row,
                        column,
                        register,
                        f"{first + bits - 1}:{first}",
                        integers(at[:, 1].tolist()),
                    )
                )
    return found
