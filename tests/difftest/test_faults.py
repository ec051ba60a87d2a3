"""Campaigns that something goes wrong with: what was finished stays, and the rest is made up
for.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gpuemu import instruction
from gpuemu.difftest import cluster, subjects
from gpuemu.difftest.campaign import drive, engine
from gpuemu.difftest.campaign.campaign import Campaign
from gpuemu.difftest.campaign.folder import RESULTS, Folder
from gpuemu.difftest.campaign.records import Record
from gpuemu.difftest.cases import plan
from gpuemu.difftest.subjects import Subject, SubjectHung
from gpuemu.errors import BadFile, BadValue

PATTERNS: dict[str, Any] = {"instruction": "v_mfma_f32_16x16x16*f16", "arch": "gfx942"}
SMALL = Campaign("bad_subjects:segfaults", cases=160, seed=5, timeout=30.0, **PATTERNS)


pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


def bare(records: Any) -> list[Record]:
    """Return records in order, without what depends on who ran them, and when."""
    plain = [replace(record, seconds=0.0, worker="") for record in records]
    return sorted(plain, key=lambda record: record.chunk)


def by_one_process(campaign: Campaign) -> list[Record]:
    return bare(everything(campaign))


def everything(campaign: Campaign, *places: Any) -> list[Record]:
    return list(chain.from_iterable(drive.drive(campaign, *places)))


def test_any_number_of_workers_makes_the_same_records() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    wrong = replace(SMALL, subject="campaign_subjects:faulty", cases=96, batch=1 << 14)
    want = by_one_process(wrong)
    assert {record.verdict for record in want} == {"differ", "equal"}
    with cluster.pool("2") as pool:
        found = everything(wrong, None, pool.imap)
    assert bare(found) == want
    assert len({record.worker for record in found}) == 2


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    campaign = replace(SMALL, subject="numpy", cases=800, batch=1 << 16)
    want = by_one_process(campaign)
    killed = False
    with cluster.pool("2") as pool, Folder.create(tmp_path / "c", campaign) as folder:
        for records in drive.drive(campaign, folder, pool.imap):
            if not killed:
                os.kill(int(records[0].worker.rpartition(":")[2]), signal.SIGKILL)
                killed = True
        assert bare(folder.records()) == want
    lines = (tmp_path / "c" / RESULTS).read_text().splitlines()
    assert len(lines) == len(want)


def test_a_killed_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    campaign = replace(SMALL, subject="numpy", cases=800, batch=1 << 16)
    want = by_one_process(campaign)
    code = (
        "import sys; from pathlib import Path; from gpuemu.difftest.campaign import drive, folder\n"
        "with folder.Folder.open(Path(sys.argv[1])) as f: list(drive.drive(f.campaign, f))"
    )
    path = tmp_path / "c"
    Folder.create(path, campaign)
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    results = path / RESULTS
    while process.poll() is None and not (results.exists() and results.stat().st_size > 5000):
        time.sleep(0.01)
    process.kill()
    process.wait()
    half = results.read_bytes()
    assert 0 < half.count(b"\n") < len(want)
    results.write_bytes(half + b'{"chunk":99,"torn')
    with Folder.open(path) as folder:
        list(drive.drive(folder.campaign, folder))
        assert bare(folder.records()) == want
    assert results.read_bytes().startswith(half)
    chunks = Counter(Record.from_json(line).chunk for line in results.read_text().splitlines())
    assert set(chunks.values()) == {1}


def test_two_campaigns_do_not_share_a_folder(tmp_path: Path) -> None:
    with Folder.create(tmp_path / "c", SMALL):
        with pytest.raises(BadValue, match="another campaign is writing there"):
            Folder.open(tmp_path / "c").__enter__()
        with pytest.raises(BadValue, match="holds a campaign already"):
            Folder.create(tmp_path / "c", SMALL)


LIMIT = 60_000
FULL = """
import resource, signal, sys
from pathlib import Path
from gpuemu.difftest.campaign import drive, folder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with folder.Folder.open(Path(sys.argv[1])) as f:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    list(drive.drive(f.campaign, f))
"""


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    campaign = replace(SMALL, subject="numpy", cases=800, batch=1 << 16)
    path = tmp_path / "c"
    Folder.create(path, campaign)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(LIMIT)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "results.jsonl: cannot be written: File too large; what was finished" in done.stderr
    text = (path / RESULTS).read_text()
    assert 0 < len(text) <= LIMIT and text.endswith("\n")
    with Folder.open(path) as folder:
        list(drive.drive(folder.campaign, folder))
        assert bare(folder.records()) == by_one_process(campaign)


def half_a_line(file: int, data: bytes, write: Any = os.write) -> int:
    write(file, data[: len(data) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_space_left_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "campaign.json").write_text(SMALL.to_json())
    with Folder.open(tmp_path / "c") as folder:
        (record, *_) = everything(replace(SMALL, subject="numpy", cases=3))
        folder.append([record])
        monkeypatch.setattr("gpuemu.difftest.campaign.folder.os.write", half_a_line)
        with pytest.raises(BadFile, match="No space left on device"):
            folder.append([record])
    assert (tmp_path / "c" / RESULTS).read_text() == record.to_json() + "\n"


def test_results_that_cannot_be_opened_are_said_and_the_lock_given_back(tmp_path: Path) -> None:
    path = tmp_path / "c"
    Folder.create(path, SMALL)
    (path / RESULTS).mkdir()
    with pytest.raises(BadFile, match=r"results\.jsonl: cannot be opened: Is a directory"):
        Folder.open(path).__enter__()
    (path / RESULTS).rmdir()
    with Folder.open(path):
        pass


@pytest.mark.parametrize(
    ("subject", "what"),
    [
        ("dies_on_shifts", "was killed by signal SIGSEGV"),
        ("hangs_on_shifts", "ran longer than 2 s"),
        ("short_on_shifts", "returned uint32"),
    ],
)
def test_a_subject_that_fails_on_one_class_is_judged_on_the_others(subject: str, what: str) -> None:
    campaign = replace(
        SMALL, subject=f"campaign_subjects:{subject}", cases=48, timeout=2.0, modifiers="none"
    )
    campaign = replace(campaign, instruction="v_mfma_f32_16x16x16_f16")
    found = by_one_process(campaign)
    assert sum(record.cases for record in found) == 48
    failed = [record for record in found if record.verdict == "failed"]
    assert failed and all(what in record.what for record in failed)
    if subject != "hangs_on_shifts":  # a hang costs its timeout: the rest of its call is not asked
        assert {record.cls for record in failed} == {"shifts"}
        assert all(record.verdict == "equal" for record in found if record.cls != "shifts")


@pytest.mark.parametrize(
    "name", ["v_smfmac_f32_16x16x32_f16", "v_mfma_f32_16x16x128_f8f6f4"], ids=str
)
def test_a_subject_that_hangs_is_asked_once_over_all_index_sets_and_formats(name: str) -> None:
    asked = []

    def hangs(i: Any, images: Any, m: Any) -> Any:
        asked.append(m)
        raise SubjectHung("ran longer than 60 s")

    p = plan(instruction(name, "gfx950"))
    found = p.run(engine.pieces(p, range(60)), Subject("hangs", hangs), subjects.load("numpy"))
    assert len(asked) == 1 and not any(o.answered for o in found)
    assert sum(len(o.piece.numbers) for o in found) == 60
    assert {o.failure.text() for o in found if o.failure} == {
        "ran longer than 60 s",
        "not asked again: ran longer than 60 s",
    }
