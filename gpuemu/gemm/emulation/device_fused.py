"""Slices to the product in one kernel on Hopper: no int32 plane ever lies in memory.

The kernel's operands arrive through tensor maps, which hold addresses: made once for every place
that the workspace takes.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ...backends import cuda
from ...errors import BackendUnavailable
from . import scheme
from .device_launch import Run, Running, entry
from .device_plan import Plan, padded

TILE, DEPTH = 128, 64  # of emulation_fused.cu
#: Bytes of shared memory for stages, of the 227 KiB that a block may have.
SHARED = 4 * 48 * 1024
MOST_PLANES = 3  # diagonals of 128 x 128 int32 that the registers of two warp groups hold
#: Products of at most this many multiply-adds go through the kernel. On an H200 it takes 55 us
#: where cuBLAS with int32 planes in memory takes 74 (1024, 23 bits); at 2048 171 against 161.
LIMIT = 1024**3
_UINT8, _SWIZZLE_64, _PROMOTE_256 = 0, 2, 3
_MAP_BYTES = 128
_Arguments = ctypes.c_void_p * 4
_PLACES = 16  # of the workspace, that are remembered


@cache
def _encode() -> Any:
    """Return cuTensorMapEncodeTiled; None where the driver has none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return getattr(driver, "cuTensorMapEncodeTiled", None)


def available() -> bool:
    """Tell whether the current device and its driver can run the kernel."""
    return cuda.device_arch() == "sm_90a" and _encode() is not None


def wanted(itemsize: int, crt: bool, planes: int, rows: int, columns: int, k: int) -> bool:
    """Tell whether a product goes through this kernel, whose int32 sums hold all of a diagonal."""
    fits = itemsize == 4 and not crt and planes <= MOST_PLANES
    fits = fits and planes * padded(k) <= scheme.SUM_LIMIT
    return fits and rows * columns * k <= LIMIT and available()


def tensor_map(address: int, plan: Plan, vectors: int, planes: int) -> Any:
    """Return the map of one operand's slices: k, then vectors, then planes; boxes of one stage."""
    words = (ctypes.c_uint64 * (_MAP_BYTES // 8 + 8))()
    place = -(-ctypes.addressof(words) // 64) * 64
    row = planes * plan.padded_k
    status = _encode()(
        ctypes.c_void_p(place), _UINT8, 3, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 3)(plan.padded_k, vectors, planes),
        (ctypes.c_uint64 * 2)(row, plan.padded_k),
        (ctypes.c_uint32 * 3)(DEPTH, TILE, planes), (ctypes.c_uint32 * 3)(1, 1, 1),
        0, _SWIZZLE_64, _PROMOTE_256, 0,
    )  # fmt: skip
    if status:
        raise BackendUnavailable(f"cuTensorMapEncodeTiled returned status {status}")
    return words, place


def launch(plan: Plan, planes: int, rows: int, columns: int, step: np.ndarray[Any, Any]) -> Run:
    """Return the launch of one block of `rows` x `columns` outputs; `step`: RecombineStep."""
    stages = SHARED // (2 * planes * TILE * DEPTH)
    defines = {"ELEMENT_BITS": 32, "SCHEME": 0, "PLANE_COUNT": planes, "STAGES": stages}
    kernel = cuda.kernel("emulation_fused.cu", "multiply_slices", defines)
    shared = SHARED + 1024
    start, at = entry(kernel, shared), int(step.ctypes.data)
    grid = (-(-columns // TILE), -(-rows // TILE), 1)
    places: dict[int, Any] = {}

    def maps(base: int) -> Any:
        if len(places) >= _PLACES:
            places.clear()
        made = (
            tensor_map(base + plan.a_offset, plan, rows, planes),
            tensor_map(base + plan.b_offset, plan, columns, planes),
        )
        places[base] = made
        return made

    def run(running: Running, _keep: Any = step) -> None:
        a, b = places.get(running.base) or maps(running.base)
        arguments = _Arguments(a[1], b[1], running.address, at)
        start(*grid, 256, 1, 1, shared, running.stream, ctypes.addressof(arguments), 0)

    return run
