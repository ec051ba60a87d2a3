"""A kernel's launch for few microseconds of the host: the driver's call on prepared arguments.

Every kernel of a product takes two structs by value, `Call` and a step (emulation_launch.cuh).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...backends import cuda

#: `Call` by bytes an element: six addresses (a, b, c, out, workspace, exponents), alpha, beta.
CALL = {4: struct.Struct("=6Q2f"), 8: struct.Struct("=6Q2d")}
_Bytes = {size: ctypes.c_char * layout.size for size, layout in CALL.items()}
_Arguments = ctypes.c_void_p * 2


class Running(NamedTuple):
    """What one call adds to a program: the `Call` struct, its address, the workspace's address,
    and the stream's handle.
    """

    call: Any
    address: int
    base: int
    stream: int


Run = Callable[[Running], None]


def running(itemsize: int, stream: int, base: int, addresses: Any, scalars: Any) -> Running:
    """Return a call's struct: addresses of a, b, c and out, then the workspace; alpha, beta.

    `addresses` is (a, b, c, out, exponents), `base` the workspace.
    """
    a, b, c, out, exponents = addresses
    packed = CALL[itemsize].pack(a, b, c, out, base, exponents, *scalars)
    call = _Bytes[itemsize].from_buffer_copy(packed)
    return Running(call, ctypes.addressof(call), base, stream)


def entry(kernel: cuda.Kernel, shared: int = 0) -> Callable[..., None]:
    """Return what launches a kernel, with the arguments of cuLaunchKernel after the function.

    `shared` bytes of shared memory may be asked for with each launch.
    """
    from cupy_backends.cuda.api import driver

    kernel.allow_shared(shared)
    return partial(driver.launchKernel, kernel._function.kernel.ptr)


def launch(
    kernel: cuda.Kernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    step: np.ndarray[Any, Any],
    shared: int = 0,
) -> Run:
    """Return the launch of a kernel with one step and `shared` bytes of shared memory; it copies
    its arguments.
    """
    start, at = entry(kernel, shared), int(step.ctypes.data)
    extents = (*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])

    def run(running: Running, _keep: Any = step) -> None:
        arguments = _Arguments(running.address, at)
        start(*extents, shared, running.stream, ctypes.addressof(arguments), 0)

    return run
