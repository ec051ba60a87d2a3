"""The table of `auto`: kept in a file, measured where that is none, and never during a capture."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuemu.gemm.emulation import tuning

SHAPE = (4096, 4096, 4096)


class Device:
    """What `tuning` asks of CuPy, and a table that gives every size its time."""

    def __init__(self) -> None:
        self.capturing, self.measured = False, 0
        stream = types.SimpleNamespace(is_capturing=lambda: self.capturing)
        self.cuda = types.SimpleNamespace(
            get_current_stream=lambda: stream, runtime=types.SimpleNamespace(getDevice=lambda: 0)
        )

    def measure(self) -> tuning.Table:
        self.measured += 1
        return {
            dtype: {
                str(n): {x: 1.0 if x == "slices-3" else 9.0 for x in names} for n in tuning.SIZES
            }
            for dtype, names in tuning._NAMES.items()
        }


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    made = Device()
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setattr(tuning, "measure", made.measure)
    monkeypatch.setattr(tuning, "device_name", lambda device: "any")
    monkeypatch.setattr(tuning, "path", lambda device: tmp_path / "table.json")
    tuning.table.cache_clear()
    tuning._choose.cache_clear()
    yield made
    tuning.table.cache_clear()
    tuning._choose.cache_clear()


def forget() -> None:
    tuning.table.cache_clear()
    tuning._choose.cache_clear()


def test_measured_once_for_every_process(device: Device) -> None:
    for _ in range(2):
        assert tuning.choose("float32", SHAPE, 23) == "slices"
        forget()  # as another process
    assert device.measured == 1


def test_a_capture_waits_for_nothing_and_keeps_nothing(device: Device) -> None:
    device.capturing = True
    assert tuning.choose("float32", SHAPE, 23) == "native"
    assert tuning.choose("float32", SHAPE, 39) == "slices"  # more bits than native has
    assert device.measured == 0
    device.capturing = False
    assert tuning.choose("float32", SHAPE, 23) == "slices"


@pytest.mark.parametrize(
    "damage",
    [
        lambda table: [],
        lambda table: {"float32": table["float32"]},
        lambda table: table | {"float64": dict(list(table["float64"].items())[1:])},
        lambda table: table | {"float32": {n: {} for n in table["float32"]}},
        lambda table: table | {"float32": dict.fromkeys(table["float32"], 1.0)},
        lambda table: (
            table | {"float32": {n: dict.fromkeys(row) for n, row in table["float32"].items()}}
        ),
    ],
)
def test_a_damaged_file_is_measured_again(device: Device, damage: Any) -> None:
    file = tuning.path("any")
    file.write_text(json.dumps(damage(device.measure())))
    assert tuning.choose("float32", SHAPE, 23) == "slices"
    assert device.measured == 2
    forget()
    assert tuning.choose("float32", SHAPE, 23) == "slices" and device.measured == 2
