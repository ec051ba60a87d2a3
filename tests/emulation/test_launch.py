"""Launches prepared one after the other of one kernel do not spoil each other."""

from __future__ import annotations

import types
from typing import Any

import pytest

from gpuemu.backends import cuda
from gpuemu.gemm.emulation import device_launch


class Function:
    """A function of a CuPy module: the driver keeps one limit of dynamic shared memory for it."""

    def __init__(self) -> None:
        self.kernel = types.SimpleNamespace(ptr=7)
        self.max_dynamic_shared_size_bytes = 46 << 10  # 48 KiB less what the kernel declares
        self.asked: list[int] = []

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes, "CUDA_ERROR_INVALID_VALUE"
        self.asked.append(shared_mem)


def test_a_smaller_launch_leaves_a_larger_one_its_shared_memory() -> None:
    pytest.importorskip("cupy")
    function = Function()
    kernel = cuda.Kernel(function, "encode_columns")
    for shared in (49152, 16384, 0, 32768):
        device_launch.entry(kernel, shared)
        assert function.max_dynamic_shared_size_bytes == 49152
    device_launch.entry(kernel, 98304)
    assert function.max_dynamic_shared_size_bytes == 98304


def test_a_direct_launch_raises_the_limit_and_never_lowers_it() -> None:
    pytest.importorskip("cupy")
    function = Function()
    kernel = cuda.Kernel(function, "product")
    asked = [98304, 100, 49152, 0, 98304]
    for shared in asked:
        kernel((1,), (32,), (), shared)
    assert function.asked == asked and function.max_dynamic_shared_size_bytes == 98304
