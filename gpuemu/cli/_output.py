"""What the commands share: consoles, tables, JSON, and files that are either whole or not there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import BadFile

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Arch = typer.Option(
    None, "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950.", show_default=False
)
Json = typer.Option(False, "--json", help="Print JSON instead of tables.")


def console(stderr: bool = False) -> Console:
    """Return a Rich console that never highlights numbers or guesses at markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)


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


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name beside its place, then rename it.

    Raises
    ------
    BadFile
        Where the folder is missing or cannot be written; nothing is left there.
    """
    try:
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror}") from None
    os.close(handle)
    try:
        write(Path(temporary))
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


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
