"""The slice scheme in NumPy, written to be read: every bit that the device computes.

References: the public Apache-2.0 example of int8-sliced DGEMM (shared exponents, balanced digits);
the order of the recombination is that of a pipeline: least significant diagonal first, in the
result's type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def shared_shift(vectors: Array) -> Array:
    """Return each row's shift: `x * 2^shift` is below 127 in magnitude for all its elements.

    Parameters
    ----------
    vectors : float array (count, k)
        Rows of A or columns of B; rows that are not finite count as zero.

    Notes
    -----
    The largest magnitude lies below `2^w`; the shift is `7 - w`, one less where the significand
    starts with seven ones (a carry could make its leading digit 128). A row of zeros has 0.
    """
    largest = np.max(np.abs(vectors.astype(np.float64)), axis=1, initial=0.0)
    significand, width = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    return np.where(largest == 0.0, 0, 7 - width - (significand >= 127 / 128)).astype(np.int64)


def slice_vectors(vectors: Array, slices: int, nearest: bool = False) -> tuple[Array, Array]:
    """Cut vectors into balanced radix-256 digits under a shared exponent.

    Parameters
    ----------
    vectors : float32 or float64 array (count, k)
        Rows of A, or columns of B as rows. An infinity or NaN makes its whole row zero.
    slices : int
        Number of digits S, 1 to 8.
    nearest : bool
        Round the last digit to nearest, ties to even; else truncate toward zero.

    Returns
    -------
    digits : int8 array (slices, count, k)
        Most significant first; digit i weighs `256^-i`; in [-128, 127], the first in [-127, 127].
    shift : int64 array (count,)
        `x = sum(digits * 256^-i) * 2^-shift` up to the cut.

    Examples
    --------
    >>> digits, shift = slice_vectors(np.array([[1.0, -0.5, 0.7]]), 3)
    >>> digits[:, 0].tolist(), int(shift[0])
    ([[64, -32, 45], [0, 0, -51], [0, 0, -52]], 6)
    """
    finite = np.isfinite(vectors).all(axis=1, keepdims=True)
    wide = np.where(finite, vectors.astype(np.float64), 0.0)
    shift = shared_shift(wide)
    scaled = np.ldexp(wide, (shift + 8 * (slices - 1))[:, None].astype(np.int32))
    rest = (np.rint(scaled) if nearest else np.trunc(scaled)).astype(np.int64)
    digits = np.empty((slices, *vectors.shape), np.int8)
    for i in reversed(range(1, slices)):
        digit = ((rest + 128) & 255) - 128
        digits[i] = digit
        rest = (rest - digit) >> 8
    digits[0] = rest
    return digits, shift


def diagonal(a_digits: Array, b_digits: Array, d: int) -> Array:
    """Return `sum of A_i @ B_(d-i).T`, exact: sums of products of digits stay below 2^53."""
    return sum(
        (
            a_digits[i].astype(np.float64) @ b_digits[d - i].astype(np.float64).T
            for i in range(d + 1)
        ),
        start=np.zeros((a_digits.shape[1], b_digits.shape[1])),
    )


def multiply(a: Array, b: Array, slices: int, nearest: bool) -> Array:
    """Return A @ B from slices, in the type of A and B; vectors must be finite (others count as
    zero).

    Parameters
    ----------
    a, b : float32 or float64 arrays (m, k), (k, n)
    """
    a_digits, a_shift = slice_vectors(a, slices, nearest)
    b_digits, b_shift = slice_vectors(b.T, slices, nearest)
    total = np.zeros((a.shape[0], b.shape[1]))
    for d in reversed(range(slices)):
        # A float32 pipeline keeps its sum in float32: one rounding a diagonal.
        total = (
            (total + diagonal(a_digits, b_digits, d) * 2.0 ** (-8 * d))
            .astype(a.dtype)
            .astype(np.float64)
        )
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(total, -(a_shift[:, None] + b_shift[None, :]).astype(np.int32)).astype(
            a.dtype
        )
