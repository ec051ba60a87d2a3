"""Subjects of differential testing with planted faults, loaded by the command line as a user's
would be.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

import gpuemu

Array = np.ndarray[Any, Any]


def right(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    d: Array = gpuemu.execute(i, a, b, c, **modifiers, backend="numpy")
    return d


def one_bit_less(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    model = dataclasses.replace(gpuemu.models()[i.model], name="wrong", product_bits=23)
    d: Array = gpuemu.execute(i, a, b, c, **modifiers, backend="numpy", model=model)
    return d


def abid_off_by_one(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if modifiers.get("abid"):
        modifiers["abid"] -= 1
    return right(i, a, b, c, **modifiers)


def swaps_lanes(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    return np.roll(right(i, a, b, c, **modifiers), 1, axis=-1)


def destroys_its_inputs(
    i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any
) -> Array:
    d = right(i, a, b, c, **modifiers)
    a[:], b[:], c[:] = 0, 0, 0
    return d


def crashes(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if modifiers.get("blgp") == 3:
        raise RuntimeError("illegal address")
    return right(i, a, b, c, **modifiers)


def wrong_shape(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    return right(i, a, b, c, **modifiers)[..., :32]


def other_nan(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    d = right(i, a, b, c, **modifiers)
    return np.where(np.isnan(d.view(np.float32)), np.uint32(0xFFFFFFFF), d)


def wrong_in_a_batch(
    i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any
) -> Array:
    return right(i, a, b, c, **modifiers) ^ np.uint32(len(a) > 1)


def hangs(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    time.sleep(1000)
    return right(i, a, b, c, **modifiers)


def raises_keyboard_interrupt(
    i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any
) -> Array:
    if "mfma_f32_4x4x4" in i.mnemonic:
        raise KeyboardInterrupt
    return right(i, a, b, c, **modifiers)


not_callable = 3
