"""The CUDA path without CUDA: a CuPy over NumPy memory, and gemm.cu's kernel as a program on CPU
threads under the sanitizers.

Everything from the caller's arrays to the result is the project's own: what is uploaded, the
launch, its arguments, the download. The kernel gets buffers of exactly each operand's extent, so a
read or write outside of a matrix, or of shared memory, ends the program; a missing barrier is a
data race.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

from gpuemu.backends import cuda, host, sources

HERE = Path(__file__).parent
SHARED = 64 * 1024


class Array:
    """What stands for `cupy.ndarray`: memory that NumPy does not take for its own."""

    device = SimpleNamespace(id=0)

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        for name in ("shape", "strides", "ndim", "dtype", "itemsize", "flags"):
            setattr(self, name, getattr(memory, name))
        self.data = SimpleNamespace(ptr=memory.ctypes.data)
        self.__cuda_array_interface__ = memory.__array_interface__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, index: Any) -> Array:
        return Array(self.memory[index])

    def __setitem__(self, index: Any, value: Array | complex) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError("a NumPy array is not assigned to memory of the device")
        self.memory[index] = value.memory if isinstance(value, Array) else value

    def swapaxes(self, one: int, other: int) -> Array:
        return Array(self.memory.swapaxes(one, other))

    def copy(self) -> Array:
        return Array(self.memory.copy())

    def get(self) -> Any:
        return self.memory.copy()


Array.__module__ = "cupy"  # by which the project knows it


def asarray(array: Any) -> Array:
    """Copy to the "device", refusing the dtypes that CuPy lacks."""
    if isinstance(array, Array):
        return array
    if not issubclass(array.dtype.type, (np.number, np.bool_, ml_dtypes.bfloat16)):
        raise ValueError(f"Unsupported dtype {array.dtype}")
    return Array(array.copy(order="K"))


def _empty(shape: Any, dtype: Any) -> Array:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return Array(np.full(count, 0xA5, np.uint8).view(dtype).reshape(shape))


class Event:
    """What stands for an event: kernels here end before their launch returns."""

    def record(self) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        assert self.seconds


def _cupy(sm: int, shared: int) -> ModuleType:
    module: Any = ModuleType("cupy")
    attributes = {"MaxSharedMemoryPerBlockOptin": shared}
    device = SimpleNamespace(id=0, compute_capability=str(sm // 10), attributes=attributes)
    module.cuda = SimpleNamespace(
        Device=lambda: device,
        Event=Event,
        get_elapsed_time=lambda start, stop: 1000 * (stop.seconds - start.seconds),
    )
    module.ndarray, module.asarray, module.empty = Array, asarray, _empty
    return module  # type: ignore[no-any-return]


class Program:
    """What stands for a loaded `gemm_tile`: one specialised program, run once a launch."""

    attributes: ClassVar = {"num_regs": 40}

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
        matrices, scalars = args[:4], args[4:]
        assert [x.dtype for x in scalars] == [np.int64] * 7 + [np.uint64] * 4
        assert grid[1:] == (1, 1)
        numbers = np.array([grid[0], *block, shared_mem, *scalars[:7]], np.int64)
        factors = np.array(scalars[7:], np.uint64)
        with tempfile.TemporaryDirectory() as folder:
            names = [str(Path(folder) / name) for name in ("numbers", "a", "b", "c", "d")]
            Path(names[0]).write_bytes(numbers.tobytes() + factors.tobytes())
            for name, matrix in zip(names[1:], matrices, strict=True):
                Path(name).write_bytes(ctypes.string_at(matrix.data.ptr, extent(matrix)))
            subprocess.run([str(self.path), *names], check=True)
            ctypes.memmove(matrices[3].data.ptr, Path(names[4]).read_bytes(), extent(matrices[3]))


def extent(x: Any) -> int:
    """Return bytes from the first element to the end of the last."""
    return int(x.itemsize + sum((s - 1) * t for s, t in zip(x.shape, x.strides, strict=True)))


def build(defines: dict[str, Any], sanitizer: str) -> Path:
    """Return the program for one set of constants, cached like every other build."""
    text = sources.digest() + "".join(p.read_text() for p in sorted(HERE.glob("gemm_on_threads.*")))
    key = hashlib.sha256((text + repr(sorted(defines.items())) + sanitizer).encode()).hexdigest()
    path = sources.cache_directory() / f"gemm-threads-{key[:32]}"
    if not path.is_file():
        options = [f"-D{name}={value}" for name, value in defines.items()]
        flags = [
            "-std=c++20",
            "-O0",
            "-g1",
            "-ffp-contract=off",
            "-pthread",
            f"-fsanitize={sanitizer}",
        ]
        flags += ["-fno-sanitize-recover=all", f"-I{sources.directory()}", "-o", str(path)]
        command = [str(host.compiler()), *options, *flags, str(HERE / "gemm_on_threads.cpp")]
        subprocess.run(command, check=True)
    return path


def install(
    monkeypatch: pytest.MonkeyPatch,
    sm: int = 900,
    shared: int = SHARED,
    sanitizer: str = "address,undefined",
) -> None:
    """Make `backend="cuda"` run here for the length of a test, on a device of these properties."""

    def kernel(source: str, name: str, defines: Any) -> cuda.Kernel:
        assert (source, name) == ("gemm.cu", "gemm_tile")
        return cuda.Kernel(Program(build(dict(defines), sanitizer)), name)

    monkeypatch.setitem(sys.modules, "cupy", _cupy(sm, shared))
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "")
    monkeypatch.setattr(cuda, "kernel", kernel)
