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


def test_bad_files_say_what_is_wrong(files: Path) -> None:
    (files / "x.safetensors").write_bytes(b"nothing of the kind")
    (files / "cut.npy").write_bytes((files / "a.npy").read_bytes()[:100])
    flags = safetensors(files / "flags.safetensors", ("A", "BOOL", np.ones((2, 2), np.bool_)))
    both, a = str(files / "both.npz"), str(files / "a.npy")
    cases = [
        (["nowhere.npy", a], "nowhere.npy: no such file"),
        (["nowhere.safetensors", a], "nowhere.safetensors: No such file or directory"),
        ([str(files), a], "no readable .npy or .npz file of plain numbers: "),
        ([str(files / "x.safetensors"), a], "x.safetensors: not a safetensors file: "),
        ([flags, a], "array 'A' is BOOL; legal: F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I8, I32"),
        ([both, both, "--key-b", "W"], "both.npz has no array 'W'; it has: A, B"),
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
        ("matplotlib", ["a.npy", "both.npz", "--plot", "h.png"], "pip install 'gpuemu[plot]'"),
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
