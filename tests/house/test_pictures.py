"""Pictures are made from the code and from measured figures, never by hand."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import matplotlib
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """Return `style` of docs/make, writing into a folder of its own."""
    monkeypatch.syspath_prepend(str(DOCS / "make"))
    for name in ("style", "layouts", "errors", "speed", "measured"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = dict(matplotlib.rcParams)
    style = importlib.import_module("style")
    monkeypatch.setattr(style, "PICTURES", tmp_path)
    yield style
    matplotlib.rcParams.update(before)


def test_layouts_are_those_of_the_tables(made: ModuleType) -> None:
    layouts = importlib.import_module("layouts")
    for file, *row in layouts.LAYOUTS:
        picture = (DOCS / "pictures" / f"{file}.svg").read_text(encoding="utf-8")
        assert picture == layouts.svg(*row), f"{file}: run `make docs`"


def test_speed_is_drawn_where_it_was_measured(made: ModuleType, tmp_path: Path) -> None:
    importlib.import_module("speed").draw_all()
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name for path in (DOCS / "pictures").glob("[rt][oh]*.svg")}
    for path in tmp_path.glob("*.svg"):
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert "NVIDIA" in text


def test_what_was_not_measured_is_not_drawn(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, speed = importlib.import_module("measured"), importlib.import_module("speed")
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "empty")
    speed.draw_all()
    assert not list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize("path", sorted((DOCS / "measured").glob("*.json")), ids=lambda p: p.stem)
def test_figures_say_where_they_come_from(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["facts"].keys() >= {"device", "runtime", "gpuemu"}
