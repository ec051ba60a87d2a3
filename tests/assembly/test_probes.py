"""The probe programs are what the emulator makes them, tell the readings apart, and compile."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuemu.cli import build
from gpuemu.mfma.assembly import parse

from . import llvm

FOLDER = Path(__file__).parents[2] / "docs" / "probes"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("probe_generator", FOLDER / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(FOLDER))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


GENERATOR = load()
STORED: dict[str, Any] = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))
TARGETS = [(probe, arch) for probe, row in STORED.items() for arch in row["targets"]]


def test_files_are_what_the_emulator_makes() -> None:
    """Run docs/probes/generate.py where this fails after a change of an arithmetic model."""
    for name, text in GENERATOR.files():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, name
    kept = {path.name for path in FOLDER.glob("*.hip")} - {"template.hip"}
    assert kept == {f"{probe.name}.hip" for probe in GENERATOR.PROBES}


@pytest.mark.parametrize(("probe", "arch"), TARGETS)
def test_readings_differ(probe: str, arch: str) -> None:
    readings = STORED[probe]["targets"][arch]["readings"]
    assert len(readings) >= 2
    for one, other in itertools.combinations(readings, 2):
        assert readings[one] != readings[other], f"{one} and {other} predict the same"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probes built for this machine, where a played chip answers."""
    folder = tmp_path_factory.mktemp("probes")
    stub = Path(__file__).parent / "hip"
    for probe in STORED:
        source = ["-x", "c++", str(FOLDER / f"{probe}.hip")]
        command = ["g++", "-std=c++17", "-w", "-I", str(stub), *source, "-o", str(folder / probe)]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize(("probe", "arch"), TARGETS)
def test_answers_are_recognised_and_verified(
    probe: str, arch: str, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chip of each reading: its output is named, and `gpuemu verify` accepts the first alone."""
    for n, (name, d) in enumerate(STORED[probe]["targets"][arch]["readings"].items()):
        answer, output = tmp_path / "answer", tmp_path / "output.json"
        answer.write_bytes(np.array([[int(x, 16) for x in row] for row in d], np.uint32).tobytes())
        played = {"PLAYED_CHIP": f"{arch}:sramecc+", "PLAYED_ANSWER": str(answer)}
        output.write_bytes(subprocess.check_output([programs / probe], env=os.environ | played))
        GENERATOR.main([str(output)])
        assert capsys.readouterr().out == f"{probe} on {arch}: {name}\n"
        verdict = CliRunner().invoke(build(), ["verify", "--nan", "exact", str(output)])
        assert verdict.exit_code == int(n > 0), verdict.output


def test_broadcast_predictions_by_hand() -> None:
    """Block 0 holds lanes 4 to 7 (block 1 of four), or lanes 16 to 19 (span 1 of four)."""
    readings = STORED["broadcast"]["targets"]["gfx942"]["readings"]
    first = {name: [float(int(row[0], 16)) for row in d] for name, d in readings.items()}
    assert first["grouped"] == [0x40800000, 0x40A00000, 0x40C00000, 0x40E00000]
    assert first["lane_block"] == [0x41800000, 0x41880000, 0x41900000, 0x41980000]


@pytest.mark.skipif(llvm.version() != 22, reason="ziglang 0.17.1 (LLVM 22) is not installed")
@pytest.mark.parametrize(("probe", "arch"), TARGETS)
def test_probes_compile_to_their_instruction(probe: str, arch: str, tmp_path: Path) -> None:
    made = llvm.compile_hip(FOLDER / f"{probe}.hip", arch, tmp_path)
    line = STORED[probe]["targets"][arch]["instruction"]
    name = line.split()[0]
    found = [text.strip() for text in made.split("\n") if text.strip().startswith(name)]
    assert len(found) == 1, made
    ours, theirs = (parse(text, arch, "llvm") for text in (line, found[0]))
    for part in ("instruction", "cbsz", "abid", "blgp", "neg"):
        assert getattr(ours, part) == getattr(theirs, part)
