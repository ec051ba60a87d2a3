"""Starting and ending the processes that user subjects run in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path

from .subject import SubjectFailed, SubjectKeepsDying

GRACE = 5.0  # seconds between a closed pipe and its process's end
DEATHS = 16  # in a row, more than it takes to find one case of a batch by halving


class Deaths:
    """How many processes of a subject have died since its last answer."""

    def __init__(self) -> None:
        self._count = 0

    def answered(self) -> None:
        """Begin anew."""
        self._count = 0

    def another(self, message: str) -> SubjectFailed:
        """Return the error of one more death: that of a subject that keeps dying after `DEATHS`."""
        self._count += 1
        if self._count < DEATHS:
            return SubjectFailed(message)
        self._count = 0
        return SubjectKeepsDying(f"{message}, {DEATHS} times in a row")


def environment() -> dict[str, str]:
    """Return the environment with this package on the module path."""
    here = str(Path(__file__).parents[2])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def kill(process: subprocess.Popen[bytes], pipe: Connection | None = None) -> None:
    """End a process and all that it started, and reap it; its session must be its own."""
    if pipe is not None:
        pipe.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status of a process that is ending, killed where it does not."""
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        kill(process)
        return process.wait()


def ending(code: int) -> str:
    """Say how a process ended.

    >>> ending(-11), ending(3)
    ('was killed by signal SIGSEGV', 'ended with exit code 3')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was killed by signal {name}"
