"""Pictures of layouts: every element of a matrix as a cell that names its lane and register,
coloured by lane.

A picture is a list of boxes; two small writers put them into SVG text or, with matplotlib, into
a PNG.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BackendUnavailable

Array = np.ndarray[Any, Any]

LONG, SHORT = 46, 26  # pixels of a register's cell, across and down
MARGIN = 34
PAGE = 1100  # pixels across that blocks fill before they go on below


@dataclass(frozen=True)
class Box:
    """A rectangle with text in its middle, in pixels; `colour` is "#rrggbb", or "" for text
    alone.
    """

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...] = ()
    colour: str = ""
    size: float = 9.0


@dataclass(frozen=True)
class Picture:
    """Boxes on a white page."""

    width: float
    height: float
    boxes: tuple[Box, ...]


def lane_colour(lane: int) -> str:
    """Return a light colour: the hue runs over 16 lanes, the shade over the four sixteens of a
    wavefront.
    """
    hue, shade = lane % 16 / 16, lane // 16
    red, green, blue = colorsys.hls_to_rgb(hue, (0.90, 0.80, 0.70, 0.60)[shade], 0.75)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def picture(where: Array, title: str, index: Array | None = None) -> Picture:
    """Return the picture of a layout, blocks side by side.

    Parameters
    ----------
    where : int array (blocks, rows, columns, 4)
        VGPR, lane, first bit, bits; see `Instruction.layout`.
    title : str
    index : int array (blocks, rows, columns, 4), optional
        Where the index fields of a sparse A lie (its layout "K"): cells then name those bits, too.
    """
    blocks, rows, columns, _ = where.shape
    down = _packed_down(where)
    per = _run_length(where, down)
    wide, high = (LONG, max(SHORT / per, 7)) if down else (max(LONG / per, 9), SHORT)
    if index is not None:
        high *= 1.5  # room for a third line
    step_x, step_y = columns * wide + MARGIN + 10, rows * high + MARGIN + (16 if blocks > 1 else 0)
    across = min(blocks, max(1, int(PAGE // step_x)))
    boxes = [Box(MARGIN, 4, 7.5 * len(title), 18, (title,), size=14.0)]
    for block in range(blocks):
        x, y = MARGIN + block % across * step_x, MARGIN + 16 + block // across * step_y
        if blocks > 1:
            boxes.append(Box(x, y - 28, 60, 12, (f"block {block}",)))
        boxes += _axes(x, y, rows, columns, wide, high)
        fields = None if index is None else index[block]
        boxes += _cells(where[block], fields, x, y, wide, high, down)
    height = MARGIN + 16 + -(-blocks // across) * step_y - 20
    width = max(MARGIN + across * step_x, MARGIN + 8.5 * len(title))
    return Picture(width, height, tuple(boxes))


def _packed_down(where: Array) -> bool:
    """Tell whether neighbours down a column, not along a row, share registers."""
    if where.shape[1] < 2:
        return False
    same_down = (where[:, 1:, :, :2] == where[:, :-1, :, :2]).all(axis=-1).mean()
    same_along = (
        (where[:, :, 1:, :2] == where[:, :, :-1, :2]).all(axis=-1).mean()
        if where.shape[2] > 1
        else 0.0
    )
    return bool(same_down > same_along)


def _run_length(where: Array, down: bool) -> int:
    line = where[0, :, 0, :2] if down else where[0, 0, :, :2]
    changes = np.flatnonzero((line[1:] != line[:-1]).any(axis=-1))
    return int(changes[0]) + 1 if len(changes) else len(line)


def _axes(x: float, y: float, rows: int, columns: int, wide: float, high: float) -> list[Box]:
    """Return row and column numbers, as many as have room."""
    every_column, every_row = max(1, round(20 / wide)), max(1, round(11 / high))
    top = [
        Box(x + n * wide, y - 14, wide * every_column, 12, (str(n),))
        for n in range(0, columns, every_column)
    ]
    side = [
        Box(x - 26, y + n * high, 22, high * every_row, (str(n),))
        for n in range(0, rows, every_row)
    ]
    return top + side


def _cells(
    where: Array, index: Array | None, x: float, y: float, wide: float, high: float, down: bool
) -> list[Box]:
    """Return one box an element, and one label for each run of elements that share lane and
    register.
    """
    rows, columns, _ = where.shape
    boxes = []
    lines, length = (columns, rows) if down else (rows, columns)
    for line in range(lines):
        start = 0
        for at in range(1, length + 1):
            here = where[start, line] if down else where[line, start]
            if (
                at < length
                and tuple(where[at, line] if down else where[line, at])[:2] == tuple(here)[:2]
            ):
                continue
            count = at - start
            vgpr, lane, _, bits = (int(n) for n in here)
            left, top = (
                (x + line * wide, y + start * high) if down else (x + start * wide, y + line * high)
            )
            size = (
                (wide, high)
                if count == 1
                else ((wide, high * count) if down else (wide * count, high))
            )
            name = f"v{vgpr}" if bits < 64 else f"v{vgpr}:{vgpr + 1}"
            lines_of_text = [f"lane {lane}", name]
            if index is not None:
                first, last = index[line, start], index[line, at - 1]
                lines_of_text.append(f"idx {last[2] + last[3] - 1}:{first[2]}")
            boxes.append(Box(left, top, *size, tuple(lines_of_text), lane_colour(lane)))
            start = at
    return boxes


def svg(made: Picture) -> str:
    """Return a picture as SVG text."""
    size = f'width="{made.width:g}" height="{made.height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'viewBox="0 0 {made.width:g} {made.height:g}" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for box in made.boxes:
        if box.colour:
            parts.append(
                f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
                f'fill="{box.colour}" stroke="#666" stroke-width="0.5"/>'
            )
        for text, font, x, y in _placed(box):
            place = f'x="{x:g}" y="{y + font * 0.35:g}" font-size="{font:g}"'
            parts.append(f"<text {place}>{escape(text)}</text>")
    return "\n".join([*parts, "</svg>\n"])


def _placed(box: Box) -> list[tuple[str, float, float, float]]:
    """Return every line of a box with its font size and middle; one line where two have no room."""
    lines = box.lines if box.height >= 20 or len(box.lines) < 2 else (" ".join(box.lines),)
    size = box.size
    if box.colour:
        longest = max(map(len, lines), default=1)
        size = min(size, box.height / len(lines) * 0.85, box.width / longest * 1.75)
    pitch = box.height / (len(lines) + (0.4 if len(lines) > 1 else 0))
    middle = box.y + box.height / 2
    return [
        (text, size, box.x + box.width / 2, middle + (n - (len(lines) - 1) / 2) * pitch)
        for n, text in enumerate(lines)
    ]


def png(made: Picture, path: Path) -> None:
    """Write a picture as PNG.

    Raises
    ------
    BackendUnavailable
        Where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise BackendUnavailable(
            f"PNG pictures need matplotlib ({error}); pip install 'gpuemu[plot]', or take SVG"
        ) from None
    dpi = 144
    figure = Figure(figsize=(made.width / 72, made.height / 72), dpi=dpi)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, made.width), ylim=(made.height, 0))
    axes.axis("off")
    for box in made.boxes:
        if box.colour:
            axes.add_patch(
                Rectangle(
                    (box.x, box.y), box.width, box.height, fc=box.colour, ec="#666666", lw=0.5
                )
            )
        for text, size, x, y in _placed(box):
            axes.text(x, y, text, fontsize=size, ha="center", va="center")
    FigureCanvasAgg(figure).print_png(str(path))
