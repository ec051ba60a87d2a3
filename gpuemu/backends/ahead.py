"""Kernels compiled before they are asked for, on all cores.

NVRTC compiles without the interpreter's lock, and in several threads at a time (from 12.3 on; older
ones take turns). What is compiled goes into the folder that `cuda.kernel` reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from . import cuda

Job = tuple[str, cuda.Defines]  # a source file and its definitions


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def compiling(jobs: Iterable[Job], arch: str, threads: int | None = None) -> Iterator[None]:
    """Compile kernels in the background, as a context that leaves out what is not begun at its end.

    A process that exits waits for what is in work: a few seconds.

    Parameters
    ----------
    jobs : iterable of (source, defines)
        In the order in which they will be needed; who asks for one that is in work waits for it.
        One that does not compile is an error of `cuda.kernel`, where it is asked for.
    arch : str
        As of `cuda.cubin_path`.
    threads : int, optional
        Default: all cores.
    """
    pool = ThreadPoolExecutor(threads or cores(), thread_name_prefix="nvrtc")
    try:
        for source, defines in jobs:
            pool.submit(cuda.cubin_path, source, defines, arch)
        yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
