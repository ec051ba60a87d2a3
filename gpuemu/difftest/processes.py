"""Starting and ending the processes that user subjects run in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path

GRACE = 5.0  # seconds between a closed pipe and its process's end


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
