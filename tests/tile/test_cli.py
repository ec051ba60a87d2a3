"""`gpuemu tile` on the command line, and the pictures and files behind it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gpuemu.cli import tile as commands
from gpuemu.errors import BadFile, BadType, BadValue, GpuemuError, TileLegalityFault
from gpuemu.tile import Core
from gpuemu.tile.explain import explain
from gpuemu.tile.files import load, save
from gpuemu.tile.numeric import data_type
from gpuemu.tile.picture import classify

PROGRAM = """
BSTART.VEC TFMA, FP16
B.DATR PadValue=Max
B.DIM LB0=3
B.DIM LB1=2
B.DIM LB2=16
B.IOT T#1, T#2, mask=1100
B.IOT T#3, mask=1100, last, ->N<128B>
BSTOP
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.s").write_text(PROGRAM)
    content: dict[str, Any] = {}
    for name, value in (("T#1", 1.5), ("1", 2.0), ("T#3", 0.25)):
        content[name] = np.full((2, 3), value, np.float16)
        content[f"{name}.columns"], content[f"{name}.capacity"] = 16, 128
    np.savez(tmp_path / "in.npz", **content)
    return tmp_path


def run(*arguments: object, text: str | None = None) -> str:
    app = typer.Typer()
    commands.register(app)
    app.command("other")(lambda: None)
    words = [str(argument) for argument in ("tile", *arguments)]
    result = CliRunner().invoke(app, words, input=text, catch_exceptions=True)
    if isinstance(result.exception, GpuemuError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_run(folder: Path) -> None:
    out = folder / "out.npz"
    text = run(
        "run", folder / "program.s", "--tiles", folder / "in.npz", "-o", out, "--backend", "numpy"
    )
    assert "TFMA" in text and "N#1" in text and "sticky flags: none" in text
    with np.load(out) as archive:
        assert archive["N#1"].shape == (4, 4, 16)
        assert archive["N#1"].view(np.float16)[1, 1, 2] == 3.25
        assert archive["N#1"][0, 0, 3] == 0x7BFF
        assert not archive["N#1.defined"][2].any()
        assert int(archive["flags"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["in.npz", "out.npz", "program.s"]
    answer = json.loads(
        run("run", "-", "--tiles", out, "--json", "--backend", "numpy", text=PROGRAM)
    )
    assert answer == {
        "retired": [{"operation": "TFMA", "destination": "N#2", "flags": "none"}],
        "flags": 0,
    }


def test_run_draws_a_tile(folder: Path) -> None:
    png = folder / "tile.png"
    arguments = ("run", folder / "program.s", "--tiles", folder / "in.npz", "--backend", "numpy")
    run(*arguments, "--png", png)
    whole = png.read_bytes()
    assert whole.startswith(b"\x89PNG")
    run(*arguments, "--png", png, "--show", "T#1", "--pe", "3")
    assert png.read_bytes() != whole
    with pytest.raises(BadValue, match="fragment 4; legal: 0 to 3"):
        run(*arguments, "--png", png, "--pe", "4")
    with pytest.raises(BadValue, match="no bundle wrote a tile"):
        run(
            "run",
            "-",
            "--png",
            png,
            text="BSTART.VEC TFMA, FP16; B.IOT mask=0000, ->T<128B>; BSTOP",
        )
    assert sorted(p.name for p in folder.iterdir()) == ["in.npz", "program.s", "tile.png"]


def test_what_a_picture_shows() -> None:
    core = Core(backend="numpy")
    defined = np.array([[True, False, True]])
    core.write(0, np.ones((1, 3), np.float16), "FP16", columns=4, capacity=128, defined=defined)
    kinds = classify(core.tile(0), 0)
    assert kinds.shape == (16, 4)
    assert kinds[0].tolist() == [0, 2, 0, 2]
    core.write(0, np.ones((1, 3), np.float16), "FP16", columns=4, capacity=128)
    core.operate("TABS", 0, 0, pad="Zero")
    assert classify(core.tile(0), 0)[:2].tolist() == [[0, 0, 0, 1], [1, 1, 1, 1]]


def test_faults_and_bad_files(folder: Path) -> None:
    with pytest.raises(TileLegalityFault, match="T#1 is not allocated"):
        run("run", folder / "program.s", "--backend", "numpy")
    with pytest.raises(BadFile, match=r"missing\.s"):
        run("run", folder / "missing.s")
    with pytest.raises(BadFile, match=r"program\.s.*legal: an \.npz"):
        run("run", folder / "program.s", "--tiles", folder / "program.s")
    np.savez(folder / "odd.npz", spam=np.zeros((1, 1), np.float16))
    with pytest.raises(BadFile, match="'spam' names no register"):
        run("run", folder / "program.s", "--tiles", folder / "odd.npz")
    np.savez(folder / "odd.npz", **{"T#1": np.zeros((1, 1), np.uint16)})
    load(Core(backend="numpy"), folder / "odd.npz")
    np.savez(folder / "odd.npz", **{"T#1": np.zeros((1, 1), np.complex64)})
    with pytest.raises(BadType, match=r"needs T#1\.dtype or --dtype"):
        run("run", folder / "program.s", "--tiles", folder / "odd.npz")


def test_a_saved_core_loads_as_it_was(tmp_path: Path) -> None:
    core, rng = Core(backend="numpy", dtype_set="adr0080"), np.random.default_rng(1)
    for index, dtype in ((3, "BF16"), (17, "TF32"), (63, "S8")):
        row = data_type(dtype)
        bits = rng.integers(0, 100, (4, 3, 5)).astype(row.storage) << row.storage.type(
            row.unused_bits
        )
        core.write(
            index,
            bits,
            dtype,
            columns=8,
            capacity=256,
            mask=0b1110,
            defined=rng.random((4, 3, 5)) < 0.5,
        )
    core.machine.flags = 20
    save(core, tmp_path / "a.npz")
    again = Core(backend="numpy")
    load(again, tmp_path / "a.npz")
    for index in (3, 17, 63):
        assert again.tile(index).descriptor.dtype == core.tile(index).descriptor.dtype
        np.testing.assert_array_equal(again.tile(index).bits, core.tile(index).bits)
        np.testing.assert_array_equal(again.tile(index).defined, core.tile(index).defined)
    save(again, tmp_path / "b.npz")
    third = Core(backend="numpy")
    load(third, tmp_path / "b.npz")
    assert third.snapshot() == again.snapshot()
    assert again.flags == 20


def test_asm_and_disasm(folder: Path) -> None:
    words = run("asm", folder / "program.s", "-o", folder / "program.bin").split()
    assert words[:2] == ["0x21C19181", "0x09F01023"]
    assert json.loads(run("asm", folder / "program.s", "--json")) == words
    assert run("disasm", *words).split() == PROGRAM.split()
    assert run("disasm", "--file", folder / "program.bin").split() == PROGRAM.split()
    assert json.loads(run("disasm", "--json", "0x0000")) == ["C.BSTOP"]
    assert run("disasm", *(word.removeprefix("0x") for word in words)).split() == PROGRAM.split()
    with pytest.raises(BadValue, match="neither words nor --file; legal: one of the two"):
        run("disasm")
    with pytest.raises(BadValue, match="words and --file; legal: one of the two"):
        run("disasm", *words, "--file", folder / "program.bin")
    with pytest.raises(BadValue, match="'zz' is no word; legal: hexadecimal, such as 09C19181"):
        run("disasm", "zz")


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ("FP16 0x3E00 0x3956 0x0001", "NX: rounded to nearest"),
        ("FP16 0x0C00 0x8800 0x0400", "tiny"),
        ("FP16 0x7BFF 0x4000 0x0000", "OF|NX: overflow"),
        ("FP16 0x0000 0x7C00 0x7E00", "NV: zero times infinity"),
        ("BF16 0x3F80 0x3F80 0xBF80", "none: exact cancellation gives +0"),
        ("FP32 0x7F7FFFFF 0x7F7FFFFF 0x00000001", "OF|NX"),
        ("FP64 0x7FEFFFFFFFFFFFFF 0x7FEFFFFFFFFFFFFF 1", "beyond binary64"),
        ("E4M3 0x7F 0x38 0x38", "quiet NaN"),
    ],
)
def test_explain(arguments: str, want: str) -> None:
    assert want in run("explain", *arguments.split())


def test_explain_gives_json_and_refuses() -> None:
    answer = json.loads(run("explain", "FP16", "0x3C01", "0x3C01", "0xBC02", "--json"))
    assert (answer["bits"], answer["flags"]) == ("0x0010", 0)
    assert answer["steps"]["product"] == "1050625 * 2^-20 = 1.0019540786743164, exact"
    corner = ("explain", "FP16", "0x7C00", "0x7E00", "0xFC00", "--nan-corner")
    assert "NV" in run(*corner, "asl")
    assert "none: quiet NaN" in run(*corner, "ieee")
    for arguments, message in (
        (("U8", "1", "1", "1"), "does not round"),
        (("FP16", "1.5", "1", "1"), "element bits such as"),
        (("FP16", "0x10000", "1", "1"), "legal: 0 to 0xffff"),
        (("FP16", "1", "1", "1", "--nan-corner", "x"), "legal: ieee, asl"),
    ):
        with pytest.raises(BadValue, match=message):
            run("explain", *arguments)


def test_explanation_agrees_with_the_result() -> None:
    rng = np.random.default_rng(2)
    row = data_type("BF16")
    for codes in rng.integers(0, 1 << 16, (500, 3)).tolist():
        found = explain(row, *codes)
        assert dict(found.steps)["result"].startswith(f"{found.bits:04X}")
