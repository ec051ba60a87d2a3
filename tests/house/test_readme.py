"""README.md is true: its code runs, and prints what it says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import gpuemu

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_code_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = blocks("python")
    names: dict[str, object] = {}
    exec(first, names)
    assert capsys.readouterr().out == blocks("text")[0]
    for code in others:
        exec(code, names)
    assert names["bits"][0] == 0x4200 and names["flags"] == 0  # type: ignore[index]


def test_fidelity_table_counts_the_rows() -> None:
    for fidelity, count in re.findall(r"\| `([a-z-]+)` \| (\d+) \|", README):
        assert sum(i.fidelity == fidelity for i in gpuemu.instructions()) == int(count)


def test_table_of_instructions_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "make"))
    tables = importlib.import_module("tables")
    assert tables.filled(README) == README, "run `make docs`"
    assert tables.filled(README.replace("20 MFMA", "21 MFMA")) == README


def test_links_and_commands_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).is_file(), target
    for script in re.findall(r"python (bench/\w+\.py)", README):
        assert (ROOT / script).is_file(), script
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
    from gpuemu.cli import COMMANDS

    known = {name.rstrip("_").replace("_", "-") for name in COMMANDS}
    table = README.split("| command |")[1].split("\n\n")[0]
    cells = " ".join(re.findall(r"^\| (`gpuemu .*?) \|", table, re.M))
    named = set(re.findall(r"`(?:gpuemu )?([a-z-]+)`", cells))
    assert named <= known, named - known
