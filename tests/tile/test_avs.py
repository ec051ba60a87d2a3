"""The fifteen PTO-AVS-TILE-TFMA tests that the contract names, rewritten from their descriptions.

They run in the executable model's setting: all sixteen types, one fragment a tile.
"""

from typing import Any

import numpy as np
import pytest

from gpuemu.errors import TileAllocationFault, TileLegalityFault
from gpuemu.tile import Core, assemble
from gpuemu.tile.numeric import DATA_TYPE_CODES, NV, data_type
from gpuemu.tile.operations import OPERATIONS, SELECTORS
from gpuemu.tile.words import decode


def core(**options: Any) -> Core:
    return Core(**({"dtype_set": "adr0080", "fragments": 1, "backend": "numpy"} | options))


def fill(machine: Core, dtype: str, *codes: int, columns: int = 1, capacity: int = 128) -> None:
    """Allocate registers 0, 1, … with one valid element each."""
    for index, code in enumerate(codes):
        bits = np.array([[code]], data_type(dtype).storage)
        machine.write(index, bits, dtype, columns=columns, capacity=capacity)


def bundle(dtype: str, *extra: str, extents: str = "B.DIM LB0=1", mask: str = "1111") -> str:
    return "\n".join(
        (
            f"BSTART.VEC TFMA, {dtype}",
            extents,
            *extra,
            f"B.IOT T#1, T#2, mask={mask}",
            f"B.IOT T#3, mask={mask}, last, ->N<128B>",
            "BSTOP",
        )
    )


def test_static_001() -> None:
    operation = SELECTORS[0x01C]
    assert operation is OPERATIONS["TFMA"]
    assert (operation.name, operation.engine, operation.sources) == ("TFMA", "VEC", 3)
    word = decode(assemble("BSTART.VEC TFMA, FP32")[0])
    assert (word["mode"], word["function"]) == (0, 28)


def test_types_001() -> None:
    sixteen = [
        "FP64",
        "FP32",
        "TF32",
        "HF32",
        "FP16",
        "BF16",
        "E4M3",
        "E5M2",
        "S64",
        "S32",
        "S16",
        "S8",
        "U64",
        "U32",
        "U16",
        "U8",
    ]
    assert len(sixteen) == 16
    for row in DATA_TYPE_CODES.values():
        machine = core()
        if row.name in sixteen:
            fill(machine, row.name, 0, 0, 0)
            machine.execute(bundle(row.name))
            assert machine.tile(48).descriptor.dtype is row
        else:
            with pytest.raises(TileLegalityFault, match=f"DataType {row.name}; legal: FP64, FP32"):
                machine.execute(bundle(row.name))


def test_encoding_001() -> None:
    machine = core()
    fill(machine, "TF32", 0x00000001, 0, 0, 0)
    with pytest.raises(TileLegalityFault, match="T#1 holds 0x1, no TF32 encoding"):
        machine.operate("TFMA", 3, 0, 1, 2)


def test_defined_001() -> None:
    machine = core()
    fill(machine, "U64", 2, 3)
    for index in (2, 3):
        machine.write(index, np.zeros((1, 1), np.uint64), "U64", columns=1, defined=False)
    with pytest.raises(TileLegalityFault, match=r"source T#3 element \(0, 0\) .* undefined"):
        machine.operate("TFMA", 3, 0, 1, 2)
    assert not machine.tile(3).defined.any()


def test_operands_001() -> None:
    machine = core()
    fill(machine, "U64", 2, 3, 4, 0)
    machine.operate("TFMA", 3, 0, 1, 2)
    assert machine.tile(3).bits[0, 0, 0] == 10
    machine.write(2, np.full((1, 1), 4, np.uint64), "U64", columns=1, layout="ColumnMajor")
    with pytest.raises(TileLegalityFault, match="layout=ColumnMajor; the destination has RowMajor"):
        machine.operate("TFMA", 3, 0, 1, 2)


@pytest.mark.parametrize("pad", ["Zero", "Max", "Min", "Null"])
def test_datr_001_pad(pad: str) -> None:
    machine = core()
    fill(machine, "FP32", 0, 0, 0)
    machine.execute(bundle("FP32", f"B.DATR PadValue={pad}"))


@pytest.mark.parametrize(
    "field", ["cmode=1", "sat=1", "canonicalize=1", "DataType=FP16", "rmode=1", "layout=1"]
)
def test_datr_001_others(field: str) -> None:
    machine = core()
    fill(machine, "FP32", 0, 0, 0)
    with pytest.raises(TileLegalityFault, match=r"B\.DATR"):
        machine.execute(bundle("FP32", f"B.DATR Null, {field}"))


@pytest.mark.parametrize(
    ("dtype", "codes", "want"), [("S8", (0xFF, 2, 3), 0x01), ("U8", (0x80, 2, 1), 0x01)]
)
def test_width_001(dtype: str, codes: tuple[int, int, int], want: int) -> None:
    machine = core()
    fill(machine, dtype, *codes, 0)
    machine.operate("TFMA", 3, 0, 1, 2)
    assert (machine.tile(3).bits[0, 0, 0], machine.flags) == (want, 0)


def test_alias_001() -> None:
    machine = core()
    fill(machine, "U64", 2, 3, 4)
    machine.operate("TFMA", 0, 0, 1, 2)
    assert [int(machine.tile(i).bits[0, 0, 0]) for i in range(3)] == [10, 3, 4]


def test_mask_zero_001() -> None:
    machine = core()
    before = machine.snapshot()
    retired = machine.execute("BSTART.VEC TFMA, U64; B.IOT T#1, mask=0000, ->T<128B>; BSTOP")
    assert retired[0].destination is None
    assert machine.snapshot() == before
    assert (machine.flags, machine.machine.registers) == (0, {})


def test_capacity_001() -> None:
    machine = core()
    with pytest.raises(TileAllocationFault, match=r"Row=8\*128/\(128\*64\)"):
        machine.execute(bundle("U64", extents="B.DIM LB0=128; B.DIM LB1=2; B.DIM LB2=128"))
    assert machine.machine.registers == {}


def test_lb0_001() -> None:
    machine = core()
    fill(machine, "FP32", 0, 0, 0)
    with pytest.raises(TileLegalityFault, match="LB0 is missing"):
        machine.execute(bundle("FP32", extents="B.DIM LB1=1"))


def test_schema_001() -> None:
    machine = core()
    fill(machine, "FP32", 0, 0, 0)
    machine.execute(bundle("FP32"))
    for scalars in ("B.IOR r0, r0, r0, ->r0", "B.IOR r1, r0, r0, ->r0"):
        with pytest.raises(TileLegalityFault, match=r"B\.IOR"):
            machine.execute(bundle("FP32", scalars))


@pytest.mark.parametrize(
    "codes",
    [
        (0x7F800001, 0x3F800000, 0),
        (0, 0x7F800000, 0),
        (0x7F800000, 0x3F800000, 0xFF800000),
    ],
)
def test_invalid_001(codes: tuple[int, int, int]) -> None:
    machine = core()
    fill(machine, "FP32", *codes, 0)
    machine.operate("TFMA", 3, 0, 1, 2)
    assert (machine.tile(3).bits[0, 0, 0], machine.flags) == (0x7FC00000, NV)


@pytest.mark.parametrize("dtype", ["FP64", "FP32", "FP16", "BF16", "TF32", "HF32", "E5M2"])
def test_profile_invalid_001(dtype: str) -> None:
    row = data_type(dtype)
    machine = core()
    fill(machine, dtype, 0, row.infinity, 0, 0)
    machine.operate("TFMA", 3, 0, 1, 2)
    code = int(machine.tile(3).bits[0, 0, 0])
    assert (code, machine.flags) == (row.canonical_nan, NV)
    assert code > row.infinity


def test_padding_001() -> None:
    machine = core()
    fill(machine, "U64", 2, 3, 4, 0, columns=2)
    machine.operate("TFMA", 3, 0, 1, 2, pad="Max")
    tile = machine.tile(3)
    assert tile.bits[0, 0, 0] == 10
    assert tile.descriptor.shape == (8, 2)
    assert tile.defined.all()
    assert tile.bits[0, 0, 1] == 0xFFFFFFFFFFFFFFFF
