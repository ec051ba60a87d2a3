"""The wheel, built and installed into an empty environment, has its kernels inside and runs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np, gpuemu
from gpuemu.backends import host, sources
assert "site-packages" in str(sources.directory()), sources.directory()
i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", arch="gfx942")
ones = np.ones((1, 16, 16), np.float16)
for backend in ["numpy"] + (["host"] if host.available() else []):
    assert (i(ones, ones, backend=backend) == 16).all()
print("runs")
"""


def test_wheel_installs_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("gpuemu-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    sources = {p.name for p in (ROOT / "cuda_src").iterdir()}
    assert {Path(n).name for n in names if n.startswith("gpuemu/cuda_src/")} == sources
    assert "gpuemu/mfma/instructions.json" in names
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", str(wheel)],
        check=True,
    )
    result = subprocess.run(
        [str(python), "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.stdout.strip() == "runs", result.stderr
    command = subprocess.run(
        [str(tmp_path / "empty" / "bin" / "gpuemu"), "--help"], capture_output=True, text=True
    )
    assert command.returncode == 0 and "compare" in command.stdout
    script = Path(__file__).with_name("newcomer.py")
    newcomer = subprocess.run(
        [str(python), str(script), str(ROOT / "README.md")], capture_output=True, text=True
    )
    assert newcomer.returncode == 0, newcomer.stdout[-3000:] + newcomer.stderr
