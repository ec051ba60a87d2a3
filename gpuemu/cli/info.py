"""`gpuemu info`: what a bug report needs."""

from __future__ import annotations

import typer

from ._output import Json, console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(info)


def info(json: bool = Json) -> None:
    """Show versions, devices, compiler and backends: what a bug report needs."""
    from ..machine import info as collect

    facts = collect()
    if json:
        print_json(facts)
        return
    made = table("", "")
    made.show_header = False
    for name, value in facts.items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {text}" for key, text in value.items())
        elif isinstance(value, list):
            value = (
                "\n".join(", ".join(f"{k} {v}" for k, v in item.items()) for item in value)
                or "none"
            )
        made.add_row(name, str(value))
    console().print(made)
