"""Operands for whole products: kinds of values that tell right from nearly right."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.mfma import execute
from gpuemu.mfma.instructions import Instruction
from gpuemu.mfma.matmul_device import Chain

Array = np.ndarray[Any, Any]

KINDS = ("normal", "zeros", "wide", "bits", "special", "huge", "tiny")


def chain_of(instruction: Instruction, cbsz: int = 0, blgp: int = 0) -> Chain:
    """Return an instruction's own chain."""
    made = execute.call(instruction, None, cbsz=cbsz, blgp=blgp)
    return Chain(made.instruction, made.model, made.modifiers)


def bits(fmt: Any, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    """Return bits of a format: normal numbers, mostly zeros, wide exponents, raw bits, or one
    special item.
    """
    if kind == "bits" or not fmt.is_float:
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64).astype(fmt.storage)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)
    if kind == "zeros":
        x *= rng.random(shape) < 0.2
    if kind == "wide":
        x *= 2.0 ** rng.integers(-12, 10, shape)
    if kind in ("huge", "tiny"):
        # Along k and across it: the same for A and B.
        scale = 2.0**63 if kind == "huge" else 2.0**-64
        x[..., :2, :] *= scale
        x[..., :, :2] *= scale
        x[..., :2, :2] /= scale
    with np.errstate(over="ignore"):
        found: Array = x.astype(np.float32).astype(fmt.dtype).view(fmt.storage)
    if kind == "special":
        found[..., 0, 0] = {
            "ieee": (1 << fmt.bits) - 1,
            "negative-zero": 0x80,
            "all-ones": 0x7F,
            "none": 1,
        }[fmt.nan]
    return found


def accumulators(
    chain: Chain, shape: tuple[int, ...], kind: str, rng: np.random.Generator
) -> Array:
    """Return C as bits: exponents far apart, negative zeros, subnormals, and an infinity among
    specials.
    """
    fmt = chain.instruction.operand_format("C")
    if not fmt.is_float:
        return rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    c = (rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)).astype(fmt.dtype)
    c[rng.random(shape) < 0.1] = -0.0
    c[rng.random(shape) < 0.1] = 1e-44
    if kind == "special":
        c[..., -1, -1] = np.inf
    return c.view(chain.accumulator)


def dense_2_4(fmt: Any, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    """Return bits of a matrix with two of every four columns zero."""
    found = bits(fmt, shape, kind, rng)
    groups = found.reshape(*shape[:-1], -1, 4)
    order = np.argsort(rng.random(groups.shape), axis=-1)
    np.put_along_axis(groups, order[..., :2], found.dtype.type(0), axis=-1)
    return groups.reshape(shape)


def columns_dense(x: Array) -> Array:
    """Return the same matrices with their columns dense in memory."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def places(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return the places of stored items in their groups of four: two a group, ascending."""
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], np.uint8)
    return pairs[rng.integers(0, 6, (*shape[:-1], shape[-1] // 2))].reshape(shape)
