"""The architectural state: tiles in and out, masks, fragments, capacity, padding, sticky flags."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.errors import BadShape, BadType, BadValue, TileAllocationFault, TileLegalityFault
from gpuemu.tile import Core
from gpuemu.tile.descriptor import Descriptor, register_name
from gpuemu.tile.numeric import ELEMENT_TYPES, NX, OF, data_type

MASKS = (0b1000, 0b0100, 0b0010, 0b0001, 0b1100, 0b1110, 0b1111)


def program(operation: str = "TADD", mask: str = "1111", pad: str = "", size: str = "128B") -> str:
    return f"""
        BSTART.VEC {operation}, FP16
        {pad}
        B.DIM LB0=3
        B.DIM LB1=2
        B.DIM LB2=16
        B.IOT T#1, T#2, mask={mask}, last, ->M<{size}>
        BSTOP
    """


@given(st.data())
def test_a_tile_keeps_bits_and_definedness(data: st.DataObject) -> None:
    dtype = data_type(data.draw(st.sampled_from(ELEMENT_TYPES)))
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 16))
    seed = data.draw(st.integers(0, 1 << 32))
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, (4, rows, columns, dtype.bits // 8), np.uint8)
    array = bits.view(dtype.storage)[..., 0]
    defined = rng.random(array.shape) < 0.7
    mask = data.draw(st.sampled_from(MASKS))
    core, index = Core(backend="numpy"), data.draw(st.integers(0, 63))
    core.write(index, array, dtype.name, mask=mask, defined=defined)
    tile = core.tile(index)
    selected = np.array([mask >> (3 - pe) & 1 for pe in range(4)], bool)
    keep = defined & selected[:, None, None]
    np.testing.assert_array_equal(tile.defined[:, :rows, :columns], keep)
    np.testing.assert_array_equal(tile.bits[:, :rows, :columns][keep], array[keep])
    assert tile.defined.sum() == keep.sum()
    assert tile.values.dtype == dtype.dtype
    assert (tile.mask, tile.descriptor.dtype, tile.valid_bits.shape[1:]) == (
        mask,
        dtype,
        (rows, columns),
    )
    assert tile.contents_defined == bool(defined[selected].all())
    assert not tile.bits.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "capacity", "columns", "rows"),
    [("FP32", 128, 8, 4), ("FP16", 128, 16, 4), ("U64", 128, 2, 8), ("FP16", 65536, 1, 32768)],
)
def test_physical_rows(dtype: str, capacity: int, columns: int, rows: int) -> None:
    assert Descriptor.derive(data_type(dtype), capacity, columns, (1, 1)).rows == rows


def test_shapes_that_cannot_be() -> None:
    with pytest.raises(TileAllocationFault, match="65536"):
        Descriptor.derive(data_type("U8"), 65536, 1, (1, 1))
    with pytest.raises(TileAllocationFault, match="Col=65536"):
        Descriptor.derive(data_type("U8"), 65536, 65536, (1, 1))


def test_writes_are_checked() -> None:
    core, ones = Core(backend="numpy"), np.ones((2, 8), np.uint16)
    for index, error in ((64, BadValue), (-1, BadValue), ("T#1", BadType), (True, BadType)):
        with pytest.raises(error, match="legal"):
            core.write(index, ones, "FP16")
    with pytest.raises(BadShape, match=r"shape \(8,\)"):
        core.write(0, ones[0], "FP16")
    with pytest.raises(BadShape, match=r"shape \(2, 2, 8\); legal: .* or \(4, rows"):
        core.write(0, np.stack([ones, ones]), "FP16")
    with pytest.raises(BadType, match="float32"):
        core.write(0, ones.astype(np.float32), "FP16")
    with pytest.raises(BadValue, match="mask=0"):
        core.write(0, ones, "FP16", mask=0)
    with pytest.raises(BadValue, match="capacity=100"):
        core.write(0, ones, "FP16", capacity=100)
    with pytest.raises(BadValue, match="layout='Row'"):
        core.write(0, ones, "FP16", layout="Row")
    with pytest.raises(BadShape, match="array of 2 x 8 in a tile"):
        core.write(0, ones, "FP16", columns=4, valid=(1, 1))
    with pytest.raises(TileAllocationFault, match="ValidRow=9"):
        core.write(0, ones, "FP16", valid=(9, 8))
    for valid in ((1.5, 8), (True, 8), (1,), (), 2):
        with pytest.raises(BadType, match=r"valid=.*; legal: .*two integers"):
            core.write(0, ones, "FP16", valid=valid)
    with pytest.raises(BadValue, match="T#1 is not allocated; allocated: none"):
        core.tile(0)
    with pytest.raises(BadValue, match="U#3 is not allocated"):
        core.release(18)


@pytest.mark.parametrize(
    "option",
    [
        {"dtype_set": "all"},
        {"fault_map": "asl"},
        {"nan_corner": "no"},
        {"names": "x"},
        {"fragments": 2},
        {"capacity": -1},
        {"backend": "gpu"},
    ],
)
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=r"legal"):
        Core(**option)


def test_capacity_is_counted_over_pes() -> None:
    core = Core(backend="numpy")
    whole = np.zeros((2048, 16), np.uint16)
    core.write(0, whole, "FP16", capacity=65536)
    assert core.machine.used() == 256 * 1024
    with pytest.raises(
        TileAllocationFault, match="1 PEs x 128 bytes = 128 bytes; 262144 of 262144"
    ):
        core.write(1, whole[:1], "FP16", mask=0b1000)
    core.write(0, whole[:1], "FP16", mask=0b1100)  # replacing a tile frees it first
    assert core.machine.used() == 2 * 128
    core.release(0)
    assert core.machine.used() == 0


@pytest.mark.parametrize(("mask", "pad"), list(product(MASKS, ["", "Zero", "Max", "Min", "Null"])))
def test_masks_and_padding(mask: int, pad: str) -> None:
    core = Core(backend="numpy")
    rng = np.random.default_rng(mask)
    left, right = rng.random((2, 4, 2, 3)).astype(np.float16)
    for index, array in enumerate((left, right)):
        core.write(index, array, "FP16", columns=16, capacity=128)
    attributes = f"B.DATR PadValue={pad}" if pad else ""
    (retired,) = core.execute(program(mask=f"{mask:04b}", pad=attributes))
    tile = core.tile(32)
    assert (retired.destination, tile.mask, tile.bits.shape) == (32, mask, (4, 4, 16))
    code = {"": 0, "Null": 0, "Zero": 0, "Max": 0x7BFF, "Min": 0xFBFF}[pad]
    for pe in range(4):
        on = bool(mask >> (3 - pe) & 1)
        valid = np.zeros((4, 16), bool)
        valid[:2, :3] = True
        np.testing.assert_array_equal(tile.defined[pe], on & (valid | (pad not in ("", "Null"))))
        want = np.where(valid, 0, code).astype(np.uint16) * on
        want[:2, :3] = (left[pe] + right[pe]).view(np.uint16) * on
        np.testing.assert_array_equal(tile.bits[pe], want)


def test_only_selected_fragments_count() -> None:
    core = Core(backend="numpy")
    big = np.zeros((4, 2, 3), np.float16)
    big[3] = 65504
    for index in (0, 1):
        core.write(index, big, "FP16", columns=16, capacity=128)
    core.execute(program(mask="1110"))
    assert core.flags == 0
    core.execute(program(mask="0001"))
    assert core.flags == OF | NX
    core.write(1, big, "FP16", columns=16, capacity=128, mask=0b1110)
    core.execute(program(mask="1110"))
    with pytest.raises(TileLegalityFault, match="PE3 is undefined"):
        core.execute(program(mask="0001"))


def test_flags_are_sticky() -> None:
    core = Core(backend="numpy")
    for index, value in ((0, 65504), (1, 65504)):
        core.write(index, np.full((2, 3), value, np.float16), "FP16", columns=16, capacity=128)
    assert core.execute(program())[0].flags == OF | NX
    core.write(1, np.full((2, 3), 1, np.float16), "FP16", columns=16, capacity=128)
    assert core.execute(program("TMAX"))[0].flags == 0
    assert core.flags == OF | NX
    core.clear_flags()
    assert core.flags == 0


def test_defaults_of_the_extents() -> None:
    core = Core(backend="numpy")
    core.write(0, np.ones((1, 8), np.float16), "FP16", capacity=128)
    core.execute("BSTART.VEC TABS, FP16; B.DIM LB0=8; B.IOT T#1, mask=1111, last, ->U<128B>; BSTOP")
    have = core.tile(16).descriptor
    assert (have.rows, have.columns, have.valid_rows, have.valid_columns) == (8, 8, 1, 8)
    assert not core.tile(16).defined[:, 1:].any()  # no B.DATR: Null
    with pytest.raises(TileAllocationFault, match="Col=3"):  # ValidCol of no power of two needs LB2
        core.execute(
            "BSTART.VEC TABS, FP16; B.DIM LB0=3; B.IOT T#1, mask=1111, last, ->U<128B>; BSTOP"
        )


def test_an_explicit_type_of_an_fp64_operation() -> None:
    text = "B.DATR Zero, DataType=FP64; B.DIM LB0=2; B.IOT T#1, mask=1111, last, ->T<128B>; BSTOP"
    core = Core(backend="numpy", dtype_set="adr0080")
    core.write(0, np.array([[-1.0, 2.0]]), "FP64", capacity=128)
    core.execute("BSTART.VEC TABS, FP64; " + text)
    assert core.tile(1).values[0, :2].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    with pytest.raises(TileLegalityFault, match="secondary DataType=0"):
        core.execute("BSTART.VEC TABS, S64; " + text)


def test_sources_persist_and_may_repeat() -> None:
    core = Core(backend="numpy")
    three = np.full((1, 8), 3, np.float16)
    core.write(0, three, "FP16", capacity=128)
    before = core.tile(0)
    core.execute(
        "BSTART.VEC TFMA, FP16; B.DIM LB0=8; B.IOT T#1, T#1, mask=1111;"
        "B.IOT T#1, mask=1111, last, ->T<128B>; BSTOP"
    )
    assert core.tile(0) is before
    assert (core.tile(1).values[:, 0] == 12).all()


@pytest.mark.parametrize("sources", list(product(range(3), repeat=3)))
def test_aliases_observe_what_was_there_before(sources: tuple[int, int, int]) -> None:
    values = [2.0, 3.0, 5.0]
    for destination in range(3):
        core = Core(backend="numpy")
        for index, value in enumerate(values):
            core.write(index, np.full((1, 8), value, np.float32), "FP32", capacity=128)
        core.operate("TFMA", destination, *sources, pad="Min")
        x, y, z = (values[i] for i in sources)
        assert (core.tile(destination).values[:, 0] == x * y + z).all()
        assert (core.tile(destination).bits[:, 1:] == 0xFF7FFFFF).all()
        for other in {0, 1, 2} - {destination}:
            assert (core.tile(other).values[:, 0] == values[other]).all()


def test_operate_is_checked() -> None:
    core = Core(backend="numpy")
    core.write(0, np.zeros((1, 8), np.float32), "FP32")
    core.write(1, np.zeros((1, 8), np.uint64), "U64")
    core.write(2, np.zeros((1, 8), np.float32), "FP32", layout="NZ")
    before = core.snapshot()
    with pytest.raises(TileLegalityFault, match="T#4 is not allocated"):
        core.operate("TFMA", 0, 0, 0, 3)
    with pytest.raises(TileLegalityFault, match="layout NZ; legal: RowMajor"):
        core.operate("TFMA", 2, 2, 2, 2)
    with pytest.raises(TileLegalityFault, match="DataType U64"):
        core.operate("TFMA", 1, 1, 1, 1)
    with pytest.raises(TileLegalityFault, match=r"dtype=U64|rows="):
        core.operate("TADD", 0, 0, 1)
    for index, error in ((99, BadValue), (-1, BadValue), ("0", BadType), (True, BadType)):
        with pytest.raises(error, match=f"register {index!r}; legal: .*0 to 63"):
            core.operate("TFMA", 0, 0, index, 0)  # type: ignore[arg-type]
    with pytest.raises(BadValue, match="TFMA with 2 sources; legal: 3"):
        core.operate("TFMA", 0, 0, 0)
    with pytest.raises(BadValue, match="pad value 'inf'"):
        core.operate("TFMA", 0, 0, 0, 0, pad="inf")
    assert core.snapshot() == before


def test_register_names() -> None:
    assert [register_name(i) for i in (0, 16, 32, 48)] == ["T#1", "U#1", "M#1", "N#1"]
