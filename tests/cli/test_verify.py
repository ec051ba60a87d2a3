"""`gpuemu verify`, `diff --save`, and programs as subjects."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest import cases, subjects, vectors
from gpuemu.mfma import modifiers

ROW = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def write(path: Path, origin: str = "silicon", change: int = 0) -> None:
    a, b = (np.full((2, 2, 64), 0x3C003C00, np.uint32) for _ in "ab")
    c = np.zeros((2, 4, 64), np.uint32)
    d = gpuemu.execute(ROW, a, b, c, backend="numpy")
    d[1, 2, 33] ^= np.uint32(change)
    group = vectors.Group(ROW, modifiers.check(ROW), {"a": a, "b": b, "c": c}, d)
    vectors.save(path, vectors.Provenance(origin, "MI300X"), [group])


@pytest.mark.parametrize("name", ["v.json", "v.npz"])
def test_equal_vectors_of_a_chip_raise_the_fidelity(tmp_path: Path, name: str) -> None:
    write(tmp_path / name)
    result = command("verify", str(tmp_path / name), "--json")
    (row,) = json.loads(result.output)
    assert result.exit_code == 0
    assert (row["cases"], row["differ"], row["fidelity"]) == (2, 0, "silicon-vectors")
    assert "silicon MI300X" in command("verify", str(tmp_path / name)).output
    write(tmp_path / name, origin="model")
    (row,) = json.loads(command("verify", str(tmp_path / name), "--json").output)
    assert row["fidelity"] == "published-model"


def test_one_wrong_bit_is_found_and_replayed(tmp_path: Path) -> None:
    write(tmp_path / "v.npz", change=1)
    result = command("verify", str(tmp_path / "v.npz"), "--json")
    (row,) = json.loads(result.output)
    assert result.exit_code == 1 and row["differ"] == 1 and row["fidelity"] == "published-model"
    assert "case 1: D[0,10,1] (VGPR 2, lane 33): got 41800000, want 41800001" in row["first"]
    text = shlex.split(row["replay"])[2]
    again = command("replay", text)
    assert again.exit_code == 1 and "want 41800001" in again.output
    assert command("replay", text, "--reference", "numpy").exit_code == 0


def test_an_output_of_zeros_is_replayed_as_such(tmp_path: Path) -> None:
    a, b = (np.full((1, 2, 64), 0x3C003C00, np.uint32) for _ in "ab")
    zero = np.zeros((1, 4, 64), np.uint32)
    group = vectors.Group(ROW, modifiers.check(ROW), {"a": a, "b": b, "c": zero}, zero)
    vectors.save(tmp_path / "v.json", vectors.Provenance(), [group])
    result = command("verify", str(tmp_path / "v.json"))
    (line,) = [line for line in result.output.splitlines() if "gpuemu replay" in line]
    text = shlex.split(line)[2]
    assert result.exit_code == 1 and json.loads(text)["inputs"]["d"] == {}
    again = command("replay", text)
    assert again.exit_code == 1 and "want 00000000" in again.output
    assert cases.from_json(text)[0].to_json(subject="numpy") == text


def test_a_replay_line_has_the_rule_for_nans_and_quotes(tmp_path: Path) -> None:
    program = tmp_path / "o'clock"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    write(tmp_path / "v.npz", change=1)
    options = ("--subject", str(program), "--nan", "exact", "--json")
    (row,) = json.loads(command("verify", str(tmp_path / "v.npz"), *options).output)
    facts = json.loads(shlex.split(row["replay"])[2])
    assert (facts["nan"], facts["subject"]) == ("exact", str(program))


def test_every_file_is_read_before_anything_runs(tmp_path: Path) -> None:
    write(tmp_path / "good.json")
    (tmp_path / "bad.json").write_text("{")
    result = command("verify", str(tmp_path / "good.json"), str(tmp_path / "bad.json"))
    assert result.exit_code == 2 and result.output.startswith("error: ")


def test_diff_saves_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    path = tmp_path / "failed.json"
    options = ("-i", ROW.mnemonic, "-a", "gfx942", "-n", "32", "--save", str(path))
    assert command("diff", "--subject", "subjects:one_bit_less", *options).exit_code == 1
    assert command("verify", str(path)).exit_code == 0
    assert command("verify", str(path), "--subject", "subjects:one_bit_less").exit_code == 1


PROGRAM = f"""#!{sys.executable}
import json, sys
import numpy as np
import gpuemu
with np.load(sys.argv[1], allow_pickle=False) as f:
    given = {{name: f[name] for name in f.files}}
facts = json.loads(str(given.pop("header")))
i = gpuemu.instruction(facts["instruction"], facts["arch"])
m = {{k: tuple(v) if isinstance(v, list) else v for k, v in facts["modifiers"].items()}}
d = gpuemu.execute(i, **given, **m, backend="numpy")
BEHAVIOUR
np.savez(sys.argv[2], d=d)
"""


@pytest.mark.parametrize(
    ("behaviour", "code", "message"),
    [
        ("", 0, ""),
        ("d ^= np.uint32(1)", 1, "registers differ"),
        ("d = d[:1, :2]", 1, "returned uint32"),
        ("sys.exit('no device')", 1, "ended with exit code 1: no device"),
        ("import time; time.sleep(60)", 1, "ran longer than 1 s"),
        ("np.savez(sys.argv[2], e=d); sys.exit(0)", 1, "wrote no array 'd', only e"),
        ("sys.exit(0)", 1, "no such file"),
    ],
)
def test_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, code: int, message: str
) -> None:
    monkeypatch.setattr(
        subjects, "TIMEOUT", 4.0 if not behaviour.startswith("import time") else 1.0
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(gpuemu.__file__).parents[1]))
    program = tmp_path / "subject.py"
    program.write_text(PROGRAM.replace("BEHAVIOUR", behaviour))
    program.chmod(0o755)
    options = ("-i", ROW.mnemonic, "-a", "gfx942", "-n", "1", "--no-shrink", "--json")
    result = command("diff", "--subject", str(program), *options)
    assert result.exit_code == code, result.output
    if message:
        assert message in json.loads(result.output)["failures"][0]["what"]


def test_a_program_that_is_none(tmp_path: Path) -> None:
    assert command("diff", "--subject", str(tmp_path / "none")).exit_code == 2
