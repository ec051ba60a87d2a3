"""Operators one by one: what each refuses, with its message, and the edges of legality."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import BadType, BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    BlockDim,
    BlocksPerCluster,
    Descriptor,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    Target,
    Thread,
    TransposeMode,
    Type,
)


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
