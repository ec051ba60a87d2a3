"""A picture of one tile: its valid region, padding, undefined elements, and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import BackendUnavailable, BadValue
from .descriptor import Tile

MAX_TEXT = 256  # elements whose values are still readable when written into their cells
COLOURS = {"valid": "#c6dbef", "padding": "#fdd0a2", "undefined": "#bdbdbd"}


def classify(tile: Tile, fragment: int) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """Return what each element of a fragment is: 0 valid, 1 padding, 2 undefined."""
    rows, columns = tile.descriptor.valid
    kinds = np.ones(tile.descriptor.shape, np.int8)
    kinds[rows, columns] = 0
    kinds[~tile.defined[fragment]] = 2
    return kinds


def draw(tile: Tile, path: Path, fragment: int = 0, title: str = "tile") -> None:
    """Draw one fragment of a tile as a PNG file.

    Parameters
    ----------
    tile : Tile
        As `Core.tile` returns it.
    path : Path
        Where the picture goes.
    fragment : int
        Which PE's fragment.
    title : str
        Heading.

    Raises
    ------
    BackendUnavailable
        Where matplotlib is not installed.
    BadValue
        For a fragment that the tile does not have.
    """
    if not 0 <= fragment < len(tile.bits):
        raise BadValue(f"fragment {fragment}; legal: 0 to {len(tile.bits) - 1}")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import ListedColormap
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch, Rectangle
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise BackendUnavailable(
            f"a picture needs matplotlib ({error}); pip install 'gpuemu[plot]'"
        ) from error
    rows, columns = tile.descriptor.shape
    size = min(2 + 0.7 * columns, 18), min(2 + 0.4 * rows, 18)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    kinds = classify(tile, fragment)
    axes.imshow(kinds, cmap=ListedColormap([*COLOURS.values()]), vmin=0, vmax=2, aspect="auto")
    box = tile.descriptor.valid_columns, tile.descriptor.valid_rows
    axes.add_patch(Rectangle((-0.5, -0.5), *box, fill=False, edgecolor="#08519c", linewidth=2))
    if rows * columns <= MAX_TEXT:
        for (row, column), text in np.ndenumerate(_texts(tile, fragment)):
            axes.text(column, row, text, ha="center", va="center", fontsize=7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    axes.set_title(f"{title}, PE{fragment}: {_describe(tile)}", fontsize=9)
    handles = [Patch(facecolor=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, format="png", dpi=120)


def _texts(tile: Tile, fragment: int) -> np.ndarray[tuple[int, int], np.dtype[np.str_]]:
    values = tile.values[fragment]
    digits = tile.descriptor.dtype.bits // 4
    texts = np.full(values.shape, "", dtype="U40")
    for index in np.argwhere(tile.defined[fragment]):
        where = tuple(index)
        texts[where] = f"{float(values[where]):.4g}\n{int(tile.bits[fragment][where]):0{digits}X}"
    return texts


def _describe(tile: Tile) -> str:
    have = tile.descriptor
    return (
        f"{have.dtype.name} {have.rows} x {have.columns}, valid {have.valid_rows} x "
        f"{have.valid_columns}, {have.capacity} B, mask {tile.mask:04b}"
    )
