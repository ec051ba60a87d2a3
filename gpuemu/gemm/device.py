"""The device side: a GEMM call on CUDA through one specialised kernel, and on the host build of
its plain path."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from ..backends import cuda, host
from ..errors import GpuemuError
from .call import GemmCall, Matrix
from .kernel_plan import FORMATS, KINDS, Dim3, factors, plan, rule, view
from .operators import col_major


def current_capability() -> tuple[int, int]:
    """Return the compute capability of the current device, such as (9, 0)."""
    cuda.require()
    import cupy

    text = str(cupy.cuda.Device().compute_capability)
    return int(text[:-1]), int(text[-1])


def device_sm() -> int:
    """Return the current device as an SM number: 900 for sm_90."""
    major, minor = current_capability()
    return major * 100 + minor * 10


def shared_limit() -> int:
    """Return bytes of shared memory that a block can opt in to on the current device."""
    import cupy

    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def run_host(call: GemmCall, out: Matrix | None = None) -> Matrix:
    """Compute a call with the C++ build of the kernels' plain path."""
    a, b = call.a.on_host(), call.b.on_host()
    c = call.c.on_host() if call.c else None
    d = out or call.empty(np)
    numbers = [*call.extents, KINDS[call.how.kind], FORMATS[call.target.name]]
    numbers += [call.parts, call.how.step]
    numbers += [*view(a), *view(b), *view(c or d)[1:], *view(d)[1:], *rule(call)]
    function = host.library("gemm").gemm_host_run
    function.argtypes = [ctypes.c_void_p] * 6
    function.restype = ctypes.c_int
    packed, scales = np.array(numbers, np.int64), np.array(factors(call), np.uint64)
    pointers = (x.pointer for x in (a, b, c or d, d))
    status = function(*pointers, packed.ctypes.data, scales.ctypes.data)
    if status:
        raise GpuemuError(f"the host build refused {call.how} with C of {call.target}")
    return d


def run_cuda(call: GemmCall, out: Matrix | None = None, launch: Dim3 | None = None) -> Matrix:
    """Compute a call with one kernel launch over the grid of tiles."""
    import cupy

    old = call.c.on_device() if call.c else None
    call = replace(call, a=call.a.on_device(), b=call.b.on_device(), c=old)
    on_device = out is not None and not isinstance(out.memory, np.ndarray)
    d = out if out is not None and on_device else call.empty(cupy)
    how = plan(call, device_sm(), shared_limit(), launch)
    m, n, k = call.extents
    tiles = -(-m // how.tile[0]) * -(-n // how.tile[1])
    kernel = cuda.kernel("gemm.cu", "gemm_tile", how.defines)
    arguments = [call.a.memory, call.b.memory, (old or d).memory, d.memory]
    leading = [x.leading for x in (call.a, call.b, old or d, d)]
    arguments += [np.int64(x) for x in (m, n, k, *leading)]
    arguments += [np.uint64(x) for x in factors(call)]
    if tiles:
        kernel((tiles, 1, 1), how.block, arguments, shared_mem=how.shared_bytes)
    if out is not None and not on_device:
        out.memory[...] = d.memory.get()
        return out
    return d


def finish_cuda(call: GemmCall, acc: Any, out: Matrix | None = None) -> Matrix:
    """Apply the epilogue of a real call to a product (M, N) that lies on the device, in any
    order."""
    import cupy

    width = call.target.bytes
    column_major = bool(acc.strides[0] == width and acc.strides[1] != width)
    if not column_major and acc.strides[1] != width:
        acc = cupy.ascontiguousarray(acc)
    m, n, _ = call.extents
    old = call.c.on_device() if call.c else None
    d = out or call.empty(cupy)
    defines = {
        "C_FORMAT": FORMATS[call.target.name],
        "C_COL": int(call.order == col_major),
        "ACC_COL": int(column_major),
    }
    leading = int(acc.strides[1 if column_major else 0]) // width
    arguments = [acc, (old or d).memory, d.memory]
    arguments += [np.int64(x) for x in (m, n, leading, (old or d).leading, d.leading)]
    arguments += [np.uint64(x) for x in factors(call)]
    kernel = cuda.kernel("gemm_finish.cu", "gemm_finish_all", defines)
    kernel((-(-m * n // 256), 1, 1), (256, 1, 1), arguments)
    return d


def registers(call: GemmCall) -> int:
    """Return registers a thread of the kernel that serves a call on the current device."""
    how = plan(call, device_sm(), shared_limit())
    return int(cuda.kernel("gemm.cu", "gemm_tile", how.defines).attributes["num_regs"])
