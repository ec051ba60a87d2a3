"""Traits: what a descriptor implies, with the figures of the sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Block,
    BlockDim,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    Type,
    WithPipeline,
)
from gpuemu.gemm.instructions import find_instruction, tensor_core
from gpuemu.gemm.pipeline_rules import stage_bytes, suggested_depth

HALF = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM")
WGMMA = (
    HALF
    + SM(900, "arch_specific")
    + WithPipeline()
    + EnableInputStreaming()
    + Alignment(16, 16, 16)
)


def test_value_types() -> None:
    assert HALF.a_value_type == np.float16
    assert HALF.c_value_type == np.float32
    d = HALF + Type("complex")
    assert d.c_value_type == np.complex64
    assert d.a_value_type.shape == (2,)
    assert (Precision("f64") + Type("complex")).b_value_type == np.complex128


def test_dims() -> None:
    d = Size(16, 8, 32) + Function("MM")
    assert (d.a_dim, d.b_dim, d.c_dim) == ((16, 32), (32, 8), (16, 8))


@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [
        (1, 1, 32),
        (32, 32, 32),
        (33, 33, 64),
        (64, 64, 64),
        (128, 128, 128),
        (128, 256, 256),
        (256, 256, 256),
        (2000, 2000, 1024),
    ],
)
def test_suggested_block_dim_is_the_power_of_two_above_the_root(
    m: int, n: int, threads: int
) -> None:
    d = Size(m, n, 8) + Function("MM") + SM(800)
    assert d.suggested_block_dim == (threads, 1, 1)
    assert d.block_dim_source == "heuristic"
    assert (d + BlockDim(96)).block_dim_source == "given"
    assert (d + BlockDim(8, 4, 2)).max_threads_per_block == 64


def test_suggestions_need_a_complete_descriptor() -> None:
    with pytest.raises(BadValue, match="needs Size, Function and SM"):
        _ = (Size(1, 1, 1) + Function("MM")).suggested_block_dim


SELECTED: list[tuple[tuple[str, str, str], tuple[int, int, int], int, Any]] = [
    (("f16", "f16", "f32"), (16, 8, 16), 800, (16, 8, 16)),
    (("f16", "f16", "f32"), (16, 8, 16), 750, (16, 8, 8)),
    (("f16", "f16", "f16"), (16, 8, 24), 900, (16, 8, 8)),
    (("bf16", "bf16", "f32"), (16, 8, 16), 750, None),
    (("bf16", "bf16", "f32"), (16, 8, 8), 800, (16, 8, 8)),
    (("tf32", "tf32", "f32"), (16, 8, 12), 800, (16, 8, 4)),
    (("f64", "f64", "f64"), (16, 8, 16), 800, (8, 8, 4)),
    (("f64", "f64", "f64"), (16, 8, 16), 900, (16, 8, 16)),
    (("f64", "f64", "f64"), (8, 8, 16), 900, (8, 8, 4)),
    (("u8", "i8", "i32"), (16, 8, 32), 800, (16, 8, 32)),
    (("u8", "i8", "i32"), (8, 8, 32), 800, (8, 8, 16)),
    (("f8e4m3fn", "f8e5m2", "f16"), (16, 8, 32), 890, (16, 8, 32)),
    (("f8e4m3fn", "f8e5m2", "f16"), (16, 8, 32), 800, None),
    (("f32", "f32", "f32"), (16, 8, 16), 900, None),
    (("f16", "f16", "f32"), (17, 8, 16), 900, None),
    (("f16", "bf16", "f32"), (16, 8, 16), 900, None),
    (("i16", "i16", "i64"), (16, 8, 16), 900, None),
]


@pytest.mark.parametrize(("names", "size", "arch", "shape"), SELECTED)
def test_instruction(names: Any, size: Any, arch: int, shape: Any) -> None:
    found = find_instruction(names, size, arch)
    assert (found and found.shape) == shape
    d = Size(*size) + Precision(*names) + Function("MM") + SM(arch)
    assert d.mma_class == ("mma_sync" if shape else "fma")


def test_wgmma_needs_every_gate() -> None:
    assert WGMMA.mma_class == "wgmma"
    assert WGMMA.why_not_wgmma == ()
    assert WGMMA.block_size == 128
    closed = {
        "WithPipeline\\(\\) is missing": WGMMA.without(WithPipeline),
        "EnableInputStreaming\\(\\) is missing": WGMMA.without(EnableInputStreaming),
        "the target is sm_90,": WGMMA.replace(SM(900)),
        "the target is sm_100a": WGMMA.replace(SM(1000, "arch_specific")),
        "Alignment is \\(16, 16, 8\\)": WGMMA.replace(Alignment(16, 16, 8)),
        "BlockDim has 192 threads": WGMMA + BlockDim(192),
        "has no wgmma form": WGMMA.replace(Precision("f64")),
        "Type is complex": WGMMA + Type("complex"),
        "M=96 is no multiple of 64": WGMMA.replace(Size(96, 128, 32)),
        "N=12 is no multiple of 8": WGMMA.replace(Size(64, 12, 32)),
        "K=8 is no multiple of the 32 bytes": WGMMA.replace(Size(64, 64, 8)),
    }
    for message, d in closed.items():
        assert d.mma_class != "wgmma"
        assert len(d.why_not_wgmma) == 1, d.why_not_wgmma
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(d.why_not_wgmma[0])
    for threads in (128, 256, 512, 1024):
        assert (WGMMA + BlockDim(threads)).mma_class == "wgmma"
    assert WGMMA.replace(Size(192, 64, 32)).block_size == 256
    assert (
        "integer slices"
        in (HALF.replace(Precision("f32")) + SM(900) + RequiredMantissaBits(9)).why_not_wgmma[-1]
    )


def test_tensor_core_arithmetic_rows() -> None:
    names = ("f16", "f16", "f32")
    got = {
        arch: (tensor_core(arch, names).fraction, tensor_core(arch, names).group_bytes)
        for arch in (750, 800, 900)
    }
    assert got == {750: (24, 16), 800: (24, 16), 900: (25, 32)}
    assert tensor_core(890, ("f8e4m3fn", "f8e4m3fn", "f32")).fraction == 13
    assert tensor_core(900, ("f8e4m3fn", "f8e4m3fn", "f32")).through_f16
    assert not tensor_core(900, ("f8e4m3fn", "f8e4m3fn", "f16")).published
    assert tensor_core(900, ("f8e4m3fn", "f8e4m3fn", "f32"), wgmma=True).fraction == 13


def test_arithmetic_of_descriptors() -> None:
    how = gemm.arithmetic(HALF + SM(800))
    assert (how.kind, how.step, how.group, how.fraction, how.zero_exponent) == (
        "fused",
        16,
        8,
        24,
        -132,
    )
    how = gemm.arithmetic(HALF.replace(Precision("f16")) + SM(900))
    assert (how.group, how.zero_exponent, how.output_fraction) == (16, -21, 10)
    assert gemm.arithmetic(HALF.replace(Precision("f64")) + SM(900)).kind == "chain"
    assert gemm.arithmetic(HALF.replace(Precision("i8", "i8", "i32")) + SM(900)).kind == "integer"
    assert gemm.arithmetic(HALF.replace(Size(17, 8, 16)) + SM(900)).kind == "chain"


def test_shared_memory() -> None:
    d = HALF + SM(900)
    assert d.shared_memory_available == 227 * 1024
    assert d.get_shared_storage_size_ab() == 2 * 128 * 32 * 2
    assert d.get_shared_storage_size() == 2 * 128 * 32 * 2 + 128 * 128 * 4
    assert d.get_shared_storage_size(lda=40) == (40 * 127 + 32) * 2 + 128 * 32 * 2 + 128 * 128 * 4
    assert d.shared_memory_needed == d.get_shared_storage_size()
    assert (d + WithPipeline()).shared_memory_needed == d.get_shared_storage_size_ab()
    odd = (
        Size(3, 5, 7)
        + Precision("f16", "f16", "f32")
        + Function("MM")
        + SM(900)
        + Alignment(16, 16, 16)
    )
    assert odd.get_shared_storage_size() == 48 + 70 + 10 + 60  # 42 and 70 bytes, each start on 16
    big = HALF.replace(Size(256, 256, 64)) + SM(800)
    assert not big.is_supported()
    assert big.is_supported(registers=True)


@pytest.mark.parametrize(
    ("arch", "kib"), [(750, 64), (860, 99), (890, 99), (1000, 227), (1200, 99)]
)
def test_shared_memory_by_architecture(arch: int, kib: int) -> None:
    assert (HALF + SM(arch)).shared_memory_available == kib * 1024


def test_leading_dimension_turns_suggestions_off_aloud() -> None:
    d = HALF + SM(900)
    assert d.suggested_layouts_enabled
    assert not (d + LeadingDimension(40, 40)).suggested_layouts_enabled
    # A and B have rows of 64 bytes: no padding; C's columns of 512 bytes get 16 bytes.
    assert tuple(d.suggested_leading_dimension) == (32, 32, 132)
    wide = HALF.replace(Size(64, 64, 64)) + SM(900)
    assert tuple(wide.suggested_leading_dimension) == (72, 72, 68)
    full = HALF.replace(Size(65, 64, 448), Precision("f32")) + SM(900)
    assert tuple(full.suggested_leading_dimension) == (
        448,
        448,
        65,
    )  # padded, A and B would not fit


def test_pipeline_depth() -> None:
    assert stage_bytes(HALF + SM(900)) == 2 * 8192 + 16
    assert suggested_depth(HALF + SM(900)) == 14
    assert suggested_depth(HALF.replace(Size(64, 64, 16)) + SM(900)) == 16
    assert suggested_depth(HALF.replace(Size(256, 256, 256)) + SM(860)) == 0
    emulated = (
        Size(128, 128, 32) + Precision("f64") + Function("MM") + SM(900) + RequiredMantissaBits(52)
    )
    assert stage_bytes(emulated, emulated=True) == 2 * 4096 + 16
    reserved = 32 + 15 + 512 + 512
    assert suggested_depth(emulated, emulated=True) == min(
        16, (227 * 1024 - reserved) // (2 * 4096 + 16)
    )


def test_slices() -> None:
    want = {
        1: 1,
        7: 1,
        8: 2,
        15: 2,
        23: 3,
        24: 4,
        31: 4,
        39: 5,
        47: 6,
        52: 7,
        53: 7,
        55: 7,
        56: 8,
        63: 8,
    }
    assert {bits: RequiredMantissaBits(bits).slices for bits in want} == want
    assert (HALF + SM(900)).emulation_slices == 0


def test_axes() -> None:
    d = HALF.replace(Precision("f32")) + SM(900) + Block() + WithPipeline()
    record = {
        axis.name: axis for axis in d.axes(free=("tile_shape",), shared_memory_budget=48 * 1024)
    }
    assert [name for name, axis in record.items() if axis.state == "fixed"] == [
        "precision",
        "shared_memory_budget",
    ]
    assert record["shared_memory_budget"].value == 48 * 1024
    assert record["precision"].options == ()
    assert RequiredMantissaBits(23) in record["emulation"].options
    tiles = record["tile_shape"].options
    assert Size(128, 128, 32) in tiles
    assert all((x.m + x.n) * x.k * 4 <= 48 * 1024 for x in tiles)
    small = {a.name: a for a in d.axes(free=("tile_shape",), register_budget=64)}[
        "tile_shape"
    ].options
    assert Size(64, 64, 32) in small
    assert Size(256, 256, 32) not in small
    assert all(axis.cost and axis.why for axis in record.values())
    with pytest.raises(BadValue, match="'tile' is no axis; legal: precision"):
        d.axes(free=("tile",))
    with pytest.raises(BadValue, match="precision: called both fixed and free"):
        d.axes(free=("precision",), fixed=("precision",))
    assert [x.names[0] for x in d.axes(free=("precision",))[0].options] == ["tf32", "bf16", "f16"]
