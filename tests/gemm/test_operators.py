"""Operators, composition, and every rejection with its message."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import BackendUnavailable, BadType, BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    BlocksPerCluster,
    Descriptor,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    StaticBlockDim,
    Target,
    Thread,
    TransposeMode,
    Type,
    WithPipeline,
)
from gpuemu.gemm.operators import Operator
from gpuemu.gemm.text import parse

ALL = [
    Size(128, 128, 32),
    Function("MM"),
    SM(900, "arch_specific"),
    Block(),
    Precision("f32"),
    Type("real"),
    Arrangement("row_major"),
    BlockDim(256),
    BlocksPerCluster(2),
    LeadingDimension(32, 32, 128),
    Alignment(16, 16, 16),
    StaticBlockDim(),
    EnableInputStreaming(),
    WithPipeline(),
    RequiredMantissaBits(23),
]


def total(operators: Any) -> Descriptor:
    result = Descriptor()
    for op in operators:
        result = result + op
    return result


def test_any_order_gives_the_same_descriptor() -> None:
    rng = np.random.default_rng(0)
    want = total(ALL)
    for _ in range(50):
        made = total([ALL[i] for i in rng.permutation(len(ALL))])
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


@pytest.mark.parametrize("op", [*ALL, Target("gfx942")], ids=lambda op: type(op).__name__)
def test_an_operator_twice(op: Operator) -> None:
    with pytest.raises(
        BadValue, match=f"{type(op).__name__} is given twice: .* at most one of each"
    ):
        _ = op + op
    with pytest.raises(BadValue, match="given twice"):
        _ = (Descriptor() + op) + (Descriptor() + op)


def test_transpose_mode_twice() -> None:
    with pytest.warns(DeprecationWarning, match="write Arrangement"):
        mode = TransposeMode()
    assert mode.arrangement == Arrangement("row_major", "col_major", "col_major")
    with pytest.raises(BadValue, match="TransposeMode is given twice"):
        _ = mode + mode
    with pytest.raises(BadValue, match="both give the storage order"):
        _ = mode + Arrangement("row_major")


@pytest.mark.parametrize("mode", list(itertools.product("NTC", repeat=2)))
def test_transpose_mode_selects_orders(mode: tuple[str, str]) -> None:
    with pytest.warns(DeprecationWarning):
        d = Descriptor() + TransposeMode(*mode)
    want = tuple("col_major" if x == "N" else "row_major" for x in mode)
    assert d.arrangement == (*want, "col_major")


def test_adding_something_else() -> None:
    with pytest.raises(BadType, match="1 is a int; a descriptor adds operators"):
        _ = Size(1, 1, 1) + 1  # type: ignore[operator]


REJECTED: list[tuple[Any, str]] = [
    (lambda: Size(0, 1, 1), "size: m=0 is too small; legal: 1 and up"),
    (lambda: Size(1, -1, 1), "size: n=-1"),
    (lambda: Size(1, 1, 0), "size: k=0"),
    (lambda: Size(1.0, 1, 1), "Size m=1.0 is a float; legal: an integer"),  # type: ignore[arg-type]
    (lambda: Size(True, 1, 1), "Size m=True is a bool"),
    (lambda: Function("gemm"), "a GEMM is spelled Function\\('MM'\\)"),
    (lambda: Function("TRSM"), "TRSM.* is not emulated"),
    (lambda: Thread(), "a GEMM runs at block level: use Block\\(\\)"),
    (lambda: SM(90), "did you mean SM\\(900\\)"),
    (lambda: SM(100), "did you mean SM\\(1000\\)"),
    (lambda: SM(700), "gone with CUDA 13"),
    (lambda: SM(1010), "renamed 1100"),
    (lambda: SM(905), "SM\\(905\\) is no architecture; legal: 750, 800"),
    (
        lambda: SM(900, "a"),
        "modifier 'a' does not exist; legal: generic, arch_specific, family_specific",
    ),
    (lambda: SM(890, "arch_specific"), "only architectures from 900 on have modifiers"),
    (lambda: SM(800, "family_specific"), "only architectures from 900 on"),
    (lambda: Type("imaginary"), "legal: 'real', 'complex'"),
    (lambda: Arrangement("rows"), "Arrangement A='rows'; legal: 'row_major', 'col_major'"),  # type: ignore[arg-type]
    (lambda: Arrangement("row_major", "x"), "Arrangement B='x'"),  # type: ignore[arg-type]
    (lambda: Arrangement("row_major", "row_major", 1), "Arrangement C=1"),  # type: ignore[arg-type]
    (lambda: TransposeMode("X"), "TransposeMode A='X'; legal: 'N', 'T', 'C'"),
    (lambda: LeadingDimension(0, 1), "leading_dimension: a=0"),
    (lambda: Alignment(12, 16, 16), "Alignment A=12 is no power of two"),
    (lambda: Alignment(16, 0, 16), "alignment: b=0"),
    (lambda: BlockDim(31), "has 31 threads; legal: 32 to 1024"),
    (lambda: BlockDim(1025), "has 1025 threads"),
    (lambda: BlockDim(2, 2, 7), "has 28 threads"),
    (lambda: BlockDim(0, 64), "block_dim: x=0"),
    (lambda: BlocksPerCluster(5, 4), "has 20 blocks; legal: at most 16"),
    (lambda: BlocksPerCluster(2, 2, 2), "k=2; legal: 1"),
    (lambda: BlocksPerCluster(0), "blocks_per_cluster: m=0"),
    (lambda: RequiredMantissaBits(0), "required_mantissa_bits: bits=0"),
    # Precision, in the order in which the rules are tested
    (lambda: Precision("i8", "i8", "f32"), "mixes integers and floats"),
    (lambda: Precision("f16", "i8", "f32"), "mixes integers and floats"),
    (lambda: Precision("i8"), "at least 4 times as wide as its inputs; A has 8 bits, C 8"),
    (lambda: Precision("i8", "i16", "i32"), "B has 16 bits, C 32"),
    (lambda: Precision("i8", "i8", "u32"), "a signed input needs a signed accumulator; C is u32"),
    (lambda: Precision("u8", "i8", "u32"), "a signed input needs a signed accumulator"),
    (
        lambda: Precision("bf16"),
        "C cannot accumulate in bf16; legal: i32, u32, i64, u64, f16, f32, f64",
    ),
    (lambda: Precision("tf32"), "C cannot accumulate in tf32"),
    (lambda: Precision("e4m3"), "C cannot accumulate in f8e4m3fn"),
    (lambda: Precision("bf16", "f32"), "C cannot accumulate in bf16"),
    (lambda: Precision("quad"), "'quad' is no element type of a GEMM; legal: f8e4m3fn"),
    (lambda: Precision(float), "Python's float is no element type"),
    # between operators
    (
        lambda: Type("complex") + Precision("u8", "u8", "u32"),
        "unsigned integers have no complex form",
    ),
    (lambda: BlocksPerCluster(2) + SM(800), "sm_80 has no clusters; legal: SM\\(900\\) and later"),
    (
        lambda: RequiredMantissaBits(23) + Type("complex"),
        "emulates real products; Type is 'complex'",
    ),
    (lambda: RequiredMantissaBits(23) + Precision("f16"), "legal: all three f32, or all three f64"),
    (lambda: RequiredMantissaBits(23) + Precision("f32", "f32", "f64"), "legal: all three f32"),
    (lambda: SM(900) + Target("gfx942"), "both name the target"),
    (lambda: Target("gfx906"), "is no CDNA chip; legal: gfx908, gfx90a, gfx942, gfx950"),
]


@pytest.mark.parametrize(
    ("make", "message"), REJECTED, ids=[message[:40] for _, message in REJECTED]
)
def test_rejections(make: Any, message: str) -> None:
    with pytest.raises((BadValue, BadType), match=message):
        make()


def test_at_the_edges_of_legality() -> None:
    assert [BlockDim(*x).threads for x in ((32,), (1024,), (8, 4), (2, 2, 8))] == [32, 1024, 32, 32]
    assert BlocksPerCluster(4, 4).m == 4
    assert BlocksPerCluster(16).n == 1
    assert Alignment(32, 64, 128) == gemm.MAX_ALIGNMENT
    assert RequiredMantissaBits(1).slices == 1
    assert Size(np.int64(3), 4).k == 1


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


def test_precision_forms() -> None:
    assert Precision("half").names == ("f16", "f16", "f16")
    assert Precision("half", "float").names == ("f16", "f32", "f16")  # C defaults to A
    assert Precision(np.float16, np.dtype("f2"), "__half").names == ("f16",) * 3
    assert Precision(ml_dtypes.bfloat16, "bf16", np.float32).names == ("bf16", "bf16", "f32")
    assert Precision("int8_t", np.uint8, "int32_t").names == ("i8", "u8", "i32")
    assert Precision("double") == Precision(np.float64)


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


def test_keywords_with_nvmath_names() -> None:
    made = Descriptor(
        size=(128, 128, 32),
        precision=(np.float16, np.float16, np.float32),
        data_type="real",
        function="MM",
        sm=(9, 0),
        execution="Block",
        block_dim=(256, 1, 1),
        arrangement=("row_major", "col_major", "col_major"),
        alignment=(16, 16, 16),
        leading_dimension=(32, 32, 128),
        static_block_dim=False,
        enable_input_streaming=True,
        with_pipeline=True,
        blocks_per_cluster=(2, 1),
    )
    want = (
        Size(128, 128, 32)
        + Precision("f16", "f16", "f32")
        + Type("real")
        + Function("MM")
        + SM(900)
        + Block()
        + BlockDim(256)
        + Arrangement("row_major")
        + Alignment(16, 16, 16)
        + LeadingDimension(32, 32, 128)
        + EnableInputStreaming()
        + WithPipeline()
        + BlocksPerCluster(2)
    )
    assert made == want
    assert Descriptor(sm=(900, "arch_specific")) == Descriptor() + SM(900, "arch_specific")
    assert Descriptor(precision=np.float64, block_size=64) == Precision("f64") + BlockDim(64)
    assert Descriptor(block_dim="suggested") == Descriptor()
    with pytest.warns(DeprecationWarning):
        assert Descriptor(transpose_mode=("T", "N")).arrangement[0] == "row_major"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"shape": 1}, "'shape' is no keyword of a descriptor; legal: size"),
        ({"block_dim": 64, "block_size": 64}, "both give the threads"),
        ({"execution": "Thread"}, "a GEMM runs at block level"),
        ({"with_pipeline": 1}, "with_pipeline=1 is a int; legal: True or False"),
        ({"leading_dimension": "suggested"}, "needs a whole descriptor"),
    ],
)
def test_bad_keywords(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises((BadValue, BadType), match=message):
        Descriptor(**keywords)


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
    d = total(ALL)
    assert d.replace(BlockDim(64)).block_size == 64
    assert d.without(BlockDim, LeadingDimension).get(BlockDim) is None
    assert d.block_size == 256


def test_text_round_trip() -> None:
    assert parse(repr(total(ALL))) == total(ALL)
    cpp = """decltype(cublasdx::Size<128, 128, 32>() + cublasdx::Precision<__half, __half, float>()
        + cublasdx::Type<cublasdx::type::real>() + cublasdx::Function<cublasdx::function::MM>()
        + cublasdx::Arrangement<cublasdx::row_major, cublasdx::col_major>()
        + cublasdx::SM<900, cublasdx::arch_specific>() + cublasdx::Block()
        + cublasdx::BlockDim<256>())"""
    want = (
        Size(128, 128, 32)
        + Precision("f16", "f16", "f32")
        + Type("real")
        + Function("MM")
        + Block()
        + BlockDim(256)
    )
    assert parse(cpp) == want + Arrangement("row_major", "col_major") + SM(900, "arch_specific")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Size(1,2,3", "is no sum of operators"),
        ("Tile(1)", "'Tile\\(1\\)' is no operator; legal: Size"),
        ("__import__('os').system('true')", "is no operator"),
        ("Size(1, 2, 3) - Block()", "is no operator"),
        ("Size(1, 2, [3])", "is no number and no word"),
        ("Size(1, 2, 3, 4)", "Size\\(1, 2, 3, 4\\): .*argument"),
        ("Size(1, 2, -3)", "k=-3 is too small"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        parse(text)


def test_operators_pickle() -> None:
    for op in ALL:
        assert pickle.loads(pickle.dumps(op)) == op
    assert pickle.loads(pickle.dumps(total(ALL))) == total(ALL)
