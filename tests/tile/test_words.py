"""Words of a bundle: every field of every form survives encoding, decoding and assembly."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.errors import BadType, BadValue, GpuemuError, IllegalInstructionFault
from gpuemu.tile import assemble, disassemble, join, split
from gpuemu.tile.words import FORMS, Form, Word, decode, encode

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/tfma/vectors.json").read_text())


@st.composite
def words(draw: st.DrawFn) -> Word:
    form = draw(st.sampled_from(list(FORMS.values())))
    fields = {name: draw(st.integers(0, form.limit(name) - 1)) for name in form.fields}
    return encode(form.name, **fields)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_fields_and_fixed_bits_cover_a_word_once(form: Form) -> None:
    seen = form.mask
    for spans in form.fields.values():
        for high, low in spans:
            piece = (1 << (high + 1)) - (1 << low)
            assert seen & piece == 0, "two uses of one bit"
            seen |= piece
    assert form.match & ~form.mask == 0
    free = ((1 << form.width) - 1) & ~seen
    assert free == 0


@given(words())
def test_every_field_survives(word: Word) -> None:
    assert decode(word.bits) == word
    assert split(join([word.bits])) == [word.bits]
    assert assemble(disassemble([word.bits])) == [word.bits]


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_each_field_alone_changes_its_own_bits(form: Form) -> None:
    zero = encode(form.name, **dict.fromkeys(form.fields, 0))
    for name in form.fields:
        full = encode(form.name, **(dict.fromkeys(form.fields, 0) | {name: form.limit(name) - 1}))
        assert (full.bits ^ zero.bits).bit_count() == (form.limit(name) - 1).bit_length()
        assert decode(full.bits)[name] == form.limit(name) - 1


@pytest.mark.parametrize(("dtype", "word"), VECTORS["encodings"]["bstart_tfma"].items())
def test_start_words(dtype: str, word: str) -> None:
    assert assemble(f"BSTART.VEC TFMA, {dtype}") == [int(word, 16)]
    assert disassemble([int(word, 16)]) == f"BSTART.VEC TFMA, {dtype}"


@pytest.mark.parametrize("pad", ["Zero", "Max", "Min", "Null"])
def test_pad_words(pad: str) -> None:
    words = VECTORS["encodings"]
    assert assemble(f"B.DATR PadValue={pad}") == [int(words["bdatr_pad"][pad], 16)]
    assert assemble(f"B.DATR {pad}, DataType=FP64") == [int(words["bdatr_pad_dtype0"][pad], 16)]


@pytest.mark.parametrize(("mode", "mask"), VECTORS["encodings"]["pe_modes"].items())
def test_pe_modes(mode: str, mask: str) -> None:
    assert decode(assemble(f"B.IOT T#1, mask={mask}")[0])["pe_mode"] == int(mode)


def test_words_of_siblings() -> None:
    assert assemble("BSTART.VEC TADD, U64") == [0xC0019181]
    assert assemble("BSTART.TEPL mode=0, function=28, FP32") == assemble("BSTART.VEC TFMA, FP32")


def test_example_program() -> None:
    text = """
        BSTART.VEC TFMA, FP32          // the canonical order
        C.B.DIMI 8, ->LB0
        B.IOT T#1, T#2, mask=1111
        B.IOT T#3, mask=1111, <last>, ->N<128B>
        C.BSTOP
    """
    want = [int(word.split()[0], 16) for word in VECTORS["encodings"]["example_FP32_1x8"]]
    assert assemble(text) == want
    assert assemble(text.replace("\n", ";").partition(";")[2].replace("// the canonical order", ""))
    assert assemble(disassemble(want)) == want
    assert join(want) == bytes.fromhex("8191c1093c02134e000493df28000000")


@pytest.mark.parametrize(("text", "want"), [("C.BSTOP", 0), ("BSTOP", 1), ("L.BSTOP", 0x10000000F)])
def test_stops(text: str, want: int) -> None:
    assert assemble(text) == [want]
    assert disassemble([want]) == text


def test_disassembly_of_a_stream() -> None:
    assert disassemble(bytes.fromhex("8191c1090000")) == "BSTART.VEC TFMA, FP32\nC.BSTOP"
    with pytest.raises(BadValue, match="ends inside the 4-byte word at byte 0"):
        disassemble(b"\x81\x91")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BSTART.VEC TFMB, FP32", "line 1: .*TFMB.*legal: .*TFMA"),
        ("BSTART.VEC TFMA, FP33", "FP33.*legal: FP64, FP32"),
        ("BSTART.VEC TFMA, type=32", "dtype=32; legal: 0 to 31"),
        ("\nB.IOT T#17, mask=1111", "line 2: .*T#17.*T#16"),
        ("B.IOT T#1, mask=0011", "mask=0011; encodable: 0000, 1000"),
        ("B.IOT T#1", "without mask="),
        ("B.IOT T#1, T#2, T#3, mask=1111", "3 sources; legal: at most 2"),
        ("B.IOT T#1, mask=1111, ->T<100B>", "size <100B>; legal: <128B>"),
        ("BSTART.VEC mode=1, FP16, FP16", "operand 'FP16'; legal: name=value"),
        ("BSTART.VEC mode=1, fun=2, FP16", "legal: OPERATION, DataType or mode=N, function=N"),
        ("B.IOR r1, r2, x3, ->r4", "register 'x3'; legal: r0 to r31"),
        ("B.DIM LX=3", "dimension 'LX'; legal: LB0, LB1, LB2"),
        ("B.DIM LB0", "legal: LBn=value"),
        ("B.DIM LB0=131072", "immediate=131072; legal: 0 to 131071"),
        ("B.DIM LB0=r32", "register=32; legal: 0 to 31"),
        ("C.B.DIMI LB0=256", "immediate=256; legal: 0 to 255"),
        ("C.B.DIMI LB0=x", "'x'; legal: an integer"),
        ("B.DATR PadValue=Inf", "PadValue=INF; legal: Zero, Max, Min, Null"),
        ("B.DATR Zero, Zero=1", "attribute 'zero'"),
        ("B.DATR sat=1, sat=0", "given twice"),
        ("B.IOR r1, r2", "legal: rN, rN, rN, ->rN"),
        ("B.IOS T1", "legal: Sn<size>"),
        ("BSTOP now", "takes no operands"),
        ("NOP", "NOP is no bundle word; legal: BSTART.VEC"),
    ],
)
def test_bad_assembly(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        assemble(text)


def test_bad_words() -> None:
    with pytest.raises(IllegalInstructionFault, match="0xffffff93 is no word"):
        decode(0xFFFFFF93)
    with pytest.raises(BadValue, match="16 bits"):
        decode(0x10000)
    with pytest.raises(BadType):
        disassemble(["x"])
    with pytest.raises(BadType):
        assemble(7)
    with pytest.raises(BadValue, match="takes the fields"):
        encode("BSTOP", size=1)


@given(st.text())
def test_any_text_assembles_or_says_why(text: str) -> None:
    try:
        program = assemble(text)
    except GpuemuError as error:
        assert str(error)
    else:
        assert assemble(disassemble(program)) == program
