"""Chunks of work that worker processes import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(chunk: int) -> tuple[int, int]:
    return chunk, chunk * chunk


def worker(chunk: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def die_once(chunk: tuple[int, str]) -> int:
    """Kill the own process at chunk 3, the first time: the marker says whether it was."""
    number, marker = chunk
    time.sleep(0.02)
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(chunk: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return chunk


def fail(chunk: int) -> int:
    raise LookupError(f"chunk {chunk}")
