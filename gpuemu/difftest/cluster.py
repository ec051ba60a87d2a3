"""Chunks of a campaign spread over processes or machines, through Dask.

A chunk's result depends on the chunk alone, so any number of workers gives the same results. Every
chunk's result is handed out exactly once, in the order in which they finish; a chunk whose worker
dies is run again by another.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ..errors import BackendUnavailable, BadValue, GpuemuError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

IN_FLIGHT = 3  # chunks a worker that are handed out at a time: one in work, two waiting
DEATHS = 3  # workers that may die at a chunk before the campaign gives it up
TIMEOUT = "30s"  # for reaching a scheduler, or for the first worker

QUIET = {
    "distributed.scheduler.allowed-failures": DEATHS - 1,
    "distributed.worker.daemon": False,  # a worker starts the processes of users' subjects
    "distributed.comm.timeouts.connect": TIMEOUT,
}


class ChunkLost(GpuemuError):
    """A chunk at which several workers died, one after the other."""


class Pool:
    """Where chunks are run: this process, or the workers of a Dask client."""

    def __init__(self, client: Any = None) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        """Return how many chunks are run at a time."""
        return sum(self._client.nthreads().values()) if self._client else 1

    def imap(
        self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]
    ) -> Iterator[Result]:
        """Yield `function(chunk)` for every chunk, in the order in which they finish.

        Parameters
        ----------
        function : a function of a module, which every worker imports
        chunks : iterable
            Drawn as workers become free: it may be endless, and few of its chunks are in memory.

        Raises
        ------
        ChunkLost
            Naming a chunk at which workers died repeatedly.
        Exception
            The function's own.
        """
        if self._client is None:
            yield from map(function, chunks)
            return
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        waiting = iter(chunks)
        width = IN_FLIGHT * max(self.workers, 1)
        asked = {self._submit(function, c): c for c in islice(waiting, width)}
        running = as_completed(list(asked))
        try:
            for future in running:
                chunk = asked.pop(future)
                try:
                    result = future.result()
                except KilledWorker:
                    raise ChunkLost(f"{DEATHS} workers died at chunk {chunk!r}") from None
                future.release()
                width = max(width, IN_FLIGHT * self.workers)  # workers may come late
                for more in islice(waiting, width - len(asked)):
                    new = self._submit(function, more)
                    asked[new] = more
                    running.add(new)
                yield result
        finally:
            self._client.cancel(list(asked), force=True)

    def _submit(self, function: Callable[[Chunk], Result], chunk: Chunk) -> Any:
        return self._client.submit(function, chunk, pure=False, retries=0)


@contextlib.contextmanager
def pool(where: str | None = None) -> Iterator[Pool]:
    """Return a pool of workers, as a context that ends those it has started.

    Parameters
    ----------
    where : str, optional
        "tcp://host:port" of a Dask scheduler; or a number of local worker processes, of which the
        n-th sees GPU n modulo the number of GPUs. None: this process alone.

    Raises
    ------
    BackendUnavailable
        Where Dask is not installed, or the scheduler cannot be reached.
    BadValue
        For any other text.

    >>> with pool() as here:
    ...     list(here.imap(abs, [-1, 2]))
    [1, 2]
    """
    if where is None:
        yield Pool()
        return
    local = int(where) if where.isdecimal() else 0
    if not local and "://" not in where:
        raise BadValue(f"cluster {where!r}; legal: tcp://HOST:PORT, or a number of local processes")
    try:
        import dask
        import distributed
    except ImportError as error:
        raise BackendUnavailable(
            f"cluster {where!r} needs Dask ({error}); pip install 'gpuemu[cluster]'"
        ) from None
    with dask.config.set(QUIET), contextlib.ExitStack() as stack:
        address = stack.enter_context(_local(local)) if local else where
        try:
            client = stack.enter_context(distributed.Client(address, timeout=TIMEOUT))
            client.wait_for_workers(1, timeout=TIMEOUT)
        except (OSError, TimeoutError) as error:
            raise BackendUnavailable(f"cluster {where!r} cannot be reached: {error}") from None
        yield Pool(client)
        if local:  # a worker that is just being replaced does not like to be ended
            with contextlib.suppress(TimeoutError):
                client.wait_for_workers(local, timeout=TIMEOUT)


def _local(count: int) -> Any:
    """Return local workers, one process each, that share out the GPUs of this machine."""
    from dask.system import CPU_COUNT
    from distributed import Nanny, Scheduler, SpecCluster

    quiet = {"host": "127.0.0.1", "dashboard": False}
    gpus = visible_gpus()
    threads = str(max(CPU_COUNT // count, 1))
    workers = {}
    for n in range(count):
        env = {"OMP_NUM_THREADS": threads}
        if gpus:
            env["CUDA_VISIBLE_DEVICES"] = gpus[n % len(gpus)]
        options = {"nthreads": 1, "env": env, "silence_logs": logging.CRITICAL, **quiet}
        workers[n] = {"cls": Nanny, "options": options}
    # Without an address Dask's scheduler takes port 8787 even for no dashboard: one a machine.
    ports = {"port": 0, "dashboard_address": ":0"}
    scheduler = {"cls": Scheduler, "options": {**ports, **quiet}}
    return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL)


def visible_gpus() -> list[str]:
    """Return the GPUs of this machine as CUDA_VISIBLE_DEVICES names them; none where CUDA has
    none.
    """
    from ..backends import cuda

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not cuda.available():
        return []
    import cupy

    count = int(cupy.cuda.runtime.getDeviceCount())
    names = given.split(",") if given else [str(n) for n in range(count)]
    return names[:count]
