"""One descriptor in its several spellings: precisions, keywords, C++ and Python text, pickles."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gpuemu.errors import BadType, BadValue
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
    Size,
    Type,
    WithPipeline,
)
from gpuemu.gemm.text import parse

from .problems import OPERATORS, total


def test_precision_forms() -> None:
    assert Precision("half").names == ("f16", "f16", "f16")
    assert Precision("half", "float").names == ("f16", "f32", "f16")  # C defaults to A
    assert Precision(np.float16, np.dtype("f2"), "__half").names == ("f16",) * 3
    assert Precision(ml_dtypes.bfloat16, "bf16", np.float32).names == ("bf16", "bf16", "f32")
    assert Precision("int8_t", np.uint8, "int32_t").names == ("i8", "u8", "i32")
    assert Precision("double") == Precision(np.float64)


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


def test_text_round_trip() -> None:
    assert parse(repr(total(OPERATORS))) == total(OPERATORS)
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
    for op in OPERATORS:
        assert pickle.loads(pickle.dumps(op)) == op
    assert pickle.loads(pickle.dumps(total(OPERATORS))) == total(OPERATORS)


def test_the_compilers_names_of_8_bit_floats() -> None:
    got = parse("Precision<__nv_fp8_e4m3, __nv_fp8_e5m2, float>()")
    assert got == Descriptor() + Precision("f8e4m3fn", "f8e5m2", "f32")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"size": Block()}, r"size=Block\(\) is a Block; legal: a Size, or its arguments"),
        ({"alignment": None}, r"alignment=None: missing a required argument: 'b'"),
        ({"alignment": (16, 16)}, r"alignment=\(16, 16\): missing a required argument: 'c'"),
        ({"size": (1, 2, 3, 4)}, r"size=\(1, 2, 3, 4\): too many positional arguments"),
        ({"sm": (9, 0, 1)}, r"sm=\(9, 0, 1\): too many positional arguments"),
        ({"sm": (None, 1)}, r"sm major=None is a NoneType; legal: an integer"),
    ],
)
def test_bad_keyword_values(keywords: Any, message: str) -> None:
    with pytest.raises(BadType, match=message):
        Descriptor(**keywords)
