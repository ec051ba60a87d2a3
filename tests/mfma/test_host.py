"""The host build of the kernels against the oracle: every row, input class and modifier."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import host
from gpuemu.mfma import batch as batches
from gpuemu.mfma import device
from gpuemu.mfma.modifiers import Modifiers
from tests.mfma.cases import ROWS, assert_same, inputs, options, row_parameters, sweep

pytestmark = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())


def test_python_and_cuda_agree_on_the_structs() -> None:
    library = host.library("mfma")
    assert library.gpuemu_mfma_config_fields() == len(device.CONFIG_FIELDS)
    i = ROWS[0]
    assert len(device.config(i, gpuemu.models()[i.model], Modifiers())) == len(device.CONFIG_FIELDS)
    images = np.zeros((1, 64), np.uint32)
    batch = batches.fields(i, Modifiers(), [images] * 6, (1,))
    assert batch is not None and len(batch) == library.gpuemu_mfma_batch_fields()


@row_parameters()
def test_every_input_class(i: gpuemu.Instruction) -> None:
    m = Modifiers()
    x = inputs(i, m, 2)
    assert_same(i, gpuemu.execute(i, **x, backend="host"), gpuemu.execute(i, **x, backend="numpy"))


@row_parameters()
def test_every_modifier(i: gpuemu.Instruction) -> None:
    for m in sweep(i):
        x = inputs(i, m, 1, ("unique", "raw"))
        got = gpuemu.execute(i, **x, **options(m), backend="host")
        assert_same(i, got, gpuemu.execute(i, **x, **options(m), backend="numpy"), str(m))


CHAINS = [
    "v_mfma_f32_32x32x1_2b_f32",
    "v_mfma_f32_4x4x1_16b_f32",
    "v_mfma_f32_32x32x2_f32",
    "v_mfma_f32_16x16x4_f32",
    "v_mfma_f64_16x16x4_f64",
    "v_mfma_f64_4x4x4_4b_f64",
]


@pytest.mark.parametrize("name", CHAINS)
def test_chains_read_lanes_and_registers_of_any_stride(name: str) -> None:
    i = gpuemu.instruction(name, "gfx942")
    x = inputs(i, Modifiers(), 1)
    want = gpuemu.execute(i, **x, backend="numpy")
    apart = {n: np.repeat(v, 3, axis=-1)[..., ::3] for n, v in x.items()}
    turned = {n: np.ascontiguousarray(v.swapaxes(-1, -2)).swapaxes(-1, -2) for n, v in x.items()}
    for images in (apart, turned):
        assert_same(i, gpuemu.execute(i, **images, backend="host"), want)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("v_mfma_f32_16x16x16_f16", {}),
        ("v_mfma_f32_4x4x4_16b_f16", {}),
        ("v_mfma_f32_16x16x4_f32", {"input_bits": 10}),
        ("v_mfma_f32_16x16x4_f32", {"flush_inputs": True}),
        ("v_mfma_f32_16x16x4_f32", {"flush_outputs": True}),
    ],
)
def test_chains_that_are_not_of_plain_f32_are_decoded(name: str, change: dict[str, Any]) -> None:
    i = gpuemu.instruction(name, "gfx942")
    model = replace(gpuemu.models()["fma_f32"], **change)
    x = inputs(i, Modifiers(), 1)
    got, want = (gpuemu.execute(i, **x, model=model, backend=b) for b in ("host", "numpy"))
    assert_same(i, got, want)


@pytest.mark.parametrize("name", CHAINS[-2:])
def test_f64_lane_by_lane_as_a_device_computes_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Chains on registers step aside where something is flushed, which f64 never does."""
    i = gpuemu.instruction(name, "gfx942")
    plain, at = device.config, device.CONFIG_FIELDS.index("flush_inputs")

    def flushing(*given: Any) -> tuple[int, ...]:
        found = plain(*given)
        return (*found[:at], 1, *found[at + 1 :])

    monkeypatch.setattr(device, "config", flushing)
    monkeypatch.setattr(device, "_host_calls", {})
    for m in sweep(i):
        x = inputs(i, m, 1)
        got, want = (gpuemu.execute(i, **x, **options(m), backend=b) for b in ("host", "numpy"))
        assert_same(i, got, want, str(m))


SANITIZED = """
import sys; sys.path[:0] = {path!r}
import gpuemu
from tests.mfma.cases import ROWS, assert_same, inputs
from gpuemu.mfma.modifiers import Modifiers
for i in ROWS[::7]:
    x = inputs(i, Modifiers(), 1)
    assert_same(i, gpuemu.execute(i, **x, backend="host"), gpuemu.execute(i, **x, backend="numpy"))
print("clean")
"""


def test_no_undefined_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sanitizer aborts on the first shift, overflow or conversion that C++ does not define."""
    path = [str(Path(__file__).parents[2])]
    monkeypatch.setenv("GPUEMU_HOST_SANITIZE", "1")
    result = subprocess.run(
        [sys.executable, "-c", SANITIZED.format(path=path)], capture_output=True, text=True
    )
    assert result.stdout.strip() == "clean", result.stderr[-2000:]


def test_a_build_for_coverage_leaves_its_counts_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUEMU_HOST_COVERAGE", str(tmp_path / "counts"))
    code = "from gpuemu.backends import host; host.library('gemm')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    found = {path.suffix for path in (tmp_path / "counts").iterdir()}
    assert found == {".so", ".gcno", ".gcda"}
