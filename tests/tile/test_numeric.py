"""The oracle: against vectors, Berkeley SoftFloat, its scalar twin, and planted faults."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import softfloatpy

from gpuemu import tile
from gpuemu.errors import BadShape, BadType, BadValue
from gpuemu.tile import exact, oracle
from gpuemu.tile.numeric import (
    ELEMENT_TYPES,
    NV,
    NX,
    OF,
    UF,
    DataType,
    PadValue,
    data_type,
    flag_names,
)
from gpuemu.tile.operations import OPERATIONS
from tests.tile.cases import edge_tuples, sweep, triples

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/tfma/vectors.json").read_text())
FLOATS = [name for name in ELEMENT_TYPES if data_type(name).kind == "float"]
NARROW = [name for name in FLOATS if name != "FP64"]
COUNT = 1_000_000


def codes_of(vector: dict[str, Any]) -> list[int]:
    return [int(vector[name], 16) for name in ("left", "right", "addend")]


def fma_one(dtype: str, codes: list[int], nan_corner: Any = "ieee") -> tuple[int, int]:
    bits, flags = tile.fma(
        *([code] for code in codes), dtype, "numpy", dtype_set="adr0080", nan_corner=nan_corner
    )
    return int(bits[0]), flags


@pytest.mark.parametrize(
    "vector", VECTORS["float_elements"], ids=lambda v: v["type"] + " " + v["why"]
)
def test_float_vectors(vector: dict[str, Any]) -> None:
    want = int(vector["result"], 16), vector["flags"]
    codes = codes_of(vector)
    assert fma_one(vector["type"], codes) == want
    step = exact.fma(data_type(vector["type"]), *codes)
    assert (step.bits, step.flags) == want
    assert flag_names(step.flags) == ("|".join(vector["flag_names"]) or "none")
    literal = vector.get("literal_asl_flags", vector["flags"])
    assert fma_one(vector["type"], codes, "asl") == (want[0], literal)
    assert exact.fma(data_type(vector["type"]), *codes, "asl").flags == literal


@pytest.mark.parametrize("vector", VECTORS["integer_elements"], ids=lambda v: "/".join(v["types"]))
def test_integer_vectors(vector: dict[str, Any]) -> None:
    for dtype in vector["types"]:
        assert fma_one(dtype, codes_of(vector)) == (int(vector["result"], 16), vector["flags"])


@pytest.mark.parametrize("pad", ["Zero", "Max", "Min"])
def test_padding_values(pad: str) -> None:
    for dtype, code in VECTORS["padding"][pad].items():
        assert data_type(dtype).pad_bits(PadValue[pad.upper()]) == code
    others = {
        "FP64": (0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF),
        "TF32": (0x7F7FE000, 0xFF7FE000),
        "HF32": (0x7F7FF000, 0xFF7FF000),
        "E4M3": (0x7E, 0xFE),
        "E5M2": (0x7B, 0xFB),
        "U8": (0xFF, 0),
        "S16": (0x7FFF, 0x8000),
    }
    for dtype, (most, least) in others.items():
        want = {"Zero": 0, "Max": most, "Min": least}[pad]
        assert data_type(dtype).pad_bits(PadValue[pad.upper()]) == want


_FLAGS = {
    softfloatpy.ExceptionFlag.INVALID: NV,
    softfloatpy.ExceptionFlag.OVERFLOW: OF,
    softfloatpy.ExceptionFlag.UNDERFLOW: UF,
    softfloatpy.ExceptionFlag.INEXACT: NX,
}


def softfloat(dtype: str, codes: tuple[np.ndarray[Any, Any], ...]) -> tuple[list[int], list[int]]:
    """Return Berkeley SoftFloat's results and flags; its NaNs are not PTO's and read as 'a NaN'."""
    number = {
        "FP16": softfloatpy.Float16,
        "FP32": softfloatpy.Float32,
        "FP64": softfloatpy.Float64,
    }[dtype]
    softfloatpy.set_tininess_mode(softfloatpy.TininessMode.AFTER_ROUNDING)
    softfloatpy.set_rounding_mode(softfloatpy.RoundingMode.NEAR_EVEN)
    size = data_type(dtype).bits // 8
    table = [0] * 32
    for value in range(32):
        table[value] = sum(flag for bit, flag in _FLAGS.items() if value & bit)
    bits, flags = [], []
    streams = [code.astype(code.dtype.newbyteorder(">")).tobytes() for code in codes]
    for at in range(0, len(streams[0]), size):
        x, y, z = (number.from_bytes(stream[at : at + size]) for stream in streams)
        softfloatpy.set_exception_flags(0)
        result = number.mul_add(x, y, z)
        flags.append(table[int(softfloatpy.get_exception_flags())])
        bits.append(int.from_bytes(result.to_bytes(), "big"))
    return bits, flags


@pytest.mark.parametrize("dtype", ["FP16", "FP32", "FP64"])
def test_against_softfloat(dtype: str) -> None:
    row = data_type(dtype)
    count = COUNT if dtype != "FP64" else COUNT // 10
    codes = triples(dtype, 1, count // 2)
    bits, flags = oracle.elements(OPERATIONS["TFMA"], row, codes)
    want, want_flags = softfloat(dtype, codes)
    wanted = np.array(want, row.storage)
    wanted[oracle.is_nan(row, wanted)] = row.canonical_nan
    assert len(wanted) >= count
    np.testing.assert_array_equal(bits, wanted)
    np.testing.assert_array_equal(flags, np.array(want_flags, np.uint8))


@pytest.mark.parametrize("dtype", NARROW)
def test_against_the_scalar_twin(dtype: str) -> None:
    row = data_type(dtype)
    codes = triples(dtype, 2, 4000)
    keep = np.random.default_rng(0).permutation(len(codes[0]))[:15000]
    codes = tuple(code[keep] for code in codes)
    for corner in ("ieee", "asl"):
        bits, flags = oracle.elements(OPERATIONS["TFMA"], row, codes, corner)
        steps = [exact.fma(row, *map(int, triple), corner) for triple in zip(*codes, strict=True)]
        np.testing.assert_array_equal(bits, [step.bits for step in steps])
        np.testing.assert_array_equal(flags, [step.flags for step in steps])


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_exponent_sweep_against_the_scalar_twin(dtype: str) -> None:
    row = data_type(dtype)
    codes = sweep(dtype, 3, 3 if dtype == "FP16" else 1543)
    bits, flags = oracle.elements(OPERATIONS["TFMA"], row, codes)
    steps = [exact.fma(row, *map(int, triple)) for triple in zip(*codes, strict=True)]
    np.testing.assert_array_equal(bits, [step.bits for step in steps])
    np.testing.assert_array_equal(flags, [step.flags for step in steps])


@pytest.mark.parametrize("dtype", FLOATS)
def test_siblings_are_what_their_names_say(dtype: str) -> None:
    """Sums, differences and products by exact rational arithmetic, rounded by the scalar twin."""
    row = data_type(dtype)
    codes = edge_tuples(row, 2)
    for name in ("TADD", "TSUB", "TMUL"):
        bits, flags = oracle.elements(OPERATIONS[name], row, codes)
        for i, (left, right) in enumerate(zip(*codes, strict=True)):
            x, y = exact.decode(row, int(left)), exact.decode(row, int(right))
            if not x.kind == y.kind == "finite":
                continue
            if name == "TSUB":
                y = exact.decode(row, int(right) ^ row.sign_bit)
            step = exact.add(row, x, y)
            if name == "TMUL":
                exponent, size = x.exponent + y.exponent, x.significand * y.significand
                step = exact.Step(row.sign_bit * (x.negative != y.negative), 0, "")
                if size:
                    step = exact.round_pack(row, x.negative != y.negative, size, exponent)
            assert (int(bits[i]), int(flags[i])) == (step.bits, step.flags), (name, left, right)


@pytest.mark.parametrize(
    ("name", "left", "right", "want", "flags"),
    [
        ("TMAX", 0x0000, 0x8000, 0x0000, 0),
        ("TMAX", 0x8000, 0x0000, 0x0000, 0),
        ("TMIN", 0x0000, 0x8000, 0x8000, 0),
        ("TMIN", 0x8000, 0x0000, 0x8000, 0),
        ("TMAX", 0x7E01, 0xFC00, 0xFC00, 0),
        ("TMIN", 0x3C00, 0xFE00, 0x3C00, 0),
        ("TMAX", 0x7C01, 0x3C00, 0x3C00, NV),
        ("TMIN", 0xFE01, 0x7E02, 0x7E00, 0),
        ("TMAX", 0xFC01, 0x7E02, 0x7E00, NV),
        ("TMAX", 0xBC00, 0xC000, 0xBC00, 0),
        ("TMIN", 0xBC00, 0xC000, 0xC000, 0),
        ("TMAX", 0x7C00, 0x7BFF, 0x7C00, 0),
        ("TADD", 0x7C00, 0xFC00, 0x7E00, NV),
        ("TSUB", 0x7C00, 0x7C00, 0x7E00, NV),
        ("TSUB", 0x3C00, 0xFC01, 0x7E00, NV),
        ("TSUB", 0x0000, 0x0000, 0x0000, 0),
        ("TSUB", 0x8000, 0x0000, 0x8000, 0),
        ("TMUL", 0x8000, 0x3C00, 0x8000, 0),
        ("TMUL", 0x0000, 0xFC00, 0x7E00, NV),
    ],
)
def test_special_values_of_siblings(
    name: str, left: int, right: int, want: int, flags: int
) -> None:
    bits, raised = tile.elements(name, ([left], [right]), "FP16", "numpy")
    assert (int(bits[0]), raised) == (want, flags)


def test_unary_siblings() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    bits, flags = tile.elements("TABS", (every,), "FP16", "numpy")
    assert flags == 0
    np.testing.assert_array_equal(bits, every % 0x8000)
    bits, flags = tile.elements("TNEG", (every,), "BF16", "numpy")
    assert flags == 0
    np.testing.assert_array_equal(bits, every.astype(np.uint32) + 0x8000 & 0xFFFF)
    bits, _ = tile.elements("TNEG", (every,), "S16", "numpy")
    np.testing.assert_array_equal(bits.astype(np.uint32) + every & 0xFFFF, 0)
    for dtype in ("S8", "U8"):
        small = np.arange(256, dtype=np.uint8)
        bits, _ = tile.elements("TABS", (small,), dtype, "numpy", dtype_set="adr0080")
        want = (
            small if dtype == "U8" else np.where(small < 128, small, -small.astype(np.int16)) & 0xFF
        )
        np.testing.assert_array_equal(bits, want)


@pytest.mark.parametrize("dtype", ["S8", "U8"])
def test_integers_exhaustively(dtype: str) -> None:
    left, right = (grid.reshape(-1).astype(np.uint8) for grid in np.mgrid[0:256, 0:256])
    value = (lambda a: a.view(np.int8).astype(int)) if dtype == "S8" else (lambda a: a.astype(int))
    x, y = value(left), value(right)
    want = {
        "TADD": x + y,
        "TSUB": x - y,
        "TMUL": x * y,
        "TMAX": np.maximum(x, y),
        "TMIN": np.minimum(x, y),
    }
    for name, result in want.items():
        bits, flags = tile.elements(name, (left, right), dtype, "numpy", dtype_set="adr0080")
        np.testing.assert_array_equal(bits, result & 0xFF)
        assert flags == 0


def test_a_sibling_costs_less_than_thirty_lines() -> None:
    """One data row, one function of the oracle, one struct of the device code."""
    kernels = (Path(__file__).parents[2] / "cuda_src/tile_operations.cuh").read_text()
    for name in set(OPERATIONS) - {"TFMA"}:
        struct = re.search(rf"^struct {name} .*?^}};$", kernels, re.DOTALL | re.MULTILINE)
        assert struct is not None
        lines = 1 + struct[0].count("\n") + 1
        lines += len(inspect.getsource(oracle.ELEMENTS[name]).splitlines())
        assert lines < 30, (name, lines)


def _mutant_threshold(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """UF from the delivered encoding instead of the sum at full precision."""
    bits, flags = _ROUND(dtype, total, error)
    normal = (bits & (dtype.sign_bit - 1)) >= 1 << (dtype.mantissa_bits + dtype.unused_bits)
    return bits, np.where(normal, flags & ~np.uint8(UF), flags).astype(np.uint8)


def _mutant_before(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """Tininess before rounding."""
    bits, flags = _ROUND(dtype, total, error)
    below = (np.abs(total) < 2.0**dtype.emin) & (flags & NX > 0)
    return bits, np.where(below, flags | UF, flags).astype(np.uint8)


def _mutant_error(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """The error of the sum ignored: double rounding."""
    return _ROUND(dtype, total, np.zeros_like(error))


def _mutant_single(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """Rounded through binary32."""
    return _ROUND(dtype, total.astype(np.float32).astype(np.float64), np.zeros_like(error))


def _mutant_flush(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """Subnormal results flushed to zero."""
    bits, flags = _ROUND(dtype, total, error)
    normal = (bits & (dtype.sign_bit - 1)) >= 1 << (dtype.mantissa_bits + dtype.unused_bits)
    return np.where(normal, bits, bits & dtype.sign_bit).astype(bits.dtype), flags


def _mutant_saturate(dtype: DataType, total: Any, error: Any) -> oracle.Codes:
    """Overflow delivers the largest finite number."""
    bits, flags = _ROUND(dtype, total, error)
    return np.where(flags & OF, bits - 1, bits).astype(bits.dtype), flags


_ROUND = oracle.round_pack
MUTANTS = [
    _mutant_threshold,
    _mutant_before,
    _mutant_error,
    _mutant_single,
    _mutant_flush,
    _mutant_saturate,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_planted_faults_are_found(
    mutant: Callable[..., oracle.Codes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors, or triples against the scalar twin, kill every mutant."""
    found = 0
    monkeypatch.setattr(oracle, "round_pack", mutant)
    for vector in VECTORS["float_elements"]:
        want = int(vector["result"], 16), vector["flags"]
        with np.errstate(over="ignore"):
            found += fma_one(vector["type"], codes_of(vector)) != want
    if not found:  # double rounding in binary64 needs an addend 2^-30 of the product: FP32 alone
        codes = triples("FP32", 5, 20000)
        bits, flags = oracle.elements(OPERATIONS["TFMA"], data_type("FP32"), codes)
        steps = [exact.fma(data_type("FP32"), *map(int, t)) for t in zip(*codes, strict=True)]
        found = sum((s.bits, s.flags) != (b, f) for s, b, f in zip(steps, bits, flags, strict=True))
    assert found


def test_operands_are_checked_and_kept() -> None:
    ones = np.full(4, 0x3C00, np.uint16)
    copy = ones.copy()
    tile.fma(ones, ones, ones, "FP16", "numpy")
    np.testing.assert_array_equal(ones, copy)
    with pytest.raises(BadValue, match="TFMA on S32; legal: FP16, FP32, BF16"):
        tile.fma(ones, ones, ones, "S32")
    with pytest.raises(BadValue, match="data type 'FP17'; legal: FP64"):
        tile.fma(ones, ones, ones, "FP17")
    with pytest.raises(BadShape, match=r"shapes \(4,\), \(4,\), \(3,\)"):
        tile.fma(ones, ones, ones[:3], "FP16")
    with pytest.raises(BadType, match="addend has dtype float32; FP16 wants float16"):
        tile.fma(ones, ones, ones.astype(np.float32), "FP16")
    with pytest.raises(BadValue, match="left holds 65536; FP16 bits are 0 to 65535"):
        tile.fma([65536], [0], [0], "FP16")
    with pytest.raises(BadValue, match="left holds -1"):
        tile.fma([-1], [0], [0], "FP16")
    with pytest.raises(BadValue, match="low 13 bits must be zero"):
        tile.fma([1], [0], [0], "TF32", dtype_set="adr0080")
    with pytest.raises(BadValue, match="TADD with 3 operands; legal: 2"):
        tile.elements("TADD", (ones, ones, ones), "FP16")
    with pytest.raises(BadValue, match="backend='gpu'"):
        tile.fma(ones, ones, ones, "FP16", "gpu")
    with pytest.raises(BadValue, match="dtype_set='all'"):
        tile.fma(ones, ones, ones, "FP16", dtype_set="all")
    with pytest.raises(BadValue, match="nan_corner='x'"):
        tile.fma(ones, ones, ones, "FP16", nan_corner="x")


def test_values_are_accepted_as_their_bits() -> None:
    import ml_dtypes

    half = np.array([[1.5, 2.0]], np.float16)
    bits, flags = tile.fma(half, half, half, "FP16", "numpy")
    assert bits.dtype == np.uint16
    assert bits.tolist() == [[0x4380, 0x4600]]
    brain = np.array([3.0], ml_dtypes.bfloat16)
    assert tile.fma(brain, brain, brain, "BF16", "numpy")[0].tolist() == [0x4140]
    assert tile.fma(half[:, ::-1], half, half, "FP16", "numpy")[0].shape == (1, 2)
    scalar, _ = tile.fma(np.uint16(0x3C00), np.uint16(0x3C00), np.uint16(0), "FP16", "numpy")
    assert (scalar.shape, int(scalar)) == ((), 0x3C00)
    empty, flags = tile.fma(half[:0], half[:0], half[:0], "FP16", "numpy")
    assert (empty.shape, flags) == ((0, 2), 0)
