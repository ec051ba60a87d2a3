"""Algorithms of int8 products: what is tried, what is remembered, on disk and off."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuemu.backends import sources
from gpuemu.gemm.emulation import cublaslt, device_algorithms, device_products, tuning
from gpuemu.gemm.emulation.cublaslt import Product

PRODUCT = Product(64, 32, 128, 0, 8192, 12288, 128, 128)
SCRATCH = (20480, 4096)


class Library:
    """A cublasLt whose candidates are numbered."""

    version = 130100

    def __init__(self, count: int) -> None:
        self.runs = [self.run(i) for i in range(count)]

    def run(self, i: int) -> Callable[[int, int], None]:
        return lambda base, stream: None

    def candidates(self, product: Product, offset: int, spare: int, most: int) -> list[Any]:
        assert (product, offset, spare, most) == (PRODUCT, *SCRATCH, device_algorithms.CANDIDATES)
        return [(run, 256 * i) for i, run in enumerate(self.runs)]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Take times from a list that a test fills; what is measured is appended to it."""
    found: list[Any] = [[3.0, 1.0, 2.0]]

    def measure(runs: Any, workspace: int) -> Any:
        found.append((list(runs), workspace))
        return found[0]

    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "device_name", lambda device: "device-1-2")
    monkeypatch.setattr(device_algorithms, "measure", measure)
    return found


def choose(library: Library) -> Any:
    return device_algorithms.choose(library, 0, PRODUCT, SCRATCH)  # type: ignore[arg-type]


def file(library: Library) -> Path:
    return device_algorithms.path(0, library)  # type: ignore[arg-type]


def test_the_fastest_is_tried_once_and_kept(tried: list[Any]) -> None:
    library = Library(3)
    for _ in range(2):
        assert choose(library) == (library.runs[1], 256)
    assert tried[1:] == [(library.runs, sum(SCRATCH))]
    stored = json.loads(file(library).read_text())
    assert stored == {device_algorithms.name(PRODUCT, SCRATCH[1]): 1}


def test_a_choice_is_read_from_disk(tried: list[Any]) -> None:
    library = Library(3)
    file(library).write_text(json.dumps({device_algorithms.name(PRODUCT, SCRATCH[1]): 2}))
    assert choose(library) == (library.runs[2], 512)
    assert len(tried) == 1


def test_a_choice_that_is_no_candidate_is_tried_again(tried: list[Any]) -> None:
    library = Library(3)
    file(library).write_text(json.dumps({device_algorithms.name(PRODUCT, SCRATCH[1]): 7}))
    assert choose(library) == (library.runs[1], 256)
    assert len(tried) == 2


@pytest.mark.parametrize("text", ["", "[1]", '{"a": '])
def test_a_damaged_file_is_as_none(tried: list[Any], text: str) -> None:
    library = Library(3)
    file(library).write_text(text)
    assert choose(library) == (library.runs[1], 256)
    assert json.loads(file(library).read_text()) == {device_algorithms.name(PRODUCT, SCRATCH[1]): 1}


def test_a_folder_that_cannot_be_written(tried: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sources, "store", full)
    library = Library(3)
    for _ in range(2):
        assert choose(library) == (library.runs[1], 256)
    assert len(tried) == 2  # remembered by the process


def test_choices_of_other_processes_stay(tried: list[Any]) -> None:
    library = Library(3)
    device_algorithms.table(file(library))
    file(library).write_text(json.dumps({"another": 4}))
    choose(library)
    assert json.loads(file(library).read_text())["another"] == 4


def test_a_gain_within_noise_keeps_the_first(tried: list[Any]) -> None:
    tried[0] = [1.0, 0.99, 1.5]
    library = Library(3)
    assert choose(library) == (library.runs[0], 0)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_tried_without_a_choice(tried: list[Any], count: int) -> None:
    library = Library(count)
    assert choose(library) == ((library.runs[0], 0) if count else None)
    assert len(tried) == 1 and not file(library).is_file()


def test_a_captured_stream_takes_the_first_and_keeps_nothing(tried: list[Any]) -> None:
    tried[0] = None
    library = Library(3)
    assert choose(library) == (library.runs[0], 0)
    assert not file(library).is_file()


class Device:
    """A CuPy whose time passes only in the products that are measured."""

    def __init__(self, capturing: bool = False) -> None:
        self.now, self.capturing, self.order = 0.0, capturing, []
        stream = types.SimpleNamespace(ptr=5, is_capturing=lambda: self.capturing)
        self.cuda = types.SimpleNamespace(
            alloc=lambda size: types.SimpleNamespace(ptr=size),
            get_current_stream=lambda: stream,
            get_elapsed_time=lambda start, stop: stop.at - start.at,
            Event=lambda: Event(self),
        )

    def product(self, name: str, *times: float) -> Any:
        """Return a product that takes each of `times` for one round."""

        def run(base: int, stream: int) -> None:
            assert (base, stream) == (1024, 5)
            self.now += times[self.order.count(name) // device_algorithms.RUNS]
            self.order.append(name)

        return run


class Event:
    def __init__(self, device: Device) -> None:
        self.device, self.at = device, 0.0

    def record(self, _stream: Any) -> None:
        self.at = self.device.now

    def synchronize(self) -> None:
        """Nothing runs behind the CPU."""


def test_products_are_timed_in_turn_and_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setitem(sys.modules, "cupy", device)
    runs = [device.product("a", 1.0, 9.0, 2.0), device.product("b", 3.0, 3.0, 3.0)]
    timed = device_algorithms.RUNS - 1
    assert device_algorithms.measure(runs, 1024) == [2.0 * timed, 3.0 * timed]
    once = ["a"] * device_algorithms.RUNS + ["b"] * device_algorithms.RUNS
    assert device.order == once * device_algorithms.ROUNDS


def test_nothing_is_measured_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(capturing=True)
    monkeypatch.setitem(sys.modules, "cupy", device)
    assert device_algorithms.measure([device.product("a", 1.0)], 1024) is None
    assert device.order == []


@pytest.mark.parametrize(("planes", "expected"), [(3, None), (4, "rastered"), (14, "rastered")])
def test_large_products_of_many_planes_run_in_another_raster(
    monkeypatch: pytest.MonkeyPatch, planes: int, expected: str | None
) -> None:
    def rastered(*given: Any) -> Any:
        assert given == (large, *SCRATCH, device_products.LARGE_CLUSTER)
        return "rastered", 256

    large = Product(8192, 4096, 8192, 0, 1 << 26, 1 << 27, 8192, 8192)
    library = types.SimpleNamespace(rastered=rastered)
    monkeypatch.setattr(cublaslt, "library", lambda device: library)
    run, scratch = device_products.prepare(large, 0, *SCRATCH, planes)
    assert (scratch, run == "rastered") == ((256, True) if expected else (0, False))
