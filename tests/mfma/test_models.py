"""Arithmetic models as data: the built-in rows, a user's own, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma import models
from gpuemu.mfma.modifiers import Modifiers
from tests.mfma.cases import ROWS, assert_same, inputs


def test_every_row_names_a_model() -> None:
    assert {i.model for i in ROWS} == models.BUILT_IN


def test_unverified_models_say_so() -> None:
    for name, model in gpuemu.models().items():
        assert model.fidelity in ("published-model", "documented", "unverified")
        assert (model.fidelity == "unverified") == name.startswith("cdna4")
        assert model.source


ROUNDINGS = ("zero", "down", "up", "nearest")
F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
BF16 = gpuemu.instruction("v_mfma_f32_16x16x16_bf16", "gfx942")
FP8 = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_bf8", "gfx942")
XF32 = gpuemu.instruction("v_mfma_f32_16x16x8_xf32", "gfx942")
F32 = gpuemu.instruction("v_mfma_f32_16x16x4_f32", "gfx942")


def own(algorithm: Any, **parameters: Any) -> gpuemu.Model:
    return gpuemu.Model("mine", algorithm, **parameters)


OWN_MODELS = [
    (F16, own("fma")),
    (BF16, own("fma", flush_inputs=True, flush_outputs=True)),
    (F32, own("fma", flush_inputs=True)),
    (XF32, own("fma", input_bits=10)),
    (BF16, own("exact", group=16)),
    (F32, own("exact", group=4, output_rounding="zero")),
    (F32, own("exact", group=2, product_overflow=False, flush_outputs=True)),
    (F16, own("exact", group=1, output_rounding="down")),
    (FP8, own("exact", group=32, output_rounding="up")),
    (F16, own("pairwise", group=1)),
    (BF16, own("pairwise", group=2, flush_inputs=True)),
    (BF16, own("pairwise", group=4, flush_outputs=True)),
    (FP8, own("pairwise", group=4)),
    (F32, own("aligned", group=4, product_bits=30)),
    (
        F16,
        own(
            "aligned",
            group=16,
            product_bits=25,
            sum_bits=25,
            accumulator_bits=25,
            output_rounding="zero",
        ),
    ),
    (
        F16,
        own("aligned", group=8, product_bits=12, sum_bits=14, accumulator_bits=23, result_bits=23),
    ),
    (BF16, own("aligned", group=16, interleave=4, product_bits=10, product_overflow=False)),
    (BF16, own("aligned", group=4, flush_inputs=True, flush_outputs=True)),
    (
        FP8,
        own(
            "aligned",
            group=32,
            product_bits=13,
            sum_bits=13,
            accumulator_bits=13,
            output_rounding="zero",
        ),
    ),
    *(
        (
            BF16,
            own(
                "aligned",
                group=8,
                product_rounding=a,
                sum_rounding=b,
                accumulator_rounding=b,
                result_rounding=a,
            ),
        )
        for a, b in itertools.product(ROUNDINGS, ROUNDINGS)
    ),
    *(
        (FP8, own("aligned", group=16, interleave=2, merge_rounding=r, output_rounding=r))
        for r in ROUNDINGS
    ),
    (
        F16,
        own("aligned", group=8, product_bits=40, sum_bits=44, accumulator_bits=44, result_bits=44),
    ),
    (BF16, own("aligned", group=2, product_bits=1, sum_bits=1, accumulator_bits=1, result_bits=23)),
]


@pytest.mark.parametrize(
    ("i", "model"),
    OWN_MODELS,
    ids=lambda x: x.algorithm if isinstance(x, gpuemu.Model) else repr(x),
)
def test_own_models_agree_on_host_and_oracle(i: gpuemu.Instruction, model: gpuemu.Model) -> None:
    x = inputs(i, Modifiers(), 2)
    got = gpuemu.execute(i, **x, model=model, backend="host")
    assert_same(i, got, gpuemu.execute(i, **x, model=model, backend="numpy"), str(model))


def test_a_model_changes_the_bits() -> None:
    """The row of one architecture on another's instruction: fours for eights."""
    x = inputs(F16, Modifiers(), 4)
    default = gpuemu.execute(F16, **x, backend="numpy")
    other = gpuemu.execute(F16, **x, model="cdna2_f16", backend="numpy")
    assert (default != other).any()


def test_registered_models_are_found_by_name() -> None:
    made = models.register(gpuemu.Model("test-own", "aligned", group=2))
    try:
        assert gpuemu.models()["test-own"] is made
        x = inputs(F16, Modifiers(), 1)
        by_name = gpuemu.execute(F16, **x, model="test-own", backend="numpy")
        assert (by_name == gpuemu.execute(F16, **x, model=made, backend="numpy")).all()
        again = models.register(gpuemu.Model("test-own", "fma"))
        assert (
            gpuemu.execute(F16, **x, model="test-own", backend="numpy")
            == gpuemu.execute(F16, **x, model=again, backend="numpy")
        ).all()
    finally:
        models._registry.pop("test-own", None)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"algorithm": "sum"}, errors.BadValue, "algorithm='sum'; legal: fma, exact"),
        ({"algorithm": "aligned", "group": 3}, errors.BadValue, "powers of two"),
        (
            {"algorithm": "aligned", "group": 128},
            errors.BadValue,
            "group=128 of model mine; legal: 1..64",
        ),
        (
            {"algorithm": "aligned", "product_bits": 41},
            errors.BadValue,
            "product_bits=41 of model mine; legal: 1..40",
        ),
        (
            {"algorithm": "aligned", "sum_rounding": "floor"},
            errors.BadValue,
            "sum_rounding='floor'; legal: zero, down",
        ),
        ({"algorithm": "pairwise", "group": 8}, errors.BadValue, "legal: 1, 2, 4"),
        ({"algorithm": "exact", "output": "i32"}, errors.BadValue, "legal: f32"),
        ({"algorithm": "aligned", "group": 4.0}, errors.BadType, "group=4.0; legal: an int"),
        (
            {"algorithm": "aligned", "flush_inputs": 1},
            errors.BadType,
            "flush_inputs=1; legal: True or False",
        ),
        (
            {"algorithm": "fma", "output": "f64", "flush_inputs": True},
            errors.BadValue,
            "neither flushes",
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gpuemu.Model("mine", **parameters)


def test_models_that_do_not_fit_an_instruction() -> None:
    zeros = [np.zeros((F16.vgprs[x], 64), np.uint32) for x in "ABC"]
    with pytest.raises(errors.BadValue, match="model fma_f64 computes f64"):
        gpuemu.execute(F16, *zeros, model="fma_f64")
    with pytest.raises(errors.UnknownModel, match="cdna3_f16"):
        gpuemu.execute(F16, *zeros, model="cdna3-f16")
    with pytest.raises(errors.BadType, match=r"a gpuemu\.Model"):
        gpuemu.execute(F16, *zeros, model=3)
    with pytest.raises(errors.BadValue, match="built in"):
        models.register(gpuemu.Model("cdna3_f16", "fma"))
