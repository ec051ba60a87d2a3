"""Running cases: the same verdicts in any batch, and small cases that still fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import runner, shrink, subjects
from gpuemu.difftest.cases import from_json, plan
from gpuemu.difftest.subjects import Subject

RIGHT = subjects.load("numpy")


def faulty(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
    """Swap two registers wherever lane 3 of A is odd: a fault that few cases show."""
    d = gpuemu.execute(i, **images, **m.non_default(), backend="numpy")
    odd = images["a"][:, 0, 3] & 1 == 1
    d[odd] = np.roll(d[odd], 1, axis=1)
    return d


WRONG = Subject("faulty", faulty)
ROWS = [
    ("v_mfma_f32_4x4x4_16b_f16", "gfx942"),
    ("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942"),
    ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950"),
    ("v_mfma_f64_4x4x4_4b_f64", "gfx942"),
    ("v_mfma_i32_16x16x64_i8", "gfx950"),
]


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_batches_change_nothing(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = plan(gpuemu.instruction(name, arch), 1)
    found = []
    for size in (1, 7, 4096):
        monkeypatch.setattr(runner, "BATCH_CASES", size)
        result = runner.run(p, range(60), WRONG, RIGHT, keep=1000)
        found.append({(f.case.number, f.text(), f.got, f.want) for f in result.failures})
        assert result.cases == 60 and result.failed_cases == len(result.failures)
    assert found[0] == found[1] == found[2]
    assert 0 < len(found[0]) < 60


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_small_cases_fail_alike_and_survive_their_text(name: str, arch: str) -> None:
    p = plan(gpuemu.instruction(name, arch), 1)
    (failure,) = runner.run(p, range(60), WRONG, RIGHT).failures
    small = shrink.shrink(failure.case, WRONG, RIGHT)
    assert small is not None and small.words is not None
    again, _ = from_json(small.to_json())
    assert again.to_json() == small.to_json()
    i, m = again.instruction, again.modifiers
    _, failed = runner.check(i, m, [again], again.images(), WRONG, RIGHT)
    assert failed == 1
    words = [word for word in small.words if word[0] not in ("idx", "scale_a", "scale_b")]
    assert len(words) <= 4, small.to_json()


def test_a_case_that_does_not_fail_is_not_made_small() -> None:
    p = plan(gpuemu.instruction(*ROWS[0]), 1)
    assert shrink.shrink(p.case(0), RIGHT, RIGHT) is None


def test_progress_counts_every_case() -> None:
    seen = []
    p = plan(gpuemu.instruction(*ROWS[0]))
    runner.run(p, range(10, 60), RIGHT, RIGHT, progress=lambda _, cases: seen.append(cases))
    assert sum(seen) == 50
