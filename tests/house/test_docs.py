"""The documentation is true: every example of every page runs as it stands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def given(page: str) -> dict[str, Any]:
    """Return the matrices that a page takes for granted."""
    rng = np.random.default_rng(0)
    dtype = np.float16 if page == "matmul.md" else np.float32
    names = {name: rng.standard_normal((32, 32)).astype(dtype) for name in "AB"}
    return {**names, "C": np.zeros((32, 32), np.float32)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DOCS / "examples", tmp_path / "docs" / "examples")
    for listing in DOCS.glob("*.s"):
        shutil.copy(listing, tmp_path / "docs")
    monkeypatch.chdir(tmp_path / "docs")
    names = given(page.name) if page.name in ("matmul.md", "emulated.md") else {}
    pages.run(page, names)


def test_a_wrong_example_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for wrong in (
        "```python\n>>> 1 + 1\n3\n\n```\n",
        "```python\nassert False\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ false\n```\n",
    ):
        page.write_text(wrong)
        with pytest.raises(AssertionError):
            pages.run(page, {})
