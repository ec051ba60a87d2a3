"""The files that `gpuemu diff` writes beside a campaign's folder: the report, the vector file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..difftest.campaign.campaign import Campaign
    from ..difftest.campaign.folder import Folder
    from ..difftest.campaign.tally import Row, Tally


def refuse_to_save(rows: Iterable[Any]) -> None:
    """Raise `BadValue` where a vector file cannot hold the cases of these operations."""
    from ..difftest.operation import ArrayOperation
    from ..errors import BadValue

    for row in rows:
        if isinstance(row, ArrayOperation):
            raise BadValue(
                f"--save with {row.mnemonic}; vector files hold matrix instructions alone: a "
                f"replay line, which @FILE takes too, repeats its cases"
            )


def report(path: Path, kept: Folder, facts: dict[str, Any]) -> None:
    """Write the report of a campaign's folder."""
    from .. import __version__
    from ..difftest.report import write

    campaign = kept.campaign
    shown = {
        **{
            name: value for name, value in vars(campaign).items() if value not in (None, (), 0, 0.0)
        },
        "classes": ", ".join(campaign.classes) or "all",
        "oracle": "numpy",
        "seconds": facts["seconds"],
        "interrupted": facts["interrupted"],
        "tool": f"gpuemu {__version__}",
    }
    write((record.facts() for record in kept.records()), shown, path)


def save(path: Path, campaign: Campaign, tally: Tally) -> None:
    """Write the first failing case of every instruction, as it was made, with the reference's
    output; nothing where none failed.
    """
    import datetime

    from .. import __version__
    from ..difftest import vectors
    from ..difftest.campaign import drive
    from ._output import write_whole

    def groups() -> Iterator[vectors.Group]:
        for row in tally.failing:
            case, operands = _case(row), _case(row).images()
            against = drive.side(row.against, campaign.timeout)
            d = against(case.instruction, operands, case.modifiers)
            yield vectors.Group(case.instruction, case.modifiers, operands, d)

    today = datetime.date.today().isoformat()
    origin = vectors.Provenance("model", campaign.reference, today, f"gpuemu {__version__}")
    made = list(groups())
    if not made:
        typer.echo(f"no case failed: {path} is not written", err=True)
        return
    vectors.refuse_groups(path, len(made))
    write_whole(path, lambda temporary: vectors.save(temporary, origin, made))


def _case(row: Row) -> Any:
    assert row.case is not None
    return row.case
