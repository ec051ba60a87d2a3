"""Running cases: the same verdicts in any batch, and small cases that still fail."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import host
from gpuemu.difftest import catalogue, runner, shrink, subjects
from gpuemu.difftest.campaign import engine
from gpuemu.difftest.campaign.engine import Outcome
from gpuemu.difftest.cases import Plan, from_json, plan
from gpuemu.difftest.subject import SubjectKeepsDying
from gpuemu.difftest.subjects import Subject, SubjectFailed, SubjectHung

RIGHT = subjects.load("numpy")


def computed(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
    return gpuemu.execute(i, **images, **m.non_default(), legality="llvm", backend="numpy")


def faulty(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
    """Swap two registers wherever lane 3 of A is odd: a fault that few cases show."""
    d = computed(i, images, m)
    odd = images["a"][:, 0, 3] & 1 == 1
    d[odd] = np.roll(d[odd], 1, axis=1)
    return d


WRONG = Subject("faulty", faulty)
ROWS = [
    ("v_mfma_f32_4x4x4_16b_f16", "gfx942"),
    ("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942"),
    ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950"),
    ("v_mfma_f64_4x4x4_4b_f64", "gfx942"),
    ("v_mfma_i32_16x16x64_i8", "gfx950"),
]


def run(p: Plan, numbers: range, subject: Subject, **options: Any) -> list[Outcome]:
    return engine.run(p, engine.pieces(p, numbers), subject, RIGHT, **options)


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_batches_change_nothing(name: str, arch: str) -> None:
    p = plan(gpuemu.instruction(name, arch), 1)
    found = []
    for size in (1, 7, 60):
        failed: dict[Any, int] = {}
        heat: dict[Any, int] = {}
        firsts = set()
        for first in range(0, 60, size):
            for o in run(p, range(first, min(first + size, 60)), WRONG):
                key = o.piece.cls, o.piece.modifiers
                failed[key] = failed.get(key, 0) + o.failed_cases
                for vgpr, lane, count in o.wrong:
                    heat[vgpr, lane] = heat.get((vgpr, lane), 0) + count
                if o.failure:
                    firsts.add((o.failure.case.number, o.failure.text()))
        found.append((failed, heat))
        if size == 1:
            alone = firsts
        assert firsts <= alone
    assert found[0] == found[1] == found[2]
    assert 0 < sum(found[0][0].values()) < 60


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_pieces_are_a_partition_of_the_cases(name: str, arch: str) -> None:
    p = plan(gpuemu.instruction(name, arch), 1)
    found = engine.pieces(p, range(100, 900))
    numbers = np.concatenate([piece.numbers for piece in found])
    assert sorted(numbers.tolist()) == list(range(100, 900))
    assert len({(piece.cls, piece.modifiers) for piece in found}) == len(found)
    for piece in found:
        for number in piece.numbers[:3]:
            case = p.case(int(number))
            assert (case.cls, case.modifiers) == (piece.cls, piece.modifiers)


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_small_cases_fail_alike_and_survive_their_text(name: str, arch: str) -> None:
    p = plan(gpuemu.instruction(name, arch), 1)
    failure = next(o.failure for o in run(p, range(60), WRONG) if o.failure)
    small = shrink.shrink(failure.case, WRONG, RIGHT)
    assert small is not None and small.words is not None
    again, _ = from_json(small.to_json())
    assert again.to_json() == small.to_json()
    i, m = again.instruction, again.modifiers
    _, failed = runner.check(i, m, [again], again.images(), WRONG, RIGHT)
    assert failed == 1
    words = [word for word in small.words if word[0] not in ("idx", "scale_a", "scale_b")]
    assert len(words) <= 4, small.to_json()


def test_a_case_that_does_not_fail_is_not_made_small() -> None:
    p = plan(gpuemu.instruction(*ROWS[0]), 1)
    assert shrink.shrink(p.case(0), RIGHT, RIGHT) is None


def test_no_answer_names_the_first_case_that_has_none() -> None:
    def crashes(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
        if (images["a"][:, 0, 3] & 1 == 1).any():
            raise SubjectFailed("died")
        return computed(i, images, m)

    p = plan(gpuemu.instruction(*ROWS[0]), 1)
    for o in run(p, range(60), Subject("crashes", crashes)):
        bad = [n for n in o.piece.numbers if p.case(int(n)).images()["a"][0, 0, 3] & 1]
        assert (o.failure is not None) == bool(bad)
        if o.failure:
            assert o.failure.case.number in bad and o.failure.text() == "died"
            assert not o.answered and o.failed_cases == len(o.piece.numbers)


def test_a_subject_that_hangs_is_asked_once_a_batch() -> None:
    asked = []

    def hangs(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
        asked.append(m)
        raise SubjectHung("ran longer than 1 s")

    p = plan(gpuemu.instruction(*ROWS[0]), 1)
    found = run(p, range(60), Subject("hangs", hangs))
    assert len(asked) == 1 and not any(o.answered for o in found)
    assert found[-1].failure is not None
    assert found[-1].failure.text() == "not asked again: ran longer than 1 s"


@pytest.mark.parametrize("deaths", [1, 2, 5, 16])
@pytest.mark.parametrize("i", [gpuemu.instruction(*ROWS[0]), catalogue.find("tfma_fp16", "pto")])
def test_a_subject_that_keeps_dying_is_asked_no_more(i: Any, deaths: int) -> None:
    asked = []

    def dies(i: Any, operands: Any, m: Any) -> Any:
        asked.append(m)
        raise SubjectFailed("died") if len(asked) < deaths else SubjectKeepsDying("died again")

    p = plan(i, 1)
    found = p.run(engine.pieces(p, range(60)), Subject("dies", dies), RIGHT)
    assert len(asked) == deaths and not any(o.answered for o in found)
    assert sum(o.failed_cases for o in found) == 60
    texts = {o.failure.text() for o in found if o.failure}
    assert texts <= {"died", "died again", "not asked again: died again"}
    small = shrink.shrink(p.case(0), Subject("dies", dies), RIGHT)
    assert small is not None and not small.words


@pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "host build")
def test_the_oracle_samples_and_overrules_two_that_agree() -> None:
    """Subject and reference have the same fault: the sample of the oracle sees it."""
    i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
    model = dataclasses.replace(gpuemu.models()[i.model], name="wrong", product_bits=23)

    def wrong(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
        options = {**m.non_default(), "model": model}
        return gpuemu.execute(i, **images, **options, backend="host")

    p = plan(i, 1)
    one, other = Subject("one", wrong), Subject("other", wrong)
    todo = engine.pieces(p, range(320))
    assert not any(o.failure for o in engine.run(p, todo, one, other, sample=0))
    sampled = engine.run(p, todo, one, other, sample=4)
    assert 40 < sum(o.sampled for o in sampled) < 160
    caught = [o for o in sampled if o.failure]
    assert caught and all(o.oracle_only and o.failure and o.failure.got for o in caught)
    right = Subject("right", computed)
    both = engine.run(p, todo, one, right, sample=4)
    assert any(o.failure for o in both) and not any(o.oracle_only for o in both)


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_any_nan_equals_any_other_unless_bits_count(fmt: str) -> None:
    i = gpuemu.instruction(*(ROWS[0] if fmt == "f32" else ROWS[3]))
    shape = (1, i.vgprs["D"], 64)
    one, other = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)
    high = 1 if fmt == "f64" else 0
    quiet = 0x7FF80000 if fmt == "f64" else 0x7FC00000
    one[0, high, 5], other[0, high, 5] = quiet, quiet | 0x80000001
    assert not runner.wrong_registers(i, one, other).any()
    assert runner.wrong_registers(i, one, other, "exact").any()
    infinity = 0x7FF00000 if fmt == "f64" else 0x7F800000
    other[0, high, 5] = infinity
    wrong = runner.wrong_registers(i, one, other)
    assert (
        wrong[0, :, 5].sum() == (2 if fmt == "f64" else 1) and wrong.sum() == wrong[0, :, 5].sum()
    )
    if fmt == "f64":
        other[0, 0, 5] = 1  # not an infinity: the low word makes it a NaN
        assert not runner.wrong_registers(i, one, other).any()
