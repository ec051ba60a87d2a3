"""SMFMAC: packing, index checks, and three implementations of every row against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuemu
from gpuemu.backends import cuda
from gpuemu.errors import BackendUnavailable, BadShape, BadType, BadValue
from gpuemu.mfma import device, models, sparse
from gpuemu.mfma import execute as door
from gpuemu.mfma import modifiers as mods
from tests.mfma import plain_reference as plain
from tests.mfma import register_inputs as inputs

ROWS = gpuemu.instructions(kind="smfmac")
F16 = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
WIDE = gpuemu.instruction("v_smfmac_f32_32x32x64_fp8_fp8", "gfx950")


def ids(row: Any) -> str:
    return f"{row.arch}-{row.mnemonic}"


def index_choices(i: gpuemu.Instruction) -> list[tuple[int, int, int]]:
    """Return (cbsz, abid, index set that the table of the guides names)."""
    sets = {(16, 1): 4, (8, 1): 2, (16, 2): 2, (8, 2): 1}
    count = sets[i.operand_format("A").bits, i.vgprs["A"] // 2]
    return [(0, abid, abid) for abid in range(count)] + [(1, count - 1, 0), (3, 0, 0)]


def wave_inputs(i: gpuemu.Instruction, category: str, rng: np.random.Generator) -> tuple[Any, ...]:
    m = mods.Modifiers()
    a = inputs.operand(i, "A", m, category, rng)
    b = inputs.operand(i, "B", m, category, rng)
    return a, b, inputs.accumulator(i, rng)


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_host_equals_oracle_on_every_index_set(row: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(row.opcode)
    waves = [wave_inputs(row, category, rng) for category in inputs.CATEGORIES]
    a, b, c = (np.stack(x) for x in zip(*waves, strict=True))
    near = gpuemu.execute(row, a, b, c * 0, idx=inputs.ascending_index(row, rng), backend="host")
    if row.formats["D"] == "f32":
        c[1] = near[1] ^ 0x80000000  # what is left is rounding error
    legal = inputs.ascending_index(row, rng)
    anything = rng.integers(0, 1 << 32, (len(waves), 1, 64), dtype=np.uint32)
    results = []
    for cbsz, abid, _ in index_choices(row):
        modifiers = {"cbsz": cbsz, "abid": abid}
        for idx, legality in ((legal, "strict"), (anything, "llvm")):
            call = door.call(row, legality=legality, **modifiers)
            given = {"a": a, "b": b, "c": c, "idx": idx, "scale_a": None, "scale_b": None}
            got = door.run(call, given, "host", strict_index=legality == "strict")
            want = door.run(call, given, "numpy", strict_index=legality == "strict")
            door.compare(call, got, want, "host")
            assert door.equal_bits(row, got, want).all()
            results.append(want)
    assert any(not np.array_equal(r, results[1]) for r in results[3:])  # the index set matters


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_registers_to_bits_against_plain_python(row: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(100 + row.opcode)
    fa, fb = row.operand_format("A"), row.operand_format("B")
    model = models.get(row.model)
    for category, (cbsz, abid, index_set) in zip(
        inputs.CATEGORIES, index_choices(row), strict=False
    ):
        a, b, c = wave_inputs(row, category, rng)
        idx = rng.integers(0, 1 << 32, (1, 64), dtype=np.uint32)
        d = gpuemu.execute(
            row, a, b, c, idx=idx, cbsz=cbsz, abid=abid, legality="llvm", backend="numpy"
        )
        for row_i, column in rng.integers(0, row.M, (3, 2)).tolist():
            vgpr, lane = plain.result_place(row, row_i, column)
            factors = plain.sparse_factors(row, a, b, idx, index_set, row_i, column)
            start = int(c[vgpr, lane])
            if row.formats["D"] == "i32":
                want = start + sum(int(fa.value(x)) * int(fb.value(y)) for x, y, _ in factors)
                assert int(d[vgpr, lane]) == want % (1 << 32)
                continue
            group = min(model.group, len(factors))
            want = plain.aligned(model, fa, fb, factors, start, group)
            assert hex(int(d[vgpr, lane])) == hex(want)


@pytest.mark.parametrize("name", ["cdna3_f16", "cdna3_fp8", "cdna4_16bit_wide"])
def test_dense_grouping_is_a_switch(name: str) -> None:
    """The other hypothesis: links and partial sums count dense columns, zeros included."""
    base = models.models()[name]
    model = replace(base, name="dense", dense_grouping=True, fidelity="unverified")
    row = gpuemu.instruction("v_smfmac_f32_16x16x64_f16", "gfx950")
    if name == "cdna3_fp8":
        row = gpuemu.instruction("v_smfmac_f32_16x16x64_bf8_fp8", "gfx942")
    rng = np.random.default_rng(7)
    fa, fb = row.operand_format("A"), row.operand_format("B")
    differing = 0
    for category in ("narrow", "hot", "finite"):
        a, b, c = wave_inputs(row, category, rng)
        c = inputs.accumulator(row, rng, -10)
        idx = inputs.ascending_index(row, rng)
        got = gpuemu.execute(row, a, b, c, idx=idx, model=model, backend="host")
        want = gpuemu.execute(row, a, b, c, idx=idx, model=model, backend="numpy")
        assert np.array_equal(got, want)
        differing += int((want != gpuemu.execute(row, a, b, c, idx=idx, backend="numpy")).sum())
        for row_i, column in rng.integers(0, row.M, (5, 2)).tolist():
            vgpr, lane = plain.result_place(row, row_i, column)
            factors = plain.sparse_factors(row, a, b, idx, 0, row_i, column)
            slots = [k for _, _, k in factors]
            start = int(c[vgpr, lane])
            bits = plain.aligned(model, fa, fb, factors, start, model.group // 2, slots=slots)
            assert hex(int(want[vgpr, lane])) == hex(bits)
    assert differing > 0


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_small_integers_are_exact_from_dense_matrices(row: gpuemu.Instruction) -> None:
    """Every model gives the exact sum, so the whole road from a dense A is checked by A @ B."""
    rng = np.random.default_rng(row.opcode)
    fa, fb, fd = (row.operand_format(x) for x in "ABD")
    A = np.zeros((2, row.M, row.K), np.int64)
    for group in range(row.K // 4):
        keep = rng.integers(0, 3, (2, row.M))
        columns = np.argsort(rng.random((2, row.M, 4)), axis=-1)
        for n in (0, 1):
            at = 4 * group + columns[..., n]
            values = np.where(keep > n, rng.integers(-3, 4, (2, row.M)), 0)
            np.put_along_axis(A, at[..., None], values[..., None], axis=-1)
    B = rng.integers(-3, 4, (2, row.K, row.N))
    C = rng.integers(-500, 500, (2, row.M, row.N))
    want = A @ B + C
    for backend in ("numpy", "host"):
        for cbsz, abid, _ in index_choices(row):
            D = row(
                A.astype(fa.dtype), B.astype(fb.dtype), C.astype(fd.dtype),
                cbsz=cbsz, abid=abid, backend=backend,
            )  # fmt: skip
            assert D.shape == (2, 1, row.M, row.N)
            assert np.array_equal(D[:, 0].astype(np.int64), want)


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_pack_and_unpack_are_inverse(row: gpuemu.Instruction) -> None:
    rng = np.random.default_rng(row.opcode)
    fmt = row.operand_format("A")
    for cbsz, abid, index_set in index_choices(row):
        a = rng.integers(0, 1 << 32, (3, row.vgprs["A"], 64), dtype=np.uint32)
        idx = inputs.ascending_index(row, rng)
        dense = row.unpack_sparse(a, idx, cbsz=cbsz, abid=abid)
        assert dense.dtype == fmt.dtype
        assert dense.shape == (3, 1, row.M, row.K)
        again, fields = row.pack_sparse(dense, cbsz=cbsz, abid=abid)
        back = row.unpack_sparse(again, fields, cbsz=cbsz, abid=abid)
        assert np.array_equal(back.view(fmt.storage), dense.view(fmt.storage))
        # Groups whose items are both nonzero have one representation only.
        items = row.unpack("A", a).view(fmt.storage)
        if fmt.is_float and fmt.nan != "negative-zero":
            items = items & fmt.storage.type((1 << (fmt.bits - 1)) - 1)
        if (items != 0).all():
            width = row.modifiers.index_bits
            mask = np.uint32(((1 << width) - 1) << (index_set * width))
            assert np.array_equal(again, a)
            assert np.array_equal(fields[:, 0], np.broadcast_to(idx & mask, (3, 1, 64))[:, 0])
        mask = (1 << row.modifiers.index_bits) - 1 << index_set * row.modifiers.index_bits
        assert not (fields & np.uint32(~mask & 0xFFFFFFFF)).any()


def test_pack_sparse_by_hand() -> None:
    dense = np.zeros((16, 32), np.float16)
    dense[0, [1, 3, 6]] = 1, 2, 4
    dense[5, 31] = -8  # lane 5 + 16 * 3, last group: stored items 2 and 3 are columns 28 and 31
    a, idx = F16.pack_sparse(dense, abid=2)
    assert a.shape == (2, 64) and idx.shape == (1, 64)
    assert [hex(v) for v in a[:, 0]] == ["0x40003c00", "0x44000000"]
    assert hex(idx[0, 0]) == "0x8d0000"  # columns 1, 3 and 0, 2
    assert [hex(v) for v in a[:, 53]] == ["0x0", "0xc8000000"]
    assert hex(idx[0, 53]) == "0xc40000"
    assert hex(idx[0, 1]) == "0x440000"  # empty groups: columns 0, 1


def test_zeros_of_either_sign_are_no_nonzeros() -> None:
    dense = np.zeros((16, 32), np.float16)
    dense[0, :4] = -0.0, 3, -0.0, 5
    dense[0, 4:8] = 7, 0.0, -0.0, 0.0
    a, idx = F16.pack_sparse(dense)
    assert [hex(v) for v in a[:, 0]] == ["0x45004200", "0x80004700"]  # a negative zero fills up
    assert hex(idx[0, 0]) == "0x8d"


def test_fnuz_negative_zero_is_a_nan_and_int8_minimum_a_number() -> None:
    fnuz = gpuemu.instruction("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942")
    i8 = gpuemu.instruction("v_smfmac_i32_16x16x64_i8", "gfx942")
    for row in (fnuz, i8):
        codes = np.zeros((16, 64), np.uint8)
        codes[2, :3] = 0x80
        with pytest.raises(BadValue, match=r"row 2, group 0 .* 3 nonzeros"):
            row.pack_sparse(codes, bits=True)


def test_more_than_two_nonzeros_names_the_place() -> None:
    dense = np.zeros((3, 1, 16, 32), np.float16)
    dense[1, 0, 3, 20:23] = 1
    with pytest.raises(
        BadValue, match=r"matrix \(1,\), row 3, group 5 \(columns 20 to 23\) has 3 non"
    ):
        F16.pack_sparse(dense)
    with pytest.raises(BadValue, match=r"row 3, group 5 .* stores at most 2 of every 4"):
        F16(dense[1], np.zeros((32, 16), np.float16))


def test_an_empty_batch() -> None:
    a, idx = F16.pack_sparse(np.zeros((0, 16, 32), np.float16))
    assert a.shape == (0, 2, 64) and idx.shape == (0, 1, 64)
    assert F16.unpack_sparse(a, idx).shape == (0, 1, 16, 32)
    assert F16(np.zeros((0, 16, 32), np.float16), np.zeros((32, 16), np.float16)).shape[0] == 0


def test_what_pack_sparse_refuses() -> None:
    with pytest.raises(BadType, match="float32; f16 wants float16"):
        F16.pack_sparse(np.zeros((16, 32), np.float32))
    with pytest.raises(BadType, match="only with bits=True"):
        F16.pack_sparse(np.zeros((16, 32), np.uint16))
    with pytest.raises(
        BadShape, match=r"\(16, 16\).*16 stored columns are legal together with idx"
    ):
        F16(np.zeros((16, 16), np.float16), np.zeros((32, 16), np.float16))
    with pytest.raises(BadValue, match="is no sparse instruction"):
        gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942").pack_sparse(np.zeros((16, 16)))
    with pytest.raises(BadValue, match="abid=4; 4 index set"):
        F16.pack_sparse(np.zeros((16, 32), np.float16), abid=4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 63),
    st.integers(0, 15),
    st.sampled_from(["f16", "fp8", "wide"]),
    st.integers(0, 3),
)
def test_one_bad_index_field_is_found(lane: int, pair: int, kind: str, abid: int) -> None:
    names = {"f16": F16, "wide": WIDE}
    fp8 = gpuemu.instruction("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942")
    row = names.get(kind, fp8)
    sets, width = row.modifiers.index_sets, row.modifiers.index_bits
    abid %= sets
    group = pair % (width // 4)
    first, second = [(f, s) for f in range(4) for s in range(f + 1)][pair % 10]
    idx = np.full((2, 1, 64), 0x44444444, np.uint32)
    bit = np.uint32(abid * width + 4 * group)
    idx[1, 0, lane] &= ~(np.uint32(15) << bit)
    idx[1, 0, lane] |= np.uint32(first | second << 2) << bit
    good = idx.copy()
    good[1, 0, lane] = 0xEEEEEEEE
    sparse.check_index(row, good, mods.check(row, abid=abid))
    with pytest.raises(BadValue) as caught:
        sparse.check_index(row, idx, mods.check(row, abid=abid))
    text = str(caught.value)
    assert f"wavefront (1,), lane {lane}, bits {int(bit)} to {int(bit) + 3}" in text
    assert f"name columns {first} and {second}" in text
    for other in range(sets):
        if other != abid:
            sparse.check_index(row, idx, mods.check(row, abid=other))


def test_strict_refuses_an_index_and_llvm_computes_a_multiplexer() -> None:
    a = np.full((2, 64), 0x3C003C00, np.uint32)  # ones
    B = np.arange(32, dtype=np.float16)[:, None] * np.ones((1, 16), np.float16)
    b = F16.pack("B", B)
    c = np.zeros((4, 64), np.uint32)
    idx = np.full((1, 64), 0x33, np.uint32)  # both groups: columns 3, 0
    with pytest.raises(
        BadValue, match=r"lane 0, bits 0 to 3 \(row 0, group 0, index set 0\) name columns 3 and 0"
    ):
        gpuemu.execute(F16, a, b, c, idx=idx, backend="numpy")
    for backend in ("numpy", "host"):
        d = gpuemu.execute(F16, a, b, c, idx=idx, legality="llvm", backend=backend)
        assert (d.view(np.float32) == sum(4 * g + 3 + 4 * g for g in range(8))).all()
        d = gpuemu.execute(F16, a, b, c, idx=idx * 0, legality="llvm", backend=backend)
        assert (d.view(np.float32) == sum(8 * g for g in range(8))).all()


def test_unpack_sparse_refuses_what_no_dense_matrix_says() -> None:
    a = np.full((2, 64), 0x3C003C00, np.uint32)
    swapped = np.full((1, 64), 0x11, np.uint32)  # columns 1, 0
    assert F16.unpack_sparse(a, swapped, legality="llvm")[0, 0, :4].tolist() == [1, 1, 0, 0]
    with pytest.raises(BadValue, match="name columns 1 and 0"):
        F16.unpack_sparse(a, swapped)
    with pytest.raises(BadValue, match="name columns 1 and 1"):
        F16.unpack_sparse(a, np.full((1, 64), 0x55, np.uint32), legality="llvm")
    with pytest.raises(BadShape, match="do not broadcast"):
        F16.unpack_sparse(np.zeros((2, 2, 64), np.uint32), np.zeros((3, 1, 64), np.uint32))


def test_index_operand_is_asked_for_and_only_there() -> None:
    a, b, c = (np.zeros((F16.vgprs[x], 64), np.uint32) for x in "ABD")
    with pytest.raises(BadType, match="idx is missing"):
        gpuemu.execute(F16, a, b, c, backend="numpy")
    with pytest.raises(BadShape, match=r"registers of idx have shape \(2, 64\)"):
        gpuemu.execute(F16, a, b, c, idx=np.zeros((2, 64), np.uint32), backend="numpy")
    dense = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
    with pytest.raises(
        BadType, match=r"idx is given; v_mfma_f32_16x16x16_f16 .* takes only a, b, c"
    ):
        gpuemu.execute(dense, a, a, c, idx=np.zeros((1, 64), np.uint32), backend="numpy")


def test_cbsz_and_abid_never_broadcast_a() -> None:
    """A register of lane numbers shows through unchanged, whatever cbsz and abid are."""
    rng = np.random.default_rng(3)
    a, b, c = wave_inputs(F16, "finite", rng)
    idx = inputs.ascending_index(F16, rng) & np.uint32(0xFF)
    every_set = idx * np.uint32(0x01010101)
    want = gpuemu.execute(F16, a, b, c, idx=every_set, backend="numpy")
    for cbsz in range(4):
        for abid in range(4):
            got = gpuemu.execute(F16, a, b, c, idx=every_set, cbsz=cbsz, abid=abid, backend="numpy")
            assert np.array_equal(got, want)


def test_only_two_bits_of_cbsz_are_decoded() -> None:
    rng = np.random.default_rng(4)
    a, b, c = wave_inputs(F16, "finite", rng)
    idx = inputs.ascending_index(F16, rng)
    want = gpuemu.execute(F16, a, b, c, idx=idx, abid=3, backend="numpy")
    for backend in ("numpy", "host"):
        got = gpuemu.execute(
            F16, a, b, c, idx=idx, cbsz=4, abid=3, legality="llvm", backend=backend
        )
        assert np.array_equal(got, want)


def test_inputs_are_never_modified() -> None:
    rng = np.random.default_rng(5)
    a, b, c = wave_inputs(F16, "special", rng)
    idx = inputs.ascending_index(F16, rng)
    dense = F16.unpack_sparse(a, idx)
    copies = [x.copy() for x in (a, b, c, idx, dense.view(np.uint16))]
    for x in (a, b, c, idx, dense):
        x.flags.writeable = False
    gpuemu.execute(F16, a, b, c, idx=idx, backend="check")
    F16.pack_sparse(dense)
    F16.unpack_sparse(a, idx)
    for x, kept in zip((a, b, c, idx, dense.view(np.uint16)), copies, strict=True):
        assert np.array_equal(x, kept)


@pytest.mark.parametrize(
    ("name", "modifiers"),
    [
        ("v_smfmac_f32_16x16x64_f16", {}),
        ("v_smfmac_f32_32x32x64_fp8_fp8", {}),
        ("v_smfmac_i32_16x16x128_i8", {}),
        ("v_mfma_f32_16x16x128_f8f6f4", {"cbsz": 2, "blgp": 4}),
        ("v_mfma_scale_f32_32x32x64_f8f6f4", {"cbsz": 1}),
    ],
)
def test_kernels_keep_their_arrays_in_registers(name: str, modifiers: dict[str, int]) -> None:
    """NVRTC needs no GPU: the specialised kernels compile, without arrays in local memory."""
    try:
        cuda.nvrtc_version()
    except BackendUnavailable as error:
        pytest.skip(str(error))
    row = gpuemu.instruction(name, "gfx950")
    made = device.kernel_source(row, models.get(row.model), mods.check(row, **modifiers))
    text = cuda.ptx(made.source, made.defines)
    assert ".entry mfma" in text
    assert ".local" not in text
