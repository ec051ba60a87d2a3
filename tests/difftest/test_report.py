"""The report in a real browser: no script runs, nothing is wider than a phone, hostile text stays
text.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuemu
from gpuemu.difftest import report
from gpuemu.difftest.cases import plan
from gpuemu.difftest.catalogue import array_operations
from gpuemu.difftest.report import totals
from gpuemu.errors import BadFile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
browser = pytest.mark.skipif(not CHROMIUM, reason="no chromium: apt-get install chromium")

ROWS = gpuemu.instructions("gfx942")
HOSTILE = "<script>alert(1)</script>"
CAMPAIGN = {"subject": "mylib:kernel", "reference": "cuda", "seed": 3, "seconds": 60.0}


def record(number: int, row: Any = ROWS[0], **changed: Any) -> dict[str, Any]:
    case = plan(row).case(number)
    facts = {
        "chunk": number,
        "instruction": row.mnemonic,
        "arch": row.arch,
        "modifiers": case.modifiers.non_default(),
        "class": case.cls,
        "cases": 1000,
        "outputs": 256_000,
        "sampled": 10,
        "reference": "cuda",
        "verdict": "equal",
        "failed_cases": 0,
        "wrong": [],
        "what": "",
        "replay": "",
        "small": "",
        "seconds": 0.5,
        "worker": f"w{number % 2}",
    }
    return facts | changed


def differ(number: int, row: Any = ROWS[0], **changed: Any) -> dict[str, Any]:
    wrong = [[0, lane, lane + 1] for lane in range(32, 64)]
    facts = {"verdict": "differ", "failed_cases": 7, "wrong": wrong, "replay": '{"case":1}'}
    return record(number, row, **(facts | changed))


def campaign() -> list[dict[str, Any]]:
    found = [record(n, row) for row in ROWS for n in range(20)]
    lost = {"verdict": "failed", "failed_cases": 1000, "what": "x:f was killed by signal SIGSEGV"}
    return [*found, differ(21), differ(22), record(1, ROWS[3], **lost)]


def others() -> list[dict[str, Any]]:
    """Return records of TFMA, its bundles and emulated GEMM, the first case of each wrong."""
    found = [record(n, row) for row in array_operations() for n in range(40)]
    return [differ(0, row, wrong=[[3, 15, 4]]) for row in array_operations()] + found


def hostile() -> list[dict[str, Any]]:
    text = f'"></svg></title>{HOSTILE}<img src=x onerror=alert(2)>'
    names = ("instruction", "arch", "class", "reference", "what", "replay", "small", "worker")
    found = differ(0, **dict.fromkeys(names, text), modifiers={text: text}, verdict=text)
    return [found, record(1), differ(2, what="w" * 9000 + "\x00\ud800", replay="r" * 99_000)]


def page(records: Any, path: Path, **changed: Any) -> str:
    report.write(records, CAMPAIGN | changed, path)
    return path.read_text(encoding="utf-8")


INSIDE = """<script>
const errors = [];
window.onerror = (message) => errors.push(message);
window.alert = (message) => errors.push("alert " + message);
addEventListener("load", () => parent.postMessage({
  screen: innerWidth, page: document.documentElement.scrollWidth, errors,
  scripts: document.querySelectorAll("script").length, dom: document.documentElement.outerHTML,
}, "*"));
</script>"""
OUTSIDE = """<script>
onmessage = (event) => { document.body.textContent = JSON.stringify(event.data); };
</script><body><iframe src="inside.html" style="width:WIDTHpx;height:800px;border:0"></iframe>"""


def load(text: str, folder: Path, width: int = 1280) -> dict[str, Any]:
    """Return what the browser makes of the page on a screen of some width.

    The script that measures is written into this copy alone, where scripts may run; a frame stands
    for the screen, since headless windows are at least 500 pixels wide.
    """
    allowed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', INSIDE, text)
    assert allowed != text
    (folder / "inside.html").write_text(allowed, encoding="utf-8")
    outside = folder / "outside.html"
    outside.write_text(OUTSIDE.replace("WIDTH", str(width)))
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        outside.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    body = re.search(r"<body>(.*)</body>", done.stdout, re.S)
    assert body, done.stdout[:1000]
    found: dict[str, Any] = json.loads(html.unescape(body[1]))
    return found


@browser
@pytest.mark.parametrize("make", [campaign, others, hostile, list])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_runs_and_nothing_is_wider_than_the_screen(
    make: Any, width: int, tmp_path: Path
) -> None:
    text = page(make(), tmp_path / "r.html", subject=HOSTILE, device=HOSTILE)
    found = load(text, tmp_path, width)
    # One script: the measuring one. A hostile one would have run, or been counted.
    assert (found["screen"], found["page"]) == (width, width)
    assert (found["scripts"], found["errors"]) == (1, [])


@browser
def test_hostile_text_stays_text(tmp_path: Path) -> None:
    dom = load(page(hostile(), tmp_path / "r.html", subject=HOSTILE), tmp_path)["dom"]
    assert dom.count("<script") == 1 and "<img" not in dom
    assert f'<h1><span class="mark" aria-hidden="true">✗</span> {html.escape(HOSTILE)}' in dom


@browser
def test_a_broken_page_is_noticed(tmp_path: Path) -> None:
    text = page(campaign(), tmp_path / "r.html")
    wide = text.replace("<main>", f"{HOSTILE}<main><div style='width:900px'>x</div>")
    found = load(wide, tmp_path, 360)
    assert found["page"] > found["screen"] == 360
    assert (found["scripts"], found["errors"]) == (2, ["alert 1"])


@browser
def test_pictures_are_drawn(tmp_path: Path) -> None:
    dom = load(page(campaign(), tmp_path / "r.html"), tmp_path)["dom"]
    assert dom.count('<svg class="strip"') == 2 * len(ROWS)
    assert dom.count('<svg class="map"') == 1
    assert "<title>VGPR 0, lane 63: 128</title>" in dom
    assert "gpuemu replay '{\"case\":1}'" in html.unescape(dom)


def test_the_file_has_no_script_and_asks_for_nothing(tmp_path: Path) -> None:
    text = page(campaign(), tmp_path / "r.html")
    assert "<script" not in text and "<link" not in text and "@import" not in text
    assert not re.search(r"""(src|href)\s*=|url\(|https?:""", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("records", "more", "sentence"),
    [
        ([], {}, "nothing was compared."),
        (
            [record(0), record(1)],
            {},
            "mylib:kernel against cuda: all 512,000 outputs of 1 instruction are equal, "
            "bit for bit.",
        ),
        (
            [record(0), differ(1), record(2, ROWS[1])],
            {"interrupted": True},
            "So far: mylib:kernel against cuda: 1 of 2 instructions is wrong, in 7 of 3,000 cases.",
        ),
        (
            [record(0, verdict="failed", failed_cases=1000), differ(1, ROWS[1])],
            {},
            "mylib:kernel against cuda: 2 of 2 instructions are wrong, in 1,007 of 2,000 cases; "
            "1 of them gave no answer.",
        ),
    ],
)
def test_the_verdict(records: Any, more: Any, sentence: str, tmp_path: Path) -> None:
    text = html.unescape(page(records, tmp_path / "r.html", **more))
    assert f"</span> {sentence}</h1>" in text


def test_which_reference_saw_what(tmp_path: Path) -> None:
    text = page([record(0), record(1, reference="numpy", sampled=0)], tmp_path / "r.html")
    plain = re.sub("<[^>]+>", "", text)
    assert "256,000 outputs of mylib:kernel against cuda, in 1,000 cases." in plain
    assert "256,000 outputs of mylib:kernel against numpy, in 1,000 cases." in plain
    assert "A sample, 10 of these cases (0.5 %), against numpy as well." in plain
    text = page([record(0, reference="numpy", sampled=1000)], tmp_path / "r.html")
    assert "it computed every case" in text and "A sample" not in text


def test_what_was_not_tested_is_shown(tmp_path: Path) -> None:
    text = page([record(0)], tmp_path / "r.html")
    assert text.count('class="equal"><title>') == 2  # its class, its modifiers
    assert "<title>raw: not tested</title>" in text
    integers = gpuemu.instruction("v_mfma_i32_16x16x32_i8", "gfx942")
    text = page([record(0, integers)], tmp_path / "r.html")
    assert "<title>ties: says nothing about integers</title>" in text


def test_tiles_and_products_have_rows_columns_and_classes_of_their_own(tmp_path: Path) -> None:
    text = page(others(), tmp_path / "r.html")
    assert "<title>row 3, column 15: 4</title>" in text and "<title>VGPR" not in text
    assert text.count("pto, row by column") == 3 and text.count("pto-core, PE by element") == 1
    head = text.index('<h3 class="arch">pto-core</h3>')
    part = text[head : text.index("<h3", head + 1)]
    assert ">two_rules</text>" in part and ">subnormals</text>" not in part
    assert "<title>ties: no class of tfma_u8</title>" in text
    assert "<title>pad:Max" in text or " pad:Max" in text


@pytest.mark.parametrize("row", array_operations(), ids=repr)
def test_the_last_place_of_every_shape_is_kept(row: Any) -> None:
    for m in row.sweep():
        first = next(iter(row.results(m).values()))
        last = [n - 1 for n in first.shape[-2:]]
        (found,) = totals.add_up([differ(0, row, wrong=[[*last, 3]])]).instructions.values()
        assert found.wrong == {tuple(last): 3}, m


@pytest.mark.parametrize(
    ("wrong", "width", "height", "label"),
    [
        ([[0, 127, 3], [0, 2, 5]], 128, 1, "2 places were wrong, one up to 5 times"),
        ([[127, 0, 1]], 1, 128, "1 place was wrong, up to 1 times"),
        ([[3, 15, 4]], 16, 4, "1 place was wrong, up to 4 times"),
    ],
)
def test_maps_of_tiles_are_as_wide_as_what_is_wrong(
    wrong: Any, width: int, height: int, label: str
) -> None:
    (row,) = totals.add_up([differ(0, array_operations()[0], wrong=wrong)]).instructions.values()
    found = report.pictures.heat_picture(row)
    assert (found.width, found.height) == (width * found.side, height * found.side)
    assert found.label == label


def test_maps_of_registers_show_all_of_d() -> None:
    (row,) = totals.add_up([differ(0, wrong=[[0, 5, 2], [1, 7, 1]])]).instructions.values()
    found = report.pictures.heat_picture(row)
    vgprs = ROWS[0].vgprs["D"]
    assert (found.width, found.height) == (64 * found.side, vgprs * found.side)
    assert found.label == f"2 of {64 * vgprs} registers were wrong, one up to 2 times"


def test_memory_does_not_grow_with_the_records() -> None:
    def endless() -> Iterator[dict[str, Any]]:
        for n in range(20_000):
            name = {"instruction": f"v_{n % 3000}", "class": f"c{n}", "worker": f"w{n}"}
            yield differ(n, **name, modifiers={"cbsz": n}, reference=f"r{n}")

    found = totals.add_up(endless())
    assert found.cases == 20_000_000 and found.chunks == 20_000
    assert len(found.instructions) <= totals.MOST["instructions"] + 1
    assert sum(row.cases for row in found.instructions.values()) == found.cases
    for row in found.instructions.values():
        assert len(row.classes) <= totals.MOST["classes"] + 1
        assert len(row.modifiers) <= totals.MOST["modifiers"] + 1
    assert len(found.workers) <= totals.MOST["workers"] + 1
    assert len(found.references) <= totals.MOST["references"] + 1
    assert len(found.failures) == totals.MOST_FAILURES


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"r\.html: cannot be written: No such file"):
        report.write([], CAMPAIGN, tmp_path / "none" / "r.html")
    assert list(tmp_path.iterdir()) == []
