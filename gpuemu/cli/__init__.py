"""The command line: one file a command, each with `register(app)` and its heavy imports inside
functions.

Exit codes: 0 fine, 1 mismatch found, 2 bad use, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup

# In the order of `gpuemu --help`.
COMMANDS = (
    "list_",
    "show",
    "layout",
    "run",
    "compare",
    "matmul",
    "asm",
    "disasm",
    "run_asm",
    "trace",
    "cost",
    "tile",
    "gemm",
    "diff",
    "replay",
    "verify",
    "diagnose",
    "explain",
    "probe",
    "bench",
    "info",
)


class Commands(TyperGroup):
    """A group of commands that prints the project's errors as one line: bad use is no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit 1 after a mismatch, 2 after any other error of the project."""
        from ..errors import GpuemuError, Mismatch

        try:
            return super().invoke(ctx)
        except GpuemuError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1 if isinstance(error, Mismatch) else 2) from None


def build() -> typer.Typer:
    """Return the application with every command that is installed."""
    app = typer.Typer(
        cls=Commands,
        name="gpuemu",
        help="Matrix and tile instructions of other chips, bit for bit, on your machine.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def options(
        version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ) -> None:
        if version:
            from .. import __version__

            typer.echo(f"gpuemu {__version__}")
            raise typer.Exit

    for name in COMMANDS:
        if find_spec(f"{__name__}.{name}"):
            import_module(f"{__name__}.{name}").register(app)
    return app


def main() -> None:
    """Run the command line; a standard output that takes no more is an error of one line."""
    try:
        try:
            build()(prog_name="gpuemu")
        finally:
            print(end="", flush=True)
    except OSError:
        failure = _output_failure()
        if failure is None:
            raise
        if isinstance(failure, BrokenPipeError):
            sys.exit(1)
        typer.echo(f"error: standard output: {failure.strerror or failure}", err=True)
        sys.exit(2)


def _output_failure() -> OSError | None:
    """Return why standard output cannot be written, else None; a bad one is put away, so that
    the interpreter does not try again when it ends.
    """
    try:
        print(flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None
