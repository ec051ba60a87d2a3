"""`gpuemu matmul`, and the statistics that it prints."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu import errors
from gpuemu.cli import build
from gpuemu.mfma import matmul_statistics as statistics
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_safetensors(tmp_path: Path, dtype: str) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal(s).astype(dtype) for s in ((4, 40), (40, 5)))
    code = {"float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3"}[dtype]
    size = A.nbytes
    header = json.dumps(
        {
            "A": {"dtype": code, "shape": A.shape, "data_offsets": [0, size]},
            "B": {"dtype": code, "shape": B.shape, "data_offsets": [size, size + B.nbytes]},
        }
    ).encode()
    file, out = tmp_path / "both.safetensors", tmp_path / "d.npy"
    file.write_bytes(len(header).to_bytes(8, "little") + header + A.tobytes() + B.tobytes())
    names = {"float16": "32x32x8_f16", "bfloat16": "32x32x8_bf16"}
    mnemonic = f"v_mfma_f32_{names.get(dtype, '16x16x32_fp8_fp8')}"
    line = ["matmul", mnemonic, str(file), str(file), "-a", "gfx950", "-o", str(out)]
    result = CliRunner().invoke(build(), [*line, "--backend", "numpy"])
    assert result.exit_code == 0, result.output
    want = matmul(A, B, instruction=gpuemu.instruction(mnemonic, "gfx950"), backend="numpy")
    assert np.array_equal(np.load(out), want)


def test_broken_safetensors_is_bad_use(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    (tmp_path / "x.safetensors").write_bytes(b"nothing of the kind")
    line = ["matmul", F16.mnemonic, *2 * [str(tmp_path / "x.safetensors")], "-a", "gfx942"]
    result = CliRunner().invoke(build(), line)
    assert result.exit_code == 2


def test_missing_file_is_bad_use(files: Path) -> None:
    line = ["matmul", F16.mnemonic, "nowhere.npy", str(files / "a.npy"), "-a", "gfx942"]
    assert CliRunner().invoke(build(), line).exit_code == 2


def test_exact_and_ulp_errors() -> None:
    rng = np.random.default_rng(1)
    A = (rng.standard_normal((3, 50)) * 2.0 ** rng.integers(-10, 10, (3, 50))).astype(np.float16)
    B = rng.standard_normal((50, 4)).astype(np.float16)
    C = rng.standard_normal((3, 4)).astype(np.float32)
    want = statistics.exact(F16, A, B, C)
    for i in range(3):
        for j in range(4):
            true = Fraction(float(C[i, j]))
            true += sum(Fraction(float(A[i, k])) * Fraction(float(B[k, j])) for k in range(50))
            assert want[i, j] == float(true)
    D = want.astype(np.float32)
    found = statistics.summary(statistics.ulp_errors(D, want))
    assert found["exactly rounded"] == found["finite"] == 12
    away = np.nextafter(D, np.float32(np.inf))
    assert statistics.summary(statistics.ulp_errors(away, want))["bias"] > 0.5


def test_distance_counts_representable_numbers() -> None:
    D = np.array([1.0, -0.0, np.nan, 2.0], np.float32)
    E = np.array([np.nextafter(np.float32(1), np.float32(2)), 0.0, np.nan, 2.0], np.float32)
    found = statistics.distance(D, E, F16)
    assert (found["differing"], found["max ulp"], found["first"]) == (2, 1.0, [0])
    assert found["max at"] == [0]
    away = statistics.distance(D, np.array([1, 0, 3, 4], np.float32), F16)
    assert (away["max at"], away["first"]) == ([3], [1])
    assert statistics.distance(D, D.copy(), F16)["max at"] is None


def test_counterparts() -> None:
    with pytest.raises(errors.BadValue, match="gfx908 has no"):
        statistics.counterparts(gpuemu.instruction("v_mfma_f64_16x16x4_f64", "gfx942"), ["gfx908"])
