"""Tensor cores as subjects of `gpuemu probe`: NVIDIA's published parameters come back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.backends import cuda
from gpuemu.cli import build
from gpuemu.difftest import known, probe, subjects, tensor_cores
from gpuemu.difftest.generators import CLASSES, classes_for
from gpuemu.difftest.images import images
from gpuemu.difftest.subjects import Subject
from gpuemu.errors import BackendUnavailable, BadValue
from gpuemu.mfma import execute, modifiers

KNOWN = {row.name: row for row in known.KNOWN}
FOURS = tuple(range(0, 32, 4))

# What the papers and the published model say of Hopper; of 8-bit floats, what NVRTC makes of them.
HOPPER: dict[str, dict[str, Any]] = {
    "f16": {"group": 16, "product_bits": 25, "accumulator_bits": 25, "output_rounding": "zero"},
    "bf16": {"group": 16, "product_bits": 25, "accumulator_bits": 25, "output_rounding": "zero"},
    "tf32": {"group": 8, "product_bits": 25, "accumulator_bits": 25, "output_rounding": "zero"},
    "f8e4m3fn": {
        "group": 32,
        "product_bits": 25,
        "accumulator_bits": None,
        "output_rounding": "nearest",
        "cut_together": tuple(sorted(FOURS + tuple(k + 1 for k in FOURS))),
    },
    "f64": {"group": 1, "order": "ascending", "product_bits": None, "output_rounding": "nearest"},
}
HOPPER["f8e5m2"] = HOPPER["f8e4m3fn"]
MODELS = {
    "f16": "tensor_core_sm90",
    "bf16": "tensor_core_sm90",
    "tf32": "tensor_core_sm90",
    "f8e4m3fn": "tensor_core_sm90_fp8",
    "f8e5m2": "tensor_core_sm90_fp8",
    "f64": "fma_f64",
}
NARROW: dict[str, dict[str, Any]] = {
    "tensor_core_sm89_fp8": {"group": 16, "order": "ascending"},
    "tensor_core_sm90_fp8_wgmma": {"group": 32, "order": "none"},
}


def nvrtc_missing() -> str:
    try:
        cuda.nvrtc_version()
    except BackendUnavailable as error:
        return str(error)
    return ""


def model_subject(row: known.TensorCoreModel) -> Subject:
    return Subject(row.name, lambda i, given, _: known.tensor_core_answer(row, i, given))


def parameters(name: str, found: probe.Features) -> dict[str, Any]:
    return {field: getattr(found, field) for field in HOPPER[name]}


@pytest.mark.parametrize("name", [name for name in HOPPER if name != "f64"])
def test_published_models_give_their_parameters_back(name: str) -> None:
    i = tensor_cores.KINDS[name].instruction()
    found = probe.probe(model_subject(KNOWN[MODELS[name]]), i)
    assert parameters(name, found) == HOPPER[name]
    assert found.exact_models == (MODELS[name],)
    assert found.product_rounding == "zero"
    assert not found.flush_inputs and not found.flush_accumulator


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32"])
def test_ampere_is_told_from_hopper(name: str) -> None:
    i = tensor_cores.KINDS[name].instruction()
    found = probe.probe(model_subject(KNOWN["tensor_core_sm80"]), i)
    assert (found.group, found.product_bits, found.output_rounding) == (i.K // 2, 24, "zero")
    assert found.exact_models == ("tensor_core_sm80",)


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("name", NARROW)
def test_thirteen_bits_of_8_bit_floats(name: str, kind: str) -> None:
    found = probe.probe(model_subject(KNOWN[name]), tensor_cores.KINDS[kind].instruction())
    assert {field: getattr(found, field) for field in NARROW[name]} == NARROW[name]
    assert (found.product_bits, found.product_rounding) == (13, "zero")
    assert (found.accumulator_bits, found.accumulator_rounding) == (13, "zero")
    assert found.output_rounding == "zero"
    assert found.exact_models == (name,)


def test_every_model_is_recovered() -> None:
    assert set(KNOWN) == {*MODELS.values(), *NARROW, "tensor_core_sm80"} - {"fma_f64"}


@pytest.mark.skipif(bool(nvrtc_missing()), reason=nvrtc_missing() or "NVRTC is there")
@pytest.mark.parametrize("name", tensor_cores.KINDS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_the_kernel_compiles(name: str, arch: str) -> None:
    core = tensor_cores.KINDS[name]
    if int(arch[3:].rstrip("a")) < core.least_sm:
        pytest.skip(f"{arch} has no mma.sync of {name}")
    assert cuda.cubin("tensor_probe.cu", core.defines, arch)[:4] == b"\x7fELF"


@pytest.mark.skipif(bool(nvrtc_missing()), reason=nvrtc_missing() or "NVRTC is there")
@pytest.mark.parametrize("name", tensor_cores.KINDS)
def test_the_kernel_is_one_instruction(name: str) -> None:
    core = tensor_cores.KINDS[name]
    text = cuda.ptx("tensor_probe.cu", core.defines)
    assert text.count("mma.sync.aligned." + core.mma) == (2 if core.double else 1)


@pytest.mark.parametrize("name", tensor_cores.KINDS)
def test_operands_are_rows_of_words(name: str) -> None:
    core = tensor_cores.KINDS[name]
    i = core.instruction()
    given = images(i, modifiers.check(i), CLASSES["normal"], 0, np.arange(3))
    a, b, c = tensor_cores.operands(core, i, given)
    A, B, C = (i.unpack(m, given[m.lower()])[:, 0] for m in "ABC")
    left = np.ascontiguousarray(a).view(A.dtype).astype(np.float64)
    right = np.ascontiguousarray(b).view(B.dtype).astype(np.float64)
    assert a.shape == b.shape == (3, 16, 4 if core.double else 8)
    assert np.array_equal(left, A.astype(np.float64))
    assert np.array_equal(right, B.swapaxes(1, 2).astype(np.float64))
    assert np.array_equal(c, C)


def test_what_is_no_tensor_core_subject() -> None:
    with pytest.raises(BadValue, match=r"legal: tensor-core:f16, tensor-core:bf16"):
        subjects.load("tensor-core:f17")
    other = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")
    given = images(other, modifiers.check(other), CLASSES["normal"], 0, np.arange(1))
    with pytest.raises(subjects.SubjectFailed, match=r"legal: v_mfma_f32_16x16x16_f16 \(gfx942\)"):
        subjects.load("tensor-core:f16")(other, given, modifiers.check(other))


def test_the_command_wants_an_instruction() -> None:
    result = CliRunner().invoke(build(), ["probe", "numpy"])
    assert result.exit_code == 2 and "needs --instruction" in result.output


@pytest.mark.gpu
@pytest.mark.parametrize("name", tensor_cores.KINDS)
def test_the_gpus_own_tensor_cores(name: str) -> None:
    result = CliRunner().invoke(build(), ["probe", f"tensor-core:{name}", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    if cuda.device_arch() != "sm_90a":
        pytest.skip(f"parameters are Hopper's; this is {cuda.device_arch()}")
    found["cut_together"] = tuple(found["cut_together"])
    assert {field: found[field] for field in HOPPER[name]} == HOPPER[name]
    assert MODELS[name] in found["exact_models"]
    i = tensor_cores.KINDS[name].instruction()
    m = modifiers.check(i)
    for cls in classes_for(i):
        given = images(i, m, cls, 1, np.arange(200))
        got = subjects.load(f"tensor-core:{name}")(i, given, m)
        want = dict(known.answers(i, given))[MODELS[name]]
        assert execute.equal_bits(i, got, want).all(), cls.name
