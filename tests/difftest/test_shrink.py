"""A failing case becomes as small as it can be, in items of every width."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import lane_items, shrink, subjects
from gpuemu.difftest.cases import Case, plan
from gpuemu.difftest.generators import CLASSES
from gpuemu.difftest.images import images
from gpuemu.difftest.subjects import Subject, SubjectHung
from gpuemu.mfma import modifiers
from tests.mfma.cases import ROWS

RIGHT = subjects.load("numpy")
KINDS = [
    ("v_mfma_f32_16x16x16_f16", "gfx942", {}),
    ("v_mfma_f64_16x16x4_f64", "gfx942", {}),
    ("v_mfma_i32_16x16x32_i8", "gfx942", {}),
    ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", {"cbsz": 2, "blgp": 3}),
    ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", {"cbsz": 4, "blgp": 4}),
    ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", {}),
    ("v_smfmac_f32_16x16x32_f16", "gfx942", {}),
    ("v_mfma_f32_16x16x8_xf32", "gfx942", {}),
]


def off_by_one(i: gpuemu.Instruction, given: Any, m: Any) -> Any:
    """Add one to the first register of lane 0 wherever that output is not zero."""
    d = gpuemu.execute(i, **given, **m.non_default(), backend="numpy")
    wide = 2 if i.formats["D"] == "f64" else 1
    d[:, 0, 0] += d[:, :wide, 0].any(axis=1).astype(np.uint32)
    return d


WRONG = Subject("wrong", off_by_one)


def first_failing(i: gpuemu.Instruction, m: Any) -> Case:
    for number in range(40):
        made = images(i, m, CLASSES["normal"], 1, np.array([number]))
        case = Case(i, m).with_images(made)
        if not np.array_equal(WRONG(i, made, m), RIGHT(i, made, m)):
            return case
    raise AssertionError("no case fails")


@pytest.mark.parametrize(("name", "arch", "options"), KINDS)
def test_one_item_of_c_is_left_and_it_is_one(name: str, arch: str, options: dict[str, Any]) -> None:
    i = gpuemu.instruction(name, arch)
    m = modifiers.check(i, **options)
    small = shrink.shrink(first_failing(i, m), WRONG, RIGHT)
    assert small is not None
    found = lane_items.places(i, small.images(), small.modifiers)
    (place,) = found
    values = {"f64": 0x3FF0000000000000, "i32": 1, "f32": 0x3F800000}
    assert place[0] == "c" and lane_items.read(small.images(), place) == values[i.formats["D"]]
    assert not np.array_equal(
        WRONG(i, small.images(), small.modifiers), RIGHT(i, small.images(), small.modifiers)
    )


def needs_products(i: gpuemu.Instruction, given: Any, m: Any) -> Any:
    """Lose the products: what C alone gives."""
    return RIGHT(i, given | {"a": np.zeros_like(given["a"])}, m)


@pytest.mark.parametrize(("name", "arch", "options"), KINDS)
def test_one_product_of_ones_is_left(name: str, arch: str, options: dict[str, Any]) -> None:
    i = gpuemu.instruction(name, arch)
    m = modifiers.check(i, **options)
    case = first_failing(i, m)
    small = shrink.shrink(case, Subject("lost", needs_products), RIGHT)
    assert small is not None
    found = lane_items.places(i, small.images(), small.modifiers)
    items = {at[0]: lane_items.read(small.images(), at) for at in found if at[0] in "ab"}
    assert [place[0] for place in found if place[0] in "abc"] == ["a", "b"]
    for operand, item in items.items():
        fmt = i.operand_format(operand.upper(), m.cbsz, m.blgp)
        assert item == (fmt.bias << fmt.mantissa_bits if fmt.is_float else 1)
    if i.sparse:
        assert (small.images()["idx"] != lane_items.IDX_WORD).sum() <= 1


def test_mantissa_bits_that_do_not_matter_go() -> None:
    """Of a significand in which one bit matters, the half below it becomes zero."""

    def bit(i: gpuemu.Instruction, given: Any, m: Any) -> Any:
        d = RIGHT(i, given, m)
        d[:, 0, 0] ^= given["a"][:, 0, 0] >> np.uint32(5) & np.uint32(1)
        return d

    i = gpuemu.instruction(*KINDS[0][:2])
    words = (("a", 0, 0, 0xBDFF3DFF),)
    small = shrink.shrink(Case(i, modifiers.check(i), words=words), Subject("bit", bit), RIGHT)
    assert small is not None and small.words == (("a", 0, 0, 0x3DE0),)


@pytest.mark.parametrize("i", ROWS[::9], ids=repr)
def test_items_are_read_and_written_at_any_width(i: gpuemu.Instruction) -> None:
    case = plan(i).case(1)
    given = case.images()
    found = lane_items.places(i, given, case.modifiers)
    assert found
    again = lane_items.without(given, found)
    for name, image in again.items():
        assert name == "idx" or (image == lane_items.neutral(name)).all()
    for place in found:
        lane_items.write(again[place[0]], place, lane_items.read(given, place))
    assert all(np.array_equal(given[name], again[name]) for name in given)


def test_a_case_that_does_not_fail_is_not_made_small() -> None:
    i = gpuemu.instruction(*KINDS[0][:2])
    assert shrink.shrink(plan(i).case(0), RIGHT, RIGHT) is None


def test_a_subject_that_hangs_on_plainer_modifiers_is_asked_no_more() -> None:
    asked = []

    def hangs(i: gpuemu.Instruction, given: Any, m: Any) -> Any:
        asked.append(m)
        if len(asked) > 1:
            raise SubjectHung("ran longer than 60 s")
        return off_by_one(i, given, m)

    i = gpuemu.instruction("v_mfma_f32_4x4x4_16b_f16", "gfx942")
    case = first_failing(i, modifiers.check(i, cbsz=2, abid=3, blgp=5))
    assert shrink.shrink(case, Subject("hangs", hangs), RIGHT) is None
    assert len(asked) == 2


def test_no_plainer_modifiers_are_tried_after_the_end() -> None:
    i = gpuemu.instruction("v_mfma_f32_4x4x4_16b_f16", "gfx942")
    case = first_failing(i, modifiers.check(i, cbsz=2, abid=3, blgp=5))
    tool = shrink.Shrinker(i, WRONG, RIGHT, "any")
    tool.end = time.monotonic() - 1
    operands = case.images()
    assert shrink._simple_modifiers(tool, operands, case.modifiers) == (operands, case.modifiers)
    tool.end += 100
    assert shrink._simple_modifiers(tool, operands, case.modifiers)[1] == modifiers.check(i)
