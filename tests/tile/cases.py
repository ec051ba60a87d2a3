"""Inputs for the element functions: edges, alignments, cancellations, raw bits."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from gpuemu import tile
from gpuemu.tile import exact
from gpuemu.tile.numeric import DataType, data_type

Array = np.ndarray[Any, Any]


def random_codes(dtype: DataType, rng: np.random.Generator, count: int) -> Array:
    """Return raw bits, legal encodings all."""
    codes = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    return (codes >> np.uint64(64 - dtype.bits)).astype(dtype.storage) & _legal(dtype)


def _legal(dtype: DataType) -> Any:
    return dtype.storage.type((2 * dtype.sign_bit - 1) & ~((1 << dtype.unused_bits) - 1))


def edges(dtype: DataType) -> Array:
    """Return the codes at which something changes, of both signs."""
    if dtype.kind != "float":
        top = 2 * dtype.sign_bit
        codes = [
            0,
            1,
            2,
            3,
            dtype.sign_bit - 1,
            dtype.sign_bit,
            dtype.sign_bit + 1,
            top - 2,
            top - 1,
        ]
        return np.array(codes, dtype.storage)
    step, one = (
        1 << dtype.unused_bits,
        ((1 << (dtype.exponent_bits - 1)) - 1) << dtype.mantissa_bits,
    )
    normal, largest = 1 << dtype.mantissa_bits, (dtype.infinity >> dtype.unused_bits) - 1
    codes = [0, 1, 2, 3, normal // 2, normal - 1, normal, normal + 1, one - 1, one, one + 1]
    codes += [one + normal // 2, one + normal, largest - 1, largest, largest + 1, largest + 2]
    magnitudes = [code * step for code in codes] + [dtype.canonical_nan, dtype.canonical_nan + step]
    magnitudes = sorted({code for code in magnitudes if code < dtype.sign_bit})
    return np.array([m | s for m in magnitudes for s in (0, dtype.sign_bit)], dtype.storage)


def edge_tuples(dtype: DataType, count: int) -> tuple[Array, ...]:
    """Return every combination of edges."""
    codes = edges(dtype)
    grid = np.array(list(product(range(len(codes)), repeat=count)))
    return tuple(codes[grid[:, i]] for i in range(count))


def aligned_triples(dtype: DataType, rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Return products and addends at every shift of their exponents that matters, many cancelling.

    Half of the addends are the rounded product, negated, or a neighbour of it.
    """
    spread = 2 * dtype.mantissa_bits + 8
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    last = (dtype.infinity >> (dtype.mantissa_bits + dtype.unused_bits)) - 1
    fields = [rng.integers(0, last + 1, count) for _ in range(2)]
    shift = rng.integers(-spread, spread + 1, count)
    fields.append(np.clip(fields[0] + fields[1] - bias + shift, 0, last))
    hot = [0, 1, (1 << dtype.mantissa_bits) - 1, 1 << (dtype.mantissa_bits - 1)]
    result = []
    for field in fields:
        mantissa = rng.integers(0, 1 << dtype.mantissa_bits, count)
        mantissa = np.where(rng.random(count) < 0.3, rng.choice(hot, count), mantissa)
        sign = rng.integers(0, 2, count) << (dtype.exponent_bits + dtype.mantissa_bits)
        code = (sign | field << dtype.mantissa_bits | mantissa).astype(np.uint64)
        result.append((code << np.uint64(dtype.unused_bits)).astype(dtype.storage))
    x, y, z = result
    near, _ = tile.elements("TMUL", (x, y), dtype.name, "numpy", dtype_set="adr0080")
    steps = rng.integers(-2, 3, count) * (1 << dtype.unused_bits)
    near = (near.astype(np.int64 if dtype.bits < 64 else np.uint64) + steps).astype(dtype.storage)
    near ^= dtype.storage.type(dtype.sign_bit)
    return x, y, np.where(rng.random(count) < 0.5, near & _legal(dtype), z)


def near_ties(dtype: DataType, rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Return products that are half or a quarter of the addend's last place, exactly or nearly.

    A third of the addends are the smallest normal number, where tininess is decided, and a third
    the largest, where overflow is.
    """
    width, bias = dtype.mantissa_bits, (1 << (dtype.exponent_bits - 1)) - 1
    unit = 1 << width
    last = (dtype.infinity >> dtype.unused_bits) - 1
    addend = rng.integers(unit, last + 1, count)
    which = rng.integers(0, 3, count)
    addend = np.where(which == 0, addend, np.where(which == 1, unit, last))
    left = rng.integers(unit + 1, 2 * unit, count)
    right = (2 * unit * unit + left // 2) // left + rng.integers(-1, 2, count)
    exact = rng.random(count) < 0.2
    left = np.where(exact, unit, left)
    right = np.where(exact, unit, np.clip(right, unit, 2 * unit - 1))
    # left * right is nearly 2 * unit^2, or exactly unit^2.
    below = width + rng.integers(1, 3, count) + np.where(exact, 0, 1)
    weight = (addend >> width) - below + bias  # sum of the two exponent fields
    first = np.clip(weight // 2 + rng.integers(-2, 3, count), 1, last >> width)
    fields = (first, np.clip(weight - first, 0, last >> width))
    codes = [
        field << width | part - unit for field, part in zip(fields, (left, right), strict=True)
    ]
    result = []
    for code in (*codes, addend):
        sign = rng.integers(0, 2, count) << (dtype.bits - 1 - dtype.unused_bits)
        result.append(((code | sign) << dtype.unused_bits).astype(dtype.storage))
    return result[0], result[1], result[2]


def triples(dtype_name: str, seed: int, count: int) -> tuple[Array, ...]:
    """Return three operands: every edge triple, and random ones of each sort."""
    dtype, rng = data_type(dtype_name), np.random.default_rng(seed)
    raw = tuple(random_codes(dtype, rng, count) for _ in range(3))
    parts = [edge_tuples(dtype, 3), raw]
    if dtype.kind == "float":
        parts.append(aligned_triples(dtype, rng, count))
    if dtype.kind == "float" and dtype.bits < 64:
        parts.append(near_ties(dtype, rng, count // 2))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def one_by_one(
    name: str, sources: tuple[Array, ...], dtype_name: str, backend: str, **options: Any
) -> tuple[Array, Array]:
    """Return bits and flags of each element, which is the only valid one of its own tile."""
    dtype = data_type(dtype_name)
    columns = 128 * 8 // dtype.bits
    spread = tuple(np.zeros((len(source), 1, 1, columns), dtype.storage) for source in sources)
    for wide, source in zip(spread, sources, strict=True):
        wide[:, 0, 0, 0] = source
    batch = tile.tiles(
        name, spread, dtype_name, backend, valid=(1, 1), dtype_set="adr0080", **options
    )
    return batch.bits[:, 0, 0, 0], batch.flags


def check_alone_in_a_vector(dtype_name: str, backend: str, count: int) -> None:
    """Check flags of elements whose neighbours in a 16-byte vector are zeros and raise none."""
    row = data_type(dtype_name)
    lanes = 128 // row.bits
    for lane, codes in enumerate(
        zip(*near_ties(row, np.random.default_rng(6), count), strict=True)
    ):
        vector = np.zeros((3, lanes), row.storage)
        vector[:, lane % lanes] = codes
        bits, flags = tile.elements("TFMA", tuple(vector), dtype_name, backend, dtype_set="adr0080")
        step = exact.fma(row, *map(int, codes))
        assert (int(bits[lane % lanes]), flags) == (step.bits, step.flags), [hex(c) for c in codes]


def sweep(dtype_name: str, part: int, parts: int, seed: int = 7) -> tuple[Array, ...]:
    """Return one part of all triples of exponents, each with edge significands chosen at random."""
    dtype, rng = data_type(dtype_name), np.random.default_rng(seed + part)
    fields = 1 << dtype.exponent_bits
    index = np.arange(part, fields**3, parts)
    top = (1 << dtype.mantissa_bits) - 1
    hot = np.array([0, 1, 2, top // 2, top // 2 + 1, top - 1, top])
    result = []
    for place in (fields * fields, fields, 1):
        field = index // place % fields
        sign = rng.integers(0, 2, len(index)) * dtype.sign_bit
        code = sign | field << dtype.mantissa_bits | rng.choice(hot, len(index))
        result.append(code.astype(dtype.storage))
    return tuple(result)
