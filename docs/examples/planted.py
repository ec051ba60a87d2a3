"""A matrix instruction written by hand, with one fault: what the testing page hunts down.

`mfma` computes v_mfma_f32_16x16x16_f16 of gfx942 (CDNA3) as a kernel author might, in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu import Instruction

Array = np.ndarray[Any, Any]


def mfma(i: Instruction, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    """Compute D on register images, uint32 (waves, vgprs, 64)."""
    with np.errstate(all="ignore"):
        return _mfma(i, a, b, c)


def _mfma(i: Instruction, a: Array, b: Array, c: Array) -> Array:
    A, B, C = (
        i.unpack(name, x).astype(np.float64) for name, x in zip("ABC", (a, b, c), strict=True)
    )
    for first in range(0, i.K, 8):  # links of eight products
        k = slice(first, first + 8)
        C = link(A[..., k, None].swapaxes(-1, -2), B[..., None, k, :].swapaxes(-1, -2), C)
    return i.pack("D", C.astype(np.float32))


def link(a: Array, b: Array, c: Array) -> Array:
    """Return c + the sum of a b over the last axis: align, cut, add, align again, round."""
    terms = a * b
    e = np.maximum((exponent(a) + exponent(b)).max(axis=-1), -10000)
    unit = np.exp2(23.0 - np.maximum(e, -500))  # the fault: the chip keeps 24 bits
    total = np.trunc(terms * unit[..., None]).sum(axis=-1) / unit
    top = np.maximum(np.maximum(e, exponent(c, -126)), -126)
    fine, coarse = np.exp2(32.0 - top), np.exp2(24.0 - top)
    s = np.floor(total * fine) / fine + np.floor(c * coarse) / coarse
    last = np.exp2(31.0 - exponent(s, -126))
    return np.where(s == 0, s, np.floor(s * last) / last).astype(np.float32)


def exponent(x: Array, smallest: int = -14) -> Array:
    """Return floor(log2 |x|), at least that of the format's smallest normal number."""
    return np.where(x == 0, -10000, np.maximum(np.frexp(x)[1] - 1, smallest))
