"""Mutants: small faults of arithmetic, layout and modifiers, each found by the input classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import subjects
from gpuemu.difftest.campaign import engine
from gpuemu.difftest.cases import Plan, plan
from gpuemu.difftest.subjects import Subject

Array = np.ndarray[Any, Any]
Function = Callable[[gpuemu.Instruction, Any, Any], Array]

F16 = ("v_mfma_f32_16x16x16_f16", "gfx942")
BF16 = ("v_mfma_f32_16x16x16_bf16", "gfx942")
XF32 = ("v_mfma_f32_16x16x8_xf32", "gfx942")
FP8 = ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
BF8 = ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942")
PAIRS = ("v_mfma_f32_16x16x8bf16", "gfx90a")
FOURS = ("v_mfma_f32_16x16x16f16", "gfx90a")
EXACT = ("v_mfma_f32_16x16x16f16", "gfx908")
CHAIN = ("v_mfma_f32_16x16x4f32", "gfx90a")
MANY = ("v_mfma_f32_4x4x4_16b_f16", "gfx942")
F64 = ("v_mfma_f64_16x16x4_f64", "gfx942")
SPARSE = ("v_smfmac_f32_16x16x32_f16", "gfx942")
SCALED = ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
I8 = ("v_mfma_i32_16x16x32_i8", "gfx942")


def right(i: gpuemu.Instruction, images: Any, m: Any, **changed: Any) -> Array:
    options = {**m.non_default(), **changed}
    return np.asarray(gpuemu.execute(i, **images, **options, backend="numpy", legality="llvm"))


def model(**change: Any) -> Function:
    def function(i: gpuemu.Instruction, images: Any, m: Any) -> Array:
        own = gpuemu.models()[i.model]
        return right(i, images, m, model=dataclasses.replace(own, name="mutant", **change))

    return function


def operand(name: str, change: Callable[[Array], Array]) -> Function:
    return lambda i, images, m: right(i, images | {name: change(images[name])}, m)


def result(change: Callable[[Array], Array]) -> Function:
    return lambda i, images, m: change(right(i, images, m))


def modifier(**change: Callable[[Any], Any]) -> Function:
    return lambda i, images, m: right(
        i, images, m, **{name: f(getattr(m, name)) for name, f in change.items()}
    )


def bf16_as_f16(i: gpuemu.Instruction, images: Any, m: Any) -> Array:
    formats = dict(i.formats) | {"A": "f16"}
    return right(dataclasses.replace(i, formats=formats), images, m)


def saturating(d: Array) -> Array:
    return np.where(d == 0x7F800000, np.uint32(0x7F7FFFFF), d)


LANE = np.arange(64)

MUTANTS: list[tuple[str, tuple[str, str], Function]] = [
    ("products rounded down", F16, model(product_rounding="down")),
    ("products rounded to nearest", F16, model(product_rounding="nearest")),
    ("23 product bits", F16, model(product_bits=23)),
    ("25 product bits", F16, model(product_bits=25)),
    ("31 sum bits", F16, model(sum_bits=31)),
    ("sum cut to zero", BF16, model(sum_rounding="zero")),
    ("23 accumulator bits", F16, model(accumulator_bits=23)),
    ("accumulator cut to zero", F16, model(accumulator_rounding="zero")),
    ("30 result bits", F16, model(result_bits=30)),
    ("result cut to zero", F16, model(result_rounding="zero")),
    ("output rounded to zero", F16, model(output_rounding="zero")),
    ("links of 4", F16, model(group=4)),
    ("links of 16", F16, model(group=16)),
    ("no product overflow", BF16, model(product_overflow=False)),
    ("inputs flushed", F16, model(flush_inputs=True)),
    ("results flushed", BF16, model(flush_outputs=True)),
    ("xf32 keeps 11 bits", XF32, model(input_bits=11)),
    ("fp8 in one group", FP8, model(interleave=1)),
    ("fp8 in four groups", FP8, model(interleave=4)),
    ("fp8 groups merged by truncation", BF8, model(merge_rounding="zero")),
    ("fp8 keeps a tiny accumulator", FP8, model(drop_tiny_accumulator=False)),
    ("pairs in fours", PAIRS, model(group=4)),
    ("fours in pairs", FOURS, model(group=2)),
    ("fours keep subnormal inputs", FOURS, model(flush_inputs=False)),
    ("pairs keep subnormal results", PAIRS, model(flush_outputs=False)),
    ("exact links of 8", EXACT, model(group=8)),
    ("chain flushes", CHAIN, model(flush_outputs=True)),
    ("chain as exact sum", CHAIN, model(algorithm="exact", group=4)),
    ("lanes of A swapped", F16, operand("a", lambda x: x[..., LANE ^ 1])),
    ("registers of B swapped", F16, operand("b", lambda x: x[:, ::-1])),
    (
        "lane 63 of C lost",
        F16,
        operand("c", lambda x: np.where(LANE == 63, 0, x).astype(np.uint32)),
    ),
    ("one bit of B stuck", F16, operand("b", lambda x: x & np.uint32(0xFFFFFFFE))),
    ("halves of A swapped", MANY, operand("a", lambda x: x >> 16 | x << 16)),
    ("D rotated by a lane", F16, result(lambda d: np.roll(d, 1, -1))),
    ("overflow saturates", BF16, result(saturating)),
    ("minus zero lost", CHAIN, result(lambda d: np.where(d == 0x80000000, 0, d).astype(np.uint32))),
    ("NaN becomes zero", F16, result(lambda d: np.where(d == 0x7FC00000, 0, d).astype(np.uint32))),
    ("abid one less", MANY, modifier(abid=lambda n: max(n - 1, 0))),
    ("cbsz one less", MANY, modifier(cbsz=lambda n: max(n - 1, 0))),
    ("lane_block broadcast", MANY, modifier(broadcast=lambda _: "lane_block")),
    ("blgp ignored", F16, modifier(blgp=lambda _: 0)),
    ("blgp 3 rotates the other way", F16, modifier(blgp=lambda n: 2 if n == 3 else n)),
    ("neg of C lost", F64, modifier(neg=lambda n: (n[0], n[1], 0))),
    ("bf16 read as f16", BF16, bf16_as_f16),
    ("index set 0 always", SPARSE, modifier(abid=lambda _: 0)),
    ("cbsz does not close the set", SPARSE, modifier(cbsz=lambda _: 0)),
    (
        "index fields swapped",
        SPARSE,
        operand("idx", lambda x: (x & 0x33333333) << 2 | x >> 2 & 0x33333333),
    ),
    ("links count dense columns", SPARSE, model(dense_grouping=True)),
    ("scale byte of B from A", SCALED, modifier(op_sel=lambda n: (n[0], n[0]))),
    (
        "scale NaN is a number",
        SCALED,
        operand(
            "scale_a",
            lambda x: np.where(x == 0xFFFFFFFF, 0x7F7F7F7F, x & 0x7F7F7F7F).astype(np.uint32),
        ),
    ),
    ("scales lane off by 16", SCALED, operand("scale_b", lambda x: np.roll(x, 16, -1))),
    (
        "i8 sums saturate near the top",
        I8,
        result(lambda d: np.where(d == 0x80000000, 0x7FFFFFFF, d).astype(np.uint32)),
    ),
    ("i8 sign of A lost", I8, operand("a", lambda x: x & np.uint32(0x7F7F7F7F))),
]
CASES = 256


@pytest.mark.parametrize(("row", "mutant"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_killed(row: tuple[str, str], mutant: Function) -> None:
    p = plan(gpuemu.instruction(*row), 0)
    for first in range(0, CASES, 64):
        if failed_cases(p, range(first, first + 64), Subject("mutant", mutant)):
            return
    pytest.fail(f"survived {CASES} cases")


def test_the_unchanged_survive() -> None:
    for row in {m[1] for m in MUTANTS}:
        p = plan(gpuemu.instruction(*row), 0)
        assert failed_cases(p, range(32), Subject("same", right)) == 0


def failed_cases(p: Plan, numbers: range, subject: Subject) -> int:
    found = engine.run(p, engine.pieces(p, numbers), subject, subjects.load("numpy"))
    return sum(outcome.failed_cases for outcome in found)
