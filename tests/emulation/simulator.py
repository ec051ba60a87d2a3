"""The CUDA path without CUDA: kernels on CPU threads, a CuPy and a cuBLAS made of NumPy.

It checks what the host build cannot: the kernels' own indexing, launches, the plan's addresses.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu.backends import cuda, sources

KERNELS = {
    "emulation_encode_rows.cu": ("encode_rows",),
    "emulation_encode_columns.cu": ("encode_columns",),
    "emulation_recombine.cu": ("recombine",),
    "emulation_span.cu": ("block_exponents", "largest_span"),
}
SHIM = Path(__file__).with_name("cuda_on_threads.h")


class FakeArray(np.ndarray):
    """A NumPy array with CuPy's `.data.ptr` and `.device.id`."""

    device: Any = types.SimpleNamespace(id=0)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def get(self) -> Any:
        return np.array(self)


def _fake(array: Any) -> FakeArray:
    result: FakeArray = np.asarray(array).view(FakeArray)
    return result


def _wrapped(function: Any) -> Any:
    return lambda *args, **options: _fake(function(*args, **options))


class Kernel:
    """A compiled kernel that is launched like `cuda.Kernel`."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._call = getattr(library, f"launch_{name}")

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
        kept = [
            np.array(a.data.ptr, np.uint64) if isinstance(a, FakeArray) else np.array(a)
            for a in args
        ]
        pointers = (ctypes.c_void_p * len(kept))(*(a.ctypes.data for a in kept))
        self.start(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], 0, 0, ctypes.addressof(pointers), 0)

    def start(self, *arguments: int) -> None:
        """Take the arguments of cuLaunchKernel after the function."""
        gx, gy, _, bx, by, _, _shared, _, pointers, _ = arguments
        self._call(ctypes.c_void_p(pointers), (ctypes.c_int * 4)(gx, gy, bx, by))


_libraries: dict[str, ctypes.CDLL] = {}


def _library(source: str, defines: dict[str, int], folder: Path) -> ctypes.CDLL:
    names = KERNELS[source]
    program = f'#include "{SHIM}"\n#include "{source}"\n'
    program += "".join(f"EXPORT({name})\n" for name in names)
    flags = [
        *(f"-D{name}={value}" for name, value in sorted(defines.items())),
        *(
            "-std=c++20",
            "-O1",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-pthread",
            "-x",
            "c++",
            "-",
        ),
    ]
    files = [SHIM, *sorted(folder.glob("emulation_*")), folder / "common.cuh"]
    text = "".join(path.read_text() for path in files) + program + repr(flags)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    if key not in _libraries:
        path = sources.cache_directory() / f"threads-{key}.so"
        if not path.is_file():
            command = ["g++", f"-I{folder}", "-o", str(path), *flags]
            subprocess.run(command, input=program, text=True, check=True)
        _libraries[key] = ctypes.CDLL(str(path))
    return _libraries[key]


def _matrix(address: int, rows: int, columns: int, stride: int, dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    size = ((rows - 1) * stride + columns) * dtype.itemsize
    flat = np.frombuffer((ctypes.c_char * size).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(
        flat, (rows, columns), (stride * dtype.itemsize, dtype.itemsize)
    )


class Cublas:
    """int8 products on raw addresses, and the rules that cuBLAS has for them."""

    def gemmEx(self, _handle: int, *args: int) -> None:
        """Take the arguments of cublasGemmEx in its order."""
        ta, tb, m, n, k, _alpha, a, kind, lda, b, _, ldb, _beta, c, _, ldc, compute, _ = args
        if kind != 3:
            return self._native(args)
        assert (ta, tb, compute) == (1, 0, 72)
        assert all(x % 4 == 0 for x in (m, n, k, lda, ldb, ldc))
        assert a % 16 == b % 16 == c % 16 == 0
        x, y = _matrix(a, m, k, lda, np.int8), _matrix(b, n, k, ldb, np.int8)
        exact = y.astype(np.float64) @ x.astype(np.float64).T
        _matrix(c, n, m, ldc, np.int32)[...] = exact.astype(np.int64).astype(np.int32)
        return None

    def _native(self, args: tuple[int, ...]) -> None:
        ta, tb, m, n, k, _alpha, a, kind, lda, b, _, ldb, _beta, c, _, ldc, compute, _ = args
        assert (kind, compute) in ((0, 68), (1, 70))
        dtype = (np.float32, np.float64)[kind]
        x = _matrix(a, m, k, lda, dtype).T if ta else _matrix(a, k, m, lda, dtype)
        y = _matrix(b, k, n, ldb, dtype).T if tb else _matrix(b, n, k, ldb, dtype)
        with np.errstate(all="ignore"):
            _matrix(c, n, m, ldc, dtype)[...] = y @ x

    def gemmStridedBatchedEx(self, handle: int, *args: int) -> None:
        """Take the arguments of cublasGemmStridedBatchedEx in its order."""
        ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb = args[:14]
        beta, c, ct, ldc, sc, count, compute, algorithm = args[14:]
        for i in range(count):
            operands = (a + i * sa, at, lda, b + i * sb, bt, ldb, beta, c + 4 * i * sc, ct, ldc)
            self.gemmEx(handle, ta, tb, m, n, k, alpha, *operands, compute, algorithm)


class Memory:
    """An allocation, or a place in it."""

    def __init__(self, ptr: int, memory: Any) -> None:
        self.ptr, self._memory = ptr, memory

    def __add__(self, offset: int) -> Memory:
        return Memory(self.ptr + offset, self._memory)

    def memset_async(self, value: int, size: int) -> None:
        ctypes.memset(self.ptr, value, size)


class Stream:
    """A stream or an event: everything runs at once."""

    def __init__(self, **_options: Any) -> None:
        self.ptr = 0

    def record(self, stream: Any = None) -> None:
        """Do nothing: what was enqueued has run."""

    wait_event = record

    def synchronize(self) -> None:
        """Nothing runs behind the CPU."""


def _fake_cupy() -> types.ModuleType:
    module: Any = types.ModuleType("cupy")
    module.__version__ = "0"
    module.ndarray = FakeArray
    for name in ("empty", "zeros", "full", "zeros_like", "ascontiguousarray", "asarray"):
        module.__dict__[name] = _wrapped(getattr(np, name))
    module.broadcast_to = lambda x, shape: np.broadcast_to(x, shape, subok=True)
    module.multiply, module.add = np.multiply, np.add

    def alloc(size: int) -> Any:
        # Poison: what no kernel writes must not matter.
        memory = np.full(size + 256, 0x5B, np.uint8)
        address = memory.__array_interface__["data"][0]
        return Memory(-(-address // 256) * 256, memory)

    module.cuda = types.SimpleNamespace(
        alloc=alloc,
        get_current_stream=Stream,
        Stream=Stream,
        Event=Stream,
        Device=lambda: types.SimpleNamespace(id=0, compute_capability="90"),
        runtime=types.SimpleNamespace(
            getDevice=lambda: 0, getDeviceProperties=lambda _: {"totalGlobalMem": 1 << 32}
        ),
    )
    return module  # type: ignore[no-any-return]


def install(monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path] | None = None) -> None:
    """Make `backend="cuda"` run here for the length of a test; `folders` replace sources."""

    def kernel(source: str, name: str, defines: Any = None) -> Kernel:
        folder = (folders or {}).get(source, sources.directory())
        return Kernel(_library(source, dict(defines or {}), folder), name)

    from gpuemu.gemm.emulation import (
        cublaslt,
        device_encode,
        device_fused,
        device_launch,
        device_products,
        device_steps,
    )

    monkeypatch.setitem(sys.modules, "cupy", _fake_cupy())
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "")
    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(device_launch, "entry", lambda kernel, shared: kernel.start)
    monkeypatch.setattr(device_encode, "clusters", lambda device: False)  # blocks run in turn
    monkeypatch.setattr(device_fused, "available", lambda: False)
    monkeypatch.setattr(cublaslt, "library", lambda device: None)
    monkeypatch.setattr(device_products, "cublas", lambda: (Cublas(), lambda: 0))
    fresh = functools.lru_cache(device_steps.program.__wrapped__)
    monkeypatch.setattr(device_steps, "program", fresh)
