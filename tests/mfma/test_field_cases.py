"""Cases that people have reported of matrix cores and their emulators, as tests.

Every case names the public thread it comes from. "by hand" means exact arithmetic; "published
model" means MMA-Sim 2.1.1, whose authors compared it with the chips; "calculator" means AMD's
matrix instruction calculator.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu
from gpuemu import formats
from gpuemu.backends import host
from gpuemu.errors import IllegalModifier
from gpuemu.mfma import mx
from gpuemu.mfma.encode import encode

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())

F16 = {
    "gfx908": "v_mfma_f32_16x16x16f16",
    "gfx90a": "v_mfma_f32_16x16x16f16",
    "gfx942": "v_mfma_f32_16x16x16_f16",
}
BF16 = {
    "gfx908": "v_mfma_f32_16x16x8bf16",
    "gfx90a": "v_mfma_f32_16x16x8bf16",
    "gfx942": "v_mfma_f32_16x16x16_bf16",
}


@pytest.fixture(params=["numpy", "host"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def dot(i: gpuemu.Instruction, a: list[float], b: list[float], c: float, backend: str) -> str:
    """Return the bits of one dot product, padded with zeros along k, in every row and column."""
    fa, fb = i.operand_format("A"), i.operand_format("B")
    A = np.zeros((i.blocks, i.M, i.K), np.float64)
    B = np.zeros((i.blocks, i.K, i.N), np.float64)
    A[..., : len(a)] = a
    B[:, : len(b), :] = np.array(b)[:, None]
    C = np.full((i.blocks, i.M, i.N), c, i.operand_format("C").dtype)
    D = i(A.astype(fa.dtype), B.astype(fb.dtype), C, backend=backend)
    bits = D.view(i.operand_format("D").storage)
    assert (bits == bits.flat[0]).all()
    return f"{int(bits.flat[0]):0{bits.itemsize * 2}X}"


def named(name: str, arch: str) -> gpuemu.Instruction:
    return gpuemu.instruction(name, arch)


# pytorch/pytorch#182952: f16 subnormals vanish in a backward GEMM on MI250X.
@pytest.mark.parametrize("arch", F16)
def test_subnormal_inputs(arch: str, backend: str) -> None:
    """Sixteen times 1.0 * 2**-15; published model and by hand."""
    want = {"gfx90a": "00000000"}.get(arch, "3A000000")
    assert dot(named(F16[arch], arch), [1.0] * 16, [2.0**-15] * 16, 0.0, backend) == want


@pytest.mark.parametrize("arch", F16)
def test_subnormal_accumulator(arch: str, backend: str) -> None:
    want = {"gfx90a": "00000000"}.get(arch, "00000200")
    assert dot(named(F16[arch], arch), [0.0], [0.0], 2.0**-140, backend) == want


# ROCm/Tensile#1583: the workaround's conversion of f16 to bf16 cuts bits instead of rounding.
def test_f16_to_bf16() -> None:
    value = np.array([0x3C07], np.uint16).view(np.float16)
    assert encode(value, "bf16", rounding="zero")[0] == 0x3F80
    assert encode(value, "bf16")[0] == 0x3F81


# ROCm/rocm-systems#10344: emulators that round the sum once for every k.
@pytest.mark.parametrize(
    ("arch", "want"), [("gfx908", "4B800008"), ("gfx90a", "4B800007"), ("gfx942", "4B800008")]
)
def test_sum_over_k_is_no_chain_of_fmas(arch: str, want: str, backend: str) -> None:
    """4096**2 + 15: a chain of f32 FMAs stays at 4B800000; published model."""
    row = [4096.0] + [1.0] * 15
    assert dot(named(F16[arch], arch), row, row, 0.0, backend) == want


@pytest.mark.parametrize(
    ("name", "arch", "want"),
    [
        ("v_mfma_f32_16x16x4f32", "gfx90a", "BF600000"),  # a chain of FMAs: exact, -0.875
        (F16["gfx908"], "gfx908", "BF600000"),
        (BF16["gfx908"], "gfx908", "BF600000"),
        (BF16["gfx90a"], "gfx90a", "BEC00000"),  # pairs: -0.375
        (F16["gfx90a"], "gfx90a", "00000000"),  # fours
        ("v_mfma_f32_16x16x16bf16_1k", "gfx90a", "00000000"),
        (F16["gfx942"], "gfx942", "BF000000"),  # -0.5
        (BF16["gfx942"], "gfx942", "BF000000"),
        ("v_mfma_f32_16x16x8_xf32", "gfx942", "BF000000"),
        ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942", "BF800000"),  # -1.0
    ],
)
def test_one_input_five_answers(name: str, arch: str, want: str, backend: str) -> None:
    """Exactly -0.875; published model (table 8 of its paper)."""
    a, b = [-(2.0**13), -0.5, -0.25, -0.125], [2.0**10, 1.0, 1.0, 1.0]
    assert dot(named(name, arch), a, b, 2.0**23, backend) == want


# ROCm/rocm-systems#10330: results that depend on the code path of the host.
@pytest.mark.parametrize(("name", "arch"), [(F16["gfx942"], "gfx942"), (F16["gfx90a"], "gfx90a")])
def test_a_wavefront_is_the_same_alone_and_in_any_batch(name: str, arch: str) -> None:
    i = named(name, arch)
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(0, 1 << 32, (257, i.vgprs[m], 64), dtype=np.uint32) for m in ("A", "B", "D")
    )
    want = gpuemu.execute(i, a, b, c, backend="numpy")
    for count in (1, 2, 63, 257):
        got = gpuemu.execute(i, a[:count], b[:count], c[:count], backend="host")
        assert np.array_equal(got, want[:count])
    assert np.array_equal(gpuemu.execute(i, a[7], b[7], c[7], backend="numpy"), want[7])


# gem5/gem5 PR #2478: neither mul and add nor std::fma matches an MI300X.
@pytest.mark.parametrize(
    ("arch", "want"), [("gfx908", "39800000"), ("gfx90a", "39800000"), ("gfx942", "00000000")]
)
def test_cancellation(arch: str, want: str, backend: str) -> None:
    """Exactly 2**-12; published model."""
    a, b = [4096.0, -4096.0, 2.0**-6, 0.0], [4096.0, 4096.0, 2.0**-6, 0.0]
    assert dot(named(F16[arch], arch), a, b, 0.0, backend) == want


# ROCm/rocm-libraries PR #9176: xf32 cuts its inputs.
@pytest.mark.parametrize("sign", [0, 0x80000000])
def test_xf32_truncates(sign: int, backend: str) -> None:
    i = named("v_mfma_f32_16x16x8_xf32", "gfx942")
    a = np.array([0x3F801FFF | sign], np.uint32).view(np.float32)[0]
    assert dot(i, [float(a)], [1.0], 0.0, backend) == f"{0x3F800000 | sign:08X}"


# deepseek-ai/DeepGEMM#37: how many bits of the accumulator an fp8 instruction keeps.
def test_the_accumulator_passes_through_fp8_unchanged(backend: str) -> None:
    i = named("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
    assert dot(i, [0.0], [0.0], 1 + 2.0**-23, backend) == "3F800001"


# ROCm/legacy-rocm-build#4756: FNUZ and OCP bytes.
def test_the_same_bytes_on_two_chips(backend: str) -> None:
    name = "v_mfma_f32_16x16x32_fp8_fp8"
    for arch, one, nan in (("gfx942", 8.0, False), ("gfx950", 32.0, True)):
        i = named(name, arch)
        A, B = np.full((16, 32), 0x38, np.uint8), np.full((32, 16), 0x38, np.uint8)
        assert (i(A, B, bits=True, backend=backend) == one).all()
        A = np.zeros((16, 32), np.uint8)
        A[:, 0] = 0x7F
        got = i(A, B, bits=True, backend=backend)
        assert np.isnan(got).all() if nan else (got == 240 * 0.5).all()
    assert formats.get("f8e4m3fnuz").value(0x7F) == 240


# triton-lang/triton#8322 (rounding f16 to 8 bits) is test_formats.py, over all 65,536 inputs.


# ROCm/rocm-systems PR #10347, llvm PR #158117: scales from the wrong lane or byte.
def test_scales_of_every_byte(backend: str) -> None:
    """Ones, scale 2**((i + 4 b) mod 8) of row i and block b: 32 times their sum; by hand."""
    i = named("v_mfma_scale_f32_32x32x64_f8f6f4", "gfx950")
    row, block = np.meshgrid(np.arange(32), np.arange(2), indexing="ij")
    exponents = (row + 4 * block) % 8
    for byte in range(4):
        op_sel = (byte, 3 - byte)
        sa = mx.pack_scales(i, "A", (127 + exponents).astype(np.uint8), op_sel=op_sel)
        sb = mx.pack_scales(i, "B", np.full((2, 32), 127, np.uint8), op_sel=op_sel)
        # What lies in the other bytes must not matter.
        sa |= np.uint32(0x01010101 & ~(0xFF << 8 * byte))
        D = i(
            np.ones((32, 64), ml_dtypes.float8_e5m2), np.ones((64, 32), ml_dtypes.float4_e2m1fn),
            cbsz=1, blgp=4, scale_a=sa, scale_b=sb, op_sel=op_sel, backend=backend,
        )[0]  # fmt: skip
        assert np.array_equal(D, np.broadcast_to(32 * (2.0**exponents).sum(1)[:, None], D.shape))


# triton PR #10569, SoftFloat#33: NaNs.
@pytest.mark.parametrize("arch", F16)
def test_infinities_and_nans(arch: str, backend: str) -> None:
    i, inf = named(F16[arch], arch), float("inf")
    nan = "7FC00000"  # the project's one NaN: no model fixes a payload
    assert dot(i, [inf], [1.0], 0.0, backend) == "7F800000"
    assert dot(i, [inf], [0.0], 0.0, backend) == nan
    assert dot(i, [inf, -inf], [1.0, 1.0], 0.0, backend) == nan
    assert dot(i, [inf], [1.0], -inf, backend) == nan
    signalling = np.array([0x7C01], np.uint16).view(np.float16)
    A = np.zeros((16, 16), np.float16)
    A[:, :1] = signalling
    D = i(A, np.ones((16, 16), np.float16), backend=backend)
    assert (D.view(np.uint32) == 0x7FC00000).all()


# amd/amd-lab-notes#7: the order of packed bytes.
def test_packing_of_int8(backend: str) -> None:
    """Low byte first: calculator, and by hand."""
    i = named("v_mfma_i32_16x16x16i8", "gfx908")
    A = np.zeros((1, 16, 16), np.int8)
    A[0, 0, :4] = 1, 2, 3, 4
    B = np.zeros((1, 16, 16), np.int8)
    B[0, 0, :] = 1
    a, b = i.pack("A", A), i.pack("B", B)
    assert hex(a[0, 0]) == "0x4030201"
    c = np.zeros((4, 64), np.uint32)
    assert (gpuemu.execute(i, a, b, c, backend=backend)[0, :16] == 1).all()
    wrong = a.byteswap()
    assert (gpuemu.execute(i, wrong, b, c, backend=backend)[0, :16] == 4).all()


# triton PR #7576: what blgp reads, and what is no modifier of an instruction.
@pytest.mark.parametrize(
    ("blgp", "first", "second"),
    [
        (0, (0, 31), (32, 63)),
        (1, (0, 31), (0, 31)),
        (2, (32, 63), (32, 63)),
        (3, (16, 47), (48, 15)),
        (4, (0, 15), (0, 15)),
        (5, (16, 31), (16, 31)),
        (6, (32, 47), (32, 47)),
        (7, (48, 63), (48, 63)),
    ],
)
def test_blgp(blgp: int, first: tuple[int, int], second: tuple[int, int], backend: str) -> None:
    """Lane numbers in B: columns 0 and 31 of both blocks; calculator."""
    i = named("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    a = np.full((1, 64), 0x3F800000, np.uint32)
    b = np.arange(64, dtype=np.float32).view(np.uint32)[None]
    d = gpuemu.execute(i, a, b, np.zeros((32, 64), np.uint32), blgp=blgp, backend=backend)
    D = i.unpack("D", d)
    for block, (low, high) in enumerate((first, second)):
        assert (D[block, :, 0] == low).all()
        assert (D[block, :, 31] == high).all()


def test_blgp_negates_f64_of_cdna3(backend: str) -> None:
    i = named("v_mfma_f64_16x16x4_f64", "gfx942")
    A, B, C = np.full((16, 4), 2.0), np.full((4, 16), 3.0), np.full((16, 16), 5.0)
    for blgp in range(8):
        a, b, c = (-1 if blgp >> n & 1 else 1 for n in range(3))
        assert (i(A, B, C, blgp=blgp, backend=backend) == 24 * a * b + 5 * c).all()


def test_modifiers_that_an_instruction_does_not_have() -> None:
    two_blocks = named("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    with pytest.raises(IllegalModifier, match=r"cbsz=2; .* has 2 blocks, so cbsz<=1"):
        two_blocks.layout("A", cbsz=2)
    with pytest.raises(IllegalModifier, match="abid=2 needs cbsz>=2"):
        two_blocks.layout("A", cbsz=1, abid=2)
    with pytest.raises(IllegalModifier, match="it has a single block"):
        named(F16["gfx942"], "gfx942").layout("A", cbsz=1)
    with pytest.raises(IllegalModifier, match="f64 has no broadcast"):
        named("v_mfma_f64_4x4x4_4b_f64", "gfx942").layout("A", cbsz=1)


# tinygrad PR #14890, #14815: lane mappings that uniform inputs cannot tell apart.
def test_places_of_d(backend: str) -> None:
    """Calculator: lane 32 of 32x32x8 holds rows 4 to 7, then 12; f64 strides its rows by four."""
    i = named("v_mfma_f32_32x32x8_f16", "gfx942")
    A = np.zeros((32, 8), np.float16)
    A[:, 0] = np.arange(32)
    B = np.zeros((8, 32), np.float16)
    B[0] = 1
    a, b = i.pack("A", A), i.pack("B", B)
    d = gpuemu.execute(i, a, b, np.zeros((16, 64), np.uint32), backend=backend).view(np.float32)
    assert d[:5, 32].tolist() == [4, 5, 6, 7, 12]
    f64, f32 = named("v_mfma_f64_16x16x4_f64", "gfx942"), named("v_mfma_f32_16x16x4_f32", "gfx942")
    assert f64.layout("D")[0, [1, 5], 0, :2].tolist() == [[0, 16], [2, 16]]
    assert f32.layout("D")[0, 4, 0, :2].tolist() == [0, 16]


def test_f16_infinity_and_negative_zero_stay_what_they_are(backend: str) -> None:
    i = named(F16["gfx942"], "gfx942")
    assert dot(i, [float("inf")], [1.0], 0.0, backend) == "7F800000"
    assert dot(i, [2.0**-24], [1.0], 0.0, backend) == "33800000"
    fma = named("v_mfma_f32_16x16x4_f32", "gfx942")
    bits = [dot(fma, [-0.0] * 4, [1.0] * 4, c, backend) for c in (-0.0, 0.0)]
    assert bits == ["80000000", "00000000"]


# ROCm/rocm-systems#10603: how sure a result is.
def test_every_row_says_how_sure_its_arithmetic_is() -> None:
    levels = ("silicon-vectors", "published-model", "documented", "unverified")
    for i in gpuemu.instructions():
        assert i.fidelity in levels and i.fidelity_source
        unpublished = i.kind != "mfma" or i.arch == "gfx950"
        if unpublished:
            assert i.fidelity == ("documented" if i.formats["D"] == "i32" else "unverified")


# gem5 (2024-08): an f64 instruction that accumulated in float.
def test_f64_accumulates_in_f64(backend: str) -> None:
    for arch, name in (("gfx90a", "v_mfma_f64_16x16x4f64"), ("gfx942", "v_mfma_f64_16x16x4_f64")):
        assert dot(named(name, arch), [1 + 2.0**-40], [1.0], 0.0, backend) == "3FF0000000001000"


# MMA-Sim c785138 zeroed subnormals in its caller's A.
@pytest.mark.parametrize("arch", F16)
def test_inputs_are_not_written(arch: str, backend: str) -> None:
    i = named(F16[arch], arch)
    a = np.full((2, 64), 0x02000200, np.uint32)
    c = np.full((4, 64), 0x00000200, np.uint32)
    kept = a.copy(), c.copy()
    gpuemu.execute(i, a, a, c, backend=backend)
    assert np.array_equal(a, kept[0]) and np.array_equal(c, kept[1])
