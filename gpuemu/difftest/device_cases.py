"""The steps of making and comparing cases, one kernel each, for arrays on the device.

`streams`, `items`, `images` and `runner` say in NumPy what the bits are; a device would take a
dozen kernels of CuPy for each of these functions. They take NumPy arrays too, in the host build:
that is how they are tested without a device.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ..backends import arrays, cuda, host
from ..formats import Format

Array = Any  # of NumPy or of CuPy

SOURCE = "cases.cu"
THREADS = 256

# In the order of the enumerations of cases.cuh.
DRAWS = ("state", "words", "below", "sign", "significand", "bell")
NANS = ("exact", "f32", "f64")

_DTYPES = {"state": np.uint64, "words": np.uint64, "below": np.int64}  # the rest is float64


def namespace(array: Array) -> Any:
    """Return the module that an array's functions are in: NumPy or CuPy."""
    if arrays.kind(array) == "cupy":
        import cupy

        return cupy
    return np


def _pointer(array: Array) -> int:
    found: int = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    return found


def _run(name: str, count: int, operands: tuple[Array, ...], *numbers: int) -> None:
    """Run one kernel over `count` elements; its arguments are addresses, then integers."""
    words = [*map(_pointer, operands), *numbers]
    call = np.array([int(x) & 0xFFFFFFFFFFFFFFFF for x in words], np.uint64)
    if isinstance(operands[0], np.ndarray):
        function = getattr(host.library("cases"), f"gpuemu_{name}")
        function(ctypes.c_void_p(call.ctypes.data))
    elif count:
        blocks = -(-count // THREADS)
        cuda.kernel(SOURCE, name)((blocks,), (THREADS,), (cuda.as_struct(call),))


def draw(
    kind: str, states: Array, shape: tuple[int, ...], position: int, low: int = 0, limit: int = 0
) -> Array:
    """Return draws of a stream, (cases, *shape).

    Parameters
    ----------
    kind : str
        Of `DRAWS`: "state", or a method of `streams.Stream`.
    states : uint64 array (cases,)
        For "state", the numbers of the cases.
    shape : tuple of int
    position : int
        Of the first word.
    low, limit : int
        Of "below": the least number and how many there are. Of "significand": `limit` is its
        fraction bits, 1 to 52. Of "state": `limit` is the key.
    """
    xp, size = namespace(states), math.prod(shape)
    out = xp.empty((len(states), *shape), _DTYPES.get(kind, np.float64))
    numbers = (len(states), size, position, DRAWS.index(kind), low, limit)
    _run("draw", len(states) * size, (states, out), *numbers)
    return out


def power(exponents: Array) -> Array:
    """Return `streams.power`."""
    xp = namespace(exponents)
    given = xp.ascontiguousarray(exponents, np.int64)
    out = xp.empty(exponents.shape)
    _run("raise", out.size, (given, out), out.size)
    return out


def encode(fmt: Format, values: Array, max_finite: int, infinity: int | None) -> Array:
    """Return float64 values as `items.encode` does, of a format of at most 32 bits.

    `max_finite` and `infinity` are codes, the latter None where the format has none.
    """
    xp = namespace(values)
    given = xp.ascontiguousarray(values, np.float64)
    codes = xp.empty(values.shape, fmt.storage)
    numbers = [given.size, codes.itemsize, int(fmt.is_float), fmt.bits]
    if fmt.is_float:
        top = -1 if infinity is None else infinity
        numbers += [fmt.mantissa_bits, fmt.emin, fmt.emax, max_finite, top]
        numbers += [int(fmt.nan == "negative-zero")]
    else:
        numbers += [0] * 6
    _run("encode", given.size, (given, codes), *numbers)
    return codes


def pack(codes: Array, item: Array, shift: Array) -> Array:
    """Return register images as uint32 words (cases, words).

    Parameters
    ----------
    codes : unsigned array (cases, items)
    item, shift : int64 array (slots, words)
        What a slot of a word holds, and how far to the left; see `images`.
    """
    xp, given = namespace(codes), namespace(codes).ascontiguousarray(codes)
    cases, items = codes.shape
    slots, words = item.shape
    image = xp.empty((cases, words), np.uint32)
    numbers = (cases, items, given.itemsize, slots, words)
    _run("pack", image.size, (given, item, shift, image), *numbers)
    return image


def differing(got: Array, want: Array, nan: str) -> Array:
    """Return which cases of two D images differ, uint8 (cases,) of 0 and 1.

    Parameters
    ----------
    got, want : uint32 array (cases, vgprs, 64)
    nan : str
        Of `NANS`: the format whose NaNs are all equal, or "exact".
    """
    xp = namespace(got)
    given = xp.ascontiguousarray(got), xp.ascontiguousarray(want)
    differ = xp.zeros(len(got), np.uint8)
    numbers = (len(got), math.prod(got.shape[1:]), NANS.index(nan))
    _run("compare", got.size, (*given, differ), *numbers)
    return differ
