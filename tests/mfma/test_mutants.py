"""Planted faults: each must change a result that the other tests compare.

A mutant of the device side is one changed field of `Config` or `Batch` (what the kernels read), or
one changed line of `cuda_src`; a mutant of the oracle is one changed function or parameter. A fault
that no input class shows would survive in the product too, so every one has to be killed.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import host, sources
from gpuemu.mfma import batch as batches
from gpuemu.mfma import device, execute, layouts, registers
from gpuemu.mfma.modifiers import Modifiers, check
from gpuemu.mfma.oracle import aligned, exact, fma, values
from tests.mfma.cases import inputs

pytestmark = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())

F16_1 = ("v_mfma_f32_16x16x16f16", "gfx908")
BF16_1 = ("v_mfma_f32_16x16x8bf16", "gfx908")
F16_2 = ("v_mfma_f32_16x16x16f16", "gfx90a")
BF16_2 = ("v_mfma_f32_16x16x16bf16_1k", "gfx90a")
F16_3 = ("v_mfma_f32_16x16x16_f16", "gfx942")
BF16_3 = ("v_mfma_f32_16x16x16_bf16", "gfx942")
XF32 = ("v_mfma_f32_16x16x8_xf32", "gfx942")
FP8 = ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942")
BLOCKS = ("v_mfma_f32_4x4x4_16b_f16", "gfx942")
WIDE = ("v_mfma_f32_32x32x8_f16", "gfx942")
I8 = ("v_mfma_i32_16x16x32_i8", "gfx942")
F64 = ("v_mfma_f64_4x4x4_4b_f64", "gfx942")
F32 = ("v_mfma_f32_16x16x4_f32", "gfx942")
SPARSE = ("v_smfmac_f32_16x16x32_f16", "gfx942")
SCALE = ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")

CONFIG_MUTANTS: list[tuple[tuple[str, str], str, int | Callable[[int], int]]] = [
    (F16_3, "group", 4),
    (FP8, "group", 8),
    (XF32, "group", 8),
    (F16_1, "group", 2),
    (BF16_2, "group", 2),
    (F16_3, "product_bits", 23),
    (F16_3, "product_bits", 25),
    (F16_3, "sum_bits", 31),
    (F16_3, "sum_rounding", 0),
    (F16_3, "accumulator_bits", 25),
    (F16_3, "accumulator_rounding", 0),
    (F16_3, "result_bits", 30),
    (F16_3, "result_rounding", 3),
    (F16_3, "output_rounding", 0),
    (FP8, "interleave", 1),
    (FP8, "merge_rounding", 0),
    (FP8, "drop_tiny", 0),
    (BF16_3, "product_overflow", 0),
    (XF32, "a.used_bits", 11),
    (BF16_2, "flush_inputs", 0),
    (BF16_2, "flush_outputs", 0),
    (F16_1, "output_rounding", 0),
    (F16_3, "a.bias", 14),
    (FP8, "a.bias", 15),
    (FP8, "b.nan", 0),
    (WIDE, "a.chunk", 2),
    (SPARSE, "b.chunk", 4),
    (SCALE, "a.chunk", 32),
    (SCALE, "scaled", 0),
]

BATCH_MUTANTS: list[tuple[tuple[str, str], dict[str, Any], int, Callable[[int], int]]] = [
    (BLOCKS, {"cbsz": 2, "abid": 1}, 1, lambda abid: abid + 1),
    (BLOCKS, {"cbsz": 2, "abid": 1}, 0, lambda cbsz: cbsz - 1),
    (BLOCKS, {"cbsz": 2, "abid": 1}, 3, lambda lane_block: 1 - lane_block),
    (BLOCKS, {"blgp": 3}, 2, lambda blgp: 0),
    (BLOCKS, {"blgp": 1}, 2, lambda blgp: 2),
    (BLOCKS, {"blgp": 4}, 2, lambda blgp: 5),
    (F64, {"blgp": 4}, 4, lambda neg: 0),
    (F64, {"blgp": 1}, 4, lambda neg: 4),
    (F64, {}, 8, lambda formula: 1),
    (SPARSE, {"abid": 1}, 5, lambda index_set: 0),
    (SCALE, {"op_sel": (1, 2)}, 6, lambda byte: 2),
]


def telling_inputs(i: gpuemu.Instruction, m: Modifiers, count: int) -> dict[str, Any]:
    """Return inputs of every class, and one wavefront made by hand where a fault needs it."""
    x = inputs(i, m, count)
    by_hand = {
        # A negative subnormal C counts as +0, the products are -0: the sum is +0.
        BF16_2: (0.0, -1.0, -(2.0**-140)),
        # Just below a tie of binary32, which a sum rounded to binary64 first would round up.
        F32: (1 + 2.0**-23, 2.0**-24 * (1 - 2.0**-23), 1 + 2.0**-23),
    }
    if (i.mnemonic, i.arch) not in by_hand:
        return x
    for matrix, value in zip("ABC", by_hand[i.mnemonic, i.arch], strict=True):
        values = np.full(i.shape(matrix), value)
        if matrix == "A":
            values[..., 1:] = 0  # one product of its own; the others are zeros of B's sign
        image = i.pack(matrix, values.astype(i.operand_format(matrix).dtype))
        x[matrix.lower()] = np.concatenate([x[matrix.lower()], image[None]])
    return x


def test_double_rounding_by_hand() -> None:
    i = gpuemu.instruction(*F32)
    x = telling_inputs(i, Modifiers(), 1)
    for backend in ("numpy", "host"):
        d = gpuemu.execute(i, **x, backend=backend)[-1]
        assert f"{i.unpack('D', d).view(np.uint32)[0, 0, 0]:08X}" == "3F800001"


def run_host(
    i: gpuemu.Instruction, m: Modifiers, x: dict[str, Any], change: Callable[[Any, Any], None]
) -> Any:
    """Run the host build with its two structs changed."""
    operands = device.Operands(**x)
    lead = x["a"].shape[:-2]
    found, batch = batches.prepare(i, m, operands, lead)
    fields = np.array(device.config(i, gpuemu.models()[i.model], m), np.int32)
    batch = batch.copy()
    change(fields, batch)
    d = np.empty((*lead, i.vgprs["D"], 64), np.uint32)
    pointers = np.array([0 if v is None else v.ctypes.data for v in found], np.uint64)
    host.library("mfma").gpuemu_mfma(
        *(ctypes.c_void_p(v.ctypes.data) for v in (fields, batch, pointers, d))
    )
    return d


def test_unchanged_structs_give_the_right_bits() -> None:
    """The harness itself: without a fault it agrees with the oracle."""
    for name in (F16_3, FP8, SPARSE, SCALE, F64):
        i = gpuemu.instruction(*name)
        x = inputs(i, Modifiers(), 2)
        got = run_host(i, Modifiers(), x, lambda fields, batch: None)
        assert execute.equal_bits(i, got, gpuemu.execute(i, **x, backend="numpy")).all()


@pytest.mark.parametrize(("name", "field", "value"), CONFIG_MUTANTS)
def test_config_mutants_are_killed(name: tuple[str, str], field: str, value: int) -> None:
    i = gpuemu.instruction(*name)
    x = telling_inputs(i, Modifiers(), 16)

    def change(fields: Any, batch: Any) -> None:
        place = device.CONFIG_FIELDS.index(field)
        assert fields[place] != value, "the fault changes nothing"
        fields[place] = value

    got = run_host(i, Modifiers(), x, change)
    assert not execute.equal_bits(i, got, gpuemu.execute(i, **x, backend="numpy")).all()


@pytest.mark.parametrize(("name", "options", "place", "change"), BATCH_MUTANTS)
def test_modifier_mutants_are_killed(
    name: tuple[str, str], options: dict[str, Any], place: int, change: Callable[[int], int]
) -> None:
    i = gpuemu.instruction(*name)
    m = check(i, **options)
    x = inputs(i, m, 2, ("unique", "raw"))

    def mutate(fields: Any, batch: Any) -> None:
        at = len(batch) - 9 + place
        assert batch[at] != change(int(batch[at])), "the fault changes nothing"
        batch[at] = change(int(batch[at]))

    got = run_host(i, m, x, mutate)
    assert not execute.equal_bits(i, got, gpuemu.execute(i, **x, **options, backend="numpy")).all()


SOURCE_MUTANTS = [
    (WIDE, "mfma_layout.cuh", "lane_rows * (t % groups)", "lane_rows * ((t + 1) % groups)"),
    (
        BF16_1,
        "mfma_exact.cuh",
        "if (p[t]) low = min_of(low, e - fraction);",
        "low = min_of(low, max_of(e - fraction, high - 40));",
    ),
    (
        F32,
        "mfma_fma.cuh",
        "sum = fma_f32(bits_to_float(a[t]), bits_to_float(b[t]), sum);",
        "sum = add_f32(mul_f32(bits_to_float(a[t]), bits_to_float(b[t])), sum);",
    ),
    (
        BF16_2,
        "mfma_pairwise.cuh",
        "return c.flush_inputs ? flush_to_plus_zero(d) : d;",
        "return c.flush_inputs ? flush_subnormal(d) : d;",
    ),
    (F16_3, "mfma_special.cuh", "nan = true;  // a NaN", "infinity(negative);  // a NaN"),
    (I8, "mfma_integer.cuh", "return (i8)code;", "return (u8)code;"),
    (F16_3, "mfma_aligned.cuh", "const int e = max_of(e_dot, x.exponent);", "const int e = e_dot;"),
]


@pytest.mark.parametrize(
    ("name", "file", "line", "fault"),
    SOURCE_MUTANTS,
    ids=lambda x: x if isinstance(x, str) and x.endswith(".cuh") else "",
)
def test_source_mutants_are_killed(
    tmp_path: Path, name: tuple[str, str], file: str, line: str, fault: str
) -> None:
    """One line of the headers changed, built and run."""
    for path in sources.directory().glob("mfma*"):
        text = path.read_text()
        if path.name == file:
            assert text.count(line) == 1, f"{file} no longer has the line {line!r}"
            text = text.replace(line, fault)
        (tmp_path / path.name).write_text(text)
    for other in ("common.cuh", "host.cpp"):
        (tmp_path / other).write_text((sources.directory() / other).read_text())
    library = tmp_path / "mutant.so"
    command = [
        str(host.compiler()),
        "-std=c++17",
        "-O0",  # compiles three times as fast
        "-march=native",
        "-ffp-contract=off",
        "-fPIC",
        "-shared",
    ]
    command += [
        '-DGPUEMU_HOST_HEADER="mfma_host.h"',
        "-o",
        str(library),
        str(tmp_path / "host.cpp"),
    ]
    subprocess.run(command, check=True)
    i = gpuemu.instruction(*name)
    x = telling_inputs(i, Modifiers(), 4)
    found, batch = batches.prepare(i, Modifiers(), device.Operands(**x), x["a"].shape[:-2])
    fields = np.array(device.config(i, gpuemu.models()[i.model], Modifiers()), np.int32)
    d = np.empty((len(x["a"]), i.vgprs["D"], 64), np.uint32)
    pointers = np.array([0 if v is None else v.ctypes.data for v in found], np.uint64)
    mutant = ctypes.CDLL(str(library))
    mutant.gpuemu_mfma(*(ctypes.c_void_p(v.ctypes.data) for v in (fields, batch, pointers, d)))
    assert not execute.equal_bits(i, d, gpuemu.execute(i, **x, backend="numpy")).all()


ORACLE_MUTANTS: list[tuple[str, tuple[str, str], Any, str, Any]] = [
    ("floor for trunc", F16_3, aligned.ROUND, "zero", np.floor),
    ("trunc for floor", F16_3, aligned.ROUND, "down", np.trunc),
    ("a zero's exponent counts", F16_3, values, "NOTHING", 0),
    ("double rounding", F32, fma, "add_to_odd", lambda a, b: a + b),
    (
        "sum of rounded terms",
        F16_1,
        exact,
        "sum_to_odd",
        lambda terms: sum(t.astype(np.float32) for t in terms).astype(np.float64),
    ),
    ("subnormal results kept", BF16_2, fma, "flush_subnormal", lambda x: x),
    ("lanes of B not rotated", BLOCKS, layouts, "source_lanes_b", lambda i, m: np.arange(64)),
    ("lanes of A not broadcast", BLOCKS, layouts, "source_lanes_a", lambda i, m: np.arange(64)),
]


@pytest.mark.parametrize(
    ("what", "name", "where", "attribute", "fault"),
    ORACLE_MUTANTS,
    ids=[m[0] for m in ORACLE_MUTANTS],
)
def test_oracle_mutants_are_killed(
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    name: tuple[str, str],
    where: Any,
    attribute: str,
    fault: Any,
) -> None:
    from gpuemu.mfma.oracle import pairwise

    i = gpuemu.instruction(*name)
    options = {"cbsz": 2, "abid": 1, "blgp": 3} if name == BLOCKS else {}
    m = check(i, **options)
    x = telling_inputs(i, m, 4)
    want = gpuemu.execute(i, **x, **options, backend="host")
    if isinstance(where, dict):
        monkeypatch.setitem(where, attribute, fault)
    elif what == "subnormal results kept":
        monkeypatch.setattr(pairwise, attribute, fault)
    else:
        monkeypatch.setattr(where, attribute, fault)
    for cache in (
        layouts.stored_layout,
        registers._slots,
        registers.whole_items,
        layouts._dense_layout,
    ):
        cache.cache_clear()
    try:
        got = gpuemu.execute(i, **x, **options, backend="numpy")
    finally:
        monkeypatch.undo()
        for cache in (
            layouts.stored_layout,
            registers._slots,
            registers.whole_items,
            layouts._dense_layout,
        ):
            cache.cache_clear()
    assert not execute.equal_bits(i, got, want).all()
