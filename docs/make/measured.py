"""The measured figures that pages and pictures show: docs/measured/*.json, which the scripts of
bench/ write with `--json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "measured"


@dataclass(frozen=True)
class Measured:
    """One report: where and when it was measured, and its rows.

    Attributes
    ----------
    device, cuda, date : str
        Empty where the report does not say.
    rows : list of dict
    """

    device: str
    cuda: str
    date: str
    rows: list[dict[str, Any]]

    @property
    def caption(self) -> str:
        """Return device, CUDA and date on one line."""
        cuda = f"CUDA {self.cuda}" if self.cuda else ""
        return ", ".join(part for part in (self.device, cuda, self.date) if part)


def read(name: str, rows: str = "rows") -> Measured | None:
    """Return docs/measured/NAME.json, or None where it does not exist; `rows` is their key."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    facts = found["facts"]
    major, minor = divmod(int(facts["runtime"]), 1000)  # 13000 is CUDA 13.0
    cuda = f"{major}.{minor // 10}"
    return Measured(facts["device"], cuda, facts.get("date", ""), found[rows])


def median(value: Any) -> float:
    """Return a measured figure: a number, or the median of one with its spread."""
    return float(value["median"] if isinstance(value, dict) else value)
