"""Chunks through real local workers: every result once, whoever dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from gpuemu.difftest import cluster
from gpuemu.errors import BackendUnavailable, BadValue


@pytest.fixture(scope="module")
def chunks() -> Iterator[Any]:
    sys.path.insert(0, str(Path(__file__).parent))
    import chunks

    yield chunks
    sys.path.remove(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def two(chunks: Any) -> Iterator[cluster.Pool]:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    with cluster.pool("2") as found:
        yield found


def test_every_chunk_once_in_other_processes(two: cluster.Pool, chunks: Any) -> None:
    assert sorted(two.imap(chunks.square, range(40))) == [(n, n * n) for n in range(40)]
    pids = set(two.imap(chunks.worker, range(16)))
    assert len(pids) == two.workers == 2 and os.getpid() not in pids


def test_few_chunks_are_drawn_ahead(two: cluster.Pool, chunks: Any) -> None:
    drawn = []

    def endless() -> Iterator[int]:
        for n in range(10**9):
            drawn.append(n)
            yield n

    results = two.imap(chunks.square, endless())
    assert len(list(islice(results, 10))) == 10
    results.close()  # type: ignore[attr-defined]
    assert len(drawn) <= 10 + 2 * cluster.IN_FLIGHT


def test_a_worker_killed_in_the_middle_loses_nothing(
    two: cluster.Pool, chunks: Any, tmp_path: Path
) -> None:
    marker = tmp_path / "died"
    found = sorted(two.imap(chunks.die_once, [(n, str(marker)) for n in range(12)]))
    assert marker.exists() and found == list(range(12))


def test_a_chunk_that_kills_every_worker_is_named(two: cluster.Pool, chunks: Any) -> None:
    with pytest.raises(cluster.ChunkLost, match="3 workers died at chunk 77"):
        list(two.imap(chunks.die, [77]))
    assert sorted(two.imap(chunks.square, range(2))) == [(0, 0), (1, 1)]


def test_the_functions_own_error_comes_through(two: cluster.Pool, chunks: Any) -> None:
    with pytest.raises(LookupError, match="chunk 5"):
        list(two.imap(chunks.fail, [5]))


def test_this_process_alone(chunks: Any) -> None:
    with cluster.pool() as here:
        assert list(here.imap(chunks.square, iter([3, 4]))) == [(3, 9), (4, 16)]
        assert set(here.imap(chunks.worker, [0])) == {os.getpid()}


@pytest.mark.parametrize("where", ["0", "two", "localhost:8786", ""])
def test_what_is_no_cluster(where: str) -> None:
    with pytest.raises(BadValue, match="legal: tcp://HOST:PORT"), cluster.pool(where):
        pass


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(BackendUnavailable, match=r"pip install 'gpuemu\[cluster\]'"),
        cluster.pool("2"),
    ):
        pass


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    monkeypatch.setattr(cluster, "TIMEOUT", "1s")
    with (
        pytest.raises(BackendUnavailable, match="cannot be reached"),
        cluster.pool("tcp://127.0.0.1:9"),
    ):
        pass


def test_clusters_on_one_machine_do_not_meet(two: cluster.Pool, chunks: Any) -> None:
    with cluster.pool("1") as other:
        assert list(two.imap(chunks.square, [2])) == list(other.imap(chunks.square, [2]))
