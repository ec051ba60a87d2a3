"""A campaign from its first batch to its last: run, record, shrink."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial

from .. import shrink, subjects
from ..subject import Subject
from .campaign import Batch, Campaign, batches
from .folder import Folder
from .kernels import compiled_ahead
from .pieces import Outcome
from .records import Record
from .tally import Row

MapBatches = Callable[[Callable[[Batch], list[Record]], Iterable[Batch]], Iterator[list[Record]]]


@lru_cache(maxsize=8)
def side(name: str, timeout: float | None) -> Subject:
    """Return a subject by name, loaded once a process."""
    return subjects.load(name, timeout)


def run_batch(batch: Batch, end: float | None = None) -> list[Record]:
    """Run a batch; return the record of each of its chunks, which depends on the batch alone.

    Parameters
    ----------
    batch : Batch
    end : float, optional
        A moment of `time.time`; chunks that are not reached before it have no record. At least one
        has.
    """
    campaign, started = batch.campaign, time.monotonic()
    tested, against = (side(x, campaign.timeout) for x in (campaign.subject, campaign.reference))
    chunks = batch.chunks()
    found = batch.plan.run(
        [piece for _, piece in chunks],
        tested,
        against,
        nan=campaign.nan,
        sample=campaign.sample,
        end=end,
    )
    numbers = {id(piece): number for number, piece in chunks}
    spent = (time.monotonic() - started) / max(sum(len(o.piece.numbers) for o in found), 1)
    return [_record(batch, numbers[id(o.piece)], o, spent) for o in found]


@lru_cache(maxsize=1)
def _worker(process: int) -> str:
    return f"{socket.gethostname()}:{process}"


def _record(batch: Batch, number: int, outcome: Outcome, spent: float) -> Record:
    campaign, i, piece = batch.campaign, batch.plan.instruction, outcome.piece
    count, what, replay = len(piece.numbers), "", ""
    if outcome.failure:
        what = outcome.failure.text()
        if outcome.oracle_only:
            what += f" (of the NumPy oracle; {campaign.reference} has the subject's bits)"
        against = "numpy" if outcome.oracle_only else campaign.reference
        replay = outcome.failure.case.to_json(**campaign.beside(against))
    verdict = "equal" if outcome.failure is None else "differ" if outcome.answered else "failed"
    return Record(
        chunk=number,
        instruction=i.mnemonic,
        arch=i.arch,
        modifiers=piece.modifiers.non_default(),
        cls=piece.cls,
        cases=count,
        outputs=count * batch.plan.outputs(piece.modifiers),
        sampled=outcome.sampled,
        reference=campaign.reference,
        verdict=verdict,
        failed_cases=outcome.failed_cases,
        wrong=outcome.wrong,
        what=what,
        replay=replay,
        seconds=round(count * spent, 6),
        worker=_worker(os.getpid()),
    )


def drive(
    campaign: Campaign,
    folder: Folder | None = None,
    map_batches: MapBatches = map,
) -> Iterator[list[Record]]:
    """Run what is missing of a campaign and yield the records of each batch as it ends.

    Parameters
    ----------
    campaign : Campaign
    folder : Folder, optional
        Locked; every record is on the disk before it is yielded.
    map_batches : function (function, batches) -> iterator of its results in any order
        `map`, or the `imap` of a pool.
    """
    # By the clock on the wall, which the machines of a cluster share.
    end = time.time() + campaign.seconds if campaign.seconds else None

    def until_the_end() -> Iterator[Batch]:
        for batch in batches(campaign, folder.done() if folder else frozenset()):
            if end is not None and time.time() >= end:
                return
            yield batch

    with compiled_ahead(campaign):
        for records in map_batches(partial(run_batch, end=end), until_the_end()):
            if folder:
                folder.append(records)
            yield records


def smaller(campaign: Campaign, row: Row) -> Record | None:
    """Return the record of an instruction's first failure with its case shrunk; None where it does
    not fail again, or the subject hangs.
    """
    assert row.first is not None and row.case is not None
    if row.first.small:
        return row.first
    tested, against = (side(x, campaign.timeout) for x in (campaign.subject, row.against))
    small = shrink.shrink(row.case, tested, against, nan=campaign.nan)
    if small is None:
        return None
    return replace(row.first, small=small.to_json(**campaign.beside(row.against)))


__all__ = ["MapBatches", "drive", "run_batch", "side", "smaller"]
