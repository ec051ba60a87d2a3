"""Kernels compiled in the background: once each, side by side, in the order of the jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuemu.backends import ahead, cuda, sources
from gpuemu.errors import CompileError

SECONDS = 20.0  # until a test that hangs fails


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda, "nvrtc_version", lambda: (13, 0))


class Compiler:
    """In place of NVRTC: counts who comes in, and holds everybody until `go`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.seen: list[int] = []
        self.two_inside = threading.Event()

    def __call__(self, source: str, defines: cuda.Defines, arch: str, want: str) -> bytes:
        self.seen.append(int(defines["N"]))
        if len(self.seen) >= 2:
            self.two_inside.set()
        assert self.go.wait(SECONDS)
        if defines["N"] == 99:
            raise CompileError("no such kernel")
        return b"binary"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    made = Compiler()
    monkeypatch.setattr(cuda, "_compile", made)
    yield made
    made.go.set()


def jobs(*numbers: int) -> Any:
    return [("mfma.cu", {"N": n}) for n in numbers]


def test_several_at_a_time_and_each_once(compiler: Compiler) -> None:
    with ahead.compiling(jobs(1, 2), "sm_90a", 2):
        assert compiler.two_inside.wait(SECONDS)
        asked = threading.Thread(target=cuda.cubin_path, args=("mfma.cu", {"N": 1}))
        asked.start()
        asked.join(0.2)
        assert asked.is_alive()  # waits for the thread that has it in work
        compiler.go.set()
        asked.join(SECONDS)
    assert sorted(compiler.seen) == [1, 2]
    assert cuda.cubin("mfma.cu", {"N": 1}) == b"binary"


def test_what_is_not_begun_is_left_out(compiler: Compiler) -> None:
    with ahead.compiling(jobs(*range(1, 20)), "sm_90a", 2):
        assert compiler.two_inside.wait(SECONDS)
    compiler.go.set()
    assert cuda.cubin("mfma.cu", {"N": 20}) == b"binary"
    assert sorted(compiler.seen) == [1, 2, 20]


def test_an_error_is_raised_where_the_kernel_is_asked_for(compiler: Compiler) -> None:
    compiler.go.set()
    with ahead.compiling(jobs(99, 1), "sm_90a", 1):
        assert cuda.cubin("mfma.cu", {"N": 1}) == b"binary"
        with pytest.raises(CompileError, match="no such kernel"):
            cuda.cubin("mfma.cu", {"N": 99})


def test_the_folder_is_the_one_that_kernels_are_read_from(compiler: Compiler) -> None:
    compiler.go.set()
    end = time.monotonic() + SECONDS
    with ahead.compiling(jobs(7), "sm_90a", 1):
        while not (found := list(sources.cache_directory().glob("*.cubin"))):
            assert time.monotonic() < end
            time.sleep(0.01)
    assert cuda.cubin_path("mfma.cu", {"N": 7}, "sm_90a") in found
    assert compiler.seen.count(7) == 1
