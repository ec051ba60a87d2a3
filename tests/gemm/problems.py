"""Operands and descriptors that the GEMM tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuemu.gemm as gemm
from gpuemu.gemm.call import COMPLEX
from gpuemu.gemm.elements import ELEMENTS, Element

Array = np.ndarray[Any, Any]

# Every family of precisions, mixed ones among them.
PRECISIONS = [
    ("f16", "f16", "f16"),
    ("f16", "f16", "f32"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("i8", "i8", "i32"),
    ("i8", "u8", "i32"),
    ("u8", "u8", "u32"),
    ("i16", "i16", "i64"),
    ("f8e4m3fn", "f8e5m2", "f32"),
    ("f8e4m3fn", "f8e4m3fn", "f16"),
    ("f64", "f32", "f16"),
    ("f16", "bf16", "f32"),
    ("f64", "f64", "f32"),
    ("bf16", "tf32", "f16"),
]


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], element: Element) -> Array:
    """Return uniformly random bits as an element: every exponent, NaN, infinity and subnormal
    occurs."""
    count = int(np.prod(shape)) * element.bytes
    return rng.integers(0, 256, count, dtype=np.uint8).view(element.dtype).reshape(shape)


def moderate(rng: np.random.Generator, shape: tuple[int, ...], element: Element) -> Array:
    """Return values near one for floats (spread over four binades), all values for integers."""
    if element.is_integer:
        return random_bits(rng, shape, element)
    wide = rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 2, shape)
    return wide.astype(element.dtype)


def operand(
    rng: np.random.Generator,
    rows: int,
    columns: int,
    name: str,
    order: str,
    parts: int = 1,
    fill: Any = moderate,
) -> Array:
    """Return a (rows, columns) operand in a storage order; complex without a dtype has a last axis
    of 2."""
    element = ELEMENTS[name]
    outer, inner = (columns, rows) if order == "col_major" else (rows, columns)
    memory = fill(rng, (outer, inner, 2) if parts == 2 else (outer, inner), element)
    if parts == 2 and element.dtype in COMPLEX:
        memory = np.ascontiguousarray(memory).view(COMPLEX[element.dtype])[..., 0]
    return memory.swapaxes(0, 1) if order == "col_major" else memory


def operands(
    d: gemm.Descriptor, seed: int = 0, fill: Any = moderate, extents: Any = None
) -> tuple[Array, ...]:
    """Return A, B and C for a descriptor, of its tile or of given extents."""
    rng = np.random.default_rng(seed)
    m, n, k = extents or d.size
    types, orders = d.precision.names, d.arrangement
    shapes = ((m, k), (k, n), (m, n))
    return tuple(
        operand(rng, *shape, name, order, d.parts, fill)
        for shape, name, order in zip(shapes, types, orders, strict=True)
    )


def bits(x: Array) -> Array:
    """Return an array's bits, NaNs made equal."""
    x = np.ascontiguousarray(x)
    if x.dtype.kind == "c":
        x = x.view(np.dtype(f"f{x.itemsize // 2}"))
    found = x.view(np.dtype(f"u{x.itemsize}")).copy()
    if x.dtype.kind == "f":
        found[np.isnan(x)] = np.iinfo(found.dtype).max
    return found
