"""Campaigns: the same records however they are run, stopped, killed or resumed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gpuemu.backends import host
from gpuemu.cli import build
from gpuemu.difftest.campaign import drive
from gpuemu.difftest.campaign.campaign import Campaign, batches, shares
from gpuemu.difftest.campaign.folder import RESULTS, Folder
from gpuemu.difftest.campaign.kernels import LOOKED_AT, kernels
from gpuemu.difftest.campaign.records import Record
from gpuemu.difftest.campaign.tally import Tally
from gpuemu.difftest.generators import CLASSES
from gpuemu.errors import BadFile, BadValue
from gpuemu.mfma import models
from gpuemu.mfma.kernels import kernel_shape, kernel_source

HERE = Path(__file__).parent
F16 = "v_mfma_f32_16x16x16_f16"
FAULTY = Campaign("campaign_subjects:faulty", instruction="*4x4x4*f16*", cases=400, batch=1 << 17)


pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


def same(records: Any) -> list[Record]:
    """Return records without what depends on time and place, by number."""
    plain = [dataclasses.replace(r, seconds=0.0, worker="", small="") for r in records]
    return sorted(plain, key=lambda r: r.chunk)


def whole(campaign: Campaign) -> list[Record]:
    return same(r for part in drive.drive(campaign) for r in part)


@pytest.fixture(scope="module")
def expected() -> list[Record]:
    sys.path.insert(0, str(HERE))
    try:
        return whole(FAULTY)
    finally:
        sys.path.remove(str(HERE))


@pytest.mark.parametrize(
    "campaign",
    [
        Campaign("numpy", cases=20000, batch=1 << 18),
        Campaign("numpy", cases=50, arch="gfx942"),
        Campaign("numpy", instruction="*f8f6f4*", cases=3001, classes=("raw", "normal")),
        Campaign("numpy", instruction=F16, cases=5000, modifiers="none", batch=1),
    ],
)
def test_chunks_are_a_partition_of_the_cases(campaign: Campaign) -> None:
    seen: dict[int, set[int]] = {}
    numbers = []
    for batch in batches(campaign):
        for number, piece in batch.chunks():
            numbers.append(number)
            mine = set(piece.numbers.tolist())
            assert not mine & seen.setdefault(batch.row, set())
            seen[batch.row] |= mine
    assert numbers == list(range(len(numbers)))
    assert [len(seen[row]) for row in range(len(seen))] == shares(campaign)
    assert all(mine == set(range(len(mine))) for mine in seen.values())


def test_any_beginning_covers_all_instructions() -> None:
    endless = Campaign("numpy", cases=0, seconds=1.0)
    first = list(islice(batches(endless), 161))
    assert len({batch.row for batch in first}) == 161
    sizes = [b.last - b.first for b in islice(batches(endless), 161 * 4) if b.row == 0]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_what_is_done_is_left_out() -> None:
    done = frozenset(range(0, 200, 3))
    left = [n for b in batches(FAULTY, done) for n, _ in b.chunks()]
    assert left == [n for b in batches(FAULTY) for n, _ in b.chunks() if n not in done]


def test_faults_are_counted_and_placed(expected: list[Record]) -> None:
    wrong = [r for r in expected if r.verdict == "differ"]
    assert wrong and any(r.verdict == "equal" for r in expected)
    for record in wrong:
        assert 0 < record.failed_cases <= record.cases
        assert max(count for _, _, count in record.wrong) <= record.failed_cases
        assert json.loads(record.replay)["class"] == record.cls
    assert sum(r.cases for r in expected) == 400
    assert sum(r.outputs for r in expected) == 400 * 256


def test_any_split_gives_the_same_records(expected: list[Record]) -> None:
    done = frozenset(r.chunk for r in expected[::2])
    pieces = [r for b in batches(FAULTY, done) for r in drive.run_batch(b)]
    assert same(pieces) == [r for r in expected if r.chunk not in done]


def test_a_results_file_torn_at_any_byte_is_taken_up(
    expected: list[Record], tmp_path: Path
) -> None:
    with Folder.create(tmp_path, FAULTY) as folder:
        folder.append(expected)
    results = tmp_path / RESULTS
    data = results.read_bytes()
    last = data[:-1].rfind(b"\n") + 1
    for end in range(last, len(data)):
        results.write_bytes(data[:end])
        with Folder.open(tmp_path) as again:
            assert results.stat().st_size == last
    with Folder.open(tmp_path) as again:
        assert again.done() == frozenset(r.chunk for r in expected[:-1])
        missing = list(batches(again.campaign, again.done()))
        assert [n for b in missing for n, _ in b.chunks()] == [expected[-1].chunk]
        for records in drive.drive(again.campaign, again):
            assert [r.chunk for r in records] == [expected[-1].chunk]
        assert same(again.records()) == expected


def test_what_the_end_cuts_off_is_run_by_who_goes_on(
    expected: list[Record], tmp_path: Path
) -> None:
    batch = next(b for b in batches(FAULTY) if len({p.modifiers for _, p in b.chunks()}) > 2)
    first = batch.chunks()[0][1].modifiers
    reached = [n for n, piece in batch.chunks() if piece.modifiers == first]
    assert 0 < len(reached) < len(batch.chunks())
    records = drive.run_batch(batch, time.time() - 1)
    assert [r.chunk for r in records] == reached
    assert same(drive.run_batch(batch, time.time() + 1e6)) == same(drive.run_batch(batch))
    with Folder.create(tmp_path, FAULTY) as folder:
        folder.append(records)
        for more in drive.drive(FAULTY, folder):
            assert not {r.chunk for r in more} & set(reached)
        assert same(folder.records()) == expected


def test_the_budget_goes_along_with_every_batch() -> None:
    asked: list[float] = []

    def only_look(function: Any, todo: Any) -> Any:
        for _ in islice(todo, 3):
            asked.append(function.keywords["end"])
            yield []

    before = time.time()
    list(drive.drive(dataclasses.replace(FAULTY, seconds=1000.0), None, only_look))
    assert len(set(asked)) == 1 and before + 1000 <= asked[0] <= time.time() + 1000
    asked.clear()
    list(drive.drive(FAULTY, None, only_look))
    assert asked == [None] * 3


def test_kernels_are_named_in_the_order_in_which_they_are_needed() -> None:
    both = Campaign("cuda", "reference", cases=10**6)
    found = [(source, tuple(sorted(defines.items()))) for source, defines in kernels(both)]
    assert len(set(found)) == len(found) > 200
    assert [source for source, _ in found[:2]] == ["cases.cu", "reference.cu"]
    assert not list(kernels(Campaign("host", "numpy")))
    assert [source for source, _ in kernels(Campaign("reference", "numpy"))] == ["reference.cu"]
    for plan in both.plans():
        reached = plan.places(np.arange(LOOKED_AT))[1]
        assert len(np.unique(reached)) == len(plan.modifiers)
    scaled = Campaign("cuda", instruction="v_mfma_scale_f32_16x16x128_f8f6f4", cases=3)
    (plan,) = scaled.plans()
    wanted = [plan.case(n).modifiers for n in range(3)]
    shapes = dict.fromkeys((m.cbsz, m.blgp) for m in wanted)
    made = [defines["GPUEMU_CONFIG"] for _, defines in kernels(scaled)]
    assert len(made) == len(shapes) == 3
    assert made == [
        kernel_source(plan.instruction, models.get(plan.instruction.model), m).defines[
            "GPUEMU_CONFIG"
        ]
        for m in (kernel_shape(plan.instruction, m) for m in wanted)
    ]


def test_two_campaigns_in_one_folder_are_refused(tmp_path: Path) -> None:
    with Folder.create(tmp_path, FAULTY):
        with pytest.raises(BadValue, match=r"holds a campaign already.*--resume"):
            Folder.create(tmp_path, FAULTY)
        with pytest.raises(BadValue, match="another campaign is writing"), Folder.open(tmp_path):
            pass
    with Folder.open(tmp_path) as free:
        assert free.campaign == FAULTY


def test_the_last_record_of_a_chunk_counts(expected: list[Record], tmp_path: Path) -> None:
    small = dataclasses.replace(expected[0], small="{}")
    with Folder.create(tmp_path, FAULTY) as folder:
        folder.append([*expected[:3], small])
        assert list(folder.records()) == [small, *expected[1:3]]


def test_a_full_disk_loses_nothing_that_was_there(
    expected: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, data: bytes) -> int:
        return write(_file, data[:100]) if len(data) > 150 else fail()

    def fail() -> int:
        raise OSError(28, "No space left on device")

    write = os.write
    with Folder.create(tmp_path, FAULTY) as folder:
        folder.append(expected[:2])
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(BadFile, match=r"No space left on device.*--resume"):
            folder.append(expected[2:5])
        monkeypatch.undo()
        assert list(folder.records()) == expected[:2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk": "1"}, "'chunk'"),
        ({"verdict": "fine"}, "legal: equal, differ, failed"),
        ({"wrong": [[1, 2]]}, r"legal: \[VGPR, lane, count\]"),
        ({"more": 1}, "'more' is unknown"),
        ({"class": None}, "'class'"),
    ],
)
def test_records_of_a_foreign_file(expected: list[Record], change: Any, message: str) -> None:
    facts = expected[0].facts()
    assert Record.from_json(expected[0].to_json()) == expected[0]
    with pytest.raises(BadFile, match=message):
        Record.from_json(json.dumps(facts | change))
    with pytest.raises(BadFile, match="no JSON"):
        Record.from_json("{")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cases": "many"}, "'cases'"),
        ({"seed": True}, "'seed'"),
        ({"nan": "maybe"}, "legal: any, exact"),
        ({"classes": [1]}, "'classes'"),
        ({"cases": 0}, "without an end"),
    ],
)
def test_campaigns_of_a_foreign_file(change: Any, message: str) -> None:
    facts = json.loads(FAULTY.to_json())
    assert Campaign.from_json(json.dumps(facts)) == FAULTY
    with pytest.raises(BadFile, match=message):
        Campaign.from_json(json.dumps(facts | change))


# ---- the command


def command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_the_command_keeps_resumes_and_reports(tmp_path: Path) -> None:
    folder, page = str(tmp_path / "night"), tmp_path / "page.html"
    given = ("--subject", "campaign_subjects:faulty", "-i", F16, "-a", "gfx942", "-n", "64")
    first = command("diff", *given, "--out", folder, "--json")
    assert first.exit_code == 1, first.output
    found = json.loads(first.output)
    assert found["failures"][0]["small"]
    again = command("diff", "--resume", folder, "--json", "--report", str(page))
    assert again.exit_code == 1
    repeated = json.loads(again.output)
    for name in ("cases", "outputs", "failed_cases", "results", "failures"):
        assert repeated[name] == found[name]
    assert page.read_text().startswith("<!DOCTYPE html>") or "<html" in page.read_text()
    refused = command("diff", *given, "--out", folder)
    assert refused.exit_code == 2 and "holds a campaign already" in " ".join(refused.output.split())
    both = command("diff", "--resume", folder, "--seed", "3")
    assert both.exit_code == 2 and "--seed=3 beside --resume" in " ".join(both.output.split())
    nothing = command("diff", "--resume", str(tmp_path / "no"))
    assert nothing.exit_code == 2 and "cannot be read" in " ".join(nothing.output.split())


@pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "host build")
def test_a_budget_in_seconds_ends_and_says_what_was_sampled() -> None:
    options = ("--subject", "host", "--reference", "reference", "-i", F16, "-a", "gfx942")
    result = command("diff", *options, "--seconds", "0.5", "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0 and found["cases"] > 0 and not found["interrupted"]
    assert 0 < found["sampled"] < found["cases"]
    text = command("diff", *options, "-n", "64").output
    assert "computed by numpy as well: a sample of" in text


def test_a_folder_is_begun_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as during:
        during.setattr(os, "fsync", full)
        with pytest.raises(BadFile, match="cannot be written: No space left"):
            Folder.create(tmp_path, FAULTY)
    assert not list(tmp_path.iterdir())
    assert Folder.open(Folder.create(tmp_path, FAULTY).path).campaign == FAULTY


def test_ctrl_c_leaves_a_state_that_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "night"
    campaign = ("--subject", "numpy", "--reference", "numpy", "-a", "gfx942", "-n", "46000")
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuemu", "diff", *campaign, "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    results = folder / RESULTS
    while process.poll() is None and not (results.exists() and results.stat().st_size):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate()
    assert process.returncode == 130 and "interrupted; so far:" in text
    assert f"go on with: gpuemu diff --resume {folder}" in text
    with Folder.open(folder) as state:
        kept = Counter(record.chunk for record in state.records())
        assert kept and set(kept.values()) == {1}
        for records in islice(drive.drive(state.campaign, state), 2):
            assert not {r.chunk for r in records} & set(kept)


def test_workers_of_a_cluster_give_the_same_records(expected: list[Record], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    from gpuemu.difftest.cluster import pool

    with pool("2") as workers:
        found = [r for part in drive.drive(FAULTY, None, workers.imap) for r in part]
    assert same(found) == expected
    assert len({r.worker for r in found}) == 2


def test_a_tally_keeps_the_plainest_failure(expected: list[Record]) -> None:
    tally = Tally()
    tally.add(expected)
    (row, *_) = tally.failing
    mine = [r for r in expected if (r.arch, r.instruction) == (row.arch, row.instruction)]
    plain = [json.loads(r.replay) for r in mine if r.replay and not r.modifiers]
    first = min((list(CLASSES).index(found["class"]), found["case"]) for found in plain)
    assert row.case is not None
    assert (list(CLASSES).index(row.case.cls), row.case.number) == first
    assert tally.total("cases") == 400


@pytest.mark.gpu
def test_a_campaign_on_the_device() -> None:
    campaign = Campaign("cuda", "reference", cases=161 * 64, batch=1 << 22, sample=50)
    found = [r for part in drive.drive(campaign) for r in part]
    assert {r.verdict for r in found} == {"equal"}, [r for r in found if r.replay][:3]
    assert len({(r.arch, r.instruction) for r in found}) == 161
    assert sum(r.sampled for r in found) > 161 * 10
