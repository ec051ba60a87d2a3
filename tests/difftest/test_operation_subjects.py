"""What users write for TFMA, its bundles and emulated GEMM: callables and programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operation_rows import (
    BUNDLE,
    F32,
    FP16,
    RESIDUES,
    RIGHT,
    failed_cases,
    records,
)

from gpuemu.difftest import subjects
from gpuemu.difftest.campaign.campaign import Campaign
from gpuemu.difftest.cases import plan
from gpuemu.difftest.catalogue import find
from gpuemu.difftest.subjects import Subject, SubjectFailed
from gpuemu.tile.numeric import DATA_TYPES

HERE = Path(__file__).parent


pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (FP16, "tfma"),
        (find("tfma_s16", "pto-adr0080"), "tfma"),
        (F32, "product"),
        (RESIDUES, "product"),
        (BUNDLE, "bundle"),
    ],
    ids=repr,
)
def test_what_users_write(row: Any, name: str) -> None:
    subject = subjects.load(f"operation_subjects:{name}", 60.0)
    assert failed_cases(row, range(120), subject) == 0


@pytest.mark.parametrize(
    ("row", "name", "message"),
    [
        (FP16, "dies", "was killed by signal SIGKILL"),
        (F32, "half", r"returned d float32 \(1, 4, 1\); the d of emulated_f32_slices is uint32"),
        (F32, "bundle", "raised TypeError"),
        (BUNDLE, "no_such_fault", "raised BadValue: fault 'Fault_Odd'; legal: ''"),
        (FP16, "half", r"raised TypeError|returned no array"),
    ],
    ids=repr,
)
def test_what_goes_wrong_is_said(row: Any, name: str, message: str) -> None:
    subject = subjects.load(f"operation_subjects:{name}", 60.0)
    case = plan(row).case(0)
    for _ in range(2):
        with pytest.raises(SubjectFailed, match=message):
            subject(row, case.images(), case.modifiers)


def test_no_answer_is_a_verdict() -> None:
    campaign = Campaign("operation_subjects:dies", instruction="emulated_f32*", cases=4)
    found = records(campaign)
    assert {r.verdict for r in found} == {"failed"}
    assert all("SIGKILL" in r.what and r.failed_cases == r.cases for r in found)


PROGRAM = """#!{python}
import json, sys
import numpy as np
sys.path.insert(0, {root!r})
import gpuemu.gemm
given = np.load(sys.argv[1])
m = json.loads(str(given["header"]))["modifiers"]
a, b, c = (given[name].view(np.float32) for name in "abc")
alpha, beta = m["scalars"]
options = dict(mantissa_bits=m["mantissa_bits"], slice_rounding=m["slice_rounding"])
options["backend"] = "numpy"
np.savez(sys.argv[2], d=gpuemu.gemm.emulated_matmul(a, b, c, alpha, beta, **options))
"""


def test_programs(tmp_path: Path) -> None:
    import sys

    path = tmp_path / "program"
    path.write_text(PROGRAM.format(python=sys.executable, root=str(HERE.parents[1])))
    path.chmod(0o755)
    assert failed_cases(F32, range(3), subjects.load(str(path), 60.0)) == 0


ALIASES = """#!{python}
import json, sys
import numpy as np
sys.path.insert(0, {root!r})
from gpuemu.difftest.catalogue import find
given = np.load(sys.argv[1])
header = json.loads(str(given["header"]))
i = find(header["instruction"], header["arch"])
m = i.check(header["modifiers"] | dict(alias="none"))  # it takes the three files as they are
np.savez(sys.argv[2], **i.compute("numpy", dict((x, given[x]) for x in given if x != "header"), m))
"""


@pytest.mark.parametrize("alias", FP16.factors["alias"])
def test_programs_get_aliased_sources_as_callables_do(alias: str, tmp_path: Path) -> None:
    import sys

    path = tmp_path / "program"
    path.write_text(ALIASES.format(python=sys.executable, root=str(HERE.parents[1])))
    path.chmod(0o755)
    m = FP16.check({"alias": alias})
    operands = FP16.operands(m, FP16.classes[0], 0, np.arange(4))
    got, want = subjects.load(str(path), 60.0)(FP16, operands, m), RIGHT(FP16, operands, m)
    assert all(np.array_equal(got[name], x) for name, x in want.items())


@pytest.mark.parametrize(
    "change",
    [{"dtype": DATA_TYPES["S16"]}, {"capacity": 65536}, {"layout": "NZ"}],
    ids=lambda change: next(iter(change)),
)
def test_the_descriptor_of_a_new_tile_counts(change: dict[str, Any]) -> None:
    def relabelled(operation: Any, program: list[int], core: Any) -> Any:
        import operation_subjects

        fault, flags, tiles = operation_subjects.bundle(operation, program, core)
        changed = {
            register: replace(tile, descriptor=replace(tile.descriptor, **change))
            for register, tile in tiles.items()
        }
        return fault, flags, changed

    (legal,) = BUNDLE.named(("legal",))
    m = BUNDLE.sweep()[0]
    operands = BUNDLE.operands(m, legal, 0, np.arange(4))
    want = RIGHT(BUNDLE, operands, m)
    assert (want["new"] != BUNDLE.ask(relabelled, operands, m)["new"]).any(axis=(1, 2)).all()


def test_more_new_tiles_than_are_compared_are_refused() -> None:
    def many(operation: Any, program: list[int], core: Any) -> Any:
        tile = next(iter(core.machine.registers.values()))
        return "", 0, dict.fromkeys((0, 17, 63), tile)

    case = plan(BUNDLE).case(0)
    subject = Subject("many", lambda i, operands, m: i.ask(many, operands, m))
    message = r"BadValue: 3 new tiles, T#1, U#2, N#16; legal: at most 2"
    with pytest.raises(SubjectFailed, match=message):
        subject(BUNDLE, case.images(), case.modifiers)
