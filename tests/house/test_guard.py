"""bench/guard.py knows all of its workloads, and what "slower" means."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from gpuemu.backends import host

FILE = Path(__file__).parents[2] / "bench" / "guard.py"


@pytest.fixture(scope="module")
def guard() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guard", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not host.available(), reason="no C++ compiler")
def test_every_workload_has_a_kept_ratio(guard: ModuleType) -> None:
    assert guard.workloads().keys() == json.loads(guard.KEPT.read_text()).keys()


def test_slower(guard: ModuleType) -> None:
    kept = {"a": 1.0, "b": 1.0}
    assert guard.slower({"a": 2.4, "b": 2.6, "new": 9.0}, kept, 2.5) == ["b"]


def test_ratio_takes_the_best_of_each(guard: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([4.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(guard, "seconds", lambda work: next(times))
    assert guard.ratio(lambda: None, lambda: None, 2) == 2.0
