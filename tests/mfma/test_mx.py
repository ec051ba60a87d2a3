"""Block-scaled quantisation against fractions, and the scale registers."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuemu
from gpuemu import formats
from gpuemu.errors import BadShape, BadType, BadValue, IllegalModifier
from gpuemu.mfma import modifiers as mods
from gpuemu.mfma import mx, oracle
from gpuemu.mfma.encode import largest_code
from gpuemu.mfma.instructions import F8F6F4

ROWS = gpuemu.instructions(kind="mfma_scale")
SMALL = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")


@cache
def magnitudes(fmt: formats.Format) -> list[Fraction]:
    """Return the finite numbers that are not negative, by code."""
    codes = range(1 << (fmt.bits - 1))
    return [fmt.value(c) for c in codes if fmt.classify(c) == "finite"]


def nearest(fmt: formats.Format, x: Fraction) -> int:
    """Return the code of the nearest magnitude, ties to the even code, clamped."""
    values = magnitudes(fmt)
    above = bisect_left(values, abs(x))
    near = [c for c in (above - 1, above) if 0 <= c < len(values)]
    return min(near, key=lambda c: (abs(values[c] - abs(x)), c % 2))


def quantized(fmt: formats.Format, block: list[float]) -> tuple[int, list[int]]:
    """Return the scale's code and the elements' of one block, in fractions."""
    amax = max(abs(Fraction(x)) for x in block)
    sign = 1 << (fmt.bits - 1)
    if amax == 0:
        return 0, [sign * (math.copysign(1, x) < 0) for x in block]
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= amax:
        exponent += 1
    while Fraction(2) ** exponent > amax:
        exponent -= 1
    code = min(max(exponent - fmt.emax + 127, 0), 254)
    elements = [
        nearest(fmt, Fraction(x) / Fraction(2) ** (code - 127)) | sign * (math.copysign(1, x) < 0)
        for x in block
    ]
    return code, elements


@pytest.mark.parametrize("name", F8F6F4)
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-150, 130))
def test_against_fractions(name: str, seed: int, exponent: int) -> None:
    fmt = formats.get(name)
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", under="ignore"):
        wide = np.ldexp(rng.choice([1, 1.5, 1.25, 1.0625, 1.75, 0], 32), rng.integers(-6, 1, 32))
        block = (np.ldexp(wide, exponent) * rng.choice([-1, 1], 32)).astype(np.float32)
    block[~np.isfinite(block)] = 0
    elements, scales = mx.quantize(block, name)
    code, want = quantized(fmt, block.tolist())
    assert int(scales.view(np.uint8)[0]) == code
    assert elements.view(np.uint8).tolist() == want


def test_the_scale_rule_by_hand() -> None:
    block = np.zeros(32, np.float32)
    for largest, name, code in (
        (448.0, "f8e4m3fn", 127),  # emax 8
        (256.0, "f8e4m3fn", 127),
        (255.9, "f8e4m3fn", 126),
        (1.0, "f8e5m2", 127 - 15),
        (6.0, "f4e2m1fn", 127),  # emax 2
        (7.5, "f6e2m3fn", 127),
        (28.0, "f6e3m2fn", 127),  # emax 4
        (2.0**-149, "f8e5m2", 0),  # clamped: 2**-164 is below E8M0
        (0.0, "f8e5m2", 0),
    ):
        block[7] = -largest
        elements, scales = mx.quantize(block, name)
        assert (name, largest, int(scales.view(np.uint8)[0])) == (name, largest, code)
        assert elements.dtype == formats.get(name).dtype
    assert mx.quantize(np.full(32, 1e308), "f8e4m3fn")[1].view(np.uint8)[0] == 254


def test_saturating_or_not() -> None:
    """500 scales to itself: between E4M3's largest number, 448, and the next power of two."""
    block = np.full(32, 500.0, np.float32)
    assert mx.quantize(block, "f8e4m3fn")[0].view(np.uint8)[0] == 0x7E
    assert mx.quantize(block, "f8e4m3fn", saturate=False)[0].view(np.uint8)[0] == 0x7F
    block[:] = -63000  # E5M2: beyond the tie between 57344 and 65536
    assert mx.quantize(block, "f8e5m2")[0].view(np.uint8)[0] == 0xFB
    assert mx.quantize(block, "f8e5m2", saturate=False)[0].view(np.uint8)[0] == 0xFC
    assert (
        mx.quantize(block, "f8e5m2", saturate=False, rounding="zero")[0].view(np.uint8)[0] == 0xFB
    )
    for name in F8F6F4[2:]:
        with pytest.raises(BadValue, match="has no code beyond its largest number"):
            mx.quantize(block, name, saturate=False)


def test_nan_and_infinity() -> None:
    block = np.ones(64, np.float32)
    block[3], block[40] = np.nan, np.inf
    elements, scales = mx.quantize(block, "f8e5m2", saturate=False)
    assert scales.view(np.uint8).tolist() == [112, 112]
    assert np.isnan(elements[3].astype(float)) and np.isposinf(elements[40].astype(float))
    assert np.isfinite(mx.dequantize(elements, scales)).sum() == 62
    elements, scales = mx.quantize(block, "f4e2m1fn")
    assert scales.view(np.uint8).tolist() == [255, 125]
    back = mx.dequantize(elements, scales)
    assert np.isnan(back[:32]).all()
    assert back[32:].tolist() == [1.5 if n == 40 else 1.0 for n in range(32, 64)]


@pytest.mark.parametrize("name", F8F6F4)
@pytest.mark.parametrize("axis", [-1, -2, 0])
def test_every_code_and_scale_comes_back(name: str, axis: int) -> None:
    fmt = formats.get(name)
    rng = np.random.default_rng(0)
    legal = np.array([c for c in range(1 << fmt.bits) if fmt.classify(c) == "finite"], np.uint8)
    codes = rng.choice(legal, (3, 64, 96))
    shape = list(codes.shape)
    shape[axis] //= 32
    if axis == 0:
        codes, shape = np.concatenate([codes] * 11)[:32], [1, 64, 96]
    first = [slice(None)] * 3
    first[axis] = slice(None, None, 32)
    codes[tuple(first)] = largest_code(fmt)  # so that the scale is the only one that fits
    scales = rng.integers(0, 255, shape).astype(np.uint8)
    values = mx.dequantize(codes, scales, fmt=name, axis=axis)
    for n in zip(*(rng.integers(0, s, 50) for s in codes.shape), strict=True):
        at = list(n)
        at[axis] //= 32
        exponent = int(scales[tuple(at)]) - 127
        assert Fraction(values[n]) == fmt.value(int(codes[n])) * Fraction(2) ** exponent
    again = mx.quantize(values, name, axis=axis)
    assert np.array_equal(again[0].view(np.uint8), codes)
    assert np.array_equal(again[1].view(np.uint8), scales)
    spoiled = scales.copy()
    spoiled.flat[0] = 255
    assert np.isnan(mx.dequantize(codes, spoiled, fmt=name, axis=axis)).sum() == 32


def test_sources_of_every_width() -> None:
    values = np.arange(-16, 16, dtype=np.float64) / 4
    want = mx.quantize(values, "f8e4m3fn")
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        got = mx.quantize(values.astype(dtype), "f8e4m3fn")
        for x, y in zip(got, want, strict=True):
            assert np.array_equal(x.view(np.uint8), y.view(np.uint8))


def test_empty_matrices() -> None:
    for shape in ((0, 64), (4, 0)):
        elements, scales = mx.quantize(np.zeros(shape), "f8e5m2")
        assert elements.shape == shape and scales.shape == (shape[0], shape[1] // 32)
        assert mx.dequantize(elements, scales).shape == shape


def test_what_is_refused() -> None:
    values = np.zeros((4, 64), np.float32)
    with pytest.raises(
        BadValue, match="fmt='f8e4m3fnuz' is no element format of MX; legal: f8e4m3fn"
    ):
        mx.quantize(values, "f8e4m3fnuz")
    with pytest.raises(BadShape, match="4 elements along axis 0; legal: a multiple of 32"):
        mx.quantize(values, "f4e2m1fn", axis=0)
    with pytest.raises(BadShape, match="axis=2; values has 2 dimension"):
        mx.quantize(values, "f4e2m1fn", axis=2)
    with pytest.raises(BadType, match="values has dtype int64; legal: float16, bfloat16"):
        mx.quantize(values.astype(np.int64), "f4e2m1fn")
    with pytest.raises(BadValue, match="rounding='up'; legal: nearest, zero"):
        mx.quantize(values, "f4e2m1fn", rounding="up")
    with pytest.raises(BadValue, match="elements hold the code 0x1f; f4e2m1fn has 4 bits"):
        mx.dequantize(np.full(32, 0x1F, np.uint8), np.zeros(1, np.uint8), fmt="f4e2m1fn")
    elements, scales = mx.quantize(values, "f4e2m1fn")
    with pytest.raises(BadShape, match=r"scales have shape \(4, 1\)"):
        mx.dequantize(elements, scales[:, :1])
    with pytest.raises(BadType, match="uint8; legal: an ml_dtypes dtype of"):
        mx.dequantize(elements.view(np.uint8), scales)
    with pytest.raises(BadType, match="scales has dtype uint8; f8e8m0fnu wants"):
        mx.dequantize(elements, scales.view(np.uint8))


@pytest.mark.parametrize("row", ROWS, ids=lambda i: i.mnemonic)
@pytest.mark.parametrize("byte", range(4))
def test_scale_registers_come_back(row: gpuemu.Instruction, byte: int) -> None:
    rng = np.random.default_rng(byte)
    blocks = row.K // 32
    sa = rng.integers(0, 256, (5, 1, row.M, blocks), dtype=np.uint8)
    sb = rng.integers(0, 256, (5, 1, blocks, row.N), dtype=np.uint8)
    op_sel = (byte, 3 - byte)
    a = mx.pack_scales(row, "A", sa, op_sel=op_sel)
    b = mx.pack_scales(row, "B", sb, op_sel=op_sel)
    assert a.shape == b.shape == (5, 1, 64)
    # One lane, one byte a scale: lane = row + M * block.
    for n in range(row.M):
        for kb in range(blocks):
            assert (a[:, 0, n + row.M * kb] == sa[:, 0, n, kb].astype(np.uint32) << 8 * byte).all()
            assert (
                b[:, 0, n + row.N * kb] == sb[:, 0, kb, n].astype(np.uint32) << 24 - 8 * byte
            ).all()
    back = oracle.scale_codes(a, b, row, mods.check(row, op_sel=op_sel))
    assert np.array_equal(back[0], sa[:, 0]) and np.array_equal(back[1], sb[:, 0])
    plain = mx.pack_scales(row, "A", sa[0, 0].view(formats.get("f8e8m0fnu").dtype), op_sel=op_sel)
    assert np.array_equal(plain, a[0])


def test_what_pack_scales_refuses() -> None:
    codes = np.zeros((16, 4), np.uint8)
    with pytest.raises(BadShape, match=r"shape \(16, 4\); .* wants \(\.\.\., 4, 16\)"):
        mx.pack_scales(SMALL, "B", codes)
    with pytest.raises(BadValue, match="matrix 'C' has no scales; legal: A, B"):
        mx.pack_scales(SMALL, "C", codes)
    with pytest.raises(BadType, match="float32; f8e8m0fnu wants"):
        mx.pack_scales(SMALL, "A", codes.astype(np.float32))
    with pytest.raises(IllegalModifier, match=r"op_sel\[0\]=4"):
        mx.pack_scales(SMALL, "A", codes, op_sel=(4, 0))
    with pytest.raises(BadValue, match="reads no scales; legal: v_mfma_scale_"):
        mx.pack_scales(gpuemu.instruction("v_mfma_f32_16x16x128_f8f6f4", "gfx950"), "A", codes)
