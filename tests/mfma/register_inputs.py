"""Register images of narrow formats for tests: numbers that reach a model's corners, not noise."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gpuemu import formats
from gpuemu.mfma import modifiers as mods
from gpuemu.mfma import registers
from gpuemu.mfma.instructions import Instruction

Array = np.ndarray[Any, Any]

CATEGORIES = ("finite", "narrow", "hot", "special")


@cache
def _all_codes(fmt: formats.Format) -> Array:
    return np.arange(1 << fmt.bits, dtype=np.uint64)


@cache
def _finite_codes(fmt: formats.Format) -> Array:
    return np.array([c for c in _all_codes(fmt) if fmt.classify(int(c)) == "finite"])


def codes(
    fmt: formats.Format, shape: tuple[int, ...], category: str, rng: np.random.Generator
) -> Array:
    """Return codes of a format.

    finite: any finite code. narrow: exponents within a few binades, signs mixed, neighbours along
    the last axis often cancel. hot: mostly the smallest codes, few large. special: one in a hundred
    is any code, infinities and NaNs included.
    """
    every, legal = _all_codes(fmt), _finite_codes(fmt)
    found = rng.choice(legal, shape)
    if not fmt.is_float:
        return found.astype(fmt.storage)
    sign = np.uint64(1 << (fmt.bits - 1))
    if category == "narrow":
        middle = fmt.bias if fmt.exponent_bits > 2 else 1
        fields = rng.integers(max(middle - 2, 0), middle + 2, shape).astype(np.uint64)
        fraction = rng.integers(0, 1 << fmt.mantissa_bits, shape).astype(np.uint64)
        found = fields << np.uint64(fmt.mantissa_bits) | fraction
        found |= rng.integers(0, 2, shape).astype(np.uint64) * sign
        found[..., 1::4] = found[..., ::4] ^ sign
        found = np.where(np.isin(found, legal), found, 0).astype(np.uint64)
    if category == "hot":
        small = rng.integers(0, 3 << fmt.mantissa_bits, shape).astype(np.uint64)
        small |= rng.integers(0, 2, shape).astype(np.uint64) * sign
        small = np.where(np.isin(small, legal), small, 0).astype(np.uint64)
        found = np.where(rng.random(shape) < 0.1, found, small)
    if category == "special":
        found = np.where(rng.random(shape) < 0.01, rng.choice(every, shape), found)
    return found.astype(fmt.storage)


def operand(
    i: Instruction, matrix: str, m: mods.Modifiers, category: str, rng: np.random.Generator
) -> Array:
    """Return one register image (vgprs, 64) of A or B."""
    fmt = i.operand_format(matrix, m.cbsz, m.blgp)
    plain = (
        mods.Modifiers(cbsz=m.cbsz, blgp=m.blgp)
        if i.modifiers.cbsz == "format"
        else mods.Modifiers()
    )
    return registers.scatter(i, matrix, codes(fmt, i.shape(matrix), category, rng), plain)


def accumulator(i: Instruction, rng: np.random.Generator, exponent: int = 0) -> Array:
    """Return one register image of C: numbers over 60 binades around 2**exponent, some zeros."""
    shape = (i.vgprs["D"], 64)
    if i.formats["D"] == "i32":
        return rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    with np.errstate(over="ignore", under="ignore"):
        wide = np.ldexp(rng.standard_normal(shape), exponent + rng.integers(-30, 30, shape))
        found = np.where(rng.random(shape) < 0.1, 0, wide).astype(np.float32)
    return found.view(np.uint32)


def ascending_index(i: Instruction, rng: np.random.Generator) -> Array:
    """Return an index register (1, 64) whose every set is legal: six pairs of columns a group."""
    pairs = np.array([first | second << 2 for first in range(4) for second in range(first + 1, 4)])
    nibbles = rng.choice(pairs, (1, 64, 8)).astype(np.uint32)
    return np.bitwise_or.reduce(nibbles << np.arange(0, 32, 4, dtype=np.uint32), axis=-1)


def scale_register(rng: np.random.Generator, low: int = 107, high: int = 148) -> Array:
    """Return a scale register (1, 64) with four codes a lane, in a range."""
    return rng.integers(low, high, (1, 64, 4), dtype=np.uint8).view(np.uint32)[..., 0]
