"""Shared by the tests of campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuemu.difftest.campaign import drive


@pytest.fixture
def subjects_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let campaigns name the modules of this folder as subjects, loaded anew for each test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    drive.side.cache_clear()
    yield
    drive.side.cache_clear()
