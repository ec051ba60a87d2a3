"""Faults of arithmetic and formats: another model or rounding, bits read as another format."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from ... import formats
from ...errors import GpuemuError
from ...mfma import models
from .computing import Candidates, compute, format_of, packed, unpacked
from .problem import Array, Problem


def reinterpreted(p: Problem) -> Candidates:
    """A or B read as another format of the same width: the numbers change, the arithmetic stays."""
    sizes = {"A": format_of(p, "A"), "B": format_of(p, "B")}
    width = sizes["A"].bits
    if width != sizes["B"].bits or width in (32, 64):
        return
    rows = [f for f in formats.FORMATS.values() if f.bits == width and f.kind != "scale"]
    own = (sizes["A"], sizes["B"])
    for read in itertools.product(rows, rows):
        if read != own and read[0].is_float == read[1].is_float:
            wrong = [n for n in (0, 1) if read[n] != own[n]]
            name = "format:" + ("both" if len(wrong) == 2 else "ab"[wrong[0]])
            texts = [
                f"{'AB'[n]} is read as {_spelt(read[n])}, it is {_spelt(own[n])}" for n in wrong
            ]
            yield name, "; ".join(texts) + ".", _as_formats(p, *read)
    if not sizes["A"].is_float:
        yield "saturated", "Sums saturate at the ends of int32 instead of wrapping.", _saturated(p)


def _spelt(fmt: formats.Format) -> str:
    """Return a format's name, 8-bit floats with the family that they are mixed up by."""
    family = "FNUZ" if fmt.name.endswith("fnuz") else "OCP"
    return f"{fmt.name} ({family})" if fmt.bits == 8 and fmt.is_float else fmt.name


def _as_formats(p: Problem, fa: formats.Format, fb: formats.Format) -> Array | None:
    i = p.instruction
    if i.modifiers.cbsz == "format":
        return None
    changed = dict(i.formats) | {"A": fa.name, "B": fb.name}
    if fa.is_float != i.operand_format("A").is_float:
        return None
    if not fa.is_float:
        return _integers(p, fa, fb)
    other = dataclasses.replace(i, formats=changed)
    return compute(dataclasses.replace(p, instruction=other))


def _integers(p: Problem, fa: formats.Format, fb: formats.Format) -> Array | None:
    """Return D of integer formats, from the matrices: wrapping sums."""
    total = _sum(p, fa, fb)
    return None if total is None else (total & 0xFFFFFFFF).astype(np.uint32)


def _sum(p: Problem, fa: formats.Format, fb: formats.Format) -> Array | None:
    m = p.modifiers
    if p.instruction.sparse or m.cbsz or m.blgp:
        return None
    A = unpacked(p, "A").view(fa.dtype).astype(np.int64)
    B = unpacked(p, "B").view(fb.dtype).astype(np.int64)
    C = unpacked(p, "C").view(np.int32).astype(np.int64)
    return np.asarray(C + A @ B)


def _saturated(p: Problem) -> Array | None:
    total = _sum(p, formats.get("i8"), formats.get("i8"))
    return (
        None
        if total is None
        else np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)
    )


def arithmetic(p: Problem) -> Candidates:
    """Another arithmetic: a known model, another rounding, flushing, or order."""
    own = models.get(p.instruction.model)
    for model in models.models().values():
        if model.output == own.output and model.name != own.name and _other(model, own):
            yield (
                "arithmetic",
                f"It is the arithmetic of model {model.name}, not of {own.name}.",
                compute(p, model=model),
            )
    variants: list[tuple[str, str, dict[str, Any]]] = [
        ("rounding", "Results are rounded toward zero.", {"output_rounding": "zero"}),
        ("rounding", "Results are rounded down.", {"output_rounding": "down"}),
        ("rounding", "Results are rounded up.", {"output_rounding": "up"}),
        (
            "inputs_flushed",
            "Subnormal inputs are flushed to zero.",
            {"flush_inputs": not own.flush_inputs},
        ),
        (
            "steps_flushed",
            "Subnormal results of every step are flushed.",
            {"flush_outputs": not own.flush_outputs},
        ),
        (
            "flushing",
            "Subnormal inputs and results are treated the other way.",
            {"flush_inputs": not own.flush_inputs, "flush_outputs": not own.flush_outputs},
        ),
        (
            "product_rounding",
            "Products are rounded to nearest, not cut, when aligned.",
            {"product_rounding": "nearest"},
        ),
        (
            "product_rounding",
            "Products are rounded down, not cut, when aligned.",
            {"product_rounding": "down"},
        ),
        (
            "sum_rounding",
            "Sums are cut toward zero, not rounded down.",
            {"sum_rounding": "zero", "accumulator_rounding": "zero", "result_rounding": "zero"},
        ),
        *(
            (
                "kept_bits",
                f"Products keep {n} bits instead of {own.product_bits}.",
                {"product_bits": n},
            )
            for n in range(8, 33)
            if n != own.product_bits
        ),
        *(
            ("group", f"Links have {n} products instead of {own.group}.", {"group": n})
            for n in (1, 2, 4, 8, 16, 32)
            if n != own.group
        ),
    ]
    for name, sentence, change in variants:
        if own.algorithm != "aligned" and name in ("product_rounding", "sum_rounding", "kept_bits"):
            continue
        if own.algorithm not in ("aligned", "exact") and name == "rounding":
            continue
        yield name, sentence, _variant(p, own, change)
    yield "order", "Products are summed in descending order of k.", _descending(p)


def _other(model: models.Model, own: models.Model) -> bool:
    """Tell whether two models compute differently."""
    skipped = {"name": "", "fidelity": "", "source": ""}
    return model.parameters() | skipped != own.parameters() | skipped


def _variant(p: Problem, own: models.Model, change: dict[str, Any]) -> Array | None:
    try:
        return compute(p, model=dataclasses.replace(own, name="variant", **change))
    except GpuemuError:
        return None


def _descending(p: Problem) -> Array | None:
    if p.instruction.sparse or p.instruction.kind == "mfma_scale":
        return None
    A, B = unpacked(p, "A")[..., ::-1], unpacked(p, "B")[..., ::-1, :]
    return compute(p, packed(p, "A", A) | packed(p, "B", B))
