"""The second implementation for devices: its host build against the oracle, and its kernel."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import cuda, host
from gpuemu.difftest import subjects
from gpuemu.difftest.campaign import reference
from gpuemu.difftest.cases import sweep
from gpuemu.difftest.generators import CLASSES, classes_for
from gpuemu.difftest.images import images, pack, stored_layout
from gpuemu.mfma.modifiers import Modifiers

ROWS = gpuemu.instructions()
needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "host build")
OWN = ("reference.cuh", "reference_sum.cuh", "reference_values.cuh")
IDS = [f"{i.arch}-{i.mnemonic}" for i in ROWS]


def oracle(i: gpuemu.Instruction, given: Any, m: Modifiers, **more: Any) -> Any:
    options = {**m.non_default(), **more}
    return gpuemu.execute(i, **given, **options, legality="llvm", backend="numpy")


@needs_host
@pytest.mark.parametrize("i", ROWS, ids=IDS)
def test_it_equals_the_oracle_on_every_instruction_and_class(i: gpuemu.Instruction) -> None:
    swept = sweep(i)
    for n, cls in enumerate(classes_for(i)):
        m = swept[n * 7919 % len(swept)]
        given = images(i, m, cls, 5, np.arange(2))
        assert np.array_equal(reference.run(i, given, m), oracle(i, given, m)), (cls.name, m)


@needs_host
@pytest.mark.parametrize(
    ("name", "arch", "options"),
    [
        ("v_mfma_f32_4x4x4_16b_f16", "gfx942", {"broadcast": "lane_block", "cbsz": 2, "abid": 3}),
        ("v_mfma_f64_4x4x4_4b_f64", "gfx942", {"output_layout": "formula", "neg": (1, 0, 1)}),
        ("v_mfma_f32_16x16x16_f16", "gfx942", {"blgp": 6}),
    ],
)
def test_switches(name: str, arch: str, options: dict[str, Any]) -> None:
    i, m = gpuemu.instruction(name, arch), Modifiers(**options)
    for cls in ("raw", "normal", "unique"):
        given = images(i, m, CLASSES[cls], 5, np.arange(8))
        assert np.array_equal(reference.run(i, given, m), oracle(i, given, m)), cls


@pytest.mark.parametrize("i", ROWS, ids=IDS)
def test_tables_that_modifiers_share_are_those_of_each(i: gpuemu.Instruction) -> None:
    odd = [Modifiers(blgp=3), Modifiers(cbsz=1, abid=1), Modifiers(cbsz=2, blgp=1)]
    if i.modifiers.cbsz == "broadcast":
        odd.append(Modifiers(cbsz=1, broadcast="lane_block"))
    for m in (*sweep(i)[:: 1 + len(sweep(i)) // 50], *(odd if i.kind == "mfma" else [])):
        given: dict[str, Any] = {**vars(m), "legality": "llvm"}
        found = zip(reference.TABLES, reference.tables(i, m), strict=True)
        for matrix, table in found:
            if table is not None:
                where = stored_layout(i, matrix, **given).reshape(-1, 4)
                assert np.array_equal(table >> 8, where[:, 0] * 64 + where[:, 1]), (matrix, m)
                assert np.array_equal(table & 255, where[:, 2]), (matrix, m)


ALIGNED = ("v_mfma_f32_16x16x16_f16", "gfx942")
CHANGES: list[tuple[tuple[str, str], dict[str, Any]]] = [
    (ALIGNED, {f"{what}_rounding": how})
    for what in ("product", "sum", "accumulator", "result", "output")
    for how in ("zero", "down", "up", "nearest")
]
CHANGES += [
    (ALIGNED, {"interleave": 4, "merge_rounding": "nearest"}),
    (ALIGNED, {"interleave": 2, "merge_rounding": "up", "group": 16}),
    (ALIGNED, {"product_overflow": False, "flush_inputs": True}),
    (ALIGNED, {"flush_outputs": True, "drop_tiny_accumulator": True}),
    (ALIGNED, {"input_bits": 6, "product_bits": 17, "accumulator_bits": 20, "result_bits": 23}),
    (ALIGNED, {"algorithm": "exact", "group": 16, "output_rounding": "zero"}),
    (ALIGNED, {"algorithm": "exact", "flush_outputs": True, "flush_inputs": True}),
    (ALIGNED, {"algorithm": "pairwise", "group": 4, "flush_outputs": True}),
    (ALIGNED, {"algorithm": "pairwise", "group": 2, "flush_inputs": True}),
    (ALIGNED, {"algorithm": "fma", "flush_outputs": True, "flush_inputs": True}),
    (("v_mfma_f32_16x16x8_xf32", "gfx942"), {"algorithm": "exact", "input_bits": None}),
    (("v_smfmac_f32_16x16x32_f16", "gfx942"), {"dense_grouping": True, "interleave": 2}),
    (("v_mfma_f32_16x16x32_fp8_bf8", "gfx942"), {"input_bits": 1}),
    (("v_mfma_f32_16x16x32_fp8_bf8", "gfx950"), {"input_bits": 1}),
]


@needs_host
@pytest.mark.parametrize(("row", "change"), CHANGES, ids=lambda x: str(x))
def test_parameters_of_other_models(row: tuple[str, str], change: dict[str, Any]) -> None:
    i = gpuemu.instruction(*row)
    model = dataclasses.replace(gpuemu.models()[i.model], name="other", **change)
    m = Modifiers()
    for cls in classes_for(i):
        given = images(i, m, cls, 5, np.arange(2))
        got = reference.run(i, given, m, model)
        assert np.array_equal(got, oracle(i, given, m, model=model)), cls.name


@needs_host
def test_the_call_has_as_many_fields_as_the_kernel_reads() -> None:
    i = gpuemu.instruction(*ALIGNED)
    numbers = reference.fields(i, Modifiers(), gpuemu.models()[i.model])
    pointers = len(reference.OPERANDS) + 1 + len(reference.TABLES)
    fields = host.library("reference").gpuemu_reference_fields()
    assert fields == pointers + 1 + len(numbers)


@needs_host
def test_it_is_a_subject() -> None:
    i = gpuemu.instruction(*ALIGNED)
    given = images(i, Modifiers(), CLASSES["normal"], 0, np.arange(3))
    d = subjects.load("reference")(i, given, Modifiers())
    assert np.array_equal(d, oracle(i, given, Modifiers()))


def test_its_source_includes_nothing_of_what_it_checks() -> None:
    from gpuemu.backends import sources

    for name, text in sources.texts().items():
        if name.startswith("reference"):
            included = set(re.findall(r'#include "(.*)"', text))
            assert included <= {"common.cuh", *OWN}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_the_kernel_compiles_and_contracts_nothing(arch: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed (extra 'cuda13')")
    assert cuda.cubin(reference.SOURCE, {}, arch)[:4] == b"\x7fELF"
    text = cuda.ptx(reference.SOURCE, {}, arch)
    assert ".ftz" not in text and ".approx" not in text
    assert re.findall(r"fma\.\w+\.f\d\d", text) == ["fma.rn.f32", "fma.rn.f64"]


@pytest.mark.parametrize("i", ROWS, ids=IDS)
def test_packing_by_table_is_that_of_the_instruction(i: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(1)
    formats = {(m.cbsz, m.blgp) for m in sweep(i)} if i.modifiers.cbsz == "format" else {(0, 0)}
    for cbsz, blgp in formats:
        for matrix in ("A", "B", "C"):
            fmt = i.operand_format(matrix, cbsz, blgp)
            shape = (2, *i.shape(matrix))
            bits = rng.integers(0, (1 << fmt.bits) - 1, shape, np.uint64, endpoint=True)
            bits = bits.astype(fmt.storage) if fmt.bits < 64 else bits
            chosen = {"cbsz": cbsz, "blgp": blgp}
            assert np.array_equal(pack(i, matrix, bits, **chosen), i.pack(matrix, bits, **chosen))


@pytest.mark.gpu
@pytest.mark.parametrize("i", ROWS, ids=IDS)
def test_the_device_makes_the_same_cases_and_the_kernel_the_oracles_bits(
    i: gpuemu.Instruction,
) -> None:
    import cupy

    swept = sweep(i)
    for n, cls in enumerate(classes_for(i)):
        m = swept[n * 7919 % len(swept)]
        numbers = np.arange(1000, 1002)
        given = images(i, m, cls, 5, numbers)
        there = images(i, m, cls, 5, cupy.asarray(numbers))
        for name, image in given.items():
            assert np.array_equal(image, there[name].get()), (cls.name, name)
        assert np.array_equal(reference.run(i, there, m).get(), oracle(i, given, m)), cls.name
