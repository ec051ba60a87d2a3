"""Every code of every narrow format against ml_dtypes, and rounding to them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu
from gpuemu import formats
from gpuemu.errors import BadType, BadValue
from gpuemu.mfma.encode import encode, largest_code

EIGHT = ("f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2")
NARROW = (*EIGHT, "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
NAN_CODES = {
    "f8e4m3fnuz": {0x80},
    "f8e5m2fnuz": {0x80},
    "f8e4m3fn": {0x7F, 0xFF},
    "f8e5m2": {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF},
}
LARGEST = {
    "f8e4m3fnuz": 240.0,
    "f8e5m2fnuz": 57344.0,
    "f8e4m3fn": 448.0,
    "f8e5m2": 57344.0,
    "f6e2m3fn": 7.5,
    "f6e3m2fn": 28.0,
    "f4e2m1fn": 6.0,
}


def all_codes(fmt: formats.Format) -> np.ndarray[Any, Any]:
    return np.arange(1 << fmt.bits).astype(fmt.storage)


@pytest.mark.parametrize("name", [*NARROW, "f8e8m0fnu", "f16", "bf16", "i8", "u8"])
def test_every_code_decodes_as_in_ml_dtypes(name: str) -> None:
    fmt = formats.get(name)
    codes = all_codes(fmt)
    with np.errstate(invalid="ignore"):
        wide = codes.view(fmt.dtype).astype(np.float64)
    for code, want in zip(codes.tolist(), wide.tolist(), strict=True):
        kind = fmt.classify(code)
        if kind == "nan":
            assert np.isnan(want)
        elif kind == "inf":
            assert np.isinf(want) and (want < 0) == bool(code >> (fmt.bits - 1))
        else:
            assert fmt.value(code) == Fraction(want)


@pytest.mark.parametrize("name", NARROW)
def test_special_codes_and_largest_numbers(name: str) -> None:
    fmt = formats.get(name)
    kinds = {code: fmt.classify(code) for code in all_codes(fmt).tolist()}
    assert {c for c, kind in kinds.items() if kind == "nan"} == NAN_CODES.get(name, set())
    infinities = {0x7C, 0xFC} if name == "f8e5m2" else set()
    assert {c for c, kind in kinds.items() if kind == "inf"} == infinities
    assert fmt.value(largest_code(fmt)) == LARGEST[name]
    assert 2.0**fmt.emax <= LARGEST[name] < 2.0 ** (fmt.emax + 1)


@pytest.mark.parametrize(
    ("name", "instruction", "arch", "cbsz"),
    [
        ("f8e4m3fnuz", "v_mfma_f32_16x16x32_fp8_fp8", "gfx942", 0),
        ("f8e5m2fnuz", "v_mfma_f32_16x16x32_bf8_bf8", "gfx942", 0),
        ("f8e4m3fn", "v_mfma_f32_16x16x32_fp8_fp8", "gfx950", 0),
        ("f8e5m2", "v_mfma_f32_16x16x32_bf8_bf8", "gfx950", 0),
        *(
            (name, "v_mfma_f32_16x16x128_f8f6f4", "gfx950", code)
            for code, name in enumerate(("f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn"))
        ),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_every_code_decodes_in_an_instruction(
    name: str, instruction: str, arch: str, cbsz: int, backend: str
) -> None:
    """Each code, alone in its row of A times one, comes out of D: 16 rows a call."""
    i = gpuemu.instruction(instruction, arch)
    fmt = formats.get(name)
    codes = all_codes(fmt)
    one = next(c for c in codes.tolist() if fmt.classify(c) == "finite" and fmt.value(c) == 1)
    calls = len(codes) // 16
    A = np.zeros((calls, 1, 16, i.K), np.uint8)
    A[:, 0, :, 5] = codes.reshape(calls, 16)
    B = np.full((1, i.K, 16), one, np.uint8)
    modifiers = {"cbsz": cbsz, "blgp": cbsz} if "f8f6f4" in instruction else {}
    D = i(A, B, bits=True, backend=backend, **modifiers)[:, 0, :, 0].ravel()
    want = codes.view(fmt.dtype).astype(np.float32)
    want = np.where(want == 0, np.float32(0), want)  # an exact zero of these models is +0
    same = (D.view(np.uint32) == want.view(np.uint32)) | (np.isnan(D) & np.isnan(want))
    assert same.all()


def cut_value(fmt: formats.Format, code: int, input_bits: int) -> float:
    """Return what a multiplier that reads so many mantissa bits sees of a code."""
    kind, cut = fmt.classify(code), max(fmt.mantissa_bits - input_bits, 0)
    sign_bit = 1 << (fmt.bits - 1)
    sign = -1.0 if code & sign_bit else 1.0
    magnitude = (code & (sign_bit - 1)) >> cut << cut
    if fmt.nan == "ieee":  # there a NaN may lose the bits that tell it from an infinity
        kind = fmt.classify(magnitude)
    if kind != "finite":
        return np.nan if kind == "nan" else sign * np.inf
    return sign * float(fmt.value(magnitude))


@pytest.mark.parametrize("input_bits", [0, 1, 2, 3])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_every_code_cut_to_the_multipliers_bits(name: str, arch: str, input_bits: int) -> None:
    """Alone in its row, a code comes out of D; filling its row, even its zeros keep their sign."""
    i = gpuemu.instruction(f"v_mfma_f32_16x16x32_{name}_{name}", arch)
    fmt = i.operand_format("A")
    codes = all_codes(fmt).reshape(16, 16)
    one = int(np.ones(1, fmt.dtype).view(np.uint8)[0])
    alone = np.zeros((16, 1, 16, 32), np.uint8)
    alone[:, 0, :, 5] = codes
    full = np.broadcast_to(codes[:, None, :, None], alone.shape)
    B = np.full((1, 32, 16), one, np.uint8)
    C = np.full((1, 16, 16), -0.0, np.float32)
    want = np.array([cut_value(fmt, c, input_bits) for c in codes.ravel().tolist()], np.float32)
    for model in (
        gpuemu.Model("cut", "aligned", group=16, input_bits=input_bits),
        gpuemu.Model("cut", "pairwise", group=4, input_bits=input_bits),
        gpuemu.Model("cut", "fma", input_bits=input_bits),
        gpuemu.Model("cut", "exact", group=16, input_bits=input_bits),
    ):
        for A in (alone, full):
            D = {b: i(A, B, C, bits=True, backend=b, model=model) for b in ("numpy", "host")}
            got = {b: d.view(np.uint32) for b, d in D.items()}
            assert np.array_equal(got["numpy"], got["host"]), model.algorithm
            if A is alone:
                assert np.array_equal(D["numpy"][:, 0, :, 0].ravel(), want, equal_nan=True)


def test_e8m0_scales_decode_in_an_instruction() -> None:
    i = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
    codes = np.arange(256, dtype=np.uint8).reshape(16, 1, 16, 1)
    A = np.zeros((1, 16, 128), np.uint8)
    A[0, :, 0] = 0x38
    B = np.full((1, 128, 16), 0x38, np.uint8)
    sa = np.concatenate([codes, np.full((16, 1, 16, 3), 127, np.uint8)], axis=-1)
    one = np.full((4, 16), 127, np.uint8)
    for backend in ("numpy", "host"):
        D = i(A, B, bits=True, scale_a=sa, scale_b=one, backend=backend)[:, 0, :, 0].ravel()
        want = np.arange(256, dtype=np.uint8).view(formats.get("f8e8m0fnu").dtype)
        same = want.astype(np.float32) == D
        same[255] = np.isnan(D[255])
        assert same.all()


# Field case 15: every f16 to every 8-bit format.


def reference_rounding(
    values: np.ndarray[Any, Any], fmt: formats.Format, rounding: str
) -> np.ndarray[Any, Any]:
    """Return the codes that finite magnitudes round to, from the table of the format's numbers.

    A code beyond the largest finite one stands for every overflow. All differences are exact.
    """
    table = [float(fmt.value(c)) for c in range(largest_code(fmt) + 1)]
    table.append(2 * table[-1] - table[-2])  # what would come next decides what overflows
    steps = np.array(table)
    low = np.minimum(np.searchsorted(steps, values, side="right") - 1, len(steps) - 2)
    if rounding == "zero":
        return low
    distance = (values - steps[low]) - (steps[low + 1] - values)
    return low + ((distance > 0) | ((distance == 0) & (low % 2 == 1)))


@pytest.mark.parametrize("name", EIGHT)
@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("saturate", [True, False])
def test_every_f16_rounds_to_every_8_bit_format(name: str, rounding: str, saturate: bool) -> None:
    fmt = formats.get(name)
    bits = np.arange(1 << 16).astype(np.uint16)
    values = bits.view(np.float16).astype(np.float64)
    got = encode(bits.view(np.float16), name, rounding=rounding, saturate=saturate).astype(int)
    top, nan, infinite = largest_code(fmt), np.isnan(values), np.isinf(values)
    want = reference_rounding(np.where(np.isfinite(values), np.abs(values), 0), fmt, rounding)
    beyond = (want > top) | infinite
    want = np.where(beyond, top if saturate else 0x7C, want)
    if not saturate and not fmt.infinities:
        nan = nan | beyond
    signed = (want != 0) | (fmt.nan != "negative-zero")
    want = np.where(np.signbit(values) & signed, want | 0x80, want)
    assert np.isin(got[nan], list(NAN_CODES[name])).all()
    assert np.array_equal(got[~nan], want[~nan])


def test_ties_of_the_field_case() -> None:
    for value, saturate, code in (
        (4.25, False, 0x48),  # 4.0
        (4.75, False, 0x4A),  # 5.0
        (464.0, False, 0x7E),  # 448: the tie with 480 goes to even
        (465.0, False, 0x7F),
        (465.0, True, 0x7E),
        (-465.0, True, 0xFE),
        (2.0**-10, False, 0x00),  # half the smallest subnormal
        (1.5 * 2.0**-10, False, 0x01),
    ):
        got = encode(np.array([value], np.float16), "f8e4m3fn", saturate=saturate)
        assert (value, hex(got[0])) == (value, hex(code))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rounding_to_nearest_is_that_of_ml_dtypes(name: str, dtype: Any) -> None:
    fmt = formats.get(name)
    values = np.arange(1 << 16).astype(np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        finite = values[np.isfinite(values.astype(np.float32))]
        want = finite.astype(np.float64).astype(fmt.dtype)
    kept = np.isfinite(want.astype(np.float64))
    got = encode(finite, name, saturate=fmt.nan == "none")
    assert np.array_equal(got[kept], want.view(fmt.storage)[kept])
    assert all(fmt.classify(int(c)) != "finite" for c in got[~kept])


def test_what_encode_refuses() -> None:
    one = np.ones(1)
    with pytest.raises(BadValue, match="at most 16 bits"):
        encode(one, "f32")
    with pytest.raises(BadValue, match="at most 16 bits"):
        encode(one, "i8")
    with pytest.raises(BadValue, match="values hold a NaN; f4e2m1fn has no code"):
        encode(one * np.nan, "f4e2m1fn")
    with pytest.raises(BadType, match="values has dtype uint8; legal: float16"):
        encode(one.astype(np.uint8), "f8e5m2")


def test_ocp_and_fnuz_arrays_are_never_mixed_up() -> None:
    cdna3 = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
    cdna4 = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_fp8", "gfx950")
    shapes = (16, 32), (32, 16)
    fnuz, ocp = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3fn
    for row, right, wrong in ((cdna3, fnuz, ocp), (cdna4, ocp, fnuz)):
        good = [np.ones(shape, right) for shape in shapes]
        assert (row(*good, backend="numpy") == 32).all()
        for n in (0, 1):
            bad: list[Any] = list(good)
            bad[n] = np.ones(shapes[n], wrong)
            with pytest.raises(
                BadType, match=f"matrix {'AB'[n]} of .* has dtype {np.dtype(wrong)}"
            ):
                row(*bad, backend="numpy")
            with pytest.raises(BadType, match="has dtype"):
                row.pack("AB"[n], bad[n])
            bad[n] = np.full(shapes[n], 0x38, np.uint8)
            with pytest.raises(BadType, match="only with bits=True"):
                row(*bad, backend="numpy")
