"""The preflight: each rule's fault, in the architecture's order, and no effect."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.errors import (
    ArchitecturalFault,
    BadValue,
    BundleControlFault,
    GpuemuError,
    IllegalInstructionFault,
    TileAllocationFault,
    TileLegalityFault,
    UnknownInstruction,
)
from gpuemu.tile import Core, assemble
from gpuemu.tile.words import FORMS, encode

START, WIDTH = "BSTART.VEC TFMA, FP32", "B.DIM LB0=8"
PAIR, FINAL, STOP = "B.IOT T#1, T#2, mask=1111", "B.IOT T#3, mask=1111, last, ->N<128B>", "BSTOP"
LEGAL = (START, "B.DATR PadValue=Max", WIDTH, "B.DIM LB1=2", "B.DIM LB2=8", PAIR, FINAL, STOP)


def machine(**options: str) -> Core:
    """Return a core with T#1 to T#3 filled, and an unfit tile of every kind in U#1 and on."""
    core = Core(backend="numpy", **options)
    ones = np.full((2, 8), 0x3F800000, np.uint32)
    for index in range(3):
        core.write(index, ones, "FP32", capacity=128)
    core.write(16, ones, "FP32", capacity=256)  # U#1: more rows
    core.write(17, ones, "FP32", columns=16, capacity=128)  # U#2: more columns
    core.write(18, ones[:1], "FP32", capacity=128, columns=8)  # U#3: fewer valid rows
    core.write(19, ones[:, :7], "FP32", capacity=128, columns=8)  # U#4: fewer valid columns
    core.write(20, ones, "S32", capacity=128)  # U#5: another type
    core.write(21, ones, "FP32", capacity=128, layout="NZ")  # U#6: another layout
    core.write(22, ones, "FP32", capacity=128, defined=ones != ones)  # U#7: undefined
    core.write(23, ones, "FP32", capacity=128, mask=0b1000)  # U#8: only PE0 holds it
    core.machine.flags = 4
    return core


def test_the_legal_bundle() -> None:
    core = machine()
    (retired,) = core.execute("\n".join(LEGAL))
    assert (retired.operation, retired.destination, retired.flags) == ("TFMA", 48, 0)
    assert (core.tile(48).bits[:, :2] == 0x40000000).all()
    assert (core.tile(48).bits[:, 2:] == 0x7F7FFFFF).all()
    assert core.flags == 4


def replaced(old: str, *new: str) -> str:
    assert old in LEGAL
    return "\n".join(part for line in LEGAL for part in (new if line == old else (line,)))


LEGALITY, ALLOCATION = TileLegalityFault, TileAllocationFault
CONTROL, ILLEGAL = BundleControlFault, IllegalInstructionFault

MUTATIONS: list[tuple[str, type[ArchitecturalFault], str]] = [
    # while the words are collected
    (replaced(START, "BSTART.VEC TFMA, type=15"), ILLEGAL, "DataType=15 is reserved"),
    (
        replaced(START, "BSTART.TEPL mode=3, function=31, FP32"),
        ILLEGAL,
        "selector 0x07f is unassigned",
    ),
    (replaced(START), CONTROL, "outside a bundle; a BSTART must come first"),
    (replaced(FINAL, FINAL.replace("128B", "code=11")), ILLEGAL, "SizeCode=11 is reserved"),
    (replaced(FINAL, "B.IOT mask=1111, last"), ILLEGAL, "neither source nor destination"),
    (replaced(FINAL, FINAL, FINAL), CONTROL, "after the binding marked last"),
    (replaced(PAIR, PAIR.replace("1111", "1110")), LEGALITY, "mask=1111 after mask=1110"),
    (replaced("B.DIM LB1=2", "B.DATR PadValue=Max"), CONTROL, "second B.DATR"),
    (replaced("B.DIM LB1=2", WIDTH), CONTROL, "LB0 is written twice"),
    (replaced("B.DIM LB1=2", "C.B.DIMI LB0=8"), CONTROL, "LB0 is written twice"),
    (replaced("B.DIM LB1=2", "C.B.DIMI LB3=2"), ILLEGAL, "LB3 is unassigned"),
    (replaced("B.DIM LB1=2", "B.DIM LB3=2"), ILLEGAL, "LB3 is unassigned"),
    (replaced("B.DIM LB1=2", "B.DIM LB1=r24+2"), ILLEGAL, "RegSrc=r24 is unassigned"),
    (replaced("B.DIM LB1=2", "B.IOR r1, r24, r0, ->r0"), ILLEGAL, "source1=r24 is unassigned"),
    (replaced("B.DIM LB1=2", *["B.IOR r0, r0, r0, ->r0"] * 2), CONTROL, "second B.IOR"),
    (
        replaced("B.DATR PadValue=Max", "B.DATR DataType=type=21"),
        LEGALITY,
        "DataType=21 is reserved",
    ),
    # at the commit point
    (replaced(PAIR, PAIR, "B.IOS S7<128B>, mask=1111"), LEGALITY, "binds S7"),
    (replaced(PAIR), LEGALITY, "1 sources and 1 destinations; legal: 3 and 1"),
    (replaced(FINAL), LEGALITY, "2 sources and 0 destinations"),
    (replaced(PAIR, PAIR + ", ->T<128B>"), LEGALITY, "3 sources and 2 destinations"),
    (replaced(PAIR, PAIR, PAIR), LEGALITY, "5 sources"),
    (replaced(FINAL, FINAL.replace("last, ", "")), LEGALITY, "no binding is marked last"),
    (replaced("B.DIM LB1=2", "B.IOR r1, r0, r0, ->r0"), LEGALITY, "B.IOR names scalar registers"),
    (replaced("B.DATR PadValue=Max", "B.DATR Max, cmode=1"), LEGALITY, "cmode=1; legal: 0"),
    (replaced("B.DATR PadValue=Max", "B.DATR Max, sat=1"), LEGALITY, "sat=1; legal: 0"),
    (replaced("B.DATR PadValue=Max", "B.DATR Max, canonicalize=1"), LEGALITY, "canonicalize=1"),
    (replaced("B.DATR PadValue=Max", "B.DATR Max, rmode=1"), LEGALITY, "rmode=1; legal: 0"),
    (replaced("B.DATR PadValue=Max", "B.DATR Max, layout=1"), LEGALITY, "layout=1; legal: 0"),
    (
        replaced("B.DATR PadValue=Max", "B.DATR Max, DataType=FP64"),
        LEGALITY,
        "secondary DataType=0",
    ),
    (
        replaced("B.DATR PadValue=Max", "B.DATR Max, DataType=FP32"),
        LEGALITY,
        "secondary DataType=1",
    ),
    (
        "\n".join(
            [
                START,
                WIDTH,
                "B.IOT T#1, mask=1111",
                "B.IOT T#2, T#3, mask=1111, last, ->N<128B>",
                STOP,
            ]
        ),
        LEGALITY,
        "bindings 1 sources, then 2 sources and a destination",
    ),
    (replaced("B.DIM LB1=2", "B.IOR r0, r0, r0, ->r0"), LEGALITY, "B.IOR is present"),
    (replaced(WIDTH), LEGALITY, "LB0 is missing"),
    (replaced(WIDTH, "B.DIM LB0=0"), LEGALITY, "LB0=0; legal: 1 to 65535"),
    (replaced(WIDTH, "B.DIM LB0=65536"), LEGALITY, "LB0=0; legal: 1 to 65535"),
    (replaced("B.DIM LB1=2", "B.DIM LB1=0"), LEGALITY, "LB1=0; legal: 1 to 65535"),
    (replaced("B.DIM LB2=8", "B.DIM LB2=0"), LEGALITY, "LB2=0; legal: 1 to 65535"),
    (replaced(START, "BSTART.VEC TFMA, S32"), LEGALITY, "DataType S32; legal: FP16, FP32, BF16"),
    (replaced(START, "BSTART.VEC TFMA, FP64"), LEGALITY, "DataType FP64; legal: FP16, FP32, BF16"),
    (replaced("B.DIM LB2=8", "B.DIM LB2=12"), ALLOCATION, "Col=12; legal: a power of two"),
    (replaced("B.DIM LB2=8", "B.DIM LB2=64"), ALLOCATION, "Row=8"),
    (replaced("B.DIM LB2=8", "B.DIM LB2=4"), ALLOCATION, "ValidCol=8; legal: 1 to 4"),
    (replaced("B.DIM LB1=2", "B.DIM LB1=5"), ALLOCATION, "ValidRow=5; legal: 1 to 4"),
    (replaced(PAIR, "B.IOT M#1, T#2, mask=1111"), LEGALITY, "source M#1 is not allocated"),
    (replaced(PAIR, "B.IOT T#1, M#9, mask=1111"), LEGALITY, "source M#9 is not allocated"),
    (replaced(FINAL, FINAL.replace("T#3", "N#16")), LEGALITY, "source N#16 is not allocated"),
    (replaced(PAIR, "B.IOT U#7, T#2, mask=1111"), LEGALITY, r"U#7 element \(0, 0\) of PE0"),
    (replaced(PAIR, "B.IOT U#8, T#2, mask=1111"), LEGALITY, r"U#8 element \(0, 0\) of PE1"),
    (replaced(PAIR, "B.IOT T#1, U#1, mask=1111"), LEGALITY, "rows=8; the destination has 4"),
    (replaced(PAIR, "B.IOT T#1, U#2, mask=1111"), LEGALITY, "rows=2; the destination has 4"),
    (replaced(PAIR, "B.IOT T#1, U#3, mask=1111"), LEGALITY, "valid_rows=1; the destination has 2"),
    (
        replaced(PAIR, "B.IOT T#1, U#4, mask=1111"),
        LEGALITY,
        "valid_columns=7; the destination has 8",
    ),
    (replaced(PAIR, "B.IOT T#1, U#5, mask=1111"), LEGALITY, "dtype=S32; the destination has FP32"),
    (
        replaced(PAIR, "B.IOT T#1, U#6, mask=1111"),
        LEGALITY,
        "layout=NZ; the destination has RowMajor",
    ),
]


@pytest.mark.parametrize(
    ("program", "fault", "message"), MUTATIONS, ids=[m for _, _, m in MUTATIONS]
)
def test_each_single_mutation(program: str, fault: type[ArchitecturalFault], message: str) -> None:
    core = machine()
    before = core.snapshot()
    with pytest.raises(fault, match=message) as caught:
        core.execute(program)
    assert type(caught.value) is fault
    assert str(caught.value).startswith(fault.fault + ": ")
    assert core.snapshot() == before


def test_snapshot_sees_every_bit() -> None:
    """A digest that missed something would let an effect pass."""
    changes: list[Callable[[Core], object]] = [
        lambda core: core.release(0),
        lambda core: setattr(core.machine, "flags", 5),
        lambda core: core.write(0, np.full((2, 8), 0x3F800001, np.uint32), "FP32", capacity=128),
        lambda core: core.write(0, np.full((2, 8), 0x3F800000, np.uint32), "FP32", capacity=256),
        lambda core: core.write(0, np.full((2, 8), 0x3F800000, np.uint32), "U32", capacity=128),
        lambda core: core.write(
            0, np.full((2, 8), 0x3F800000, np.uint32), "FP32", capacity=128, mask=0b1110
        ),
        lambda core: core.write(
            22,
            np.full((2, 8), 0x3F800000, np.uint32),
            "FP32",
            capacity=128,
            defined=False,
            valid=(1, 8),
        ),
        lambda core: core.write(2, np.full((2, 8), 0x3F800000, np.uint32), "FP32", capacity=128),
    ]
    digests = {machine().snapshot()}
    assert digests == {machine().snapshot()}
    for change in changes[:-1]:
        core = machine()
        change(core)
        digests.add(core.snapshot())
    assert len(digests) == len(changes)


def test_no_free_register_and_no_capacity() -> None:
    core = machine()
    ones = np.full((2, 8), 0x3F800000, np.uint32)
    for index in range(48, 64):
        core.write(index, ones, "FP32", capacity=128)
    before = core.snapshot()
    with pytest.raises(TileAllocationFault, match="hand N has no free register"):
        core.execute("\n".join(LEGAL))
    assert core.snapshot() == before
    core = Core(backend="numpy", capacity=3 * 512 + 511)
    for index in range(3):
        core.write(index, ones, "FP32", capacity=128)
    before = core.snapshot()
    with pytest.raises(TileAllocationFault, match="4 PEs x 128 bytes = 512 bytes; 1536 of 2047"):
        core.execute("\n".join(LEGAL))
    assert core.snapshot() == before
    one_pe = [line.replace("1111", "1000") for line in LEGAL]
    assert core.execute("\n".join(one_pe))[0].destination == 48


@pytest.mark.parametrize(
    ("first", "second", "fault", "message"),
    [
        ("B.IOS S1<128B>, mask=1111", "B.DIM LB0=0", LEGALITY, "B.IOS"),
        (FINAL.replace("last, ", ""), "B.DATR sat=1", LEGALITY, "marked last"),
        ("B.DATR sat=1", "B.DIM LB0=0", LEGALITY, "sat=1"),
        ("B.DIM LB0=0", "BSTART.VEC TFMA, S32", LEGALITY, "LB0=0"),
        ("BSTART.VEC TFMA, S32", "B.DIM LB2=12", LEGALITY, "DataType S32"),
        ("B.DIM LB2=12", "B.IOT M#1, T#2, mask=1111", ALLOCATION, "Col=12"),
        ("B.IOT U#7, U#1, mask=1111", None, LEGALITY, "undefined"),
        ("B.IOT U#1, M#1, mask=1111", None, LEGALITY, "not allocated"),
    ],
)
def test_order_of_checks(
    first: str, second: str | None, fault: type[ArchitecturalFault], message: str
) -> None:
    """With two rules broken, the earlier one faults."""
    slots = {
        "BSTART": 0,
        "B.DATR": 1,
        "B.DIM LB0": 2,
        "B.DIM LB2": 4,
        "B.IOT T#3": 6,
        "B.IOT": 5,
        "B.IOS": 3,
    }
    lines = list(LEGAL)
    for change in (first, second):
        if change is not None:
            lines[next(slot for key, slot in slots.items() if change.startswith(key))] = change
    core = machine()
    with pytest.raises(fault, match=message):
        core.execute("\n".join(lines))


@pytest.mark.parametrize(
    "line", [PAIR, FINAL], ids=["a binding is missing", "the destination is missing"]
)
def test_fault_map(line: str) -> None:
    with pytest.raises(BundleControlFault):
        machine(fault_map="asl-0.58.3").execute(replaced(line))


def test_zero_mask_comes_before_everything() -> None:
    core = machine()
    before = core.snapshot()
    zero = [line.replace("mask=1111", "mask=0000") for line in LEGAL]
    assert core.execute("\n".join(zero))[0].destination is None
    for missing in range(1, len(zero) - 1):
        if not zero[missing].startswith("B.IOT"):
            core.execute("\n".join(zero[:missing] + zero[missing + 1 :]))
    core.execute("BSTART.VEC TFMA, U8; B.DATR sat=1; B.DIM LB0=0; B.IOT N#9, mask=0000; BSTOP")
    core.execute("BSTART.VEC TFMA, FP32; B.IOS S1<128B>, mask=0000; BSTOP")
    assert core.snapshot() == before
    with pytest.raises(BundleControlFault):  # a fault of a word still comes first
        core.execute("BSTART.VEC TFMA, FP32; B.DATR Zero; B.DATR Zero; B.IOT N#9, mask=0000; BSTOP")
    with pytest.raises(IllegalInstructionFault):
        core.execute("BSTART.VEC TFMA, FP32; B.IOT mask=0000, ->T<code=12>; BSTOP")


def test_a_binding_of_no_pe_is_skipped() -> None:
    """Among others it is no binding: no mask to match, nothing last, no source."""
    skipped = "B.IOT M#1, mask=0000, last"
    core = machine()
    core.execute(replaced(PAIR, skipped, PAIR, skipped))
    assert core.tile(48).mask == 0b1111
    with pytest.raises(TileLegalityFault, match="2 sources and 0 destinations"):
        core.execute(replaced(FINAL, FINAL.replace("1111", "0000")))


def test_an_address_names_the_word() -> None:
    core = machine()
    with pytest.raises(TileLegalityFault, match=r"\(word 3 at \+0xa: C.BSTOP\)") as caught:
        core.execute("BSTART.VEC TFMA, FP32; C.B.DIMI LB0=8; B.IOT T#1, mask=1111; C.BSTOP")
    assert (caught.value.address, caught.value.trap) == (10, 5)
    with pytest.raises(IllegalInstructionFault, match=r"word 0 at \+0x0: 0xffffff93") as bad:
        core.execute([0xFFFFFF93])
    assert bad.value.trap == 4


def test_programs() -> None:
    core = machine()
    again = "\n".join(LEGAL[:-1])  # committed by the next start
    assert [r.destination for r in core.execute(again + "\n" + "\n".join(LEGAL))] == [48, 49]
    core.release(48)
    assert core.execute(assemble("\n".join(LEGAL)))[0].destination == 48  # lowest free register
    with pytest.raises(BadValue, match="never stops"):
        core.execute(again)
    before = core.snapshot()
    with pytest.raises(TileLegalityFault):  # the bundles before the fault stay executed
        core.execute("\n".join(LEGAL) + "\n" + replaced(WIDTH))
    assert core.snapshot() != before
    assert core.tile(50).contents_defined
    assert core.execute("BSTOP") == []


def test_scalar_registers_offset_dimensions() -> None:
    core = machine()
    core.scalars[5] = 65541
    core.execute(replaced(WIDTH, "B.DIM LB0=r5+3"))
    assert core.tile(48).descriptor.valid_columns == 8  # modulo 2^16


def test_an_operation_that_is_not_emulated() -> None:
    with pytest.raises(UnknownInstruction, match=r"TEXP .* not emulated; emulated: TFMA"):
        machine().execute(replaced(START, "BSTART.VEC TEXP, FP32"))


def test_relative_names() -> None:
    core = Core(backend="numpy", names="relative")
    for index, code in ((5, 0x40000000), (2, 0x40400000), (9, 0x3F800000)):
        core.write(index, np.full((1, 8), code, np.uint32), "FP32")
    # newest first: T#1 is register 9 (1.0), T#2 register 2 (3.0), T#3 register 5 (2.0)
    program = (
        f"{START}; {WIDTH}; B.IOT T#2, T#3, mask=1111; B.IOT T#1, mask=1111, last, ->T<128B>; BSTOP"
    )
    assert core.execute(program)[0].destination == 0
    assert core.tile(0).bits[0, 0, 0] == 0x40E00000  # 3 * 2 + 1
    assert core.execute(program)[0].destination == 1  # now 1.0 * 3.0 + 7.0
    assert core.tile(1).bits[0, 0, 0] == 0x41200000
    core.release(1)
    core.release(0)
    core.release(9)
    with pytest.raises(TileLegalityFault, match="source T#3 is not allocated"):
        core.execute(program)


@st.composite
def programs(draw: st.DrawFn) -> list[int]:
    """The legal bundle with words dropped, repeated, or replaced by random ones."""
    words = assemble("\n".join(LEGAL))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(words) - 1))
        form = draw(st.sampled_from(list(FORMS.values())))
        fields = {name: draw(st.integers(0, form.limit(name) - 1)) for name in form.fields}
        new = draw(st.sampled_from([[], [words[place]] * 2, [encode(form.name, **fields).bits]]))
        words[place : place + 1] = new
        if not words:
            return [1]
    return words


@settings(max_examples=400, deadline=None)
@given(programs())
def test_rejection_has_no_effect(program: list[int]) -> None:
    core = machine()
    state = core.snapshot()
    commits: list[bytes] = []
    perform = core._perform

    def watched(plan: object) -> object:
        retired = perform(plan)
        commits.append(core.snapshot())
        return retired

    core._perform = watched
    try:
        retired = core.execute(program)
    except GpuemuError:
        pass
    else:
        assert len(commits) == sum(entry.destination is not None for entry in retired)
    assert core.snapshot() == (commits[-1] if commits else state)
