"""Probing known arithmetic gives its parameters back; probing another shows the difference."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest.probe import Features, probe
from gpuemu.difftest.subjects import Subject
from gpuemu.errors import BadValue

OWN = [
    ("v_mfma_f32_16x16x4f32", "gfx90a"),
    ("v_mfma_f64_16x16x4_f64", "gfx942"),
    ("v_mfma_f32_16x16x16f16", "gfx908"),
    ("v_mfma_f32_16x16x8bf16", "gfx908"),
    ("v_mfma_f32_16x16x16f16", "gfx90a"),
    ("v_mfma_f32_16x16x8bf16", "gfx90a"),
    ("v_mfma_f32_16x16x16bf16_1k", "gfx90a"),
    ("v_mfma_f32_16x16x16_f16", "gfx942"),
    ("v_mfma_f32_16x16x16_bf16", "gfx942"),
    ("v_mfma_f32_16x16x8_xf32", "gfx942"),
    ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942"),
    ("v_mfma_f32_16x16x32_bf8_fp8", "gfx942"),
    ("v_mfma_f32_16x16x32_fp8_bf8", "gfx950"),
    ("v_mfma_f32_16x16x32_f16", "gfx950"),
]
F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")


def features(i: gpuemu.Instruction, model: Any = None) -> Features:
    def function(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
        return gpuemu.execute(i, **images, model=model, backend="numpy")

    return probe(Subject("unit", function), i)


@pytest.mark.parametrize(("name", "arch"), OWN)
def test_own_models_are_recovered(name: str, arch: str) -> None:
    i = gpuemu.instruction(name, arch)
    model = gpuemu.models()[i.model]
    found = features(i)
    assert found.group == min(model.group, i.K)
    assert found.links == tuple(
        tuple(range(k, k + found.group)) for k in range(0, i.K, found.group)
    )
    assert found.order == ("none" if found.group == i.K else "ascending")
    aligned = model.algorithm == "aligned"
    assert found.product_bits == (model.product_bits if aligned else None)
    assert found.accumulator_bits == (model.accumulator_bits if aligned else None)
    assert found.product_rounding == (model.product_rounding if aligned else None)
    assert found.accumulator_rounding == (model.accumulator_rounding if aligned else None)
    assert found.output_rounding == "nearest"
    assert found.flush_inputs == found.flush_accumulator == model.flush_inputs
    assert found.flush_outputs in (None, model.flush_outputs)
    assert i.model in found.exact_models and found.agreement == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group", 4),
        ("group", 16),
        ("product_bits", 20),
        ("product_rounding", "nearest"),
        ("product_rounding", "down"),
        ("product_rounding", "up"),
        ("accumulator_bits", 22),
        ("accumulator_bits", 13),
        ("accumulator_rounding", "zero"),
        ("accumulator_rounding", "nearest"),
        ("output_rounding", "zero"),
        ("output_rounding", "down"),
        ("output_rounding", "up"),
        ("flush_inputs", True),
    ],
)
def test_a_changed_parameter_is_seen(field: str, value: Any) -> None:
    model = dataclasses.replace(gpuemu.models()[F16.model], name="changed", **{field: value})
    found = features(F16, model)
    assert getattr(found, field) == value
    assert F16.model not in found.exact_models


def test_the_command() -> None:
    runner = CliRunner()
    options = ["--instruction", F16.mnemonic, "--arch", F16.arch]
    result = runner.invoke(build(), ["probe", "numpy", *options, "--json"])
    assert json.loads(result.output)["exact_models"][0] == "cdna3_f16"
    text = runner.invoke(build(), ["probe", "numpy", *options], env={"COLUMNS": "80"}).output
    assert "0-7; 8-15" in text and "24, the rest: zero" in text
    integers = ["--instruction", "v_mfma_i32_16x16x32_i8", "--arch", "gfx942"]
    assert runner.invoke(build(), ["probe", "numpy", *integers]).exit_code == 2


def test_only_dense_floats() -> None:
    with pytest.raises(BadValue, match="dense floating-point"):
        features(gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942"))
