"""Sums of operators: any order, completeness, defaults, leading dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.errors import BackendUnavailable, BadType, BadValue
from gpuemu.gemm import (
    SM,
    Arrangement,
    Block,
    BlockDim,
    Descriptor,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    Target,
    Type,
    WithPipeline,
)
from gpuemu.gemm.operators import Operator

from .problems import OPERATORS, total


def test_any_order_gives_the_same_descriptor() -> None:
    rng = np.random.default_rng(0)
    want = total(OPERATORS)
    for _ in range(50):
        made = total([OPERATORS[i] for i in rng.permutation(len(OPERATORS))])
        assert made == want
        assert hash(made) == hash(want)
        assert repr(made) == repr(want)


def test_every_way_of_adding() -> None:
    left, right = Size(8, 8, 8) + Function("MM"), SM(800) + Block()
    assert (
        left + right
        == right + left
        == Size(8, 8, 8) + right + Function("MM")
        == right + Size(8, 8, 8) + Function("MM")
    )
    assert left != right
    assert left != 1
    assert len({left + right, right + left, left}) == 2


def test_partial_descriptors_are_reusable_and_immutable() -> None:
    problem = Size(128, 128, 32) + Function("MM") + Block()
    ampere, hopper = problem + SM(800), problem + SM(900)
    assert SM not in problem
    assert ampere.sm.arch == 800
    assert hopper.sm.arch == 900
    with pytest.raises(AttributeError):
        Size(1, 1, 1).m = 2  # type: ignore[misc]


@pytest.mark.parametrize("op", [*OPERATORS, Target("gfx942")], ids=lambda op: type(op).__name__)
def test_an_operator_twice(op: Operator) -> None:
    with pytest.raises(
        BadValue, match=f"{type(op).__name__} is given twice: .* at most one of each"
    ):
        _ = op + op
    with pytest.raises(BadValue, match="given twice"):
        _ = (Descriptor() + op) + (Descriptor() + op)


def test_adding_something_else() -> None:
    with pytest.raises(BadType, match="1 is a int; a descriptor adds operators"):
        _ = Size(1, 1, 1) + 1  # type: ignore[operator]


LEADING = [
    # order of A, B, C; least leading dimensions of a 16 x 8 x 32 tile
    (("row_major", "col_major", "col_major"), (32, 32, 16)),
    (("col_major", "row_major", "row_major"), (16, 8, 8)),
]


@pytest.mark.parametrize(("orders", "least"), LEADING)
def test_leading_dimension_from_the_minimum_on(orders: Any, least: tuple[int, int, int]) -> None:
    base = Size(16, 8, 32) + Function("MM") + Arrangement(*orders)
    d = base + LeadingDimension(*least)
    assert tuple(d.leading_dimension) == least
    assert (d.a_size, d.b_size, d.c_size) == (16 * 32, 32 * 8, 16 * 8)
    for index, name in enumerate("ABC"):
        wrong = list(least)
        wrong[index] -= 1
        with pytest.raises(
            BadValue,
            match=f"LeadingDimension {name}={wrong[index]} is less than the {least[index]}",
        ):
            _ = base + LeadingDimension(*wrong)


def test_leading_dimension_of_c_is_optional_and_unchecked_without_partners() -> None:
    d = Size(16, 8, 32) + Function("MM") + LeadingDimension(40, 33)
    assert tuple(d.leading_dimension) == (40, 33, 16)
    assert (d.a_size, d.b_size) == (40 * 15 + 32, 33 * 7 + 32)
    partial = LeadingDimension(1, 1) + Size(16, 8, 32)
    with pytest.raises(BadValue, match="LeadingDimension A=1 is less"):
        _ = partial + Function("MM")


def test_defaults() -> None:
    d = Size(16, 8, 32) + Function("MM") + SM(900)
    assert d.precision.names == ("f32", "f32", "f32")
    assert d.data_type == "real"
    assert d.arrangement == ("row_major", "col_major", "col_major")
    assert (d + Arrangement("col_major")).arrangement == ("col_major", "col_major", "col_major")
    assert tuple(d.alignment) == (4, 4, 4)
    assert tuple((d + Type("complex")).alignment) == (8, 8, 8)
    assert tuple((d + Type("complex") + Precision("f64")).alignment) == (16, 16, 16)
    assert d.blocks_per_cluster == (1, 1, 1)
    assert tuple(d.leading_dimension) == (32, 32, 16)


def test_completeness() -> None:
    need = [Size(16, 8, 32), Function("MM"), SM(900)]
    for missing in range(3):
        d = total(need[:missing] + need[missing + 1 :]) + Block()
        assert not d.is_complete
        assert not d.is_complete_execution
        with pytest.raises(BadValue, match=f"without {type(need[missing]).__name__}"):
            d.finalize()
    d = total(need)
    assert d.is_complete
    assert not d.is_complete_execution
    with pytest.raises(BadValue, match="cannot be executed without Block"):
        d.finalize()
    assert (d + Block()).is_complete_execution
    with pytest.raises(BadValue, match="size needs Size"):
        _ = (Function("MM") + SM(900)).size


def test_needs_are_judged_of_the_finished_sum() -> None:
    d = total([Size(16, 8, 32), Function("MM"), SM(900), Block(), RequiredMantissaBits(23)])
    with pytest.raises(BadValue, match="needs WithPipeline"):
        d.finalize()
    assert (d + WithPipeline()).finalize() is not None


def test_sm_none_is_the_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuemu.gemm import device

    monkeypatch.setattr(device, "current_capability", lambda: (9, 0))
    assert Descriptor(sm=None).sm == SM(900)

    def none() -> tuple[int, int]:
        raise BackendUnavailable("no device")

    monkeypatch.setattr(device, "current_capability", none)
    with pytest.raises(BackendUnavailable, match="sm=None means the current device: no device"):
        Descriptor(sm=None)


def test_replace_and_without() -> None:
    d = total(OPERATORS)
    assert d.replace(BlockDim(64)).block_size == 64
    assert d.without(BlockDim, LeadingDimension).get(BlockDim) is None
    assert d.block_size == 256
