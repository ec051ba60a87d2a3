"""`gpuemu info` where parts of the machine cannot be asked."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from gpuemu import machine
from gpuemu.backends import cuda
from gpuemu.errors import BackendUnavailable


def test_a_processor_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def without_proc(path: Path, *args: Any, **options: Any) -> Any:
        if path.parts[:2] == ("/", "proc"):
            raise FileNotFoundError
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", without_proc)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert machine.info()["processor"] == "riscv64"


def test_why_there_is_no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[int, int]:
        raise BackendUnavailable("no such library")

    monkeypatch.setattr(cuda, "nvrtc_version", none)
    assert machine.info()["nvrtc"] == "none (no such library)"
