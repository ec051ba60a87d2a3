"""`gpuemu diff` finds planted faults, says how to repeat them, and makes them small; `replay`
repeats them.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpuemu.backends import host
from gpuemu.cli import build
from gpuemu.difftest.campaign import drive as driving
from gpuemu.errors import BadFile

F16 = "v_mfma_f32_16x16x16_f16"
MANY = "v_mfma_f32_4x4x4_16b_f16"


@pytest.fixture(autouse=True)
def _subjects_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("subjects", None)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def diff(subject: str, instruction: str = F16, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = command(
        "diff",
        "--subject",
        f"subjects:{subject}",
        "-i",
        instruction,
        "-a",
        "gfx942",
        "--json",
        *arguments,
    )
    assert result.exit_code in (0, 1, 130), result.output
    return result.exit_code, json.loads(result.output)


def replay(line: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    program, name, text = shlex.split(line)
    assert (program, name) == ("gpuemu", "replay")
    result = command("replay", text, "--json", *arguments)
    return result.exit_code, json.loads(result.output)


def test_equal_bits() -> None:
    code, found = diff("right", "*", "--cases", "95")
    assert code == 0 and found["failed_cases"] == 0
    assert found["instructions"] == 46 and found["cases"] == 95
    code, found = diff("destroys_its_inputs", F16, "--cases", "32")
    assert code == 0


@pytest.mark.parametrize(
    ("subject", "instruction"),
    [
        ("one_bit_less", F16),
        ("abid_off_by_one", MANY),
        ("swaps_lanes", F16),
        ("crashes", MANY),
        ("wrong_shape", F16),
    ],
)
def test_faults_are_found_repeated_and_made_small(subject: str, instruction: str) -> None:
    code, found = diff(subject, instruction, "--cases", "64")
    assert code == 1 and found["failed_cases"] > 0
    (failure,) = found["failures"]
    again, facts = replay(failure["replay"])
    assert (
        again == 1
        and facts["differs"]
        and facts["what"].split("(")[0] == failure["what"].split("(")[0]
    )
    small, facts = replay(failure["small"])
    assert small == 1
    words = [word for operand in facts["case"]["inputs"].values() for word in operand.values()]
    assert len(words) <= 2
    assert replay(failure["small"], "--subject", "numpy")[0] == 0


def test_a_small_case_names_the_modifier() -> None:
    _, found = diff("abid_off_by_one", MANY, "--cases", "64")
    case = json.loads(shlex.split(found["failures"][0]["small"])[2])
    assert case["modifiers"] == {"cbsz": 1, "abid": 1}
    assert sum(len(operand) for operand in case["inputs"].values()) == 1


def test_a_crash_names_the_case_and_a_wrong_shape_the_right_one() -> None:
    _, found = diff("crashes", MANY, "--cases", "64")
    assert "RuntimeError: illegal address" in found["failures"][0]["what"]
    assert found["failures"][0]["modifiers"]["blgp"] == 3
    _, found = diff("wrong_shape")
    assert "the D of v_mfma_f32_16x16x16_f16 is uint32 (1, 4, 64)" in found["failures"][0]["what"]


def test_nan_bits_count_only_when_asked() -> None:
    options = ("--cases", "32", "--class", "raw")
    assert diff("other_nan", F16, *options)[0] == 0
    code, found = diff("other_nan", F16, *options, "--nan", "exact")
    assert code == 1
    for line in (found["failures"][0]["replay"], found["failures"][0]["small"]):
        assert replay(line)[0] == 1 and replay(line, "--nan", "any")[0] == 0
    misspelt = command("replay", shlex.split(line)[2], "--nan", "exat")
    assert misspelt.exit_code == 2 and "nan='exat'; legal: any, exact" in misspelt.output


def test_a_replay_waits_as_long_as_the_campaign() -> None:
    code, found = diff("hangs", F16, "-n", "1", "--no-shrink", "--timeout", "0.5")
    assert code == 1
    for options, seconds in (((), "0.5"), (("--timeout", "0.4"), "0.4")):
        again, facts = replay(found["failures"][0]["replay"], *options)
        assert again == 1 and facts["what"] == f"subjects:hangs ran longer than {seconds} s"


def test_the_terminal_shows_the_failure_and_the_replay_line() -> None:
    result = command(
        "diff", "--subject", "subjects:one_bit_less", "-i", F16, "-a", "gfx942", "-n", "32"
    )
    assert result.exit_code == 1
    assert "MISMATCH v_mfma_f32_16x16x16_f16 (gfx942)" in result.output
    lines = [line.strip() for line in result.output.splitlines() if "gpuemu replay" in line]
    assert len(lines) == 2
    for line in lines:
        assert replay(line)[0] == 1
    text = command(*shlex.split(lines[1])[1:]).output
    assert "Operand" in text and "VGPR" in text


def test_case_numbers_are_the_same_for_any_number_of_cases() -> None:
    _, few = diff("one_bit_less", F16, "--cases", "20", "--no-shrink")
    _, many = diff("one_bit_less", F16, "--cases", "200", "--no-shrink")
    assert few["failures"][0]["replay"] == many["failures"][0]["replay"]


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_prints_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def some(*given: Any) -> Any:
        yield next(drive(*given))
        raise KeyboardInterrupt

    drive = driving.drive
    monkeypatch.setattr(driving, "drive", some)
    result = command("diff", "--subject", "numpy", "-a", "gfx942", "-n", "184")
    assert result.exit_code == 130
    assert "interrupted; so far:" in result.output and "all bits" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("where", ["shrink.shrink", "runner.check"])
def test_ctrl_c_while_shrinking_keeps_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    options = ("diff", "--subject", "subjects:swaps_lanes", "-i", F16, "-a", "gfx942", "-n", "8")
    folder, report = tmp_path / "run", tmp_path / "r.html"
    with monkeypatch.context() as patch:
        patch.setattr(f"gpuemu.difftest.{where}", interrupt)
        result = command(*options, "--out", str(folder), "--report", str(report))
        assert result.exit_code == 130
        assert f"MISMATCH {F16}" in result.output and "7 cases differ" in result.output
        assert "interrupted while shrinking:" in result.output
        assert "so far" not in result.output and "So far" not in report.read_text()
        assert f"gpuemu diff --resume {folder}" in result.output.replace("\n", "")
        result = command(*options, "--json")
        found = json.loads(result.output)
    assert result.exit_code == 130
    assert found["interrupted_while_shrinking"] and not found["interrupted"]
    assert "registers differ" in found["failures"][0]["what"]
    result = command("diff", "--resume", str(folder), "--json")
    assert result.exit_code == 1 and "small" in json.loads(result.output)["failures"][0]


def test_a_subject_that_raises_keyboard_interrupt_ends_no_campaign() -> None:
    code, found = diff("raises_keyboard_interrupt", "v_mfma_f32_*_f16", "-n", "90", "--no-shrink")
    assert code == 1 and found["cases"] == 90 and not found["interrupted"]
    (failure,) = found["failures"]
    assert failure["what"] == "subjects:raises_keyboard_interrupt raised KeyboardInterrupt"


def test_what_fails_in_a_batch_only_is_said(tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    code, found = diff("wrong_in_a_batch", F16, "-n", "60", "--report", str(report))
    (failure,) = found["failures"]
    assert code == 1 and "small" not in failure
    assert failure["what"].endswith("(in a batch only: the case by itself is equal)")
    assert replay(failure["replay"])[0] == 0
    assert "in a batch only" in report.read_text()


@pytest.mark.parametrize("name", ["nowhere/r.html", "."])
def test_a_place_that_cannot_be_written_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(driving, "drive")
    for option in ("--report", "--save"):
        result = command("diff", "--subject", "numpy", "-i", F16, option, str(tmp_path / name))
        assert result.exit_code == 2 and "error: " in result.output


def test_the_verdict_is_shown_before_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise BadFile("r.html: cannot be written: No space left on device")

    report, saved = str(tmp_path / "r.html"), tmp_path / "s.npz"
    options = ("diff", "--subject", "subjects:swaps_lanes", "-i", F16, "-a", "gfx942", "-n", "8")
    monkeypatch.setattr("gpuemu.difftest.report.write", full)
    result = command(*options, "--json", "--report", report, "--save", str(saved))
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert json.loads(result.stdout)["failed_cases"] == 7 and saved.exists()


def test_two_instructions_do_not_fit_into_one_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    options = ("-i", "v_mfma_f32_16x16x16*f16", "-a", "gfx942", "-n", "8", "--no-shrink")
    result = command(
        "diff", "--subject", "subjects:swaps_lanes", *options, "--save", str(path), "--json"
    )
    assert result.exit_code == 2 and json.loads(result.stdout)["failed_cases"] == 8
    assert f"error: {path}: 2 groups; a .npz file holds one" in result.stderr


def test_nothing_is_saved_where_nothing_failed(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    result = command("diff", "--subject", "numpy", "-i", F16, "-n", "8", "--save", str(path))
    assert result.exit_code == 0 and "no case failed: " in result.stderr and not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--subject", "nothing"), "package.module:function"),
        (("--subject", "no_such_module:f"), "No module named"),
        (("--subject", "subjects:missing"), "no attribute 'missing'"),
        (("--subject", "subjects:not_callable"), "is a int; legal: a callable"),
        (("--class", "odd"), "input class 'odd'"),
        (("--modifiers", "some"), "legal: all, none"),
        (("--nan", "maybe"), "legal: any, exact"),
        (("--instruction", "v_mfma_f32_16x16x16_f17"), "near names"),
        (("--arch", "gfx9999"), "fits none of"),
        (("--cases", "0"), "'--cases'"),
    ],
)
def test_bad_use(arguments: tuple[str, ...], message: str) -> None:
    result = command("diff", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_without_a_gpu_and_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is said before what is missing; and what is missing, with what would do."""
    monkeypatch.setattr("gpuemu.backends.cuda.available", lambda: False)
    monkeypatch.setattr("gpuemu.backends.cuda.why_unavailable", lambda: "no device")
    monkeypatch.setattr("gpuemu.backends.host.why_unavailable", lambda: "no compiler")
    result = command("diff", "-i", "nothing")
    assert result.exit_code == 2 and "no instruction of" in result.output
    result = command("diff")
    assert result.exit_code == 2
    message = " ".join(result.output.split())
    assert "no subject is named" in message and "no device; no compiler" in message
    assert "legal: --subject numpy" in message and "check" not in message
    assert command("diff", "--subject", "numpy", "-n", "3", "-i", F16).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "legal: an object"),
        ('{"instruction":"v_mfma_f32_16x16x16_f16"}', "'arch'"),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","class":"odd","seed":0,"case":0}',
            "legal: normal",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","class":"raw","seed":0,"case":-1}',
            "0 to 2^62",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","class":"raw","seed":0,"case":4611686018427387905}',
            "0 to 2^62",
        ),
        (
            '{"instruction":"tfma_fp16","arch":"pto","class":"raw","seed":0,"case":1000000000000000000000}',
            "0 to 2^62",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{},"nan":"exat"}',
            "legal: any, exact",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{},"timeout":-1}',
            "timeout=-1; legal: seconds, above 0",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","class":"raw","seed":true,"case":1}',
            "'seed'",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{"z":{}}}',
            "objects named a, b, c",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{"a":{"9:0":"1"}}}',
            "outside",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{"a":{"0:0":"xyz"}}}',
            "HEX",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","modifiers":{"cbsz":1},"inputs":{}}',
            "cbsz=1",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","modifiers":{"cbs":1},"inputs":{}}',
            "'cbs'",
        ),
        (
            '{"instruction":"v_mfma_f32_16x16x16_f16","arch":"gfx942","inputs":{},"extra":1}',
            "'extra'",
        ),
        ("@/no/such/file", "cannot be read"),
    ],
)
def test_replay_refuses(text: str, message: str) -> None:
    result = command("replay", text)
    assert result.exit_code == 2 and message in " ".join(result.output.split())


@pytest.mark.parametrize("name", ['"tfma_fp16","arch":"pto"', f'"{F16}","arch":"gfx942"'])
def test_the_largest_case_number(name: str) -> None:
    text = f'{{"instruction":{name},"class":"raw","seed":-{10**30},"case":{1 << 62}}}'
    assert command("replay", text, "--subject", "numpy").exit_code == 0


@pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "host build")
def test_the_host_build_equals_the_oracle_on_every_instruction() -> None:
    result = command("diff", "--subject", "host", "--cases", "644", "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0, found["failures"]
    assert found["instructions"] == 161 and found["cases"] == 644


@pytest.mark.gpu
def test_cuda_equals_the_oracle_on_every_instruction() -> None:
    result = command("diff", "--subject", "cuda", "--cases", "8000", "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0, found["failures"]
