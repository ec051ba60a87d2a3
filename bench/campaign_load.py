"""The memory of a long campaign: `python bench/campaign_load.py [--minutes 30] [--workers 0]`.

Runs a campaign with its folder for the given time, a report at the end, and samples the resident
memory of the process and of all that it started. Prints the peak of the first and of the last
third: they are alike where memory is bounded.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from gpuemu.difftest import cluster, report, subjects
from gpuemu.difftest.campaign import drive
from gpuemu.difftest.campaign.campaign import BATCH, Campaign
from gpuemu.difftest.campaign.folder import RESULTS, Folder

INTERVAL = 0.5  # seconds between two looks


def resident(root: int) -> int:
    """Return the resident bytes of a process and of all below it."""
    pages: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            pid, stat = int(entry.name), (entry / "stat").read_text()
            parents[pid] = int(stat.rpartition(")")[2].split()[1])
            pages[pid] = int((entry / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile
    family, grown = {root}, True
    while grown:
        found = {pid for pid, parent in parents.items() if parent in family} - family
        family, grown = family | found, bool(found)
    return sum(pages.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE")


class Memory(threading.Thread):
    """Resident bytes over time, sampled in the background."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, int]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        begun = time.monotonic()
        while not self.stopped.wait(INTERVAL):
            self.samples.append((time.monotonic() - begun, resident(os.getpid())))

    def peak(self, start: float, end: float) -> float:
        """Return the largest sample between two shares of the time, in MiB."""
        last = self.samples[-1][0]
        part = [size for at, size in self.samples if start * last <= at <= end * last]
        return max(part) / 2**20


def main() -> None:
    """Run the campaign and print what it took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--workers", type=int, default=0, help="local processes; 0: this one")
    options.add_argument("--subject", default=subjects.default())
    options.add_argument("--reference", default="numpy")
    options.add_argument("--instruction", default="*")
    options.add_argument("--batch", type=int, default=BATCH)
    given = options.parse_args()
    campaign = Campaign(
        given.subject,
        given.reference,
        instruction=given.instruction,
        cases=0,
        seconds=60 * given.minutes,
        batch=given.batch,
    )
    memory = Memory()
    memory.start()
    cases = outputs = failed = 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Folder.create(Path(place) / "campaign", campaign)
        with folder, cluster.pool(str(given.workers) if given.workers else None) as pool:
            imap: Any = pool.imap
            for records in drive.drive(campaign, folder, imap):
                cases += sum(record.cases for record in records)
                outputs += sum(record.outputs for record in records)
                failed += sum(record.failed_cases for record in records)
        seconds = time.monotonic() - begun
        memory.stopped.set()
        memory.join()
        before = resident(os.getpid())
        page = Path(place) / "report.html"
        facts = {"subject": given.subject, "reference": given.reference, "seconds": seconds}
        report.write((record.facts() for record in folder.records()), facts, page)
        after = resident(os.getpid())
        lines = (folder.path / RESULTS).stat().st_size
        print(f"{given.subject} against {given.reference}, {seconds / 60:.1f} min", end=", ")
        print(f"{cases:,} cases, {outputs:,} outputs, {failed} wrong")
        print(f"results {lines / 2**20:.1f} MiB, report {page.stat().st_size / 2**20:.1f} MiB")
    first, middle, last = (memory.peak(n / 3, (n + 1) / 3) for n in range(3))
    print(f"peak memory: first third {first:.0f}, second {middle:.0f}, last {last:.0f} MiB")
    print(f"report: {(after - before) / 2**20:+.0f} MiB")


if __name__ == "__main__":
    main()
