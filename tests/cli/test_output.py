"""Files that commands write: whole or not there, and never in place of what is no file."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuemu import cli
from gpuemu.cli import build
from gpuemu.cli._output import check_outputs, write_whole
from gpuemu.errors import BadFile

F16 = "v_mfma_f32_16x16x16_f16"
GEMM = "Size(16,16,16) + Precision(f16,f16,f32) + Function(MM) + SM(900) + Block()"

# Commands that end in the name of a file to write.
WRITERS = [
    ("run", F16, "-a", "gfx942", "-o"),
    ("matmul", F16, "a.npy", "a.npy", "-a", "gfx942", "-o"),
    ("matmul", F16, "a.npy", "a.npy", "-a", "gfx942", "--plot"),
    ("run-asm", "p.s", "-a", "gfx942", "-o"),
    ("layout", F16, "-a", "gfx942", "--svg"),
    ("layout", F16, "-a", "gfx942", "--png"),
    ("gemm", "run", GEMM, "a.npy", "a.npy", "-o"),
    ("tile", "run", "t.s", "-o"),
    ("tile", "run", "t.s", "--png"),
    ("tile", "asm", "t.s", "-o"),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with a named pipe that nobody reads; inputs are not there."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.png")


def names(folder: str = ".") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
@pytest.mark.parametrize("name", ["pipe.png", "link.png"])
def test_what_is_no_file_stays(words: tuple[str, ...], name: str) -> None:
    Path("link.png").symlink_to("pipe.png")
    result = CliRunner().invoke(build(), [*words, name])
    assert result.exit_code == 2, result.output
    assert f"{name} is no regular file" in result.stderr
    assert stat.S_ISFIFO(Path("pipe.png").lstat().st_mode) and Path("link.png").is_symlink()
    assert names() == ["link.png", "pipe.png"]


def test_a_folder_is_no_file() -> None:
    result = CliRunner().invoke(build(), ["run", F16, "-a", "gfx942", "-o", "."])
    assert result.exit_code == 2 and ". is no regular file" in result.stderr
    with pytest.raises(BadFile, match="cannot be written: File name too long"):
        check_outputs(Path("x" * 300) / "d.npy")


def test_a_link_leads_to_the_file_that_is_written() -> None:
    Path("there").mkdir()
    Path("d.npy").symlink_to("there/d.npy")
    for _ in "before it is there", "after":
        result = CliRunner().invoke(build(), ["run", F16, "-a", "gfx942", "-o", "d.npy"])
        assert result.exit_code == 0, result.output
        assert Path("d.npy").is_symlink() and np.load("there/d.npy").size == 256
    assert names("there") == ["d.npy"]


def test_a_name_is_taken_as_it_is() -> None:
    np.save("a.npy", np.ones((16, 16), np.float16))
    np.save("b.npy", np.ones((16, 16), np.float16, order="F"))
    words = ["gemm", "run", GEMM, "a.npy", "b.npy", "-o", "D", "--backend", "numpy"]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 0, result.output
    assert np.load("D").shape == (16, 16)
    assert names() == ["D", "a.npy", "b.npy", "pipe.png"]


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("list",), ("info", "--json"), ("--help",), ("--version",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output(words: tuple[str, ...], unbuffered: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuemu", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    assert done.stderr == "error: standard output: No space left on device\n"


@pytest.mark.parametrize("words", ["list", "gemm emulate --normal 8,8,8 --bits 7 --json"])
def test_a_closed_pipe_is_quiet(words: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "gpuemu", *words.split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 1 and not done.stderr


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: standard output: No space"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
    ],
)
def test_an_output_that_fails(
    failure: OSError,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Failing(io.TextIOWrapper):
        def flush(self) -> None:
            raise failure

    with os.fdopen(os.dup(1), "wb") as file:
        monkeypatch.setattr(cli, "build", lambda: lambda **options: print("text"))
        monkeypatch.setattr(sys, "stdout", Failing(file))
        with pytest.raises(SystemExit) as end:
            cli.main()
        monkeypatch.undo()
    assert end.value.code == code
    assert capfd.readouterr().err.startswith(message)


def test_other_errors_of_the_system_are_not_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**options: str) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(cli, "build", lambda: fails)
    with pytest.raises(OSError, match="no more processes"):
        cli.main()


def test_a_link_to_itself_is_refused() -> None:
    Path("x").symlink_to("x")
    with pytest.raises(BadFile, match="x is no regular file"):
        write_whole(Path("x"), lambda path: None)
    assert Path("x").is_symlink()
