"""`gpuemu matmul`: files in, figures and D out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.cli import build
from gpuemu.mfma.matmul import matmul

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.standard_normal((5, 40)).astype(np.float16))
    np.savez(
        tmp_path / "both.npz",
        A=np.zeros((1, 1), np.float16),
        B=rng.standard_normal((40, 6)).astype(np.float16),
    )
    return tmp_path


def test_command(files: Path) -> None:
    out = files / "d.npy"
    line = [
        *("matmul", F16.mnemonic, str(files / "a.npy"), str(files / "both.npz"), "-a", "gfx942"),
        *("--errors", "--compare", "gfx908,gfx90a", "-o", str(out), "--json"),
        *("--plot", str(files / "h.png"), "--backend", "numpy"),
    ]
    result = CliRunner().invoke(build(), line)
    assert result.exit_code == 0, result.output
    A, B = np.load(files / "a.npy"), np.load(files / "both.npz")["B"]
    D = matmul(A, B, instruction=F16, backend="numpy")
    assert np.array_equal(np.load(out), D)
    assert (files / "h.png").stat().st_size > 1000
    facts = json.loads(result.output)
    other = gpuemu.instruction("v_mfma_f32_32x32x8f16", "gfx908")
    E = matmul(A, B, instruction=other, backend="numpy")
    assert facts["compare"][0]["differing"] == int((D != E).sum()) > 0
    assert facts["compare"][0]["first"] == [int(n) for n in np.argwhere(E != D)[0]]
    assert facts["errors"]["outputs"] == 30
    table = CliRunner().invoke(build(), [x for x in line if x != "--json"], env={"COLUMNS": "80"})
    assert f"{int((D != E).sum())} of 30" in table.output
    assert max(map(len, table.output.splitlines())) <= 80


def safetensors(path: Path, *arrays: tuple[str, str, np.ndarray[Any, Any]]) -> str:
    """Write a file of arrays (name, code of the dtype, values); return its path as text."""
    facts, body = {}, b""
    for name, code, x in arrays:
        offsets = [len(body), len(body) + x.nbytes]
        facts[name] = {"dtype": code, "shape": x.shape, "data_offsets": offsets}
        body += x.tobytes()
    header = json.dumps(facts).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)
    return str(path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_safetensors(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal(s).astype(dtype) for s in ((4, 40), (40, 5)))
    code = {"float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3"}[dtype]
    file = safetensors(tmp_path / "both.safetensors", ("A", code, A), ("B", code, B))
    out = tmp_path / "d.npy"
    names = {"float16": "32x32x8_f16", "bfloat16": "32x32x8_bf16"}
    mnemonic = f"v_mfma_f32_{names.get(dtype, '16x16x32_fp8_fp8')}"
    line = ["matmul", mnemonic, file, file, "-a", "gfx950", "-o", str(out)]
    result = CliRunner().invoke(build(), [*line, "--backend", "numpy"])
    assert result.exit_code == 0, result.output
    want = matmul(A, B, instruction=gpuemu.instruction(mnemonic, "gfx950"), backend="numpy")
    assert np.array_equal(np.load(out), want)


def test_cast_and_c(files: Path) -> None:
    """A of a file that holds one array needs no name; --cast rounds it; C is added."""
    rng = np.random.default_rng(3)
    A, C = rng.standard_normal((5, 40)), rng.standard_normal((5, 6)).astype(np.float32)
    np.savez(files / "one.npz", x=A)
    np.save(files / "c.npy", C)
    line = ["matmul", F16.mnemonic, str(files / "one.npz"), str(files / "both.npz"), "-a", "gfx942"]
    line += ["--c", str(files / "c.npy"), "-o", str(files / "d.npy"), "--backend", "numpy"]
    refused = CliRunner().invoke(build(), line)
    assert refused.exit_code == 2 and "float64" in refused.stderr
    assert CliRunner().invoke(build(), [*line, "--cast"]).exit_code == 0
    B = np.load(files / "both.npz")["B"]
    want = matmul(A.astype(np.float16), B, C, instruction=F16, backend="numpy")
    assert np.array_equal(np.load(files / "d.npy"), want)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(build(), ["matmul", *words, "--backend", "numpy"])
    assert result.exit_code == code, result.output
    return " ".join(result.stderr.split())


def test_the_product_is_written_whatever_is_said_of_it(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN leaves no error to measure; D is written, and a picture of nothing is not."""
    monkeypatch.chdir(files)
    np.save("nan.npy", np.full((5, 40), np.nan, np.float16))
    line = (F16.mnemonic, "nan.npy", "both.npz", "-a", "gfx942", "-o", "d.npy")
    message = run(*line, "--errors", "--plot", "h.png")
    assert message == "note: no output is finite: there is no error to measure"
    assert np.isnan(np.load("d.npy")).all() and not Path("h.png").exists()


def test_a_picture_that_cannot_be_is_refused_first(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(files)
    line = ("a.npy", "both.npz", "-a", "gfx942", "-o", "d.npy")
    message = run(F16.mnemonic, *line, "--plot", "h.foo", code=2)
    assert "h.foo is no name of a picture; legal endings: ." in message
    message = run("v_mfma_i32_32x32x16_i8", *line, "--plot", "h.png", code=2)
    assert "errors of int32 results are not measured; legal: f32" in message
    assert not Path("d.npy").exists()


def test_dtypes_that_numpy_cannot_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 comes back as pairs of raw bytes; single ones may be of any format."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    for name, dtype in (("bf16", "bfloat16"), ("fp8_fp8", "float8_e4m3fnuz")):
        i = gpuemu.instruction(f"v_mfma_f32_16x16x{16 if name == 'bf16' else 32}_{name}", "gfx942")
        A, B = (rng.standard_normal(s).astype(dtype) for s in ((5, 40), (40, 6)))
        np.savez("in.npz", A=A, B=B)
        line = (i.mnemonic, "in.npz", "in.npz", "-a", "gfx942", "-o", f"{name}.npy", "--errors")
        if name != "bf16":
            message = run(*line, code=2)
            assert "A has dtype |V1: NumPy saves all 8-bit floats as raw bytes" in message
            assert message.endswith("legal: the same with --bits")
        run(*line, "--bits", "--json")
        assert np.array_equal(np.load(f"{name}.npy"), matmul(A, B, instruction=i, backend="numpy"))


def test_errors_of_bits_are_those_of_the_numbers(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    A, B = np.load("a.npy"), np.load("both.npz")["B"]
    np.savez("bits.npz", A=A.view(np.uint16), B=B.view(np.uint16))
    line = [F16.mnemonic, "-a", "gfx942", "--errors", "--json", "--backend", "numpy"]
    found = [
        json.loads(CliRunner().invoke(build(), ["matmul", *line, *words]).stdout)
        for words in (["a.npy", "both.npz"], ["bits.npz", "bits.npz", "--bits"])
    ]
    assert found[0] == found[1]


def test_bad_files_say_what_is_wrong(files: Path) -> None:
    (files / "x.safetensors").write_bytes(b"nothing of the kind")
    (files / "cut.npy").write_bytes((files / "a.npy").read_bytes()[:100])
    flags = safetensors(files / "flags.safetensors", ("A", "BOOL", np.ones((2, 2), np.bool_)))
    both, a = str(files / "both.npz"), str(files / "a.npy")
    cases = [
        (["nowhere.npy", a], "nowhere.npy: no such file"),
        (["nowhere.safetensors", a], "nowhere.safetensors: no such file"),
        ([str(files), a], "no readable .npy or .npz file of plain numbers: "),
        ([str(files / "x.safetensors"), a], "x.safetensors: not a safetensors file: "),
        ([flags, a], "array 'A' is BOOL; legal: F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I8, I32"),
        ([both, both, "--key-b", "W"], "both.npz has no array 'W'; it has: A, B"),
        ([a, both, "--key-a", "Q"], "a.npy has no array 'Q'; it has: one without a name"),
        ([a, both, "--cast", "--bits"], "--cast and --bits; legal: one of them"),
        ([str(files / "cut.npy"), a], "cut.npy: no readable .npy or .npz file"),
    ]
    for arguments, message in cases:
        line = ["matmul", F16.mnemonic, *arguments, "-a", "gfx942"]
        result = CliRunner().invoke(build(), line)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("package", "line", "message"),
    [
        ("safetensors", ["x.safetensors", "a.npy"], "pip install safetensors to read it"),
        (
            "matplotlib.backend_bases",
            ["a.npy", "both.npz", "--plot", "h.png"],
            "pip install 'gpuemu[plot]'",
        ),
    ],
)
def test_packages_that_are_missing(
    files: Path, monkeypatch: pytest.MonkeyPatch, package: str, line: list[str], message: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(files)
    (files / "x.safetensors").touch()
    result = CliRunner().invoke(build(), ["matmul", F16.mnemonic, *line, "-a", "gfx942"])
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())
    assert not (files / "h.png").exists()
