"""The curve of error and speed, and its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gpuemu.cli import emulate
from gpuemu.errors import BadFile, BadValue, GpuemuError
from gpuemu.gemm.emulation import analysis


def app() -> typer.Typer:
    group = typer.Typer()
    emulate.register(group)
    group.command(name="other")(lambda: None)
    return group


def test_curve_falls_with_bits_and_knows_native() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((20, 64)), random.standard_normal((64, 30))
    points = analysis.curve(a, b, (7, 23, 39), backend="numpy", repeats=1)
    assert [(p.scheme, p.bits, p.planes) for p in points] == [
        ("native", 53, 0), ("slices", 7, 1), ("slices", 23, 3), ("slices", 39, 5),
        ("crt", 7, 3), ("crt", 23, 7), ("crt", 39, 11),
    ]  # fmt: skip
    errors = [p.max_error for p in points]
    assert errors[1] > 1e3 * errors[2] > 1e6 * errors[3] and errors[0] < 1e-15
    assert errors[4] > 1e3 * errors[5] > 1e6 * errors[6]
    assert all(p.ms > 0 and p.tflops > 0 for p in points)


def test_grader_sees_one_wrong_output() -> None:
    a = np.eye(4, dtype=np.float32)
    result = a.copy()
    result[2, 2] += np.float32(0.5)
    assert analysis.Grader(a, a)(a) == (0.0, 0.0)
    assert analysis.Grader(a, a)(result) == (0.5, 0.25)


NORMAL = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (NORMAL[0], NORMAL, r"A has shape \(3,\); legal: a matrix"),
        (NORMAL[None], NORMAL, r"A has shape \(1, 3, 3\)"),
        (NORMAL, NORMAL[:2], "A has K=3, B has K=2"),
        (NORMAL, NORMAL.astype(np.float64), "both float32, or both float64"),
        (np.diag(np.array([1, np.nan, 1], np.float32)), NORMAL, "A holds a NaN or an infinity"),
        (NORMAL, NORMAL * np.float32(np.inf), "B holds a NaN or an infinity; legal: finite"),
        (NORMAL * np.float32(1e30), NORMAL * np.float32(1e30), "A @ B overflows natively"),
    ],
)
def test_only_matrices_that_can_be_graded(a: Any, b: Any, message: str) -> None:
    with pytest.raises(GpuemuError, match=message):
        analysis.curve(a, b, bits=[23], backend="numpy")


def test_an_exact_product_is_json(tmp_path: Path) -> None:
    np.save(tmp_path / "ones.npy", np.ones((4, 4), np.float32))
    file = str(tmp_path / "ones.npy")
    result = CliRunner().invoke(app(), ["emulate", file, file, "--backend", "numpy", "--json"])
    points = json.loads(result.stdout, parse_constant=pytest.fail)
    assert {point["reached_bits"] for point in points} == {None}


def test_command_prints_json_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(1)
    np.save(tmp_path / "a.npy", random.standard_normal((5, 8)).astype(np.float32))
    np.save(tmp_path / "b.npy", random.standard_normal((8, 6)).astype(np.float32))
    arguments = [
        "emulate",
        str(tmp_path / "a.npy"),
        str(tmp_path / "b.npy"),
        "--bits",
        "15,23",
        "--backend",
        "numpy",
    ]
    result = CliRunner().invoke(app(), [*arguments, "--plot", str(tmp_path / "p.png"), "--json"])
    assert result.exit_code == 0, result.output
    assert [point["planes"] for point in json.loads(result.stdout)] == [0, 2, 3, 5, 7]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG") and len(
        list(tmp_path.iterdir())
    ) == 3
    table = CliRunner().invoke(app(), arguments)
    assert table.exit_code == 0 and "slices" in table.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["a.npy"], BadValue, "legal: both files, or neither"),
        (["none.npy", "none.npy"], BadFile, "none.npy"),
        (["--plot", "p.foo"], BadValue, "p.foo is no name of a picture; legal endings: "),
        (["--plot", "none/p.png"], BadFile, "there is no folder "),
        (["--normal", "3,4"], BadValue, "normal='3,4'"),
        (["--bits", "a"], BadValue, "bits='a'"),
        (["--dtype", "float16"], BadValue, "dtype='float16'"),
        (
            ["--normal", "2,2,2", "--schemes", "both", "--backend", "numpy"],
            BadValue,
            "scheme='both'",
        ),
    ],
)
def test_bad_use(arguments: list[str], error: type[Exception], message: str) -> None:
    result = CliRunner().invoke(app(), ["emulate", *arguments])
    assert isinstance(result.exception, error) and message in str(result.exception)
