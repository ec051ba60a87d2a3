"""Subjects that misbehave as users' do: they hang, crash, exit, print, and answer in the wrong
shape.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
from campaign_subjects import right

Array = np.ndarray[Any, Any]


def trigger(a: Array) -> bool:
    """Tell whether a batch holds the word that makes a subject misbehave."""
    return bool((a[:, 0, 0] == 0xBAD).any())


def hangs(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if trigger(a):
        time.sleep(1000)
    return right(i, a, b, c, **modifiers)


def hangs_with_a_child(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    subprocess.run(["sleep", "1000"], check=True)
    return right(i, a, b, c, **modifiers)


def segfaults(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if trigger(a):
        ctypes.string_at(0)
    return right(i, a, b, c, **modifiers)


def is_killed(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if trigger(a):
        os.kill(os.getpid(), signal.SIGKILL)
    return right(i, a, b, c, **modifiers)


def leaves(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if trigger(a):
        os._exit(3)
    return right(i, a, b, c, **modifiers)


def exits(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    if trigger(a):
        sys.exit("no licence")
    return right(i, a, b, c, **modifiers)


def raises(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    raise RuntimeError("illegal address")


def floats(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    return right(i, a, b, c, **modifiers).astype(np.float64)


def nothing(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> None:
    return None


def prints(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    sys.stdout.write("x" * 100_000)
    return right(i, a, b, c, **modifiers)


def where(i: Any, a: Array, b: Array, c: Array, **modifiers: Any) -> Array:
    """Return the process's id in every register."""
    return np.full_like(c, os.getpid())
