"""`gpuemu bench --compare`: two files of measured times, made here."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuemu.cli import build

PYTEST: dict[str, Any] = {
    "datetime": "2026-01-01",
    "machine_info": {"gpu": {"name": "A GPU"}, "gpuemu": "0.1.0", "cpu": {"brand_raw": "A CPU"}},
    "benchmarks": [
        {"fullname": f"bench/test_x.py::test_{n}", "stats": {"median": t, "iqr": 0.1}}
        for n, t in (("quick", 2.0**-20), ("slow", 2.0), ("middle", 3e-3), ("old", 1.0))
    ],
}
OWN: dict[str, Any] = {
    "facts": {"gpuemu": "0.1.0", "processor": "A CPU", "devices": [], "date": "2026-01-01"},
    "rows": [
        {"instruction": "v_x", "arch": "gfx942", "backend": "host", "waves": 4, "median_s": 1e-3}
    ],
}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(build(), ["bench", *arguments])


def files(folder: Path, old: Any, new: Any) -> tuple[str, str]:
    found = []
    for name, value in (("old", old), ("new", new)):
        path = folder / f"{name}.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        found.append(str(path))
    return found[0], found[1]


def changed() -> dict[str, Any]:
    new = copy.deepcopy(PYTEST)
    for row, factor in zip(new["benchmarks"], (1.0625, 1.5, 0.5, 1), strict=True):
        row["stats"]["median"] *= factor
    new["benchmarks"][3]["fullname"] = "bench/test_x.py::test_new"
    return new


def test_what_got_slower(tmp_path: Path) -> None:
    both = files(tmp_path, PYTEST, changed())
    result = run("--compare", *both)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["bench/test_x.py::test_slow", "2", "s", "3", "s", "1.50"]
    assert lines[2].split()[-1] == "1.06" and " ".join(lines[3].split()).endswith(
        "3 ms 1.5 ms 0.50"
    )
    assert "1 of 3 slower by more than 1.1 times" in result.stdout
    assert "only in the old file: 1" in result.stdout and max(map(len, lines)) <= 80
    assert run("--compare", *both, "--threshold", "1.6").exit_code == 0
    assert run("--compare", *both, "--threshold", "1.04").exit_code == 1
    assert run("--compare", *both[::-1], "--threshold", "2.1").exit_code == 0


def test_json(tmp_path: Path) -> None:
    result = run("--compare", *files(tmp_path, PYTEST, changed()), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and found["slower"] == 1
    assert [row["ratio"] for row in found["rows"]] == [1.5, 1.0625, 0.5]
    assert found["only_old"] == ["bench/test_x.py::test_old"]
    assert found["old"] == "A GPU, A CPU, gpuemu 0.1.0, 2026-01-01"


def test_own_output(tmp_path: Path) -> None:
    measured = run("-i", "v_mfma_f32_4x4x1f32", "-a", "gfx908", "--backend", "numpy",
                   "--waves", "2", "--seconds", "0.01", "--json")  # fmt: skip
    own = json.loads(measured.stdout)
    assert own["rows"][0]["fastest_s"] <= own["rows"][0]["median_s"] <= own["rows"][0]["slowest_s"]
    slower = copy.deepcopy(own)
    slower["rows"][0]["median_s"] *= 3
    result = run("--compare", *files(tmp_path, own, slower))
    assert result.exit_code == 1 and "v_mfma_f32_4x4x1f32 (gfx908), numpy, 2 waves" in " ".join(
        result.stdout.split()
    )
    assert run("--compare", *files(tmp_path, own, own)).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "new.json: no JSON: "),
        ("[1, 2]", "not of a known format"),
        ("3", "not of a known format"),
        ('{"benchmarks": [{}]}', "not of a known format (KeyError: 'fullname')"),
        ('{"benchmarks": []}', "holds no benchmark"),
        ({**OWN, "rows": [{**OWN["rows"][0], "median_s": 0}]}, "is 0; legal: seconds above 0"),
        ({**OWN, "rows": [{**OWN["rows"][0], "median_s": "x"}]}, "is 'x'; legal"),
        (PYTEST, "have no benchmark in common"),
    ],
)
def test_bad_files(tmp_path: Path, text: Any, message: str) -> None:
    result = run("--compare", *files(tmp_path, OWN, text))
    assert result.exit_code == 2 and message in result.stderr, result.output


def test_bad_use(tmp_path: Path) -> None:
    one = files(tmp_path, OWN, OWN)[0]
    assert run("--compare", one).exit_code == 2
    missing = run("--compare", one, str(tmp_path / "none.json"))
    assert missing.exit_code == 2 and "none.json: no such file" in missing.stderr
    assert run("--compare", one, one, "--threshold", "0.5").exit_code == 2
