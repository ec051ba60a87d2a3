"""A campaign's report: one HTML file without scripts, that needs nothing from anywhere."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import BadFile
from ...mfma.instructions import ARCHITECTURES
from . import pictures
from .totals import LANES, OTHERS, InstructionTotals, Totals, add_up

MOST_HEAT_MAPS = 24
HERE = Path(__file__).parent


def write(records: Iterable[Any], campaign: Mapping[str, Any], path: Path) -> None:
    """Write the report of a campaign.

    Parameters
    ----------
    records : iterable of mapping or object
        One a finished chunk, with the fields of `campaign.Record`; read once, none is kept.
    campaign : mapping of str to text, number or bool
        "subject" and "reference", their names; "oracle", what a sample was compared with as well;
        "seconds", the time by the clock; "interrupted". Every other entry is shown as it is.
    path : Path
        The .html file; it is whole or not there.

    Raises
    ------
    BadFile
        Where it cannot be written.
    """
    text = render(add_up(records), campaign)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="backslashreplace",
            dir=path.parent,
            prefix=f".{path.name}.",
            delete=False,
        ) as file:
            temporary = Path(file.name)
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from None


def render(totals: Totals, campaign: Mapping[str, Any]) -> str:
    """Return the page."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": "{:,}".format, "short": short, "command": command}
    rows = sorted(totals.instructions.values(), key=_place)
    archs = list(dict.fromkeys(row.arch for row in rows))
    seconds = float(campaign.get("seconds") or totals.seconds)
    return environment.get_template("page.html").render(
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        totals=totals,
        verdict=verdict(totals, campaign),
        subject=str(campaign.get("subject", "the subject")),
        oracle=str(campaign.get("oracle", "numpy")),
        facts=_facts(campaign),
        seconds=seconds,
        rate=totals.outputs / seconds if seconds else 0.0,
        rows=rows,
        archs=archs,
        class_names={
            arch: pictures.class_names([row for row in rows if row.arch == arch]) for arch in archs
        },
        class_picture=pictures.class_picture,
        modifier_picture=pictures.modifier_picture,
        heat_maps=[row for row in totals.failing if row.wrong][:MOST_HEAT_MAPS],
        heat_picture=pictures.heat_picture,
        axes=pictures.axes,
        lanes=LANES,
        others=OTHERS,
    )


def _place(row: InstructionTotals) -> tuple[int, str]:
    known = row.arch in ARCHITECTURES
    return ARCHITECTURES.index(row.arch) if known else len(ARCHITECTURES), row.name


def _facts(campaign: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = {"subject", "reference", "oracle", "seconds", "interrupted"}
    return [(name, str(x)) for name, x in campaign.items() if name not in shown and x is not None]


def verdict(totals: Totals, campaign: Mapping[str, Any]) -> str:
    """Return the campaign's result in one sentence."""
    subject, reference = campaign.get("subject", "the subject"), campaign.get("reference", "")
    so_far = "So far: " if campaign.get("interrupted") else ""
    against = f" against {reference}" if reference else ""
    count = len(totals.instructions)
    what = f"{count} instruction{'s' if count != 1 else ''}"
    if not totals.cases:
        return f"{so_far}nothing was compared."
    if totals.verdict == "equal":
        return (
            f"{so_far}{subject}{against}: all {totals.outputs:,} outputs of {what} are equal, "
            "bit for bit."
        )
    failing = totals.failing
    no_answer = sum(row.verdict == "failed" for row in failing)
    how = "is wrong" if len(failing) == 1 else "are wrong"
    rest = f"; {no_answer} of them gave no answer" if no_answer else ""
    return (
        f"{so_far}{subject}{against}: {len(failing)} of {what} {how}, in "
        f"{totals.failed_cases:,} of {totals.cases:,} cases{rest}."
    )


def short(value: float) -> str:
    """Return a number in three digits with its power of a thousand.

    >>> short(1234567.0), short(12.0), short(2.5e9)
    ('1.23 M', '12', '2.5 G')
    """
    for power, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= power:
            return f"{value / power:.3g}{name}"
    return f"{value:.3g}"


def command(replay: str) -> str:
    """Return the line that repeats a case: a replay text quoted for the shell."""
    return replay if replay.startswith("gpuemu ") else f"gpuemu replay {shlex.quote(replay)}"


__all__ = ["command", "render", "short", "verdict", "write"]
