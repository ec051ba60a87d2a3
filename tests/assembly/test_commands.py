"""The commands on assembly, run as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gpuemu.cli import build
from gpuemu.mfma.wavefront import Wavefront

PROGRAM = """main:
  s_nop 0
  v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v5, 1.0  // 000000001900: D3C28000 03CA0B04
  v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v5, a[0:3]
  v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[2:3], -1.0
"""


def gpuemu(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(build(), list(arguments), input=stdin)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.s"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def registers(tmp_path: Path) -> str:
    v = np.zeros((2, 6, 64), np.uint32)
    v[:, 4:6] = np.full((2, 64), 0x40000000, np.uint32)
    np.savez(tmp_path / "in.npz", v=v)
    return str(tmp_path / "in.npz")


def test_asm_and_disasm() -> None:
    line = "v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:1 blgp:3"
    assert gpuemu("asm", line, "-a", "gfx942").output == "D3C08900 64020300\n"
    assert (
        gpuemu("asm", line, "-a", "gfx942", "--to", "bytes").output == "00 89 c0 d3 00 03 02 64\n"
    )
    builtin = "__builtin_amdgcn_mfma_f32_32x32x1f32(a, b, c, 1, 1, 3)\n"
    assert gpuemu("asm", line, "-a", "gfx942", "--to", "builtin").output == builtin
    shown = gpuemu("disasm", "D3C08900", "64020300", "-a", "gfx942").output
    assert shown == line.replace("1f32", "1_2b_f32") + "\n"
    facts = json.loads(gpuemu("asm", line, "-a", "gfx942", "--json").output)
    assert facts[0]["operands"] == {"D": "a[0:31]", "A": "v0", "B": "v1", "C": "a[0:31]"}


def test_asm_and_disasm_of_files(tmp_path: Path) -> None:
    lines = [line for line in PROGRAM.split("\n") if "mfma" in line]
    scaled = "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0, v4, v5"
    words = gpuemu("asm", "-", "-a", "gfx950", stdin="\n".join([*lines, scaled])).output
    assert [len(line.split()) for line in words.splitlines()] == [2, 2, 2, 4]
    data = b"".join(int(word, 16).to_bytes(4, "little") for word in words.split())
    (tmp_path / "code.bin").write_bytes(data)
    shown = gpuemu("disasm", str(tmp_path / "code.bin"), "-a", "gfx950").output.splitlines()
    assert shown == [
        *(line.split("//")[0].strip() for line in lines),
        scaled + " op_sel_hi:[0,0,0]",
    ]


def test_faults_of_files_name_the_line(program: str) -> None:
    result = gpuemu("asm", program, "-a", "gfx942")
    assert result.exit_code == 2 and result.output.startswith("error: line 2: column 3: s_nop")


def test_run_asm(program: str, registers: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    arguments = ("run-asm", program, "-a", "gfx942", "--registers", registers, "-o", str(out))
    refused = gpuemu(*arguments)
    assert refused.exit_code == 2 and "line 2: s_nop is no matrix instruction\n" in refused.output
    assert refused.output.count("--skip-unknown leaves such lines out") == 1
    assert not out.exists()
    done = gpuemu(*arguments, "--skip-unknown", "--backend", "numpy")
    assert done.exit_code == 0, done.output
    assert "skipped line 2: s_nop 0" in done.output and "3 instructions on numpy" in done.output
    with np.load(out) as found:
        assert np.all(found["a"].view(np.float32) == 9.0) and found["a"].shape == (2, 4, 64)
        assert np.all(found["v"][:, 1] == 0xBFF00000) and np.all(found["v"][:, 4] == 0x40000000)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_trace(program: str, registers: str) -> None:
    arguments = ("trace", program, "-a", "gfx942", "--registers", registers, "--skip-unknown")
    shown = gpuemu(*arguments, "--backend", "numpy", "--lanes", "2")
    assert "a0  40A00000 5.0  40A00000 5.0" in shown.output
    assert "model fma_f32 (published-model)" in shown.output
    found = json.loads(gpuemu(*arguments, "--backend", "numpy", "--json").stdout)
    assert [step["line"] for step in found] == [3, 4, 5]
    first, _, last = (step["changed"] for step in found)
    assert [item["register"] for item in first] == ["a0", "a1", "a2", "a3"]
    assert last == [{"register": "v[0:1]", "bits": ["BFF0000000000000"] * 4, "values": [-1.0] * 4}]
    assert gpuemu(*arguments, "--wave", "2").exit_code == 2


def test_trace_shows_no_digit_too_many(tmp_path: Path) -> None:
    v = np.zeros((6, 64), np.uint32)
    v[4], v[5] = np.array([0.1, 1], np.float32).view(np.uint32)
    np.savez(tmp_path / "in.npz", v=v)
    (tmp_path / "p.s").write_text("v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 0")
    paths = (str(tmp_path / "p.s"), "--registers", str(tmp_path / "in.npz"))
    shown = gpuemu("trace", *paths, "-a", "gfx942", "--backend", "numpy", "--lanes", "1").output
    assert "v0  3DCCCCCD 0.1\n" in "\n".join(x.rstrip() + "\n" for x in shown.splitlines())


def test_cost(program: str) -> None:
    found = json.loads(gpuemu("cost", program, "-a", "gfx942", "--skip-unknown", "--json").stdout)
    assert found["total"]["cycles"] == 8 + 8 + 16
    assert found["total"]["vgprs"] == 6 and found["total"]["accvgprs"] == 4
    assert [step["cheaper"] for step in found["steps"]] == [
        ["v_mfma_f32_32x32x2_f32", "v_mfma_f32_32x32x1_2b_f32"][:0], [], ["v_mfma_f64_16x16x4_f64"],
    ]  # fmt: skip
    assert (
        "32 cycles (8 passes)" in gpuemu("cost", program, "-a", "gfx942", "--skip-unknown").output
    )


def test_run_asm_is_the_wavefront(program: str, tmp_path: Path) -> None:
    w = Wavefront("gfx942", vgprs=6, accvgprs=4, backend="numpy")
    for line in PROGRAM.split("\n")[2:5]:
        w.execute(line)
    out = tmp_path / "out.npz"
    gpuemu(
        "run-asm", program, "-a", "gfx942", "--skip-unknown", "--backend", "numpy", "-o", str(out)
    )
    with np.load(out) as found:
        assert np.array_equal(found["v"], w.vgprs) and np.array_equal(found["a"], w.accvgprs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("asm", "v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, 65", "-a", "gfx942"),
            "column 42: 65 is no",
        ),
        (("asm", "v_nop", "-a", "gfx942"), "v_nop is no matrix instruction"),
        (("asm", "v_nop", "-a", "gfx942", "--to", "elf"), "--to elf"),
        (("disasm", "D3C08900", "-a", "gfx942"), "4 bytes"),
        (("disasm", "D3C08900", "64020300", "-a", "gfx942", "--to", "elf"), "--to elf"),
        (("asm", "v_nop" * 100, "-a", "gfx942"), "is no matrix instruction"),
        (("run-asm", "/none.s", "-a", "gfx942", "-o", "x.npz"), "/none.s"),
        (("trace", "-", "-a", "gfx1100"), "gfx1100"),
    ],
)
def test_bad_use_is_one_error(arguments: tuple[str, ...], message: str) -> None:
    result = gpuemu(*arguments)
    assert (
        result.exit_code == 2 and result.output.startswith("error: ") and message in result.output
    )


def test_foreign_register_files_are_refused(program: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", x=np.zeros((4, 64), np.uint32))
    result = gpuemu(
        "run-asm", program, "-a", "gfx942", "--skip-unknown", "-o", str(tmp_path / "o.npz"),
        "--registers", str(tmp_path / "bad.npz"),
    )  # fmt: skip
    assert result.exit_code == 2 and "arrays x; legal: v and a" in result.output
