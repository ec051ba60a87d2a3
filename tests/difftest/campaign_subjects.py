"""Subjects of campaigns that worker processes import."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

import gpuemu
from gpuemu.difftest.cases import plan

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


def has_shifts(i: gpuemu.Instruction, a: Array) -> bool:
    """Tell whether a batch has a case of the class "shifts" among the first 48 of seed 5."""
    made = plan(i, 5, only_default=True)
    cases = [made.case(n) for n in range(48)]
    known = [case.images()["a"][0] for case in cases if case.cls == "shifts"]
    return any(np.array_equal(x, y) for x in a for y in known)


def dies_on_shifts(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if has_shifts(i, a):
        ctypes.string_at(0)
    return right(i, a, b, c, **modifiers)


def hangs_on_shifts(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if has_shifts(i, a):
        time.sleep(1000)
    return right(i, a, b, c, **modifiers)


def short_on_shifts(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    return right(i, a, b, c, **modifiers)[..., : 32 if has_shifts(i, a) else 64]
