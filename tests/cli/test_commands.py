"""The command line: what users type, what they see, and the exit code."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import gpuemu
from gpuemu.backends import host
from gpuemu.cli import build

F16 = "v_mfma_f32_16x16x16_f16"
needs_compiler = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())


def gpuemu_command(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def fine(*arguments: str) -> str:
    result = gpuemu_command(*arguments)
    assert result.exit_code == 0, result.output
    # A replay line and a path are as long as they are.
    free = ("gpuemu replay", "wrote ")
    lines = [x for x in result.output.splitlines() if not any(text in x for text in free)]
    assert max(map(len, lines), default=0) <= 80
    return result.output


def from_json(*arguments: str) -> Any:
    result = gpuemu_command(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def refused(*arguments: str) -> str:
    result = gpuemu_command(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_help_names_every_command_and_starts_fast() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gpuemu", "--help"], capture_output=True, text=True, check=True
    )
    assert time.monotonic() - started < 10
    for name in ("list", "show", "layout", "run", "compare", "diff", "replay", "info"):
        assert f" {name} " in done.stdout


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys, gpuemu.cli; gpuemu.cli.build(); "
        "print([m for m in ('cupy', 'matplotlib', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_list() -> None:
    assert len(from_json("list")) == 161
    assert len(from_json("list", "--arch", "gfx942", "--kind", "smfmac")) == 14
    assert F16 in fine("list", "*16x16x16*", "--arch", "gfx942")
    assert "no instruction" in refused("list", "v_mfma_nope")
    assert "kind='vector'" in refused("list", "--kind", "vector")
    assert "arch pattern" in refused("list", "--arch", "gfx1100")


@pytest.mark.parametrize("i", gpuemu.instructions(), ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_show_every_instruction(i: gpuemu.Instruction) -> None:
    text = " ".join(fine("show", i.mnemonic, "--arch", i.arch).split())
    assert i.fidelity in text and i.model in text
    notes = text.partition("Where sources disagree")[2]
    multi = i.kind == "mfma" and i.modifiers.cbsz == "broadcast" and i.modifiers.cbsz_max > 1
    assert ("lane_block" in notes) == multi
    assert ("blgp:" in notes) == (not i.modifiers.blgp_documented)
    assert ("idx: ROCm's parameter page" in notes) == i.sparse
    assert ("output_layout" in notes) == (i.formats["D"] == "f64" and i.blocks == 4)
    assert ("no public measurement" in notes) == (i.fidelity == "unverified")


def test_show_needs_an_architecture_where_several_have_the_name() -> None:
    assert "gfx942, gfx950" in refused("show", F16)
    assert "near names" in refused("show", F16 + "x")
    assert from_json("show", F16, "--arch", "gfx942")["model"]["name"] == "cdna3_f16"


def test_layout_of_every_element() -> None:
    i = gpuemu.instruction(F16, "gfx942")
    where = i.layout("D")
    rows = list(csv.DictReader(io.StringIO(fine("layout", F16, "D", "--arch", "gfx942", "--csv"))))
    assert len(rows) == 256
    for row in rows:
        found = where[int(row["block"]), int(row["row"]), int(row["column"])]
        assert found.tolist() == [int(row[name]) for name in ("vgpr", "lane", "first_bit", "bits")]
    assert from_json("layout", F16, "D", "--arch", "gfx942") == [
        {k: int(v) for k, v in row.items()} for row in rows
    ]


def test_layout_table_and_questions() -> None:
    assert "0-15  3       v1    31:16  0-15" in fine("layout", F16, "A", "--arch", "gfx942")
    assert "12   0       v0    31:0  48" in fine(
        "layout", F16, "D", "-a", "gfx942", "--element", "12,0"
    )
    found = from_json(
        "layout", "v_mfma_f32_32x32x8_f16", "D", "-a", "gfx942", "--lane", "32", "--vgpr", "4"
    )
    assert [(e["row"], e["column"]) for e in found] == [(12, 0)]
    assert "16-47" in fine(
        "layout", "v_mfma_f32_32x32x1_2b_f32", "B", "-a", "gfx942", "--blgp", "3"
    )
    straddling = from_json(
        "layout",
        "v_mfma_f32_16x16x128_f8f6f4",
        "A",
        "-a",
        "gfx950",
        "--cbsz",
        "2",
        "--vgpr",
        "1",
        "--lane",
        "0",
    )
    assert [e["column"] for e in straddling] == [5, 6, 7, 8, 9, 10]
    assert "cbsz=1" in refused("layout", F16, "A", "-a", "gfx942", "--cbsz", "1")
    assert "matrix 'X'" in refused("layout", F16, "X", "-a", "gfx942")
    assert "legal: block,row,column" in refused(
        "layout", F16, "D", "-a", "gfx942", "--element", "16,0"
    )


def test_layout_pictures(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    pytest.importorskip("matplotlib")
    svg, png = tmp_path / "d.svg", tmp_path / "d.png"
    fine("layout", F16, "D", "-a", "gfx942", "--svg", str(svg), "--png", str(png))
    root = ElementTree.fromstring(svg.read_text())
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    boxes = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("stroke")]
    assert len(boxes) == 256 and len({r.get("fill") for r in boxes}) == 64
    assert texts.count("lane 63") == 4 and texts.count("v3") == 64
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and len(png.read_bytes()) > 20000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.png", "d.svg"]


def test_a_sparse_picture_names_its_index_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "v_smfmac_i32_16x16x64_i8"
    fine("layout", name, "A", "-a", "gfx942", "--abid", "1", "--svg", "a.svg")
    text = Path("a.svg").read_text()
    # Two groups of four dense columns a register: eight bits of the second index set.
    assert text.count("idx 23:16") == text.count("idx 31:24") == 16 * 4
    fine("layout", "v_smfmac_f32_16x16x32_f16", "A", "-a", "gfx942", "--svg", "a.svg")
    assert Path("a.svg").read_text().count("idx 3:0") == 16 * 4


def test_layout_picture_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert "gpuemu[plot]" in refused(
        "layout", F16, "D", "-a", "gfx942", "--png", str(tmp_path / "d.png")
    )
    assert not list(tmp_path.iterdir())


def test_run_on_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((1, 16, 16)).astype(np.float16) for _ in "AB")
    C = rng.standard_normal((1, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "in.npz", A=A, B=B, C=C)
    fine("run", F16, str(tmp_path / "in.npz"), "-a", "gfx942", "-o", str(tmp_path / "d.npy"))
    want = gpuemu.instruction(F16, "gfx942")(A, B, C, backend="numpy")
    assert np.array_equal(np.load(tmp_path / "d.npy"), want)
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", B)
    bits = from_json(
        "run", F16, "-a", "gfx942", "--a", str(tmp_path / "a.npy"), "--b", str(tmp_path / "b.npy")
    )["bits"]
    want = gpuemu.instruction(F16, "gfx942")(A, B, backend="numpy").view(np.uint32)
    assert bits[0] == f"{int(want.flat[0]):08X}"


def test_run_on_register_images(tmp_path: Path) -> None:
    i = gpuemu.instruction("v_mfma_f32_4x4x4_16b_f16", "gfx942")
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(0, 1 << 14, (n, 64), dtype=np.uint32) for n in (2, 2, 4))
    np.savez(tmp_path / "r.npz", A=a, B=b, C=c)
    options = (
        "--registers",
        "--cbsz",
        "2",
        "--abid",
        "1",
        "--blgp",
        "3",
        "-o",
        str(tmp_path / "d.npy"),
    )
    fine("run", i.mnemonic, str(tmp_path / "r.npz"), "-a", "gfx942", *options)
    assert np.array_equal(
        np.load(tmp_path / "d.npy"),
        gpuemu.execute(i, a, b, c, cbsz=2, abid=1, blgp=3, backend="numpy"),
    )


@pytest.mark.parametrize(
    "name", ["v_smfmac_f32_16x16x64_fp8_fp8", "v_mfma_f64_16x16x4_f64", "v_mfma_i32_16x16x32_i8"]
)
def test_run_on_generated_inputs_repeats(name: str) -> None:
    one = from_json("run", name, "-a", "gfx942", "--class", "raw", "--seed", "5")
    assert one == from_json("run", name, "-a", "gfx942", "--class", "raw", "--seed", "5")
    assert (
        one["bits"]
        != from_json("run", name, "-a", "gfx942", "--class", "raw", "--seed", "6")["bits"]
    )


def test_run_refuses_bad_files_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "d.npy"
    whole = io.BytesIO()
    np.savez(whole, A=np.zeros((16, 16), np.float16), B=np.zeros((16, 16), np.float16))
    cut, text, objects, scrambled = (
        tmp_path / f"{n}.npz" for n in ("cut", "text", "objects", "scrambled")
    )
    cut.write_bytes(whole.getvalue()[:200])
    text.write_text("A,B\n1,2\n")
    np.savez(objects, A=np.array([{}], object), B=np.zeros((16, 16), np.float16))
    damaged = bytearray(whole.getvalue())
    damaged[160:180] = b"\xff" * 20
    scrambled.write_bytes(bytes(damaged))
    for path in (cut, text, objects, scrambled, tmp_path / "missing.npz", tmp_path):
        message = refused("run", F16, str(path), "-a", "gfx942", "-o", str(out))
        assert message.startswith("error: ") and str(path.name) in message.replace("\n", "")
        assert not out.exists()
    message = refused("run", F16, "-a", "gfx942", "-o", str(tmp_path / "no" / "d.npy"))
    assert "cannot be written" in message


def test_run_refuses_bad_options() -> None:
    assert "input class 'odd'" in refused("run", F16, "-a", "gfx942", "--class", "odd")
    assert "cbsz=1" in refused("run", F16, "-a", "gfx942", "--cbsz", "1")
    assert "backend='gpu'" in refused("run", F16, "-a", "gfx942", "--backend", "gpu")
    assert "neg='1'" in refused("run", F16, "-a", "gfx942", "--neg", "1")


FIVE_ANSWERS = {
    ("gfx908", "v_mfma_f32_16x16x4f32"): "BF600000",
    ("gfx908", "v_mfma_f32_16x16x16f16"): "BF600000",
    ("gfx90a", "v_mfma_f32_16x16x8bf16"): "BEC00000",
    ("gfx90a", "v_mfma_f32_16x16x16f16"): "00000000",
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k"): "00000000",
    ("gfx942", "v_mfma_f32_16x16x16_f16"): "BF000000",
    ("gfx942", "v_mfma_f32_16x16x16_bf16"): "BF000000",
    ("gfx942", "v_mfma_f32_16x16x8_xf32"): "BF000000",
    ("gfx942", "v_mfma_f32_16x16x32_bf8_bf8"): "BF800000",
}


def test_compare_has_five_answers() -> None:
    found = from_json("compare", "--backend", "numpy")
    bits = {(row["arch"], row["instruction"]): row["bits"][0][0] for row in found["answers"]}
    assert {key: bits[key] for key in FIVE_ANSWERS} == FIVE_ANSWERS
    assert found["parting"] == {"row": 0, "column": 0, "product": 1}
    text = fine("compare", "--backend", "numpy")
    assert "5 answers. They part at product k=1" in text
    assert "-0.375  BEC00000" in text


def test_compare_an_input_of_ones_own(tmp_path: Path) -> None:
    found = from_json(
        "compare",
        "--a",
        "4096,-4096,2**-6",
        "--b",
        "4096,4096,0x1p-6",
        "-i",
        "*16x16x16*f16",
        "--backend",
        "numpy",
    )
    bits = {
        row["arch"]: row["bits"][0][0]
        for row in found["answers"]
        if "bf16" not in row["instruction"]
    }
    assert bits["gfx908"] == bits["gfx90a"] == "39800000" and bits["gfx942"] == "00000000"
    A, B = np.ones((4, 40)), np.ones((40, 3))
    np.savez(tmp_path / "in.npz", A=A, B=B)
    found = from_json(
        "compare",
        str(tmp_path / "in.npz"),
        "-i",
        "*4x4x4*f16",
        "--arch",
        "gfx942",
        "--backend",
        "numpy",
    )
    assert found["parting"] is None and found["answers"][0]["D"] == [["40.0"] * 3] * 4
    assert "All answers are equal" in fine(
        "compare", str(tmp_path / "in.npz"), "--backend", "numpy"
    )


def test_compare_shows_as_many_digits_as_tell_neighbours_apart() -> None:
    line = ("-a", "gfx942", "--backend", "numpy", "-i", "*16x16x4*f??")
    shown = fine("compare", "--a", "1", "--b", "1", "--c", "0x1p-24", *line)
    assert "1.0000000596046448  3FF0000010000000" in shown
    assert "1  3F800000" in shown


def test_compare_refuses() -> None:
    assert "no number of" in refused(
        "compare", "--a", "0.1", "--b", "1", "-i", "*i8", "--backend", "numpy"
    )
    assert "--a has 2 numbers, --b 1" in refused("compare", "--a", "1,2", "--b", "1")
    assert "legal: --a and --b" in refused("compare", "--a", "1,2")
    assert "'1x' is no number" in refused("compare", "--a", "1x", "--b", "1")


def test_info() -> None:
    facts = from_json("info")
    assert facts["gpuemu"] == gpuemu.__version__
    assert facts["backends"]["numpy"] == "available"
    assert set(facts["backends"]) == {"numpy", "host", "cuda"}
    assert facts["packages"]["numpy"] == np.__version__
    assert "numpy" in fine("info")


@pytest.mark.parametrize(
    "words", [("list",), ("show", F16, "-a", "gfx942"), ("run", F16, "-a", "gfx942")]
)
def test_a_narrow_terminal_cuts_no_words(words: tuple[str, ...]) -> None:
    narrow, usual = (
        CliRunner().invoke(build(), list(words), env={"COLUMNS": n}) for n in ("40", "80")
    )
    assert narrow.output == usual.output and narrow.exit_code == 0


def test_version_and_bad_use() -> None:
    assert fine("--version").strip() == f"gpuemu {gpuemu.__version__}"
    assert gpuemu_command("nonsense").exit_code == 2
    assert gpuemu_command("layout").exit_code == 2


def test_bench() -> None:
    options = ("-i", F16, "-a", "gfx942", "--backend", "numpy", "--waves", "4", "--seconds", "0.01")
    (row,) = from_json("bench", *options)["rows"]
    assert row["macs_per_s"] == row["instructions_per_s"] * 4096 > 0
    assert F16 in fine("bench", *options)
