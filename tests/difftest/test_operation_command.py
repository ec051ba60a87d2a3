"""TFMA, its bundles and emulated GEMM on the command line: what is
chosen, kept, shown and refused.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from operation_rows import BUNDLE, F32, FP16, ROWS, records
from typer.testing import CliRunner, Result

from gpuemu.cli import build
from gpuemu.difftest.campaign import drive
from gpuemu.difftest.campaign.campaign import Campaign, batches
from gpuemu.difftest.campaign.folder import Folder
from gpuemu.difftest.cases import plan
from gpuemu.difftest.catalogue import choose, find
from gpuemu.errors import BadValue, UnknownInstruction

pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


def test_what_patterns_choose() -> None:
    everything = choose("*,tfma*,emulated*", "*")
    assert len(everything) == 161 + len(ROWS)
    assert len(choose("*", "*")) == 161
    assert {i.arch for i in choose("tfma*", "*")} == {"pto", "pto-adr0080", "pto-core"}
    assert [i.mnemonic for i in choose("*", "pto")] == ["tfma_fp16", "tfma_fp32", "tfma_bf16"]
    assert len(choose("emulated*", "int8")) == 4
    with pytest.raises(BadValue, match=r"'gfx942' with 'tfma\*'; legal: pto"):
        choose("tfma*", "gfx942")
    with pytest.raises(UnknownInstruction, match="beside them: tfma_"):
        choose("nothing", "*")
    with pytest.raises(UnknownInstruction, match="no instruction"):
        choose("tfma*,nothing", "*")
    with pytest.raises(BadValue, match=r"arch 'gfx942' of tfma_fp16; legal: pto"):
        find("tfma_fp16", "gfx942")


def test_classes_choose_operations_too() -> None:
    campaign = Campaign("numpy", instruction="tfma*", classes=("ties", "legal"), cases=10)
    names = {p.instruction.mnemonic: [cls.name for cls in p.classes] for p in campaign.plans()}
    assert names["tfma_fp16"] == ["ties"] and names["tfma_bundle"] == ["legal"]
    assert "tfma_u8" not in names
    with pytest.raises(BadValue, match="input class 'odd'; legal: normal"):
        Campaign("numpy", instruction="tfma*", classes=("odd",)).plans()


def command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("row", "subject"),
    [
        (FP16, "tfma_without_underflow"),
        (F32, "product_to_nearest"),
        (BUNDLE, "bundle_with_holes"),
    ],
    ids=repr,
)
def test_the_command_finds_keeps_resumes_reports_and_repeats(
    row: Any, subject: str, tmp_path: Path
) -> None:
    folder, page = str(tmp_path / "night"), tmp_path / "page.html"
    given = ("--subject", f"operation_subjects:{subject}", "-i", row.mnemonic, "-n", "400")
    first = command("diff", *given, "--out", folder, "--json")
    assert first.exit_code == 1, first.output
    found = json.loads(first.output)
    (failure,) = found["failures"]
    assert failure["got"] != failure["want"]
    for name in ("replay", "small"):
        program, verb, text = shlex.split(failure[name])
        assert (program, verb) == ("gpuemu", "replay")
        again = command("replay", text)
        assert again.exit_code == 1 and "got" in again.output, again.output
        assert command("replay", text, "--subject", "numpy").exit_code == 0
    resumed = command("diff", "--resume", folder, "--json", "--report", str(page))
    assert json.loads(resumed.output)["failures"] == found["failures"]
    text = page.read_text()
    assert f'<span class="name">{row.mnemonic}</span>' in text
    assert text.count('class="none"') == 0 and 'class="differ"' in text
    assert ("row 0, column 0" in text) == (row is F32)
    with Folder.open(Path(folder)) as state:
        assert list(batches(state.campaign, state.done())) == []


def test_a_bundle_is_shown_as_assembly() -> None:
    shown = command("replay", plan(BUNDLE).case(0).to_json(subject="numpy")).output
    assert "BSTART.VEC TFMA" in shown and "bytes" in shown and "all bits equal" in shown


def test_any_number_of_workers_makes_the_same_records() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")
    from gpuemu.difftest.cluster import pool

    campaign = Campaign(
        "operation_subjects:tfma_without_underflow", instruction="tfma_fp*", arch="pto", cases=120
    )
    campaign = replace(campaign, batch=1 << 16)
    with pool("2") as workers:
        found = [r for part in drive.drive(campaign, None, workers.imap) for r in part]
    plain = [
        sorted((replace(r, seconds=0.0, worker="") for r in side), key=lambda r: r.chunk)
        for side in (found, records(campaign))
    ]
    assert plain[0] == plain[1] and {r.verdict for r in found} == {"equal", "differ"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--reference", "reference"), "'reference' computes matrix instructions alone"),
        (("--save", "x.json"), "vector files hold matrix instructions alone"),
        (("--class", "legal"), "input class 'legal'; legal: normal"),
        (("--arch", "gfx950"), "legal: pto"),
    ],
)
def test_bad_use(arguments: tuple[str, ...], message: str) -> None:
    result = command("diff", "--subject", "numpy", "-i", "tfma_fp16", *arguments)
    assert result.exit_code == 2 and message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"modifiers":{"pad":"inf"},"inputs":{}', "pad='inf'; legal: Null, Zero, Max, Min"),
        ('"modifiers":{"odd":1},"inputs":{}', "'odd'; legal: shape"),
        ('"inputs":{"left":{"0:0":"1"}}', "outside (4, 4, 16)"),
        ('"inputs":{"left":{"0:0:0":"10000"}}', "items of 16 bits"),
        ('"inputs":{"flags":{"":"G"}}', "HEX"),
        ('"class":"legal","seed":0,"case":0', "field 'class' is 'legal'; legal: normal"),
    ],
)
def test_replay_refuses(text: str, message: str) -> None:
    result = command("replay", f'{{"instruction":"tfma_fp16","arch":"pto",{text}}}')
    assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output


def test_replay_refuses_flags_that_there_are_not() -> None:
    text = '{"instruction":"tfma_bundle","arch":"pto-core","inputs":{"sticky":{"":"20"}}}'
    result = command("replay", text, "--subject", "numpy")
    assert result.exit_code == 2 and "sticky=0x20; legal: 0 to 0x1f" in result.output


def bundle_line(at: str, bits: str) -> str:
    """Return a replay line of one tile of four FP32s, one of whose fields is changed."""
    fields = {"0:0": "1", "0:1": "1", "0:2": "80", "0:3": "4", "0:4": "1", "0:5": "4", "0:6": "F"}
    inputs = {"program": {"0": "0"}, "tiles": fields | {at: bits}}
    return json.dumps({"instruction": "tfma_bundle", "arch": "pto-core", "inputs": inputs})


@pytest.mark.parametrize(
    ("at", "bits", "message"),
    [
        ("0:1", "3F", "tile T#1: dtype=63; legal: 0 (FP64), 1 (FP32), "),
        ("0:1", "1F", "tile T#1: dtype=31; legal: 0 (FP64), "),
        ("0:7", "7", "tile T#1: layout=7; legal: 0 (RowMajor), 1 (ColumnMajor), "),
        ("0:4", "9", "tile T#1: 9 x 4 valid elements; legal: 1 to 32"),
        ("0:5", "0", "tile T#1: 1 x 0 valid elements; legal: 1 to 32"),
        ("0:0", "41", "64"),
        ("0:6", "10", "mask=16; legal: 0b0001"),
    ],
)
def test_replay_refuses_tiles(at: str, bits: str, message: str) -> None:
    assert command("replay", bundle_line("0:1", "1"), "--subject", "numpy").exit_code == 0
    result = command("replay", bundle_line(at, bits), "--subject", "numpy")
    text = " ".join(result.output.split())
    assert result.exit_code == 2 and message in text, text
    assert "KeyError" not in text and "reshape" not in text


@pytest.mark.parametrize("side", ["--subject", "--reference"])
@pytest.mark.parametrize("name", ["reference", "tensor-core:f16"])
@pytest.mark.parametrize("row", [FP16, F32, BUNDLE], ids=repr)
def test_replay_refuses_what_knows_matrix_instructions_alone(
    row: Any, name: str, side: str
) -> None:
    sides = {"--subject": "numpy", "--reference": "numpy"} | {side: name}
    options = [x for pair in sides.items() for x in pair]
    result = command("replay", plan(row).case(0).to_json(), *options)
    text = " ".join(result.output.split())
    assert result.exit_code == 2 and f"'{name}' computes matrix instructions alone" in text, text


def test_expected_results_in_a_line() -> None:
    facts = json.loads(
        '{"instruction":"tfma_fp16","arch":"pto","modifiers":{"valid":"one","mask":"1000"},'
        '"inputs":{"left":{"0:0:0":"3C00"},"right":{"0:0:0":"4000"},'
        '"bits":{"0:0:0":"4000"},"defined":{"0:0:0":"01"}}}'
    )
    for bits, code in (("4000", 0), ("4001", 1)):
        facts["inputs"]["bits"]["0:0:0"] = bits
        found = command("replay", json.dumps(facts | {"subject": "numpy"}))
        assert found.exit_code == code, found.output
