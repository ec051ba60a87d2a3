"""Kernel sources and the cache of what is compiled from them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from gpuemu.backends import sources
from gpuemu.errors import GpuemuError


def test_any_edit_makes_a_new_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for texts in ({"a.cuh": "1"}, {"a.cuh": "2"}, {"b.cuh": "1"}, {"a.cuh": "1", "b.cuh": ""}):
        monkeypatch.setattr(sources, "texts", lambda texts=texts: texts)
        digests.add(sources.digest.__wrapped__())
    assert len(digests) == 4


def test_no_sources_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "__file__", str(tmp_path / "gpuemu" / "backends" / "sources.py"))
    with pytest.raises(GpuemuError, match=r"kernel sources not found: neither .*cuda_src"):
        sources.directory.__wrapped__()


@pytest.mark.parametrize("name", ["GPUEMU_CACHE_DIR", "XDG_CACHE_HOME"])
def test_the_cache_lies_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("GPUEMU_CACHE_DIR", raising=False)
    monkeypatch.setenv(name, str(tmp_path / "chosen"))
    want = tmp_path / "chosen" / ("gpuemu" if name == "XDG_CACHE_HOME" else "")
    assert sources.cache_directory() == want and want.is_dir()


def test_a_cache_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "file" / "inside"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = sources.cache_directory()
    assert found == tmp_path / f"gpuemu-cache-{os.getuid()}" and found.is_dir()
    said = capsys.readouterr().err
    assert f"Not a directory; compiled code goes to {found}" in said


def test_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    sources.store(tmp_path / "x", b"data")
    assert (tmp_path / "x").read_bytes() == b"data"
    with pytest.raises(TypeError):
        sources.store(tmp_path / "y", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
