"""The worked example of the documentation runs as it stands."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_worked_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    text = (DOCS / "assembly.md").read_text(encoding="utf-8")
    found = doctest.DocTestParser().get_doctest(text, {}, "assembly.md", str(DOCS), 0)
    assert len(found.examples) > 15
    failures: list[str] = []
    doctest.DocTestRunner(verbose=False).run(found, out=failures.append)
    assert not failures, "".join(failures)


def test_every_question_has_its_probe() -> None:
    """The table's last column and the programs are the same names."""
    rows = re.findall(r"^\| .* \| `?(\w+)`? \|$", (DOCS / "fidelity.md").read_text(), re.MULTILINE)
    named = {name for name in rows if name not in ("probe", "none")}
    assert named == {p.stem for p in (DOCS / "probes").glob("*.hip")} - {"template"}
