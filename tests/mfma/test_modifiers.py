"""The legality matrix: what each mode accepts, computes and says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma.modifiers import Modifiers, check
from tests.mfma.cases import ROWS

TWO_BLOCKS = ("v_mfma_f32_32x32x1_2b_f32", "gfx942")
SIXTEEN = ("v_mfma_f32_4x4x4_16b_f16", "gfx950")
ONE_BLOCK = ("v_mfma_f32_32x32x8_f16", "gfx942")
F64 = ("v_mfma_f64_16x16x4_f64", "gfx942")
F64_90A = ("v_mfma_f64_16x16x4f64", "gfx90a")
SPARSE = ("v_smfmac_f32_16x16x32_f16", "gfx942")
F8 = ("v_mfma_f32_16x16x128_f8f6f4", "gfx950")
SCALE = ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")

ILLEGAL_STRICT: list[tuple[tuple[str, str], dict[str, Any], str]] = [
    (
        TWO_BLOCKS,
        {"cbsz": 2},
        "cbsz=2; v_mfma_f32_32x32x1_2b_f32 has 2 blocks, so cbsz<=1 (gfx942)",
    ),
    (
        TWO_BLOCKS,
        {"abid": 3},
        "abid=3 needs cbsz>=2; v_mfma_f32_32x32x1_2b_f32 has 2 blocks, so cbsz<=1",
    ),
    (TWO_BLOCKS, {"cbsz": 1, "abid": 2}, "legal with cbsz=1: abid 0..1"),
    (SIXTEEN, {"cbsz": 5}, "has 16 blocks, so cbsz<=4 (gfx950)"),
    (SIXTEEN, {"cbsz": 2, "abid": 4}, "legal with cbsz=2: abid 0..3"),
    (ONE_BLOCK, {"cbsz": 1}, "it has a single block: legal is 0 for both"),
    (ONE_BLOCK, {"abid": 1}, "it has a single block: legal is 0 for both"),
    (F64, {"cbsz": 1}, "f64 has no broadcast: legal is 0 for both"),
    (F64_90A, {"blgp": 1}, "f64 of gfx90a documents no blgp: legal is 0"),
    (SPARSE, {"blgp": 1}, "the encoding has no blgp operand: legal is 0"),
    (SPARSE, {"cbsz": 4}, "legal on a sparse instruction: 0..3"),
    (SPARSE, {"abid": 4}, "4 index set(s) of 8 bits: legal: 0..3"),
    (F8, {"abid": 1}, "an f8f6f4 instruction has no abid operand"),
]

ILLEGAL_ANYWHERE: list[tuple[tuple[str, str], dict[str, Any], str]] = [
    (TWO_BLOCKS, {"blgp": 8}, "blgp=8; the encoding's field holds 0..7"),
    (TWO_BLOCKS, {"cbsz": -1}, "cbsz=-1; the encoding's field holds 0..7"),
    (TWO_BLOCKS, {"abid": 16}, "abid=16; the encoding's field holds 0..15"),
    (TWO_BLOCKS, {"neg": (1, 0, 0)}, "legal only on f64 of gfx942 and gfx950"),
    (F64_90A, {"neg": (1, 0, 0)}, "legal only on f64 of gfx942 and gfx950"),
    (F64, {"neg": (2, 0, 0)}, "neg[0]=2; legal: 0 or 1"),
    (F64, {"neg": (1, 0, 0), "blgp": 1}, "the same field of f64"),
    (TWO_BLOCKS, {"op_sel": (1, 0)}, "only mfma_scale reads scales"),
    (SCALE, {"op_sel": (4, 0)}, "legal: 0..3, the byte of the scale register"),
    (F8, {"cbsz": 5}, "cbsz=5 is a reserved format code; legal: 0..4"),
    (F8, {"blgp": 7}, "blgp=7 is a reserved format code; legal: 0..4"),
    (ONE_BLOCK, {"output_layout": "formula"}, "a switch of the f64 4x4x4 instruction only"),
]


@pytest.mark.parametrize(("name", "options", "text"), ILLEGAL_STRICT + ILLEGAL_ANYWHERE)
def test_strict_refuses_with_the_rule(
    name: tuple[str, str], options: dict[str, Any], text: str
) -> None:
    i = gpuemu.instruction(*name)
    with pytest.raises(errors.IllegalModifier) as caught:
        check(i, **options)
    assert text in str(caught.value)
    assert i.mnemonic in str(caught.value) and i.arch in str(caught.value)


@pytest.mark.parametrize(("name", "options", "text"), ILLEGAL_ANYWHERE)
def test_llvm_refuses_what_no_field_holds(
    name: tuple[str, str], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(errors.IllegalModifier) as caught:
        check(gpuemu.instruction(*name), legality="llvm", **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (TWO_BLOCKS, {"cbsz": 7, "abid": 15, "blgp": 7}),
        (ONE_BLOCK, {"cbsz": 7, "abid": 15}),
        (F64, {"cbsz": 7, "abid": 15}),
        (F64_90A, {"blgp": 7}),
        (SPARSE, {"cbsz": 7, "abid": 15}),
    ],
)
def test_llvm_accepts_every_value_of_a_field(
    name: tuple[str, str], options: dict[str, Any]
) -> None:
    """And computes it by the general formula: every element has some lane in the layout."""
    i = gpuemu.instruction(*name)
    check(i, legality="llvm", **options)
    where = i.layout("A", legality="llvm", **options)
    assert where[..., 1].min() >= 0 and where[..., 1].max() < 64


def test_truncate_keeps_field_bits() -> None:
    """What the builtins' encoder does: cbsz 99 is 3, abid 77 is 13, blgp 13 is 5."""
    i = gpuemu.instruction(*SIXTEEN)
    m = check(i, cbsz=99, abid=77, blgp=13, legality="truncate")
    assert (m.cbsz, m.abid, m.blgp) == (3, 13, 5)


@pytest.mark.parametrize("value", [1.0, True, np.True_, "1", None, np.array(1), np.array([1, 1])])
@pytest.mark.parametrize("field", ["cbsz", "abid", "blgp"])
def test_modifiers_are_constants(field: str, value: Any) -> None:
    i = gpuemu.instruction(*SIXTEEN)
    with pytest.raises(errors.BadType, match=f"{field}=.* modifiers are constants"):
        check(i, **{field: value})
    zeros = [np.zeros((i.vgprs[x], 64), np.uint32) for x in "ABC"]
    with pytest.raises(errors.BadType):
        gpuemu.execute(i, *zeros, backend="numpy", **{field: value})


def test_true_is_refused_though_one_was_accepted_before() -> None:
    """Calls are remembered by their arguments, and True == 1."""
    i = gpuemu.instruction(*F64)
    zeros = [np.zeros((i.vgprs[x], 64), np.uint32) for x in "ABC"]
    gpuemu.execute(i, *zeros, neg=(1, 0, 0), backend="numpy")
    with pytest.raises(errors.BadType):
        gpuemu.execute(i, *zeros, neg=(True, 0, 0), backend="numpy")


def test_numpy_integers_are_integers() -> None:
    assert check(gpuemu.instruction(*SIXTEEN), cbsz=np.int64(2)).cbsz == 2


@pytest.mark.parametrize("neg", [(0, 0), 1, (0, 0, 1.0), (0, True, 0)])
def test_neg_is_three_ints(neg: Any) -> None:
    with pytest.raises(errors.BadType, match="neg"):
        check(gpuemu.instruction(*F64), neg=neg)


@pytest.mark.parametrize(
    ("field", "value"), [("legality", "loose"), ("broadcast", "both"), ("output_layout", "x")]
)
def test_switches_name_their_values(field: str, value: str) -> None:
    with pytest.raises(errors.BadValue, match=f"{field}='{value}'; legal: "):
        check(gpuemu.instruction(*SIXTEEN), **{field: value})


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("bits", range(8))
def test_blgp_of_f64_is_neg(arch: str, bits: int) -> None:
    i = gpuemu.instruction("v_mfma_f64_16x16x4_f64", arch)
    assert check(i, blgp=bits) == Modifiers(neg=(bits & 1, bits >> 1 & 1, bits >> 2))


@pytest.mark.parametrize("bits", range(8))
def test_neg_negates_operands(bits: int) -> None:
    i = gpuemu.instruction("v_mfma_f64_4x4x4_4b_f64", "gfx942")
    rng = np.random.default_rng(bits)
    A, B, C = (rng.standard_normal(i.shape(x)) for x in "ABC")
    signs = [-1.0 if bits >> n & 1 else 1.0 for n in range(3)]
    got = i(A, B, C, blgp=bits, backend="numpy")
    want = i(signs[0] * A, signs[1] * B, signs[2] * C, backend="numpy")
    assert got.tobytes() == want.tobytes()


def test_strict_takes_every_blgp_on_dense_non_f64() -> None:
    for i in ROWS:
        if i.kind == "mfma" and i.formats["D"] != "f64":
            assert [check(i, blgp=b).blgp for b in range(8)] == list(range(8))


def test_blgp_that_the_vendor_calls_unsupported_is_marked() -> None:
    marked = {i.arch for i in ROWS if not i.modifiers.blgp_documented}
    assert marked == {"gfx90a", "gfx942", "gfx950"}
    assert not gpuemu.instruction(*ONE_BLOCK).modifiers.blgp_documented
    assert gpuemu.instruction(*TWO_BLOCKS).modifiers.blgp_documented


BLGP_COLUMNS = [
    # blgp, lanes that columns 0 and 31 of blocks 0 and 1 read
    (0, (0, 31, 32, 63)),
    (1, (0, 31, 0, 31)),
    (2, (32, 63, 32, 63)),
    (3, (16, 47, 48, 15)),
    (4, (0, 15, 0, 15)),
    (5, (16, 31, 16, 31)),
    (6, (32, 47, 32, 47)),
    (7, (48, 63, 48, 63)),
]


@pytest.mark.parametrize(("blgp", "lanes"), BLGP_COLUMNS)
@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_blgp_by_lane_number(blgp: int, lanes: tuple[int, ...], backend: str) -> None:
    """B of lane l is l, A is one: D is the lane that was read."""
    i = gpuemu.instruction(*TWO_BLOCKS)
    a = np.full((1, 64), np.float32(1)).view(np.uint32)
    b = np.arange(64, dtype=np.float32).view(np.uint32)[None]
    d = gpuemu.execute(i, a, b, np.zeros((32, 64), np.uint32), blgp=blgp, backend=backend)
    D = i.unpack("D", d)
    assert tuple(int(D[block, 0, column]) for block in (0, 1) for column in (0, 31)) == lanes


@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_broadcast_by_lane_number(backend: str) -> None:
    """The probe that tells the readings apart: 4x4x1, A of lane l is l, cbsz 2, abid 1."""
    i = gpuemu.instruction("v_mfma_f32_4x4x1_16b_f32", "gfx942")
    a = np.arange(64, dtype=np.float32).view(np.uint32)[None]
    b = np.full((1, 64), np.float32(1)).view(np.uint32)
    for reading, first in (("grouped", 4), ("lane_block", 16)):
        d = gpuemu.execute(
            i,
            a,
            b,
            np.zeros((4, 64), np.uint32),
            cbsz=2,
            abid=1,
            broadcast=reading,
            backend=backend,
        )
        assert i.unpack("D", d)[0, :, 0].tolist() == [first, first + 1, first + 2, first + 3]
