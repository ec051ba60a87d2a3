"""`gpuemu diagnose` on files, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import gpuemu
from gpuemu.cli import build

F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
FP8 = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")


def ask(folder: Path, i: gpuemu.Instruction, *arguments: str) -> Result:
    names = [str(folder / name) for name in ("got.npy", "want.npy")]
    options = ("--instruction", i.mnemonic, "--arch", i.arch, *arguments)
    return CliRunner().invoke(build(), ["diagnose", *names, *options], env={"COLUMNS": "80"})


def matrices(i: gpuemu.Instruction) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal(i.shape(m)[1:]).astype(i.operand_format(m).dtype) for m in "AB")
    return A, B, rng.standard_normal((i.M, i.N)).astype(np.float32)


def save(folder: Path, got: np.ndarray, want: np.ndarray) -> None:
    np.save(folder / "got.npy", got)
    np.save(folder / "want.npy", want)


def test_transposed_without_inputs(tmp_path: Path) -> None:
    A, B, C = matrices(F16)
    D = F16(A, B, C, backend="numpy")
    save(tmp_path, D[0].T, D)
    result = ask(tmp_path, F16)
    assert result.exit_code == 1
    assert "D is transposed" in result.output and "confidence 100%" in result.output
    assert json.loads(ask(tmp_path, F16, "--json").output)["name"] == "transposed"


def test_equal(tmp_path: Path) -> None:
    D = F16(*matrices(F16), backend="numpy")
    save(tmp_path, D, D)
    assert ask(tmp_path, F16).exit_code == 0


@pytest.mark.parametrize("as_bits", [False, True])
def test_a_dropped_k_block_with_inputs(tmp_path: Path, as_bits: bool) -> None:
    A, B, C = matrices(FP8)
    less = A.copy()
    less[:, 16:] = 0
    save(tmp_path, FP8(less, B, C, backend="numpy"), FP8(A, B, C, backend="numpy"))
    view = np.uint8 if as_bits else A.dtype
    np.savez(tmp_path / "in.npz", A=A.view(view), B=B.view(view), C=C)
    result = ask(tmp_path, FP8, str(tmp_path / "in.npz"))
    assert "k=16..31 are left out" in result.output
    result = ask(tmp_path, FP8)
    assert "Unknown" in result.output and "With the inputs" in " ".join(result.output.split())


def test_sparse_inputs(tmp_path: Path) -> None:
    i = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    rng = np.random.default_rng(0)
    A = np.zeros((16, 32), np.float16)
    A[:, 1::4], A[:, 3::4] = rng.standard_normal((2, 16, 8))
    B = rng.standard_normal((32, 16)).astype(np.float16)
    C = rng.standard_normal((16, 16)).astype(np.float32)
    want = i(A, B, C, backend="numpy")
    save(tmp_path, i(A, B, None, backend="numpy"), want)
    np.savez(tmp_path / "in.npz", A=A, B=B, C=C)
    assert "C is not added" in ask(tmp_path, i, str(tmp_path / "in.npz")).output


def test_bad_use(tmp_path: Path) -> None:
    A, B, C = matrices(F16)
    D = F16(A, B, C, backend="numpy")
    save(tmp_path, D, D[:, :8])
    assert "has shape (1, 8, 16)" in " ".join(ask(tmp_path, F16).output.split())
    save(tmp_path, D.astype(np.float64), D)
    assert "dtype float64" in ask(tmp_path, F16).output
    save(tmp_path, D, np.stack([D, D]))
    assert "legal: the same" in " ".join(ask(tmp_path, F16).output.split())
    save(tmp_path, -D, D)
    for arrays, message in (
        ({"A": A}, "'B' is foreign or missing"),
        ({"A": A, "B": B, "X": C}, "'X' is foreign"),
        ({"A": A.astype(np.float32), "B": B}, "dtype float32"),
        ({"A": A.view(np.uint16), "B": B[:8]}, "shape"),
        ({"A": A.astype(ml_dtypes.bfloat16).view(np.uint16), "B": B, "C": C[:4]}, "shape"),
    ):
        np.savez(tmp_path / "in.npz", **arrays)
        result = ask(tmp_path, F16, str(tmp_path / "in.npz"))
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.output.split())
    (tmp_path / "got.npy").write_bytes(b"nonsense")
    assert ask(tmp_path, F16).exit_code == 2
