"""Subjects of campaigns that worker processes import."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuemu

Array = np.ndarray[Any, Any]


def right(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    d: Array = gpuemu.execute(i, a, b, c, **modifiers, backend="numpy")
    return d


def faulty(i: gpuemu.Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    """Swap two registers wherever lane 3 of A is odd."""
    d = right(i, a, b, c, **modifiers)
    odd = a[:, 0, 3] & 1 == 1
    d[odd] = np.roll(d[odd], 1, axis=1)
    return d
