"""The f8f6f4 instructions of gfx950, scaled and not: formats, lanes, bytes of scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import formats
from gpuemu.errors import BadShape, BadType, BadValue, IllegalModifier
from gpuemu.mfma import execute as door
from gpuemu.mfma import instructions as table
from gpuemu.mfma import models, mx
from gpuemu.mfma import modifiers as mods
from tests.mfma import plain_reference as plain
from tests.mfma import register_inputs as inputs

SCALED = gpuemu.instructions(kind="mfma_scale")
UNSCALED = gpuemu.instructions(kind="mfma_f8f6f4")
SMALL = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
PAIRS = [(cbsz, blgp) for cbsz in range(5) for blgp in range(5)]


def plain_twin(row: gpuemu.Instruction) -> gpuemu.Instruction:
    """Return the unscaled instruction of the same shape."""
    return next(i for i in UNSCALED if i.M == row.M)


def operands(
    row: gpuemu.Instruction, m: mods.Modifiers, category: str, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    a = inputs.operand(row, "A", m, category, rng)
    b = inputs.operand(row, "B", m, category, rng)
    return a, b, inputs.accumulator(row, rng)


def test_the_table_has_both_shapes_scaled_and_not() -> None:
    shapes = {(16, 16, 128), (32, 32, 64)}
    for rows in (SCALED, UNSCALED):
        assert {(i.M, i.N, i.K) for i in rows} == shapes
    assert {(i.arch, i.model, i.fidelity) for i in (*SCALED, *UNSCALED)} == {
        ("gfx950", "cdna4_f8f6f4", "unverified")
    }


@pytest.mark.parametrize(("cbsz", "blgp"), PAIRS)
@pytest.mark.parametrize("row", [*SCALED, *UNSCALED], ids=lambda i: i.mnemonic)
def test_host_equals_oracle(row: gpuemu.Instruction, cbsz: int, blgp: int) -> None:
    rng = np.random.default_rng(10 * cbsz + blgp)
    m = mods.check(row, cbsz=cbsz, blgp=blgp)
    waves = [operands(row, m, category, rng) for category in inputs.CATEGORIES]
    a, b, c = (np.stack(x) for x in zip(*waves, strict=True))
    scales: dict[str, Any] = {}
    op_sels = [(0, 0)]
    if row.kind == "mfma_scale":
        op_sels = [(int(x), int(y)) for x, y in rng.permuted([[0, 1, 2, 3]] * 2, axis=1).T]
        wide = [inputs.scale_register(rng), inputs.scale_register(rng, 0, 256)]
        scales = {name: np.stack([wide[0], wide[1], *wide]) for name in ("scale_a", "scale_b")}
    # The rest after cancellation: C is the negative of the products' sum.
    c[1] = gpuemu.execute(
        row, a[1], b[1], c[1] * 0, cbsz=cbsz, blgp=blgp, backend="host",
        **{name: x[1] for name, x in scales.items()},
    ) ^ np.uint32(0x80000000)  # fmt: skip
    for op_sel in op_sels:
        call = door.call(row, cbsz=cbsz, blgp=blgp, op_sel=op_sel)
        given = {"a": a, "b": b, "c": c, "idx": None, "scale_a": None, "scale_b": None} | scales
        got, want = (door.run(call, given, backend) for backend in ("host", "numpy"))
        door.compare(call, got, want, "host")
        finite = np.isfinite(want[0].view(np.float32))
        assert finite.all()


@pytest.mark.parametrize(("cbsz", "blgp"), PAIRS)
@pytest.mark.parametrize("row", [*SCALED, *UNSCALED], ids=lambda i: i.mnemonic)
def test_registers_to_bits_against_plain_python(
    row: gpuemu.Instruction, cbsz: int, blgp: int
) -> None:
    rng = np.random.default_rng(1000 + 10 * cbsz + blgp)
    m = mods.check(row, cbsz=cbsz, blgp=blgp)
    fa, fb = row.operand_format("A", cbsz), row.operand_format("B", blgp=blgp)
    model = models.get(row.model)
    for category in inputs.CATEGORIES:
        a, b, c = operands(row, m, category, rng)
        modifiers: dict[str, Any] = {"cbsz": cbsz, "blgp": blgp}
        sa = sb = None
        byte_a = byte_b = 0
        if row.kind == "mfma_scale":
            low, high = (0, 256) if category == "hot" else (117, 138)
            sa, sb = (inputs.scale_register(rng, low, high) for _ in range(2))
            byte_a, byte_b = (int(n) for n in rng.integers(0, 4, 2))
            modifiers |= {"scale_a": sa, "scale_b": sb, "op_sel": (byte_a, byte_b)}
        d = gpuemu.execute(row, a, b, c, backend="numpy", **modifiers)
        for i, j in rng.integers(0, row.M, (2, 2)).tolist():
            vgpr, lane = plain.result_place(row, i, j)
            factors = plain.narrow_factors(row, a, b, cbsz, blgp, i, j)
            sums = None
            if sa is not None and sb is not None:
                sums = {}
                for k in range(0, row.K, model.group):
                    x = plain.scale_exponent(row, sa, i, k, byte_a)
                    y = plain.scale_exponent(row, sb, j, k, byte_b)
                    sums[k] = None if x is None or y is None else x + y
            want = plain.aligned(model, fa, fb, factors, int(c[vgpr, lane]), model.group, sums)
            assert hex(int(d[vgpr, lane])) == hex(want)


def exact_case(
    row: gpuemu.Instruction, cbsz: int, blgp: int, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """Return matrices of small numbers that every format holds, sums of which are exact."""
    legal = np.array([-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4])
    A, B = rng.choice(legal, (2, row.M, row.K)), rng.choice(legal, (2, row.K, row.N))
    types = row.operand_format("A", cbsz).dtype, row.operand_format("B", blgp=blgp).dtype
    C = rng.integers(-500, 500, (2, row.M, row.N)).astype(np.float32)
    return A.astype(types[0]), B.astype(types[1]), C


@pytest.mark.parametrize(("cbsz", "blgp"), PAIRS)
@pytest.mark.parametrize("row", SCALED, ids=lambda i: i.mnemonic)
def test_matrices_of_exact_sums(row: gpuemu.Instruction, cbsz: int, blgp: int) -> None:
    rng = np.random.default_rng(10 * cbsz + blgp)
    A, B, C = exact_case(row, cbsz, blgp, rng)
    wide = A.astype(np.float64), B.astype(np.float64)
    blocks = row.K // 32
    x, y = rng.integers(124, 131, (2, row.M, blocks)), rng.integers(124, 131, (2, blocks, row.N))
    e8m0 = formats.get("f8e8m0fnu").dtype
    sa, sb = x.astype(np.uint8).view(e8m0), y.astype(np.uint8).view(e8m0)
    scaled = (
        wide[0]
        * np.repeat(2.0 ** (x - 127), 32, axis=-1)
        @ (wide[1] * np.repeat(2.0 ** (y - 127), 32, axis=-2))
        + C
    )
    for backend in ("numpy", "host"):
        D = row(
            A, B, C, cbsz=cbsz, blgp=blgp, scale_a=sa, scale_b=sb, op_sel=(3, 1), backend=backend
        )
        assert np.array_equal(D[:, 0], scaled)
        D = plain_twin(row)(A, B, C, cbsz=cbsz, blgp=blgp, backend=backend)
        assert np.array_equal(D[:, 0], wide[0] @ wide[1] + C)


@pytest.mark.parametrize("row", SCALED, ids=lambda i: i.mnemonic)
def test_scales_of_one_leave_the_unscaled_bits(row: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(1)
    a, b, c = operands(row, mods.Modifiers(), "finite", rng)
    one = np.full((1, 64), 0x7F7F7F7F, np.uint32)
    scaled = gpuemu.execute(row, a, b, c, scale_a=one, scale_b=one, backend="numpy")
    assert np.array_equal(scaled, gpuemu.execute(plain_twin(row), a, b, c, backend="numpy"))


@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("row", SCALED, ids=lambda i: i.mnemonic)
def test_scale_zero_is_two_to_minus_127_and_not_unscaled(
    row: gpuemu.Instruction, backend: str
) -> None:
    zero = np.zeros((1, 64), np.uint32)
    a = row.pack("A", np.full((1, row.M, row.K), 0x38, np.uint8))  # ones
    b = row.pack("B", np.full((1, row.K, row.N), 0x38, np.uint8))
    c = np.zeros((row.vgprs["D"], 64), np.uint32)
    one = zero + np.uint32(0x7F7F7F7F)
    d = gpuemu.execute(row, a, b, c, scale_a=zero, scale_b=one, backend=backend)
    assert (d.view(np.float32) == np.float32(row.K * 2.0**-127)).all()
    d = gpuemu.execute(row, a, b, c, scale_a=zero, scale_b=zero, backend=backend)
    assert (d == 0).all()  # 2**-254: below every binary32
    top = zero + np.uint32(0xFEFEFEFE)
    d = gpuemu.execute(row, a, b, c, scale_a=zero, scale_b=top, backend=backend)
    assert (d.view(np.float32) == row.K).all()  # 2**-127 times 2**127
    d = gpuemu.execute(row, a, b, c, scale_a=top, scale_b=one, backend=backend)
    assert (d == 0x7F800000).all()  # 32 times 2**127: beyond binary32
    d = gpuemu.execute(plain_twin(row), a, b, c, backend=backend)
    assert (d.view(np.float32) == row.K).all()


@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("row", SCALED, ids=lambda i: i.mnemonic)
def test_one_nan_scale_spoils_its_row_or_column_only(row: gpuemu.Instruction, backend: str) -> None:
    A = np.zeros((row.M, row.K), formats.get("f4e2m1fn").dtype)  # NaN even where all products are 0
    B = np.zeros((row.K, row.N), A.dtype)
    sa = np.full((row.M, row.K // 32), 127, np.uint8)
    sb = np.full((row.K // 32, row.N), 127, np.uint8)
    for kb in range(row.K // 32):
        x, y = sa.copy(), sb.copy()
        x[5, kb], y[kb, 11] = 0xFF, 0xFF
        D = row(
            A.view(np.uint8), B.view(np.uint8), bits=True, cbsz=4, blgp=4,
            scale_a=x, scale_b=y, op_sel=(2, 3), backend=backend,
        )[0]  # fmt: skip
        want = np.zeros((row.M, row.N), bool)
        want[5, :] = want[:, 11] = True
        assert np.array_equal(np.isnan(D), want)
        assert not D[~want].any()


@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_nan_and_infinity_codes(backend: str) -> None:
    def run(a0: int, b0: int, cbsz: int, blgp: int, c0: int = 0, scale: int = 127) -> str:
        A, B = np.zeros((16, 128), np.uint8), np.zeros((128, 16), np.uint8)
        A[0, 70], B[70, 0] = a0, b0
        C = np.zeros((16, 16), np.uint32)
        C[0, 0] = c0
        scales = np.full((16, 4), 127, np.uint8), np.full((4, 16), 127, np.uint8)
        scales[0][0, 2] = scale
        D = SMALL(
            A, B, C, bits=True, cbsz=cbsz, blgp=blgp, scale_a=scales[0], scale_b=scales[1],
            backend=backend,
        )  # fmt: skip
        assert not D[0, 1:, 1:].any()
        return f"{D[0, 0, 0].view(np.uint32):08X}"

    inf, negative, nan = "7F800000", "FF800000", "7FC00000"
    assert run(0x7C, 0x3C, 1, 1) == inf  # E5M2 infinity times one
    assert run(0xFC, 0x3C, 1, 1) == negative
    assert run(0x7C, 0x00, 1, 1) == nan  # infinity times zero
    assert run(0x7D, 0x3C, 1, 1) == nan
    assert run(0x7F, 0x38, 0, 0) == nan  # E4M3 has one NaN magnitude and no infinity
    assert run(0xFF, 0x38, 0, 0) == nan
    assert run(0x7E, 0x38, 0, 0) == "43E00000"  # 448
    assert run(0x3F, 0x0C, 2, 3) == "C0F00000"  # -7.5 (E2M3) times 1 (E3M2)
    assert run(0x1F, 0x10, 3, 2) == "42600000"  # 28 (E3M2) times 2 (E2M3)
    assert run(0x07, 0x0F, 4, 4) == "C2100000"  # 6 times -6
    assert run(0x7C, 0x3C, 1, 1, c0=0xFF800000) == nan  # Inf - Inf
    assert run(0x00, 0x00, 1, 1, c0=0x7F800000) == inf
    assert run(0x00, 0x00, 1, 1, c0=0x7FA00000) == nan  # a signalling NaN comes out quiet
    assert run(0x7C, 0x3C, 1, 1, scale=0) == inf  # a finite scale leaves infinity alone
    assert run(0x7C, 0x3C, 1, 1, scale=255) == nan


@pytest.mark.parametrize("row", SCALED, ids=lambda i: i.mnemonic)
def test_scale_lanes_and_bytes_by_hand(row: gpuemu.Instruction) -> None:
    """Field case 17: the scale of row i and block b, seen from every op_sel byte."""
    blocks = row.K // 32
    i, b = np.meshgrid(np.arange(row.M), np.arange(blocks), indexing="ij")
    exponents = (i + 4 * b) % 8
    ones = row.pack("A", np.full((1, row.M, row.K), 0x38, np.uint8))
    b_ones = row.pack("B", np.full((1, row.K, row.N), 0x38, np.uint8))
    c = np.zeros((row.vgprs["D"], 64), np.uint32)
    want = 32.0 * (2.0**exponents).sum(axis=1)
    for byte_a in range(4):
        image = np.zeros((1, 64), np.uint32)
        for lane in range(64):
            code = 127 + exponents[lane % row.M, lane // row.M]
            image[0, lane] = code << (8 * byte_a) | (0x01 << (8 * ((byte_a + 1) % 4)))
        for byte_b in range(4):
            one = np.full((1, 64), 127 << (8 * byte_b), np.uint32)
            for backend in ("numpy", "host"):
                d = gpuemu.execute(
                    row, ones, b_ones, c, scale_a=image, scale_b=one, op_sel=(byte_a, byte_b),
                    backend=backend,
                )  # fmt: skip
                D = row.unpack("D", d)[0]
                assert np.array_equal(D, np.broadcast_to(want[:, None], D.shape))
                # The same numbers as scales of B, by column.
                d = gpuemu.execute(
                    row, ones, b_ones, c, scale_a=one, scale_b=image, op_sel=(byte_b, byte_a),
                    backend=backend,
                )  # fmt: skip
                D = row.unpack("D", d)[0]
                assert np.array_equal(D, np.broadcast_to(want[None, :], D.shape))


def test_the_scale_lane_is_not_the_data_lane_of_fp8() -> None:
    """Lane 16 holds k 16..31 and 80..95 of FP8, and the scale of k 32..63."""
    where = SMALL.layout("A")
    lanes = where[0, 0, :, 1]
    assert sorted(np.flatnonzero(lanes == 16).tolist()) == [*range(16, 32), *range(80, 96)]
    assert SMALL.layout("SCALE_A")[0, 0, :, 1].tolist() == [0, 16, 32, 48]
    assert SMALL.layout("A", cbsz=4)[0, 0, 32:64, 1].tolist() == [16] * 32
    assert SMALL.layout("A", cbsz=2)[0, 0, 32:64, 1].tolist() == [16] * 32


@pytest.mark.parametrize("cbsz", range(5))
@pytest.mark.parametrize("row", [*SCALED, *UNSCALED], ids=lambda i: i.mnemonic)
def test_packing_is_dense_over_the_tuple(row: gpuemu.Instruction, cbsz: int) -> None:
    """8, 6 or 4 registers, every bit of them used once."""
    fmt = row.operand_format("A", cbsz)
    registers = {8: 8, 6: 6, 4: 4}[fmt.bits]
    for matrix, modifiers in (("A", {"cbsz": cbsz}), ("B", {"blgp": cbsz})):
        assert row.operand_vgprs(matrix, **modifiers) == registers
        where = row.layout(matrix, **modifiers).reshape(-1, 4)
        start = (where[:, 1] * registers + where[:, 0]) * 32 + where[:, 2]
        bits = (start[:, None] + np.arange(fmt.bits)).ravel()
        assert np.array_equal(np.sort(bits), np.arange(64 * registers * 32))
        image = np.random.default_rng(2).integers(0, 1 << 32, (registers, 64), dtype=np.uint32)
        assert np.array_equal(row.pack(matrix, row.unpack(matrix, image, **modifiers), **modifiers),
                              image)  # fmt: skip


def test_fp6_by_hand() -> None:
    codes = np.zeros((1, 16, 128), np.uint8)
    codes[0, 0, :6] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x3F
    image = SMALL.pack("A", codes, cbsz=2)
    assert image.shape == (6, 64)
    # 6 bits each: item 5 lies in bits 30 to 35, over two registers.
    assert hex(image[0, 0]) == hex(
        0x01 | 0x02 << 6 | 0x03 << 12 | 0x04 << 18 | 0x05 << 24 | 3 << 30
    )
    assert hex(image[1, 0]) == "0xf"


def test_what_is_refused() -> None:
    a8, a6 = np.zeros((8, 64), np.uint32), np.zeros((6, 64), np.uint32)
    c, s = np.zeros((4, 64), np.uint32), np.zeros((1, 64), np.uint32)
    row, twin = SMALL, plain_twin(SMALL)
    with pytest.raises(
        BadShape, match=r"registers of a have shape \(8, 64\).* wants \(\.\.\., 6, 64\)"
    ):
        gpuemu.execute(twin, a8, a8, c, cbsz=2, backend="numpy")
    with pytest.raises(BadShape, match=r"registers of b have shape \(6, 64\)"):
        gpuemu.execute(twin, a8, a6, c, backend="numpy")
    with pytest.raises(IllegalModifier, match=r"cbsz=5 is a reserved format code; legal: 0..4"):
        gpuemu.execute(twin, a8, a8, c, cbsz=5, backend="numpy")
    with pytest.raises(BadType, match="scale_b is missing"):
        gpuemu.execute(row, a8, a8, c, scale_a=s, backend="numpy")
    with pytest.raises(BadType, match="scale_a is given"):
        gpuemu.execute(twin, a8, a8, c, scale_a=s, backend="numpy")
    with pytest.raises(IllegalModifier, match="only mfma_scale reads scales"):
        gpuemu.execute(twin, a8, a8, c, op_sel=(1, 0), backend="numpy")
    with pytest.raises(IllegalModifier, match=r"op_sel\[1\]=4; legal: 0..3"):
        gpuemu.execute(row, a8, a8, c, scale_a=s, scale_b=s, op_sel=(0, 4), backend="numpy")
    with pytest.raises(IllegalModifier, match="abid=1"):
        gpuemu.execute(twin, a8, a8, c, abid=1, backend="numpy")
    with pytest.raises(BadValue, match="0x10; f4e2m1fn has 4 bits"):
        twin.pack("A", np.full((1, 16, 128), 0x10, np.uint8), cbsz=4)


def test_formats_are_never_mixed_up_on_matrices() -> None:
    """The dtype must be that of cbsz and blgp; bits want to be called bits."""
    twin = plain_twin(SMALL)
    fp8, bf8, fp4, fnuz = (
        formats.get(name).dtype for name in ("f8e4m3fn", "f8e5m2", "f4e2m1fn", "f8e4m3fnuz")
    )
    shapes = (16, 128), (128, 16)
    with pytest.raises(BadType, match=r"matrix A of .* has dtype float8_e5m2; f8e4m3fn wants"):
        twin(np.zeros(shapes[0], bf8), np.zeros(shapes[1], fp8), backend="numpy")
    with pytest.raises(BadType, match=r"matrix B of .* has dtype float8_e4m3fn; f4e2m1fn wants"):
        twin(np.zeros(shapes[0], fp8), np.zeros(shapes[1], fp8), blgp=4, backend="numpy")
    with pytest.raises(BadType, match="float8_e4m3fnuz; f8e4m3fn wants"):
        twin(np.zeros(shapes[0], fnuz), np.zeros(shapes[1], fp8), backend="numpy")
    with pytest.raises(BadType, match="only with bits=True"):
        twin(np.zeros(shapes[0], np.uint8), np.zeros(shapes[1], fp8), backend="numpy")
    assert not twin(
        np.zeros(shapes[0], fp8), np.zeros(shapes[1], fp4), blgp=4, backend="numpy"
    ).any()
    with pytest.raises(BadType, match=r"scales of A .*uint8 bits only with bits=True"):
        SMALL(
            np.zeros(shapes[0], fp8), np.zeros(shapes[1], fp8), backend="numpy",
            scale_a=np.zeros((16, 4), np.uint8), scale_b=np.zeros((4, 16), np.uint8),
        )  # fmt: skip


def test_quantised_matrices_run_end_to_end() -> None:
    rng = np.random.default_rng(8)
    A, B = rng.standard_normal((16, 128)), rng.standard_normal((128, 16))
    for cbsz, blgp in ((0, 4), (2, 1), (4, 4)):
        x, sx = mx.quantize(A, table.F8F6F4[cbsz])
        y, sy = mx.quantize(B, table.F8F6F4[blgp], axis=-2)
        D = SMALL(x, y, cbsz=cbsz, blgp=blgp, scale_a=sx, scale_b=sy, backend="check")[0]
        exact = mx.dequantize(x, sx) @ mx.dequantize(y, sy, axis=-2)
        # No tolerance for the model's bits: a scale of a wrong block, row or byte is off by half.
        assert np.abs(D - exact).max() < 1e-4 * np.abs(exact).max()
