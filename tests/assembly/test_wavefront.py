"""Wavefronts and programs against single instructions, in whatever way registers overlap."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import cuda, host
from gpuemu.errors import AssemblyError, BadShape, BadType, BadValue, GpuemuError
from gpuemu.mfma.assembly import parse
from gpuemu.mfma.program import Program, make_step
from gpuemu.mfma.wavefront import Wavefront

from .lines import Lines

BACKENDS = [
    "numpy",
    pytest.param("host", marks=pytest.mark.skipif(not host.available(), reason="no g++")),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
REGISTERS = 64


def files(seed: int, batch: tuple[int, ...] = (2,)) -> dict[str, np.ndarray]:
    """Register files of small numbers: any bits would make most f16 and f8 sums infinite or NaN."""
    r = np.random.default_rng(seed)
    return {
        bank: r.integers(0, 2**32, (*batch, REGISTERS, 64), np.uint32) & 0x3F3F3F3F for bank in "va"
    }


def apply(state: dict[str, np.ndarray], line: str, arch: str) -> None:
    """The plain meaning of a line: read every operand, compute, write D."""
    call = parse(line, arch, "llvm")
    step = make_step(call)
    given = {name: state[r.bank][..., r.slice, :].copy() for name, r in step.reads.items()}
    if step.constant is not None:
        given["c"] = np.broadcast_to(step.constant, (*given["a"].shape[:-2], *step.constant.shape))
    d = gpuemu.execute(
        call.instruction, **given, cbsz=call.cbsz, abid=call.abid, blgp=call.blgp, neg=call.neg,
        op_sel=call.op_sel, legality="llvm", backend="numpy",
    )  # fmt: skip
    o = call.operands.D
    state[o.bank][..., o.slice, :] = d


SMALL = "v_mfma_f32_4x4x1_16b_f32 "
WIDE = "v_mfma_f32_16x16x4_4b_f16 "
OVERLAPS = [
    SMALL + "v[0:3], v4, v5, v[0:3]",
    SMALL + "v[0:3], v0, v1, v[4:7]",
    SMALL + "v[0:3], v0, v0, v[0:3]",
    SMALL + "v[0:3], v3, v2, v[2:5]",
    SMALL + "a[4:7], a5, v5, a[2:5]",
    WIDE + "v[0:15], v[0:1], v[14:15], v[0:15]",
    WIDE + "v[0:15], v[8:9], v[8:9], 1.0",
    "v_smfmac_f32_16x16x32_f16 v[0:3], v[0:1], v[2:5], v3",
    "v_smfmac_f32_16x16x32_f16 a[0:3], v[0:1], v[2:5], v3 abid:2",
    "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[0:1], v[0:1], v[0:1] neg:[1,0,1]",
    "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[4:5], -1",
    "v_mfma_f64_4x4x4_4b_f64 v[2:3], v[2:3], v[4:5], 0.15915494309189532",
    "v_mfma_i32_4x4x4_16b_i8 v[0:3], v4, v5, -16",
    "v_mfma_i32_4x4x4_16b_i8 v[0:3], v4, v5, 1.0",
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", OVERLAPS)
def test_operands_are_read_before_d_is_written(line: str, backend: str) -> None:
    state = files(1)
    w = Wavefront("gfx942", vgprs=state["v"], accvgprs=state["a"], legality="llvm", backend=backend)
    before = {bank: file.copy() for bank, file in state.items()}
    w.execute(line)
    assert all(np.array_equal(state[bank], before[bank]) for bank in "va"), (
        "inputs are never modified"
    )
    apply(state, line, "gfx942")
    assert np.array_equal(w.vgprs, state["v"]) and np.array_equal(w.accvgprs, state["a"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_random_programs(arch: str, backend: str) -> None:
    lines, r = Lines(7), random.Random(arch)
    found: list[str] = []
    wanted = 4 if backend == "cuda" else 12  # each needs its kernel compiled there
    while len(found) < wanted:  # few registers, so that everything overlaps sooner or later
        line = lines.line(arch)
        try:
            step = make_step(parse(line, arch, "llvm"))
        except GpuemuError:
            continue
        highest = max(o.last for o in (step.call.operands.D, *step.reads.values()))
        if highest < REGISTERS and r.random() < 0.9:
            found.append(line)
    state = files(3)
    w = Wavefront(arch, vgprs=state["v"], accvgprs=state["a"], legality="llvm", backend=backend)
    schedule = w.schedule(Program.read("\n".join(found), arch, "llvm"))
    for _ in range(2):  # a schedule may be run again, from where it stopped
        schedule.run()
        for line in found:
            apply(state, line, arch)
        assert np.array_equal(w.vgprs, state["v"]) and np.array_equal(w.accvgprs, state["a"])


def test_a_chain_copies_no_registers() -> None:
    """Launches are the steps and one copy back; the buffers are two, however long the chain."""
    text = "\n".join([SMALL + "a[0:3], v0, v1, a[0:3]"] * 50)
    w = Wavefront("gfx942", (3,), backend="numpy")
    schedule = w.schedule(Program.read(text, "gfx942"))
    assert len(schedule.launches) == 51
    assert len(schedule._buffers) == 2


def test_split_operands_are_gathered() -> None:
    lines = [
        "v_mfma_f64_4x4x4_4b_f64 v[2:3], v[0:1], v[0:1], 0",
        "v_mfma_f64_4x4x4_4b_f64 v[4:5], v[0:1], v[0:1], 1.0",
        "v_mfma_f64_16x16x4_f64 v[16:23], v[2:3], v[4:5], v[0:7]",
        "v_smfmac_f32_16x16x32_f16 v[24:27], v[6:7], v[2:5], v0",
    ]
    state = files(5, ())
    w = Wavefront("gfx942", vgprs=state["v"], accvgprs=state["a"], legality="llvm", backend="numpy")
    w.run(Program.read("\n".join(lines), "gfx942", "llvm"))
    for line in lines:
        apply(state, line, "gfx942")
    assert np.array_equal(w.vgprs, state["v"])


def test_check_backend_and_calls() -> None:
    if not host.available() and not cuda.available():
        pytest.skip("neither g++ nor a device")
    state = files(2, ())
    w = Wavefront("gfx942", vgprs=state["v"], accvgprs=state["a"], backend="check")
    call = parse(WIDE + "a[0:15], v[0:1], v[2:3], a[0:15] cbsz:1 abid:1 blgp:2", "gfx942")
    w.execute(call)
    apply(state, str(call), "gfx942")
    assert np.array_equal(w.accvgprs, state["a"])


def test_read_and_write() -> None:
    w = Wavefront("gfx942", (2, 3), vgprs=8, accvgprs=4, backend="numpy")
    image = np.arange(2 * 64, dtype=np.uint32).reshape(2, 64)
    w.write("v[2:3]", image)
    assert np.array_equal(w.read("v[2:3]"), np.broadcast_to(image, (2, 3, 2, 64)))
    assert (
        w.vgprs.shape == (2, 3, 8, 64)
        and w.accvgprs.shape == (2, 3, 4, 64)
        and not w.accvgprs.any()
    )
    w.read("v2")[...] = 1
    assert np.array_equal(w.read("v[2:2]")[0, 0], image[:1]), "a read is a copy"


def test_switches_reach_the_instruction() -> None:
    a = np.arange(64, dtype=np.float32).view(np.uint32).reshape(1, 64)
    shown = {}
    for broadcast in ("grouped", "lane_block"):
        w = Wavefront("gfx942", vgprs=8, accvgprs=0, backend="numpy")
        w.write("v0", a)
        w.write("v1", np.full((1, 64), 0x3F800000, np.uint32))
        w.execute(SMALL + "v[4:7], v0, v1, 0 cbsz:2 abid:1", broadcast=broadcast)
        shown[broadcast] = w.vgprs.view(np.float32)[4:8, 0].tolist()
    assert shown == {"grouped": [4, 5, 6, 7], "lane_block": [16, 17, 18, 19]}


def test_program_is_checked_whole() -> None:
    text = f"""main:
      s_load_dwordx2 s[0:1], s[4:5], 0x0
      {SMALL} a[0:3], v0, v1, 0          // 000000001900: D3C28000 02020300
      {SMALL} a[0:3], v0, v1, a[1:4]
      v_mfma_f32_32x32x9_f16 a[0:3], v0, v1, a[0:3]
      s_endpgm
    """
    with pytest.raises(AssemblyError) as raised:
        Program.read(text, "gfx942")
    faults = str(raised.value).split("\n")
    assert [line.split(":")[0] for line in faults if line.startswith("line")] == [
        f"line {n}" for n in (4, 5, 2, 6)
    ]
    kept = "\n".join(line for line in text.split("\n") if "a[1:4]" not in line and "x9" not in line)
    program = Program.read(kept, "gfx942", skip_unknown=True)
    assert [s.mnemonic for s in program.skipped] == ["s_load_dwordx2", "s_endpgm"]
    assert [step.number for step in program.steps] == [3]
    assert program.registers == {"v": 2, "a": 4}
    with pytest.raises(AssemblyError, match=r"line 3: a\[0:3\] of .* has 3 registers in bank 'a'"):
        Wavefront("gfx942", vgprs=4, accvgprs=3, backend="numpy").run(program)


def test_program_lists_at_most_twenty_faults() -> None:
    with pytest.raises(AssemblyError, match="and 5 more"):
        Program.read("s_nop 0\n" * 25, "gfx942")


def test_indices_are_checked_before_anything_runs() -> None:
    text = f"{SMALL} v[8:11], v4, v5, 1.0\n v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v12"
    w = Wavefront("gfx942", vgprs=16, backend="numpy")
    with pytest.raises(BadValue, match="line 2: idx: lane 0"):
        w.run(Program.read(text, "gfx942"))
    assert not w.vgprs.any()
    computed = Program.read(text.replace("v12", "v8"), "gfx942")  # 1.0 is no ascending index either
    with pytest.raises(BadValue, match="line 2: idx"):
        w.run(computed)
    w.write("v12", np.full((1, 64), 0x44, np.uint32))
    w.run(Program.read(text, "gfx942"))
    assert w.read("v8").view(np.float32)[0, 0] == 1.0


def test_nothing_runs_before_a_late_fault() -> None:
    text = f"{SMALL} v[0:3], v4, v5, 1.0\n{SMALL} v[0:3], v4, v5, v[8:11]"
    w = Wavefront("gfx942", vgprs=8, backend="numpy")
    with pytest.raises(AssemblyError, match="line 2"):
        w.run(Program.read(text, "gfx942"))
    assert not w.vgprs.any()


ZEROS = np.zeros((4, 4, 64), np.uint32)
SCALAR = SMALL + "v[0:3], v4, v5, src_scc"
ZERO = SMALL + "v[0:3], v4, v5, 0"
BUILTIN = "x = __builtin_amdgcn_mfma_f32_4x4x1f32(a, b, c, 0, 0, 0);"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Wavefront("gfx1100"), BadValue, "gfx1100"),
        (lambda: Wavefront("gfx942", (-1,)), BadShape, "batch"),
        (lambda: Wavefront("gfx942", vgprs=257), BadValue, "257 registers"),
        (lambda: Wavefront("gfx942", vgprs=np.zeros((4, 32), np.uint32)), BadShape, "32"),
        (lambda: Wavefront("gfx942", vgprs=np.zeros((4, 64), np.float32)), BadType, "float32"),
        (lambda: Wavefront("gfx942", (2,), vgprs=ZEROS[:3]), BadShape, "differ"),
        (lambda: Wavefront("gfx942").execute(3), BadType, "int"),  # type: ignore[arg-type]
        (lambda: Wavefront("gfx942").execute(parse(ZERO, "gfx950")), BadValue, "of gfx950"),
        (lambda: Wavefront("gfx942").run(Program.read(ZERO, "gfx950")), BadValue, "gfx950"),
        (lambda: Wavefront("gfx942", vgprs=2).read("v2"), AssemblyError, "has 2 registers"),
        (lambda: Wavefront("gfx942").read("s3"), AssemblyError, "expected registers"),
        (lambda: Wavefront("gfx942").read(7), BadType, "int"),  # type: ignore[arg-type]
        (lambda: Wavefront("gfx942").write("v[0:1]", ZEROS[0, :3]), BadShape, r"\(3, 64\)"),
        (lambda: Wavefront("gfx942").write("v0", ZEROS[:2, :1]), BadShape, r"\(2, 1, 64\)"),
        (lambda: Program.read(BUILTIN, "gfx908"), AssemblyError, "names no registers"),
        (lambda: make_step(parse(SCALAR, "gfx942", "llvm")), AssemblyError, "not emulated"),
    ],
)  # fmt: skip
def test_bad_use(call: object, error: type[GpuemuError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


def test_a_batch_may_be_one_number() -> None:
    assert Wavefront("gfx942", 3, vgprs=4, backend="numpy").vgprs.shape == (3, 4, 64)
    with pytest.raises(BadShape, match=r"batch=\(-1,\); legal: a tuple of ints from 0 on"):
        Wavefront("gfx942", -1)
