"""Arrays and inner loops that NumPy runs through at full speed."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]

LINE = 64  # bytes of a cache line and of the widest vector
KEPT = 1 << 22  # bytes of the largest array that a thread keeps

_kept = threading.local()


def array(
    name: str, shape: tuple[int, ...], dtype: Any = np.float64, order: Literal["C", "F"] = "C"
) -> Array:
    """Return an uninitialised array, the same memory at the thread's next call with this name.

    Fresh memory would be mapped page by page, which takes longer than the arithmetic on it. The
    array begins with a cache line: no vector straddles two.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw: Array | None = getattr(_kept, name, None)
    if raw is None or len(raw) < size:
        raw = np.empty(size + LINE, np.uint8)
        raw = raw[-raw.__array_interface__["data"][0] % LINE :]
        if size <= KEPT:
            setattr(_kept, name, raw)
    found: Array = raw[:size].view(dtype).reshape(shape, order=order)
    return found


@contextmanager
def inner_loops(length: int) -> Iterator[None]:
    """Have NumPy broadcast in place along an innermost axis of about this length.

    Into a buffer much longer than that axis it copies the operands first, which takes twice as long
    as the arithmetic.
    """
    before = np.setbufsize(max(-(-length // 16) * 16, 16))
    try:
        yield
    finally:
        np.setbufsize(before)
