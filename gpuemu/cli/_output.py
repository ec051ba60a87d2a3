"""What the commands share: consoles, tables, JSON, and files that are either whole or not there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import BackendUnavailable, BadFile, BadValue

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Arch = typer.Option(
    None, "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950.", show_default=False
)
Json = typer.Option(False, "--json", help="Print JSON instead of tables.")


def console(stderr: bool = False) -> Console:
    """Return a Rich console that never highlights numbers or guesses at markup.

    A terminal of fewer than 80 columns gets lines for 80 and wraps them itself: columns that are
    narrower than their words and numbers would cut them.
    """
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)
    made.width = max(made.width, 80)
    return made


def table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table of plain columns; those named in `right` are numbers."""
    from rich.table import Table

    made = Table(
        box=None,
        padding=(0, 2, 0, 0),
        title=title,
        title_justify="left",
        header_style="bold",
        pad_edge=False,
    )
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON, one item of a list a line; `indent=None` keeps an object on one
    line.
    """
    if isinstance(value, list):
        lines = ",\n".join(json.dumps(item) for item in value)
        typer.echo(f"[\n{lines}\n]" if value else "[]")
    else:
        typer.echo(json.dumps(value, indent=indent))


def check_outputs(*paths: Path | None) -> None:
    """Raise `BadFile` where `write_whole` could not write, as far as can be told before."""
    for path in paths:
        if path is not None:
            _target(path)


def _target(path: Path) -> Path:
    """Return the place of a file to write, links followed; raise where there is no place for it."""
    target = Path(os.path.realpath(path))
    try:
        if (path.exists() or os.path.lexists(target)) and not target.is_file():
            raise BadFile(f"{path} is no regular file; legal: a file, or a new name in a folder")
        if not target.parent.is_dir():
            raise BadFile(f"{path}: cannot be written: there is no folder {target.parent}")
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror}") from None
    return target


def check_picture(path: Path | None, *endings: str) -> None:
    """Raise where matplotlib could not write a picture of this name; `endings`, where given, are
    the legal ones.
    """
    if path is None:
        return
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise BackendUnavailable("a picture needs matplotlib: pip install 'gpuemu[plot]'") from None
    legal = endings or sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in legal:
        raise BadValue(f"{path} is no name of a picture; legal endings: .{', .'.join(legal)}")
    _target(path)


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name beside its place, then rename it; links stay and lead
    to it.

    Raises
    ------
    BadFile
        Where the folder is missing or cannot be written, or something that is no regular file
        (a folder, a device, a pipe) has the name; nothing is left there.
    """
    target = _target(path)
    try:
        handle, temporary = tempfile.mkstemp(
            dir=target.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror}") from None
    os.close(handle)
    try:
        write(Path(temporary))
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def save_array(path: Path, array: Any) -> None:
    """Write an array as .npy, whatever the name's ending."""
    import numpy as np

    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def integers(values: Iterable[int]) -> str:
    """Return ascending integers as text, runs as ranges.

    >>> integers([0, 1, 2, 3, 8, 10, 11])
    '0-3, 8, 10-11'
    """
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
