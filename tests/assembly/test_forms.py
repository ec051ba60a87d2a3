"""Every form that an instruction comes in gives one call; errors point at the column."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.errors import (
    AssemblyError,
    BadType,
    BadValue,
    GpuemuError,
    IllegalModifier,
    UnknownInstruction,
)
from gpuemu.mfma import execute
from gpuemu.mfma.assembly import AssemblyCall, Constant, Registers, decode, parse
from gpuemu.mfma.program import make_step

LINE = "v_mfma_f32_32x32x1_2b_f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:1 blgp:3"
LIST = "[" + ",".join(f"a{n}" for n in range(32)) + "]"
FORMS = [
    LINE,
    LINE.replace("_2b_f32", "f32"),
    "V_MFMA_F32_32X32X1F32_E64 acc[0:31] v[0] v[1:1] acc[0:31], cbsz:0x1, abid:(1), blgp:4-1,",
    "  loop: 1: " + LINE + " // accumulate",
    LINE + " ; encoding: [0x00,0x89,0xc0,0xd3,0x00,0x03,0x02,0x64]",
    LINE + "   // 000000001900: D3C08900 64020300",
    "  19a0:  00 89 c0 d3 00 03 02 64   " + LINE,
    "0000000000001900: d3c08900 64020300  " + LINE,
    "/* the first product */ " + LINE,
    "; a comment\n\n\t" + LINE + "\n",
    LINE + " ; was __builtin_amdgcn_mfma_f32_32x32x1f32(a, b, c, 1, 1, 3)",
    LIST,
    "D3C08900 64020300",
    "0xD3C08900, 0x64020300",
    "00 89 c0 d3 00 03 02 64",
    "0089c0d300030264",
    "[0x00,0x89,0xc0,0xd3,0x00,0x03,0x02,0x64]",
]
FORMS[FORMS.index(LIST)] = LINE.replace("a[0:31],", LIST + ",", 1)


@pytest.mark.parametrize("text", FORMS)
def test_forms_give_one_call(text: str) -> None:
    call = parse(text, "gfx942")
    assert str(call) == LINE
    assert call.encode() == bytes.fromhex("0089c0d300030264")
    assert call == parse(LINE, "gfx942")


@pytest.mark.parametrize(
    "words",
    [
        bytes.fromhex("0089c0d300030264"),
        bytearray.fromhex("0089c0d300030264"),
        [0xD3C08900, 0x64020300],
        np.array([0xD3C08900, 0x64020300], np.uint32),
        "D3C08900 64020300",
    ],
)
def test_decode_reads_bytes_and_words(words: object) -> None:
    assert str(decode(words, "gfx942")) == LINE


def test_call_has_its_parts() -> None:
    call = parse(LINE, "gfx942")
    assert call.instruction is gpuemu.instruction("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    assert (call.cbsz, call.abid, call.blgp, call.neg, call.op_sel) == (1, 1, 3, (0, 0, 0), (0, 0))
    assert Registers("a", 0, 32) == call.operands.D and Registers("v", 1, 1) == call.operands.B
    scaled = "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[8:13], a[16:19], 2.0, v4, v5"
    call = parse(scaled + " op_sel:[1,0,0] op_sel_hi:[1,1,0] cbsz:2 blgp:4", "gfx950")
    assert call.op_sel == (3, 2) and Constant(244) == call.operands.C
    assert call.operands.scale_b == Registers("v", 5, 1) and len(call.encode()) == 16
    negated = parse("v_mfma_f64_4x4x4f64 v[0:1], v[2:3], v[4:5], -1 neg:[1,0,1]", "gfx942")
    assert negated.neg == (1, 0, 1) and Constant(193, 64) == negated.operands.C
    assert Constant(193, 64).bits == 2**64 - 1 and Constant(248).bits == 0x3E22F983


@pytest.mark.parametrize("row", gpuemu.instructions(), ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_builtin_assembly_and_words_go_round(row: gpuemu.Instruction) -> None:
    if row.builtin is None:
        scaled = gpuemu.instruction(row.mnemonic.replace("v_mfma_", "v_mfma_scale_"), row.arch)
        text = f"d = {scaled.builtin}(a, b, d, 4, 2, 0, 0, 0, 0);"
    else:
        tail = {
            "mfma": "0, 0, 0",
            "smfmac": "idx, 0, 0",
            "mfma_scale": "2, 4, 3, sa[0], 1, f(sb, 2)",
        }[row.kind]
        text = f"d = {row.builtin}(x[i], (y), g({{1, 2}}), {tail}) ;"
    call = parse(text, row.arch)
    assert call.instruction is row
    for again in (
        parse(str(call), row.arch),
        decode(call.encode(), row.arch),
        parse(call.to_builtin(), row.arch),
    ):
        assert again == call


def test_forms_are_the_call_of_the_python_interface() -> None:
    row = gpuemu.instruction("v_mfma_f32_32x32x1_2b_f32", "gfx942")
    wanted = execute.call(row, cbsz=1, abid=1, blgp=3)
    builtin = "__builtin_amdgcn_mfma_f32_32x32x1f32(a, b, c, 1, 1, 3)"
    for text in (LINE, builtin, "D3C08900 64020300"):
        assert make_step(parse(text, "gfx942")).made == wanted


def test_builtin_constants() -> None:
    text = "__builtin_amdgcn_mfma_f32_32x32x1f32(a, b, c, {})"
    assert parse(text.format("1, 0x1, 2+1"), "gfx908").blgp == 3
    with pytest.raises(IllegalModifier, match="cbsz=99"):
        parse(text.format("99, 0, 0"), "gfx908")
    call = parse(text.format("99, 77, 13"), "gfx908", "truncate")
    assert (call.cbsz, call.abid, call.blgp) == (3, 13, 5)
    negate = "__builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 3)"
    assert parse(negate, "gfx942").neg == (1, 1, 0)
    assert str(parse(negate, "gfx942")).endswith(" neg:[1,1,0]")
    assert parse(negate, "gfx90a", "llvm").blgp == 3
    with pytest.raises(IllegalModifier):
        parse(negate, "gfx90a")


# The @ stands before the column that the error points at.
OPERANDS = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19]"
ERRORS = [
    (OPERANDS + ", @v[0:14]", "C is v[0:14]; legal: 16 consecutive VGPRs or AccVGPRs"),
    ("v_mfma_f32_32x32x8_f16 v[0:15], @v[17:18], v[18:19], v[0:15]", "from an even number on"),
    (OPERANDS + ", @a[0:15]", "both VGPRs or both AccVGPRs"),
    (OPERANDS + ", @v[8:23]", "the same registers, or none in common"),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], @1.0, 0", "B is no register"),
    (OPERANDS + "@", "needs C"),
    (OPERANDS + ", @65", "65 is no inline constant"),
    (OPERANDS + ", @1.5", "1.5 is no inline constant"),
    (OPERANDS + ", 0 cbsz:@9", "the field holds 0..7"),
    (OPERANDS + ", 0 abid:1 @cbsz:1", "the order is cbsz, abid, blgp"),
    (OPERANDS + ", 0 @neg:[0,0,0]", "takes no neg; legal: blgp:0..7"),
    (OPERANDS + ", 0 @clamp", "follows the operands"),
    (
        "v_mfma_f32_32x32x8_f16 @v[250:265], v[16:17], v[18:19], 0",
        "no ascending range of registers 0..255",
    ),
    ("v_mfma_f32_32x32x8_f16 [v0,@v2], v[16:17], v[18:19], 0", "v2 does not follow v0"),
    (OPERANDS + ", 1@/0", "has no value"),
    (OPERANDS + ", v[0:@", "expected an integer, found the end of the line"),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], @#, 0", "'#' starts no name"),
    (
        " v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], @x cbsz:1",
        "symbols have no value here",
    ),
]


@pytest.mark.parametrize(("marked", "message"), ERRORS)
def test_errors_point_at_the_column(marked: str, message: str) -> None:
    column, text = marked.index("@") + 1, marked.replace("@", "")
    with pytest.raises(AssemblyError) as raised:
        parse(text, "gfx942")
    assert message in str(raised.value)
    assert raised.value.column == column
    first, shown, caret = str(raised.value).split("\n")
    assert first.startswith(f"column {column}: ")
    assert shown == f"  {text}" and caret.index("^") == 2 + column - 1


def test_strict_refuses_what_the_assembler_takes() -> None:
    head = "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], "
    for tail, error in (
        ("v[2:5]", "no manual defines a partial overlap"),
        ("src_vccz", "a scalar register whose value"),
        ("0 cbsz:1", "column 51: cbsz=1"),
        ("0 abid:2", "column 51: cbsz=0, abid=2"),
    ):
        assert isinstance(parse(head + tail, "gfx942", "llvm"), AssemblyCall)
        with pytest.raises(BadValue, match=error.replace("(", r"\(")):
            parse(head + tail, "gfx942")


def test_listing_of_another_architecture_is_noticed() -> None:
    line = (
        "v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3] // 000000001234: D3CD0000 04020D04"
    )
    assert parse(line, "gfx908").arch == "gfx908"
    with pytest.raises(AssemblyError, match="another architecture"):
        parse(line, "gfx942")
    assert parse(line, "gfx942", "llvm").arch == "gfx942"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: parse(3, "gfx942"), BadType, "text is a int"),
        (lambda: parse("", "gfx942"), AssemblyError, "holds no instruction"),
        (lambda: parse(LINE + "\n" + LINE, "gfx942"), AssemblyError, "2 instructions"),
        (lambda: parse(LINE, None), BadValue, "arch=None"),
        (lambda: parse(LINE, "gfx1100"), BadValue, "gfx1100"),
        (lambda: parse(LINE, "gfx942", "lax"), BadValue, "legality='lax'"),
        (
            lambda: parse("v_mfma_f32_32x32x8_f16 v0", "gfx90a"),
            UnknownInstruction,
            "exists on gfx942, gfx950",
        ),
        (
            lambda: parse("v_mfma_f32_32x32x9_f16 v0", "gfx942"),
            UnknownInstruction,
            "near names: v_mfma_f32_32x32x8_f16",
        ),
        (lambda: decode(5, "gfx942"), BadType, "words are a int"),
        (lambda: decode([1 << 32], "gfx942"), AssemblyError, "0..0xffffffff"),
        (lambda: decode("abc", "gfx942"), AssemblyError, "legal: bytes of two digits"),
        (lambda: decode(b"1234567", "gfx942"), AssemblyError, "7 bytes"),
        (lambda: decode("D3C08900 04020000", "gfx942"), AssemblyError, "no vector register"),
        (lambda: decode("D3C08901 64020300", "gfx942"), AssemblyError, "from an even number on"),
        (
            lambda: decode("D3FF0000 64020300", "gfx90a"),
            AssemblyError,
            "opcode 127 is no matrix instruction",
        ),
        (lambda: decode("D2C08900 64020300", "gfx942"), AssemblyError, "bits 31:23"),
        (lambda: decode("D3C08900 64020300", "gfx908"), AssemblyError, "bit 15 is 1"),
        (lambda: decode("D3AD0800 040AA140", "gfx950"), AssemblyError, "ABID is 1"),
        (lambda: decode("D3E20000 24052104", "gfx950"), AssemblyError, "bits 63:61"),
        (
            lambda: decode("D3AC2000 0002D368 D3AD0800 040AA140", "gfx950"),
            AssemblyError,
            "bits 15:13 are 0x1",
        ),
        (
            lambda: parse("__builtin_amdgcn_mfma_f32_4x4x1f32(a, b, c, 0, 0)", "gfx908"),
            AssemblyError,
            "takes 6 arguments",
        ),
        (
            lambda: parse("__builtin_amdgcn_mfma_f32_4x4x1f32(a, b, c, n, 0, 0)", "gfx908"),
            AssemblyError,
            "constant integer",
        ),
        (
            lambda: parse("__builtin_amdgcn_mfma_f32_4x4x1f32(a, b, c, 0, 0, 0", "gfx908"),
            AssemblyError,
            "no closing",
        ),
        (
            lambda: parse("__builtin_amdgcn_mfma_f32_4x4x1f33(a)", "gfx908"),
            UnknownInstruction,
            "column 1",
        ),
    ],
)
def test_bad_input(call: object, error: type[GpuemuError], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        call()  # type: ignore[operator]
