"""The device side of the tile machine: the kernels of `cuda_src/tile.cu` and their host build.

Operands arrive validated: arrays of the element type's unsigned dtype, of one shape. Both sides
take the same parameters; what they compute lies in `cuda_src/tile_*.cuh`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import arrays, cuda, host
from .numeric import DataType, PadValue
from .operations import Operation

Array = np.ndarray[Any, Any]

THREADS, VECTORS, VECTOR_BYTES = 256, 2, 16  # as in tile.cu
NO_SUCH_PAIR = 0xFFFFFFFF


@dataclass(frozen=True)
class TileShape:
    """Tiles of one call: fragments, physical extents (powers of two), valid region, padding."""

    fragments: int
    rows: int
    columns: int
    valid: tuple[int, int]
    pad: PadValue
    selected: tuple[bool, ...]

    def scalars(self, dtype: DataType, items: int, nan_corner: str) -> tuple[np.generic, ...]:
        """Return the kernel's parameters after the pointers, with their exact dtypes."""
        selected = sum(1 << fragment for fragment, on in enumerate(self.selected) if on)
        words = (
            self.fragments.bit_length() - 1,
            (self.rows * self.columns).bit_length() - 1,
            self.columns.bit_length() - 1,
            *self.valid,
            selected,
            self.pad != PadValue.NULL,
        )
        return (
            np.uint64(items),
            *(np.uint32(word) for word in words),
            np.uint64(dtype.pad_bits(self.pad)),
            options(nan_corner),
        )


def options(nan_corner: str) -> np.uint32:
    """Return the kernels' option bits."""
    return np.uint32(nan_corner == "asl")


def _three(sources: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return three operands: an operation never reads the ones it does not have."""
    return (*sources, *sources[:1] * (3 - len(sources)))


def _on_device(sources: tuple[Any, ...], dtype: DataType) -> tuple[Any, ...]:
    """Return CuPy arrays of unsigned bits, contiguous and aligned; copied only if they must be."""
    import cupy

    result = []
    for source in sources:
        array = cupy.ascontiguousarray(arrays.to_cupy(source)).view(dtype.storage)
        result.append(array if array.data.ptr % VECTOR_BYTES == 0 else array.copy())
    return tuple(result)


def _kernel(name: str, operation: Operation, dtype: DataType) -> cuda.Kernel:
    return cuda.kernel("tile.cu", name, {"TILE_OP": operation.name, "TILE_TYPE": dtype.name})


def elements_launch(
    operation: Operation,
    dtype: DataType,
    sources: tuple[Any, ...],
    out: Any,
    flags: Any,
    nan_corner: str,
) -> Callable[[], None]:
    """Return the flat kernel's launch over aligned CuPy arrays; it ORs into `flags` (uint32[1])."""
    blocks = -(-out.nbytes // (THREADS * VECTORS * VECTOR_BYTES))
    args = (*_three(sources), out, flags, np.uint64(out.size), options(nan_corner))
    kernel = _kernel("tile_flat", operation, dtype)
    return lambda: kernel((blocks,), (THREADS,), args)


def elements_cuda(
    operation: Operation, dtype: DataType, sources: tuple[Any, ...], nan_corner: str
) -> tuple[Any, int]:
    """Run an operation over flat arrays on the current device and stream: bits, OR of the flags."""
    import cupy

    operands = _on_device(sources, dtype)
    out = cupy.empty(operands[0].shape, dtype.storage)
    flags = cupy.zeros(1, np.uint32)
    if out.size:
        elements_launch(operation, dtype, operands, out, flags, nan_corner)()
    return out, int(flags[0])


def tiles_cuda(
    operation: Operation,
    dtype: DataType,
    sources: tuple[Any, ...],
    shape: TileShape,
    nan_corner: str,
) -> tuple[Any, Any, Any]:
    """Run an operation over (batch, fragments, rows, cols): bits, definedness, flags a tile."""
    import cupy

    left, right, addend = _three(_on_device(sources, dtype))
    out = cupy.empty(left.shape, dtype.storage)
    defined = cupy.empty(left.shape, np.uint8)
    flags = cupy.zeros(left.shape[0], np.uint32)
    if out.size:
        blocks = -(-out.nbytes // (THREADS * VECTOR_BYTES))
        scalars = shape.scalars(dtype, out.size, nan_corner)
        args = (left, right, addend, out, defined, flags, *scalars)
        _kernel("tile_batch", operation, dtype)((blocks,), (THREADS,), args)
    return out, defined.view(np.bool_), flags.astype(np.uint8)


def _contiguous(sources: tuple[Any, ...], dtype: DataType) -> tuple[Array, ...]:
    return _three(
        tuple(
            np.ascontiguousarray(arrays.to_numpy(source)).view(dtype.storage) for source in sources
        )
    )


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _as_c(value: np.generic) -> Any:
    return (ctypes.c_uint64 if value.dtype.itemsize == 8 else ctypes.c_uint32)(int(value))


def _call(function: str, operation: Operation, dtype: DataType, *args: Any) -> int:
    entry = getattr(host.library("tile"), function)
    entry.restype = ctypes.c_uint32
    return int(entry(ctypes.c_uint32(operation.selector), ctypes.c_uint32(dtype.code), *args))


def elements_host(
    operation: Operation, dtype: DataType, sources: tuple[Any, ...], nan_corner: str
) -> tuple[Array, int]:
    """Run an operation over arrays of one shape in the host build; bits and the OR of flags."""
    operands = _contiguous(sources, dtype)
    out = np.empty(operands[0].shape, dtype.storage)
    pointers = (_pointer(array) for array in (*operands, out))
    flags = _call(
        "gpuemu_tile_flat",
        operation,
        dtype,
        *pointers,
        ctypes.c_uint64(out.size),
        _as_c(options(nan_corner)),
    )
    assert flags != NO_SUCH_PAIR, f"the host build lacks {operation.name} on {dtype.name}"
    return out, flags


def tiles_host(
    operation: Operation,
    dtype: DataType,
    sources: tuple[Any, ...],
    shape: TileShape,
    nan_corner: str,
) -> tuple[Array, Array, Array]:
    """Run an operation over tiles (batch, fragments, rows, cols) in the host build."""
    operands = _contiguous(sources, dtype)
    out = np.empty(operands[0].shape, dtype.storage)
    defined = np.empty(out.shape, np.uint8)
    flags = np.zeros(out.shape[0], np.uint32)
    pointers = (_pointer(array) for array in (*operands, out, defined, flags))
    scalars = (_as_c(value) for value in shape.scalars(dtype, out.size, nan_corner))
    known = _call("gpuemu_tile_batch", operation, dtype, *pointers, *scalars)
    assert known, f"the host build lacks {operation.name} on {dtype.name}"
    return out, defined.view(np.bool_), flags.astype(np.uint8)
