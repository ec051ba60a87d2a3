"""What coverage leaves out names code that exists, and needs what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "gpuemu").rglob("*.py")}
DEVICE = re.compile(r"cupy|cuda|cublas|torch|[Kk]ernel|library\(|cuTensor")


def body(source: str, start: int) -> str:
    """Return the code of the block whose first line holds a place."""
    first = source.rfind("\n", 0, start) + 1
    indent = len(source[first:]) - len(source[first:].lstrip(" "))
    head, *lines = source[first:].splitlines()
    found = [head]
    for line in lines:
        if line.strip() and not line.startswith(" " * (indent + 1)) and not line.startswith(")"):
            break
        found.append(line)
    return re.sub(r'""".*?"""|#[^\n]*', "", "\n".join(found), flags=re.DOTALL)  # code alone


@pytest.mark.parametrize("pattern", CONFIG["report"]["exclude_also"][1:])
def test_one_pattern_is_one_block_that_needs_a_device(pattern: str) -> None:
    found = [
        (path, match.start())
        for path, source in SOURCES.items()
        if str(path.relative_to(ROOT)) not in CONFIG["run"]["omit"]
        for match in re.finditer(pattern, source)
    ]
    assert len(found) == 1, f"{pattern!r} of pyproject.toml fits {len(found)} places"
    path, start = found[0]
    assert DEVICE.search(body(SOURCES[path], start).partition("\n")[2]), f"{path}: no device"


def test_files_left_out_exist() -> None:
    for file in CONFIG["run"]["omit"]:
        assert (ROOT / file).is_file()
