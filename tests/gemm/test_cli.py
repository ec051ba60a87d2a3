"""`gpuemu gemm` describe, run, sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuemu.cli import build
from gpuemu.gemm import matmul
from gpuemu.gemm.text import parse

from .problems import operands

TEXT = "Size(32,16,16) + Precision(f16,f16,f32) + Function(MM) + SM(900) + Block()"


def call(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(build(), ["gemm", *map(str, arguments)], env={"COLUMNS": "400"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, x in zip("ABC", operands(parse(TEXT), 0, extents=(33, 16, 16)), strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    return tmp_path


def test_describe_shows_every_operator_and_where_it_came_from() -> None:
    lines = {x["name"]: x for x in json.loads(call("describe", TEXT, "--json"))["lines"]}
    assert lines["Size"]["source"] == "given"
    assert (lines["Arrangement"]["source"], lines["Arrangement"]["value"]) == (
        "defaulted",
        "row_major, col_major, col_major",
    )
    assert lines["instruction class"]["value"] == "mma_sync"
    assert "WithPipeline() is missing" in lines["why not wgmma"]["value"]
    assert lines["shared memory"]["value"] == "3584 of 232448 bytes"
    assert lines["WithPipeline"]["source"] == "off"
    axes = json.loads(call("describe", TEXT, "--json"))["axes"]
    assert [x["name"] for x in axes if x["state"] == "fixed"] == ["precision", "tile_shape"]
    assert "defaulted" in call("describe", TEXT)


def warnings(text: str, *options: Any) -> dict[str, str]:
    lines = json.loads(call("describe", text, *options, "--json"))["lines"]
    return {x["name"]: x["warning"] for x in lines if x["warning"]}


def test_warnings_for_defaults_that_do_not_suit(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((64, 32), np.float64))
    np.save(tmp_path / "b.npy", np.zeros((32, 64), np.complex64))
    files = "--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy"
    found = warnings("Size(32,16) + Function(MM) + SM(900)", *files)
    assert found["Size"] == "K is 1: its default, from the original's triangular solves"
    assert found["Block"] == "needed to run"
    assert found["Precision"] == "A is float64, the descriptor computes in f32 by default"
    assert found["Type"] == "the operands are complex, the descriptor is real by default"
    assert (
        found["Arrangement"]
        == "B does not lie in memory as col_major, which the descriptor has by default"
    )
    found = warnings(TEXT + "+ LeadingDimension(40,40) + BlocksPerCluster(16)")
    assert (
        found["LeadingDimension"] == "turns the suggested layouts and the suggested accumulator off"
    )
    assert found["BlocksPerCluster"] == "has no effect without WithPipeline"
    assert "16, 16, 36 would be suggested" in found["suggested layouts"]
    assert (
        warnings(TEXT.replace("f16,f16,f32", "half,float"))["Precision"]
        == "C accumulates in f16, narrower than B (f32)"
    )
    found = warnings(TEXT + "+ WithPipeline() + Alignment(16,16,16)")
    assert found["instruction class"].startswith("no wgmma: EnableInputStreaming() is missing")
    fp8 = TEXT.replace("f16,f16,f32", "e4m3,e4m3,f32").replace("32,16,16", "32,16,32")
    assert "instruction" not in warnings(fp8)  # measured
    newer = warnings(fp8.replace("SM(900)", "SM(1000)"))
    assert "no published model says how sm_100 adds 8-bit floats" in newer["instruction"]
    assert (
        warnings("Size(512,512,64) + Function(MM) + SM(900) + Block()")["shared memory"]
        == "the tile does not fit"
    )


def test_describe_an_incomplete_descriptor() -> None:
    found = warnings("Size(32,16,16)")
    assert set(found) == {"Function", "SM", "Block"}


def test_run_writes_the_result_and_reports_waste(files: Path) -> None:
    a, b, c = (files / f"{x}.npy" for x in "ABC")
    out = files / "D.npy"
    report = json.loads(
        call(
            "run",
            TEXT,
            a,
            b,
            "--c",
            c,
            "--alpha",
            "2",
            "--beta",
            "1",
            "-o",
            out,
            "--backend",
            "numpy",
            "--json",
        )
    )
    assert (report["strategy"], report["shape"], report["wasted"]) == ("pad", [33, 16], 1 - 33 / 64)
    want = matmul(parse(TEXT), *map(np.load, (a, b, c)), alpha=2, beta=1, backend="numpy")
    assert np.array_equal(np.load(out), want)
    assert "strategy" in call("run", TEXT, a, b, "--backend", "numpy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", TEXT, "missing.npy", "missing.npy"), "error: missing.npy"),
        (
            ("run", "Size(1,1)", "A.npy", "B.npy"),
            "error: the descriptor cannot be executed without Function, SM, Block",
        ),
        (("run", TEXT, "A.npy", "B.npy", "--alpha", "x"), "error: alpha='x' is no number"),
        (
            ("run", TEXT, "A.npy", "B.npy", "--no-pad-inputs", "--ragged", "pad"),
            "error: ragged='pad' pads A and B",
        ),
        (("run", TEXT, "B.npy", "A.npy"), "error: A does not lie in memory"),
        (
            ("run", TEXT, "A.npy", "B.npy", "-o", "no/such/folder/D.npy"),
            "error: no/such/folder/D.npy",
        ),
        (("describe", "Size(0,1,1)"), "error: size: m=0 is too small"),
        (("sweep", TEXT, "A.npy", "B.npy", "--free", "tiles"), "error: 'tiles' is no axis"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    arguments: Any, message: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    output = call(*arguments, code=2)
    assert message in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--limit", -1),
        ("--limit", 0),
        ("--repeats", 0),
        ("--shared-memory", -5),
        ("--registers", 0),
    ],
)
def test_counts_of_a_sweep_begin_at_one(option: str, value: int) -> None:
    assert f"Invalid value for '{option}'" in call(
        "sweep", TEXT, "A.npy", "B.npy", f"{option}={value}", code=2
    )


def test_sweep(files: Path) -> None:
    a, b = files / "A.npy", files / "B.npy"
    options = (
        "--free",
        "precision",
        "--fixed",
        "thread_count",
        "--backend",
        "numpy",
        "--repeats",
        1,
    )
    found = json.loads(call("sweep", TEXT, a, b, *options, "--json"))
    assert found["backend"] == "numpy"
    assert [x["variant"] for x in found["rows"]] == [
        "as given",
        "Precision('f8e4m3fn', 'f8e4m3fn', 'f32')",
    ]
    assert "as given" in call("sweep", TEXT, a, b, *options)
