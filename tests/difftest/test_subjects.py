"""Users' subjects run in processes of their own: whatever they do, the next batch is answered."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import cases, processes, shrink, subjects
from gpuemu.difftest.subject import SubjectKeepsDying
from gpuemu.difftest.subjects import SubjectFailed, SubjectHung
from gpuemu.errors import BadValue
from gpuemu.mfma import modifiers

ROW = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
PLAIN = modifiers.check(ROW)
NONE = np.zeros((3, 2, 64), np.uint32)
GOOD = {"a": NONE, "b": NONE, "c": np.zeros((3, 4, 64), np.uint32)}
BAD = GOOD | {"a": NONE + np.uint32(0xBAD)}


pytestmark = pytest.mark.usefixtures("subjects_on_the_path")


def load(name: str, timeout: float = 30.0) -> Any:
    return subjects.load(f"bad_subjects:{name}", timeout)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("segfaults", "was killed by signal SIGSEGV"),
        ("is_killed", "was killed by signal SIGKILL"),
        ("leaves", "ended with exit code 3"),
        ("exits", "called exit('no licence')"),
        ("raises", "raised RuntimeError: illegal address"),
        ("floats", "returned float64 (3, 4, 64); the D of v_mfma_f32_16x16x16_f16 is uint32"),
        ("nothing", "returned no array"),
    ],
)
def test_what_went_wrong_is_said_and_the_next_batch_answered(name: str, message: str) -> None:
    subject = load(name)
    for _ in range(2):
        with pytest.raises(SubjectFailed) as raised:
            subject(ROW, BAD, PLAIN)
        assert message in str(raised.value) and str(raised.value).startswith(f"bad_subjects:{name}")
    if name not in ("raises", "floats", "nothing"):
        assert not subject(ROW, GOOD, PLAIN).any()


def test_a_subject_that_keeps_dying_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "DEATHS", 2)
    subject = load("leaves")

    def given_up() -> bool:
        with pytest.raises(SubjectFailed) as raised:
            subject(ROW, BAD, PLAIN)
        assert str(raised.value).endswith(("code 3", "code 3, 2 times in a row"))
        return isinstance(raised.value, SubjectKeepsDying)

    assert not given_up()
    subject(ROW, GOOD, PLAIN)
    assert [given_up() for _ in range(3)] == [False, True, False]


def test_a_program_that_keeps_dying_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "DEATHS", 2)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    subject = subjects.load(str(program))
    with pytest.raises(SubjectFailed, match=r"standard error$"):
        subject(ROW, GOOD, PLAIN)
    with pytest.raises(SubjectKeepsDying, match="2 times in a row"):
        subject(ROW, GOOD, PLAIN)


@pytest.mark.parametrize("name", ["hangs", "hangs_with_a_child"])
def test_a_hang_ends_with_the_timeout(name: str) -> None:
    subject = load(name, timeout=1.0)
    with pytest.raises(SubjectHung, match=f"bad_subjects:{name} ran longer than 1 s"):
        subject(ROW, BAD, PLAIN)
    if name == "hangs":
        assert not subject(ROW, GOOD, PLAIN).any()


def children() -> set[str]:
    """Return the ids of this process's children."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_what_hung_is_gone() -> None:
    before = children()
    subject = load("hangs", timeout=0.5)
    (child,) = children() - before
    with pytest.raises(SubjectHung):
        subject(ROW, BAD, PLAIN)
    assert child not in children()


def test_a_case_that_hangs_is_not_made_small() -> None:
    words = (("a", 0, 0, 0xBAD),)
    case = cases.Case(ROW, PLAIN, words=words)
    assert shrink.shrink(case, load("hangs", 1.0), subjects.load("numpy")) is None


def test_one_process_answers_many_batches() -> None:
    subject = load("where")
    first, second = (int(subject(ROW, GOOD, PLAIN)[0, 0, 0]) for _ in range(2))
    assert first == second != os.getpid()
    other = load("where")
    assert int(other(ROW, GOOD, PLAIN)[0, 0, 0]) != first


def test_the_process_ends_with_its_subject() -> None:
    subject = load("where")
    pid = int(subject(ROW, GOOD, PLAIN)[0, 0, 0])
    del subject
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_it_prints_is_not_taken_for_an_answer() -> None:
    assert not load("prints")(ROW, GOOD, PLAIN).any()


def test_a_module_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_subject.py").write_text("import os; os.abort()")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SubjectFailed, match="SIGABRT"):
        subjects.load("broken_subject:f")
    with pytest.raises(BadValue, match="cannot be loaded: ModuleNotFoundError"):
        subjects.load("no_such_module:f")
    with pytest.raises(BadValue, match=r"timeout=0\.0"):
        load("right", 0.0)


def test_a_program_that_hangs_with_a_child_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nsleep 1000 &\necho $! > child\nwait\n")
    program.chmod(0o755)
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        with pytest.raises(SubjectHung, match="ran longer than 1 s"):
            subjects.load(str(program), 1.0)(ROW, GOOD, PLAIN)
    finally:
        os.chdir(here)
    pid = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{pid}/stat")
    for _ in range(100):  # a signal that is sent is not yet delivered
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    with pytest.raises(SubjectFailed, match="was killed by signal SIGSEGV"):
        subjects.load(str(program))(ROW, GOOD, PLAIN)
    program.write_text("not a program\n")
    with pytest.raises(SubjectFailed, match="cannot be run: Exec format error"):
        subjects.load(str(program))(ROW, GOOD, PLAIN)
