"""The table of open questions and the programs that answer them are about the same questions."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_question_has_its_probe() -> None:
    """The table's last column and the programs are the same names."""
    rows = re.findall(r"^\| .* \| `?(\w+)`? \|$", (DOCS / "fidelity.md").read_text(), re.MULTILINE)
    named = {name for name in rows if name not in ("probe", "none")}
    assert named == {p.stem for p in (DOCS / "probes").glob("*.hip")} - {"template"}
