"""Captured vectors raise the label of the instructions that reproduce them, and of no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest import vectors
from gpuemu.errors import BadFile
from gpuemu.mfma import modifiers, silicon

F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
BF16 = gpuemu.instruction("v_mfma_f32_16x16x16_bf16", "gfx942")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def group(row: gpuemu.Instruction, change: int = 0) -> vectors.Group:
    a, b = (np.full((2, 2, 64), 0x3C003C00, np.uint32) for _ in "ab")
    c = np.zeros((2, 4, 64), np.uint32)
    d = gpuemu.execute(row, a, b, c, backend="numpy")
    d[1, 2, 33] ^= np.uint32(change)
    return vectors.Group(row, modifiers.check(row), {"a": a, "b": b, "c": c}, d)


def save(path: Path, *groups: vectors.Group, origin: str = "silicon") -> str:
    vectors.save(path, vectors.Provenance(origin, "MI300X", "2026-11-30"), list(groups))
    return str(path)


def labels(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (fidelity, source) by instruction, as another process sees them."""
    code = (
        "import gpuemu, json; print(json.dumps([(i.mnemonic, i.arch, i.fidelity,"
        " i.fidelity_source) for i in gpuemu.instructions()]))"
    )
    env = os.environ | {silicon.VARIABLE: str(folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    if done.returncode:
        raise BadFile(done.stderr.splitlines()[-1])
    return {(name, arch): (label, why) for name, arch, label, why in json.loads(done.stdout)}


def raised(folder: Path) -> set[tuple[str, str]]:
    return {name for name, (label, _) in labels(folder).items() if label == "silicon-vectors"}


BASE = {(i.mnemonic, i.arch) for i in gpuemu.instructions() if i.fidelity == "silicon-vectors"}
NAME = (F16.mnemonic, F16.arch)


def test_captures_that_agree_raise_their_instruction_alone(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    result = command("verify", save(tmp_path / "v.json", group(F16)), "--keep", str(folder))
    assert result.exit_code == 0 and "kept v_mfma_f32_16x16x16_f16 (gfx942)" in result.output
    assert raised(folder) == BASE | {NAME}
    (kept,) = folder.glob("v-*.json")
    assert labels(folder)[NAME][1] == f"2 cases of MI300X, {kept.name}"
    assert command("verify", str(kept)).exit_code == 0
    assert gpuemu.instruction(*NAME).fidelity == "published-model"


@pytest.mark.parametrize("origin", ["model", "user"])
def test_other_origins_raise_nothing(tmp_path: Path, origin: str) -> None:
    path = save(tmp_path / "v.json", group(F16), origin=origin)
    command("verify", path, "--keep", str(tmp_path / "kept"))
    assert raised(tmp_path / "kept") == BASE


def test_one_wrong_bit_raises_nothing_and_takes_the_label_back(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    good = save(tmp_path / "good.json", group(F16), group(BF16))
    assert command("verify", good, "--keep", str(folder)).exit_code == 0
    assert raised(folder) == BASE | {NAME, (BF16.mnemonic, BF16.arch)}
    bad = save(tmp_path / "bad.json", group(F16, change=1))
    assert command("verify", bad, "--keep", str(folder)).exit_code == 1
    assert raised(folder) == BASE | {(BF16.mnemonic, BF16.arch)}
    both = tmp_path / "both"
    assert command("verify", good, bad, "--keep", str(both)).exit_code == 1
    assert raised(both) == BASE | {(BF16.mnemonic, BF16.arch)}


def test_keeping_twice_changes_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "v.npz", group(F16))
    for _ in range(2):
        command("verify", path, "--keep", str(tmp_path / "kept"))
    (entry,) = silicon.entries(tmp_path / "kept")
    assert entry["cases"] == 2 and len(list((tmp_path / "kept").iterdir())) == 2


def test_another_model_takes_the_label_back(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    command("verify", save(tmp_path / "v.json", group(F16)), "--keep", str(folder))
    (entry,) = silicon.entries(folder)
    (folder / "index.json").write_text(json.dumps([entry | {"model": "0" * 16}]))
    assert raised(folder) == BASE


def test_a_changed_file_and_a_broken_index_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    command("verify", save(tmp_path / "v.json", group(F16)), "--keep", str(folder))
    (entry,) = silicon.entries(folder)
    (folder / entry["file"]).write_text("{}")
    with pytest.raises(BadFile, match="which is missing or has changed"):
        labels(folder)
    for text, message in (
        ("{", "no readable JSON"),
        ("{}", "legal: a list"),
        ('[{"file": 3}]', "entry 0, field 'instruction'"),
    ):
        (folder / "index.json").write_text(text)
        with pytest.raises(BadFile, match=message):
            silicon.entries(folder)


def test_only_our_own_backends_can_keep(tmp_path: Path) -> None:
    path = save(tmp_path / "v.json", group(F16))
    result = command("verify", path, "--subject", "m:f", "--keep", str(tmp_path / "kept"))
    assert result.exit_code == 2 and "--keep with subject 'm:f'" in result.output


def test_the_packages_own_captures_agree() -> None:
    """Every file that raises a label in this package is run here, and every bit agrees."""
    entries: list[dict[str, Any]] = silicon.entries(silicon.PACKAGE)
    for name in {entry["file"] for entry in entries}:
        origin, groups = vectors.load(silicon.PACKAGE / name)
        assert origin.origin == "silicon"
        for found in groups:
            d = gpuemu.execute(
                found.instruction,
                **found.operands,
                **found.modifiers.non_default(),
                legality="llvm",
                backend="numpy",
            )
            assert gpuemu.mfma.execute.equal_bits(found.instruction, d, found.d).all()
    assert {(e["instruction"], e["arch"]) for e in entries} == BASE
    assert {p.name for p in silicon.PACKAGE.iterdir()} == {e["file"] for e in entries} | {
        "index.json"
    }
