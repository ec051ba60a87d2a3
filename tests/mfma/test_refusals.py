"""Names, formats and models that do not exist: each message says what is legal."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors, formats
from gpuemu.mfma import models, modifiers, program

MIXED = gpuemu.instruction("v_mfma_f32_16x16x128_f8f6f4", "gfx950")
MODEL = gpuemu.models()["cdna3_f16"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: formats.get("f7"), errors.UnknownFormat, "format 'f7'; legal: f64, f32, xf32"),
        (lambda: models.register("m"), errors.BadType, "wants a gpuemu.Model, got str"),  # type: ignore[arg-type]
        (
            lambda: dataclasses.replace(MODEL, name=""),
            errors.BadType,
            "name=''; legal: a non-empty string",
        ),
        (lambda: MIXED.operand_format("A", cbsz=5), errors.BadValue, "cbsz=5"),
        (lambda: MIXED.operand_format("B", blgp=-1), errors.BadValue, "blgp=-1"),
        (
            lambda: program.Program.read(b"s_nop 0", "gfx942"),
            errors.BadType,
            "is a bytes; legal: a",
        ),  # type: ignore[arg-type]
        (
            lambda: modifiers.check(MIXED, abid=1, legality="llvm"),
            errors.IllegalModifier,
            "abid=1; the assembler has no abid operand on f8f6f4",
        ),
        *(
            (
                lambda name=name: modifiers.check(MIXED, **{name: np.array(["strict", "a"])}),
                errors.BadValue,
                rf"{name}=array.*; legal: \w+, \w+",
            )
            for name in ("legality", "broadcast", "output_layout")
        ),
    ],
)
def test_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
