"""Operands and descriptors that the GEMM tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.backends import host
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    BlocksPerCluster,
    Descriptor,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    StaticBlockDim,
    Type,
    WithPipeline,
)
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
    ("i16", "u16", "i64"),
    ("f8e4m3fn", "f8e5m2", "f32"),
    ("f8e4m3fn", "f8e4m3fn", "f16"),
    ("f64", "f32", "f16"),
    ("f16", "bf16", "f32"),
    ("f64", "f64", "f32"),
    ("bf16", "tf32", "f16"),
]


# One of each operator that goes with the others.
OPERATORS = [
    Size(128, 128, 32),
    Function("MM"),
    SM(900, "arch_specific"),
    Block(),
    Precision("f32"),
    Type("real"),
    Arrangement("row_major"),
    BlockDim(256),
    BlocksPerCluster(2),
    LeadingDimension(32, 32, 128),
    Alignment(16, 16, 16),
    StaticBlockDim(),
    EnableInputStreaming(),
    WithPipeline(),
    RequiredMantissaBits(23),
]

needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())
ROWS = Arrangement("row_major", "row_major", "row_major")


def total(operators: Any) -> Descriptor:
    """Return the sum of some operators."""
    result: Descriptor = sum(operators, Descriptor())
    return result


def describe(names: Any, size: Any = (16, 8, 32), *others: Any) -> Descriptor:
    """Return a runnable descriptor; for SM(900) where `others` names no architecture."""
    d = total([Size(*size), Precision(*names), Function("MM"), Block(), *others])
    return d if SM in d else d + SM(900)


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
    d: Descriptor, seed: int = 0, fill: Any = moderate, extents: Any = None
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
