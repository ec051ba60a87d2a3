"""TFMA, its bundles and emulated GEMM as campaigns: cases, verdicts, planted faults, replays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from operation_rows import (
    BUNDLE,
    F32,
    F64,
    FP16,
    FP32,
    RESIDUES,
    RIGHT,
    ROWS,
    failed_cases,
    needs_host,
    records,
)

from gpuemu.difftest import bundle_cases, runner, shrink, subjects
from gpuemu.difftest.campaign import engine
from gpuemu.difftest.campaign.campaign import Campaign
from gpuemu.difftest.cases import from_json, plan
from gpuemu.difftest.catalogue import find
from gpuemu.difftest.emulated_cases import laid
from gpuemu.difftest.operation import ArrayOperation, Arrays, pairwise
from gpuemu.difftest.subjects import Subject, SubjectFailed, SubjectHung
from gpuemu.tile.numeric import NV, NX, UF

pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


# ---- cases


@pytest.mark.parametrize("i", ROWS, ids=repr)
def test_cases_are_the_same_in_any_batch(i: ArrayOperation) -> None:
    for cls in i.classes:
        for m in (i.sweep()[0], i.sweep()[-1]):
            whole = i.operands(m, cls, 3, np.array([10, 11, 12]))
            alone = i.operands(m, cls, 3, np.array([11]))
            empty = i.empty(m)
            assert whole.keys() == empty.keys()
            for name, x in whole.items():
                assert np.array_equal(x[1], alone[name][0]), (cls.name, name)
                assert (x.dtype, x.shape[1:]) == (empty[name].dtype, empty[name].shape[1:])
        other = i.operands(i.sweep()[0], cls, 4, np.array([10, 11, 12]))
        first = i.operands(i.sweep()[0], cls, 3, np.array([10, 11, 12]))
        assert any(not np.array_equal(first[name], other[name]) for name in first), cls.name


@pytest.mark.parametrize("i", ROWS, ids=repr)
def test_every_two_levels_meet(i: ArrayOperation) -> None:
    rows = [m.all() for m in i.sweep()]
    assert not i.sweep()[0].non_default() and len(i.sweep()) < 80
    for one, other in itertools.combinations(i.factors, 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(itertools.product(i.factors[one], i.factors[other]))


def test_few_rows_are_enough() -> None:
    assert len(pairwise({"a": (0, 1)})) == 2
    assert len(pairwise(dict.fromkeys("abcdefg", (0, 1)))) <= 8


def test_half_of_the_tiles_have_one_element_that_counts() -> None:
    m = FP16.check({"valid": "both", "mask": "0100"})
    (raw,) = FP16.named(("raw",))
    found = FP16.operands(m, raw, 0, np.arange(400))
    alone = [n for n in range(400) if np.count_nonzero(found["left"][n]) == 1]
    assert 150 < len(alone) < 250
    rows, columns = FP16.valid(m)
    inside = found["left"][alone, 1, :rows, :columns].reshape(len(alone), -1)
    assert (np.count_nonzero(inside, axis=1) == 1).all()


@pytest.mark.parametrize("order", ["row", "column", "padded", "strided"])
def test_memory_orders_hold_the_same_matrix(order: str) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    found = laid(x, order)
    assert np.array_equal(found, x)
    assert found.flags.c_contiguous == (order == "row")


# ---- what the bundles are about


@pytest.mark.parametrize("cls", BUNDLE.classes, ids=lambda cls: cls.name)
def test_bundles_reach_what_their_class_is_named_for(cls: Any) -> None:
    operands = BUNDLE.operands(BUNDLE.sweep()[0], cls, 0, np.arange(200))
    found = RIGHT(BUNDLE, operands, BUNDLE.sweep()[0])
    faults = {bundle_cases.FAULTS[n] for n in found["fault"]}
    legality, allocation, control, illegal = bundle_cases.FAULTS[1:]
    want = {
        "legal": {""},
        "zero_mask": {"", legality},
        "words": {legality, control, illegal},
        "bindings": {legality, control},
        "attributes": {legality},
        "extents": {legality, allocation, ""},
        "types": {legality, ""},
        "allocation": {legality, allocation},
        "sources": {legality, ""},
        "sequence": {legality, ""},
        "two_rules": {legality, allocation, control, illegal},
        "noise": {legality, control, illegal, ""},
    }[cls.name]
    assert want <= faults and (cls.name != "legal" or faults == {""})
    if cls.name == "legal":
        assert (found["new"][:, 0, 0] > 0).all() and len(set(found["flags"].tolist())) > 16
    if cls.name == "sequence":
        assert (found["new"][:, 1, 0] > 0).any()


# ---- verdicts


@needs_host
def test_the_host_build_equals_the_oracle() -> None:
    found = records(Campaign("host", instruction="tfma*,emulated*", cases=2100))
    assert {r.verdict for r in found} == {"equal"}, [r.replay for r in found if r.replay][:3]
    assert sum(r.cases for r in found) == 2100
    rows = {(r.instruction, r.arch) for r in found}
    assert rows == {(i.mnemonic, i.arch) for i in ROWS}
    for i in ROWS:
        mine = [r for r in found if r.instruction == i.mnemonic]
        assert {r.cls for r in mine} == {cls.name for cls in i.classes}


@pytest.mark.gpu
@pytest.mark.parametrize(
    "row",
    [
        *(i for i in ROWS if i.arch in ("pto", "int8", "pto-core")),
        find("tfma_tf32", "pto-adr0080"),
        find("tfma_e4m3", "pto-adr0080"),
        find("tfma_u64", "pto-adr0080"),
    ],
    ids=repr,
)
def test_cuda_equals_the_oracle(row: ArrayOperation) -> None:
    """Every class; of the configurations those with few kernels to compile."""
    few = {"mantissa_bits", "dtype_set"} & set(row.factors)
    whole = plan(row)
    kept = tuple(m for m in whole.modifiers if not few & set(m.non_default()))
    p = replace(whole, modifiers=kept)
    found = p.run(engine.pieces(p, range(400)), subjects.load("cuda"), RIGHT)
    assert not [o.failure.text() for o in found if o.failure]
    assert sum(o.sampled for o in found) == 400


Change = Callable[[ArrayOperation, Arrays, Any], Arrays]


def computed(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
    return i.compute("numpy", operands, m)


def result(name: str, change: Callable[[Any], Any]) -> Change:
    """Return a mutant that changes one result; `change` gets the items."""

    def function(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
        found = computed(i, operands, m)
        return found | {name: change(found[name].copy()).astype(found[name].dtype)}

    return function


def operand(name: str, change: Callable[[Any], Any]) -> Change:
    return lambda i, operands, m: computed(i, operands | {name: change(operands[name])}, m)


def configured(**changed: Any) -> Change:
    def function(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
        own = {name: change(m[name]) for name, change in changed.items()}
        return computed(i, operands, i.check(m.all() | own))

    return function


def unfused(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
    """Round the product, then the sum."""
    from gpuemu import tile

    options = {"valid": i.valid(m), "pad": m["pad"], "mask": int(m["mask"], 2)}
    left, right, addend = i.sources(operands, m)
    name = i.dtype.name
    products = tile.tiles("TMUL", (left, right), name, "numpy", **options)
    sums = tile.tiles("TADD", (products.bits, addend), name, "numpy", **options)
    flags = (products.flags | sums.flags).astype(np.uint8)
    return {"bits": sums.bits, "defined": sums.defined.astype(np.uint8), "flags": flags}


def underflow_before_rounding(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
    """Raise UF where an inexact result is the smallest normal number, too."""
    found = computed(i, operands, m)
    least = 1 << i.dtype.mantissa_bits
    at_least = (found["bits"] & (i.dtype.sign_bit - 1)) == least
    tiny = (at_least & (found["defined"] == 1)).reshape(len(at_least), -1).any(axis=1)
    raised = tiny & (found["flags"] & NX != 0)
    return found | {"flags": found["flags"] | np.where(raised, UF, 0).astype(np.uint8)}


def core_with(change: Callable[[Any], None]) -> Change:
    """Return a mutant machine."""

    def run(operation: Any, program: list[int], core: Any) -> Any:
        change(core)
        import operation_subjects

        return operation_subjects.bundle(operation, program, core)

    return lambda i, operands, m: i.ask(run, operands, m)


def publishes_last_register(core: Any) -> None:
    machine = core.machine
    machine.free_register = lambda hand: max(
        n for n in range(hand * 16, hand * 16 + 16) if n not in machine.registers
    )


def forgets_flags(core: Any) -> None:
    core.machine.flags = 0


def capacity_is_endless(core: Any) -> None:
    core.machine.capacity = 1 << 40


MUTANTS: list[tuple[str, Any, Change]] = [
    ("UF lost", FP16, result("flags", lambda x: x & ~np.uint8(UF))),
    ("NX lost", FP32, result("flags", lambda x: x & ~np.uint8(NX))),
    ("NV lost", FP16, result("flags", lambda x: x & ~np.uint8(NV))),
    ("tininess before rounding", FP16, underflow_before_rounding),
    ("two roundings", FP32, unfused),
    ("minus zero lost", FP16, result("bits", lambda x: np.where(x == 0x8000, 0, x))),
    ("subnormals flushed", FP16,
     result("bits", lambda x: np.where(x & 0x7C00 == 0, x & 0x8000, x))),
    ("NaN keeps a sign", FP16, result("bits", lambda x: np.where(x == 0x7E00, 0xFE00, x))),
    ("overflow saturates", FP16, result("bits", lambda x: np.where(x == 0x7C00, 0x7BFF, x))),
    ("Max pads infinity", FP32, result("bits", lambda x: np.where(x == 0x7F7FFFFF, 0x7F800000, x))),
    ("padding Min for Max", FP32, configured(pad=lambda x: {"Max": "Min"}.get(x, x))),
    ("Null padding defined", FP32, configured(pad=lambda x: "Zero" if x == "Null" else x)),
    ("mask reversed", FP16, configured(mask=lambda x: x[::-1] if x[::-1] == "1000" else x)),
    ("mask ignored", FP16, configured(mask=lambda x: "1111")),
    ("aliased sources overwritten", FP16, configured(alias=lambda x: "none")),
    ("a row too many", FP16, configured(valid=lambda x: "whole" if x == "rows" else x)),
    ("inf times NaN is NV never", FP32, configured(nan_corner=lambda _: "ieee")),
    ("last bit of the addend", find("tfma_bf16", "pto"),
     operand("addend", lambda x: x & 0xFFFE)),
    ("integers saturate", find("tfma_u8", "pto-adr0080"),
     result("bits", lambda x: np.where(x == 0, 255, x))),
    ("TF32 keeps a bit too many", find("tfma_tf32", "pto-adr0080"),
     result("bits", lambda x: x | np.where(x & 0x3FFF, 0x1000, 0))),
    ("the last slice to nearest", F32, configured(slice_rounding=lambda _: "nearest")),
    ("a bit fewer", F64, configured(mantissa_bits=lambda n: {23: 7, 31: 23}.get(n, n))),
    ("rows of A for columns", F32,
     operand("a", lambda x: x.swapaxes(1, 2).reshape(x.shape))),
    ("the last k left out", F32, operand("a", lambda x: np.concatenate(
        [x[..., :-1], np.zeros_like(x[..., -1:])], -1))),
    ("beta ignored", RESIDUES, configured(scalars=lambda s: (s[0], 0.0) if s[0] == 1 else s)),
    ("C read under beta 0", F32, lambda i, operands, m: computed(
        i, operands, i.check(m.all() | {"scalars": (1.0, 1.0)})) if m["scalars"][1] == 0 and
        np.isnan(operands["c"].view(np.float32)).any() else computed(i, operands, m)),
    ("infinities count as zero", F32, operand(
        "a", lambda x: np.where(x & 0x7FFFFFFF == 0x7F800000, 0, x).astype(np.uint32))),
    ("subnormals count as zero", F64, operand(
        "b", lambda x: np.where(x & 0x7FF << 52 == 0, 0, x))),
    ("residues of the smallest elements", RESIDUES, operand("a", lambda x: x & ~np.uint64(0x3F))),
    ("the highest free register", BUNDLE, core_with(publishes_last_register)),
    ("flags are not sticky", BUNDLE, core_with(forgets_flags)),
    ("capacity is not counted", BUNDLE, core_with(capacity_is_endless)),
    ("one fault map", BUNDLE, configured(fault_map=lambda _: "contract")),
    ("all types are legal", BUNDLE, configured(dtype_set=lambda _: "adr0080")),
    ("names are registers", BUNDLE, configured(names=lambda _: "absolute")),
    ("legality is allocation", BUNDLE, result("fault", lambda x: np.where(x == 1, 2, x))),
]  # fmt: skip


@pytest.mark.parametrize(("row", "mutant"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_planted_faults_are_found(row: Any, mutant: Change) -> None:
    for first in range(0, 1600, 200):
        if failed_cases(row, range(first, first + 200), Subject("mutant", mutant)):
            return
    pytest.fail("survived 1600 cases")


@pytest.mark.parametrize(("row", "mutant"), [MUTANTS[0][1:], MUTANTS[20][1:], MUTANTS[-6][1:]])
def test_small_cases_fail_alike_and_survive_their_text(row: Any, mutant: Change) -> None:
    p, wrong = plan(row), Subject("mutant", mutant)
    outcomes = p.run(engine.pieces(p, range(200)), wrong, RIGHT)
    failure = next(o.failure for o in outcomes if o.failure)
    small = shrink.shrink(failure.case, wrong, RIGHT)
    assert small is not None and small.words is not None
    again, names = from_json(small.to_json(subject="x"))
    assert (again.to_json(), names) == (small.to_json(), {"subject": "x"})
    i, m = again.instruction, again.modifiers
    found, failed = runner.check(i, m, [again], again.images(), wrong, RIGHT)
    assert failed == 1 and found[0].text()
    most = 24 if row is BUNDLE else 3
    assert len(small.words) <= most, small.to_json()
    assert shrink.shrink(small, RIGHT, RIGHT) is None


def test_a_small_case_has_the_smallest_shape_and_no_options() -> None:
    text = (
        '{"instruction":"emulated_f32_slices","arch":"int8","modifiers":{"shape":[33,20,64],'
        '"order_a":"strided","scalars":[1.25,-0.7]},"class":"normal","seed":0,"case":3}'
    )
    wrong = Subject("negated", result("d", lambda x: x ^ np.uint32(1 << 31)))
    small = shrink.shrink(from_json(text)[0], wrong, RIGHT)
    assert small is not None and not small.modifiers.non_default()


def test_a_small_bundle_is_as_short_as_it_can_be() -> None:
    """Where any illegal bundle fails, its start is enough."""
    wrong = Subject("mutant", MUTANTS[-1][2])
    p = plan(BUNDLE)
    outcomes = p.run(engine.pieces(p, range(60)), wrong, RIGHT)
    failure = next(o.failure for o in outcomes if o.failure)
    small = shrink.shrink(failure.case, wrong, RIGHT)
    assert small is not None and {word[0] for word in small.words or ()} == {"program"}
    assert len(bundle_cases.program_of(small.images()["program"][0])) == 2


def test_bits_of_undefined_elements_do_not_count() -> None:
    def garbage(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
        found = computed(i, operands, m)
        bits = np.where(found["defined"] == 0, 1234, found["bits"]).astype(found["bits"].dtype)
        return found | {"bits": bits}

    for row in (FP16, BUNDLE):
        assert failed_cases(row, range(200), Subject("garbage", garbage)) == 0


def test_any_nan_equals_any_other_of_a_product_unless_bits_count() -> None:
    signed = Subject("signed", result("d", lambda x: x | (x & 0x7FFFFFFF > 0x7F800000) << 31))
    assert failed_cases(F32, range(200), signed) == 0
    assert failed_cases(F32, range(200), signed, nan="exact") > 0


def test_a_subject_that_hangs_is_asked_once_a_batch() -> None:
    asked = []

    def hangs(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
        asked.append(m)
        if len(asked) > 2:
            raise SubjectHung("ran longer than 1 s")
        return computed(i, operands, m)

    p = plan(F32)
    found = p.run(engine.pieces(p, range(100)), Subject("hangs", hangs), RIGHT)
    assert len(asked) == 3 and len({o.piece.modifiers for o in found if o.answered}) == 2
    lost = [o.failure.text() for o in found if not o.answered and o.failure]
    assert lost[0] == "ran longer than 1 s"
    assert lost[-1] == "not asked again: ran longer than 1 s"


def test_a_subject_that_fails_on_one_class_is_judged_on_the_others() -> None:
    (bad,) = F32.named(("spread",))
    p = plan(F32)

    def fails(i: ArrayOperation, operands: Arrays, m: Any) -> Arrays:
        made = F32.operands(m, bad, 0, np.arange(200))["a"]
        if any(np.array_equal(x, y) for x in operands["a"] for y in made if x.any()):
            raise SubjectFailed("died")
        return computed(i, operands, m)

    found = p.run(engine.pieces(p, range(200)), Subject("fails", fails), RIGHT)
    assert {o.piece.cls for o in found if not o.answered} == {"spread"}
    assert {o.piece.cls for o in found if o.answered} == {c.name for c in p.classes} - {"spread"}


def test_no_configuration_is_begun_after_the_end() -> None:
    p = plan(F32)
    todo = engine.pieces(p, range(200))
    found = p.run(todo, RIGHT, RIGHT, end=0.0)
    assert found and {o.piece.modifiers for o in found} == {todo[0].modifiers}
    assert p.run(todo[:3], RIGHT, RIGHT, end=0.0)[0].piece is todo[0]


def test_the_oracle_samples_and_overrules_two_that_agree() -> None:
    p = plan(FP16)
    one, other = (Subject(name, MUTANTS[0][2]) for name in ("one", "other"))
    todo = engine.pieces(p, range(400))
    assert not any(o.failure for o in p.run(todo, one, other, sample=0))
    sampled = p.run(todo, one, other, sample=3)
    assert 80 < sum(o.sampled for o in sampled) < 240
    caught = [o for o in sampled if o.failure]
    assert caught and all(o.oracle_only and o.failure and o.failure.got for o in caught)
