"""Layouts against the golden ones, and moving matrices in and out of registers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuemu
from gpuemu import errors
from tests.mfma.cases import ROWS, row_parameters, sweep

FOLDER = Path(__file__).parent.parent / "vectors" / "layout"
ENTRIES = json.loads((FOLDER / "entries.json").read_text())
FORMAT_CODES = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}


@cache
def arrays(arch: str) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(FOLDER / f"{arch}.npz") as file:
        return dict(file)


def group(arch: str) -> list[Any]:
    return [e for e in ENTRIES if e[0] == arch]


@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_equals_golden_layouts(arch: str) -> None:
    entries = group(arch)
    assert len(entries) > 200
    for _, name, matrix, cbsz, abid, blgp, op_sel, key, source in entries:
        i = gpuemu.instruction(name, arch)
        options: dict[str, Any] = {"cbsz": cbsz, "abid": abid, "blgp": blgp}
        if ":" in matrix:
            matrix, fmt = matrix.split(":")
            options = {"cbsz": FORMAT_CODES[fmt], "blgp": FORMAT_CODES[fmt]}
        if matrix.startswith("SCALE"):
            options = {"op_sel": (op_sel, op_sel)}
        got, want = i.layout(matrix, **options), arrays(arch)[key]
        assert np.array_equal(got, want), f"{arch} {name} {matrix} {options}, golden from {source}"


def test_broadcast_readings_part_where_the_sources_do() -> None:
    """4x4x1, cbsz 2, abid 1.

    Grouped feeds block 1 to 0-3 and 5 to 4-7; lane_block feeds lanes 16-31 to all.
    """
    i = gpuemu.instruction("v_mfma_f32_4x4x1_16b_f32", "gfx942")
    lanes = {
        b: i.layout("A", cbsz=2, abid=1, broadcast=b)[:, :, 0, 1] for b in ("grouped", "lane_block")
    }
    assert lanes["grouped"][:, 0].tolist() == [
        4,
        4,
        4,
        4,
        20,
        20,
        20,
        20,
        36,
        36,
        36,
        36,
        52,
        52,
        52,
        52,
    ]
    assert lanes["lane_block"][:, 0].tolist() == [16, 20, 24, 28] * 4


def test_broadcast_readings_agree_at_the_ends() -> None:
    for i in ROWS:
        if i.modifiers.cbsz != "broadcast":
            continue
        top = i.modifiers.cbsz_max
        for abid in range(1 << top):
            both = [
                i.layout("A", cbsz=top, abid=abid, broadcast=b) for b in ("grouped", "lane_block")
            ]
            assert np.array_equal(*both)


def test_f64_4x4x4_output_layouts() -> None:
    i = gpuemu.instruction("v_mfma_f64_4x4x4_4b_f64", "gfx942")
    assert i.layout("D")[2, 1, 3].tolist() == [0, 16 + 8 + 3, 0, 64]
    assert i.layout("D", output_layout="formula")[2, 1, 3].tolist() == [0, 4 + 32 + 3, 0, 64]


@row_parameters()
def test_pack_and_unpack_are_inverse(i: gpuemu.Instruction) -> None:
    """Every bit pattern of a register image survives unpack and pack, and the other way round."""
    rng = np.random.default_rng(3)
    for matrix in ("A", "B", "C", "D"):
        image = rng.integers(0, 2**32, (2, i.vgprs[matrix], 64), dtype=np.uint32)
        values = i.unpack(matrix, image)
        assert values.shape == (2, *i.shape(matrix))
        assert np.array_equal(i.pack(matrix, values), image)


@row_parameters()
def test_no_two_elements_share_a_bit(i: gpuemu.Instruction) -> None:
    for matrix in ("A", "B", "D"):
        where = (
            gpuemu.mfma.layouts.stored_layout(i, matrix, gpuemu.mfma.modifiers.Modifiers())
            .reshape(-1, 4)
            .astype(int)
        )
        start = (where[:, 1] * 64 + where[:, 0]) * 32 + where[:, 2]
        bits = np.concatenate([start + n for n in range(where[0, 3])])
        assert len(np.unique(bits)) == bits.size == i.vgprs[matrix] * 64 * 32


def test_bytes_are_little_endian() -> None:
    i = gpuemu.instruction("v_mfma_i32_16x16x16i8", "gfx908")
    a = np.zeros((1, 16, 16), np.int8)
    a[0, 0, :4] = 1, 2, 3, 4
    assert hex(i.pack("A", a)[0, 0]) == "0x4030201"


def test_doubles_take_two_registers_low_word_first() -> None:
    i = gpuemu.instruction("v_mfma_f64_16x16x4_f64", "gfx942")
    b = np.zeros((1, 4, 16))
    b[0, 2, 5] = 1 + 2**-52
    image = i.pack("B", b)
    assert [hex(word) for word in image[:, 2 * 16 + 5]] == ["0x1", "0x3ff00000"]


def test_rotation_is_one_to_one_and_packs() -> None:
    i = gpuemu.instruction("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    b = np.arange(64, dtype=np.float32).reshape(2, 1, 32)
    assert np.array_equal(i.unpack("B", i.pack("B", b, blgp=3), blgp=3), b)


def test_many_to_one_packs_only_equal_values() -> None:
    i = gpuemu.instruction("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    a = np.ones((2, 32, 1), np.float32)
    assert np.array_equal(i.unpack("A", i.pack("A", a, cbsz=1, abid=1), cbsz=1, abid=1), a)
    a[0] = 2
    with pytest.raises(errors.BadValue, match="values differ"):
        i.pack("A", a, cbsz=1, abid=1)


def test_sweep_has_every_legal_combination() -> None:
    i = gpuemu.instruction("v_mfma_f32_4x4x1_16b_f32", "gfx942")
    combinations = {(m.cbsz, m.abid, m.blgp) for m in sweep(i) if m.broadcast == "grouped"}
    assert len(combinations) == (1 + 2 + 4 + 8 + 16) * 8


@settings(max_examples=50, deadline=None)
@given(row=st.integers(0, len(ROWS) - 1), seed=st.integers(0, 2**32 - 1), blgp=st.integers(0, 7))
def test_modifiers_only_move_lanes_of_b(row: int, seed: int, blgp: int) -> None:
    """Reading B under blgp is reading the image with its lanes shuffled."""
    i = ROWS[row]
    if i.modifiers.blgp != "lanes":
        return
    image = np.random.default_rng(seed).integers(0, 2**32, (i.vgprs["B"], 64), dtype=np.uint32)
    lane = np.arange(64)
    source = [
        lane,
        lane % 32,
        lane % 32 + 32,
        (lane + 16) % 64,
        *(lane % 16 + 16 * g for g in range(4)),
    ][blgp]
    got, want = i.unpack("B", image, blgp=blgp), i.unpack("B", image[:, source])
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda i: i.layout("E"), errors.BadValue, "legal: A, B, C, D"),
        (lambda i: i.layout("K"), errors.BadValue, "sparse instructions only"),
        (lambda i: i.layout("SCALE_A"), errors.BadValue, "mfma_scale instructions only"),
        (
            lambda i: i.pack("A", np.zeros((1, 32, 8))),
            errors.BadType,
            "float64; f16 wants float16 or its bits as uint16",
        ),
        (
            lambda i: i.pack("A", np.zeros((1, 8, 32), np.float16)),
            errors.BadShape,
            r"wants \(..., 1, 32, 8\)",
        ),
        (lambda i: i.unpack("D", np.zeros((16, 64), np.int64)), errors.BadType, "uint32"),
        (
            lambda i: i.unpack("D", np.zeros((16, 32), np.uint32)),
            errors.BadShape,
            r"wants \(..., 16, 64\)",
        ),
        (lambda i: i.pack("A", [[1.0]]), errors.BadType, "a NumPy or CuPy array"),
    ],
)
def test_bad_input(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942"))


def test_fnuz_instruction_refuses_an_ocp_array() -> None:
    import ml_dtypes

    i = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
    with pytest.raises(errors.BadType, match="float8_e4m3fn; f8e4m3fnuz wants float8_e4m3fnuz"):
        i.pack("A", np.zeros((1, 16, 32), ml_dtypes.float8_e4m3fn))
