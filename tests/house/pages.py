"""What a page of the documentation holds: blocks of code, and how each kind is run.

- Python with prompts is a doctest; Python without is executed; both share a page's names. A line
  whose comment says that it takes several GPUs is left out.
- `python title="FILE"` is a part of that file in docs/.
- `console` is a shell session: `$ ` begins a command, what follows is its output, in which `...`
  stands for anything; a last line `[exit code N]` says how it ends.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what stands behind that, its text and its first line."""

    language: str
    options: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order."""
    for found in re.finditer(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", text, re.M | re.S):
        _, language, options, inside = found.groups()
        line = text[: found.start(4)].count("\n") + 1
        yield Block(language, options, dedent(inside), line)


def run(page: Path, names: dict[str, Any]) -> int:
    """Run every block of a page, in the current folder; return how many examples it had.

    Raises
    ------
    AssertionError
        With expected and actual output.
    """
    count = 0
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {block.line}"
        if block.language == "console":
            count += run_session(block.text, where)
        elif block.language == "python" and "title=" in block.options:
            (title,) = re.findall(r'title="(.*?)"', block.options)
            assert block.text in (page.parent / title).read_text(encoding="utf-8"), where
        elif block.language == "python" and ">>> " in block.text:
            count += run_doctest(block.text, names, where)
        elif block.language == "python":
            text = re.sub(r"^.*# .*\bGPUs\b.*$", "", block.text, flags=re.M)
            exec(compile(text, where, "exec"), names)
            count += 1
    return count


def run_doctest(text: str, names: dict[str, Any], where: str) -> int:
    """Run prompts; return how many there were."""
    found = doctest.DocTestParser().get_doctest(text, {}, where, where, 0)
    found.globs = names
    failures: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(found, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)
    return len(found.examples)


def run_session(text: str, where: str) -> int:
    """Run the commands of a shell session; return how many there were."""
    commands = re.split(r"^\$ ", text, flags=re.M)[1:]
    for number, command in enumerate(commands):
        line, _, expected = command.partition("\n")
        expected, code = re.subn(r"^\[exit code (\d+)\]\n?", "", expected, flags=re.M), 0
        if found := re.search(r"^\[exit code (\d+)\]", command, re.M):
            code = int(found[1])
        done = subprocess.run(
            ["bash", "-c", f'gpuemu() {{ "{sys.executable}" -m gpuemu "$@"; }}; {line}'],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "80"},
            timeout=120,
        )
        got, want = done.stdout + done.stderr, expected[0]
        place = f"{where}, command {number + 1}: {line}"
        assert done.returncode == code, f"{place}: exit code {done.returncode}\n{got}"
        same = doctest.OutputChecker().check_output(want, got, FLAGS)
        assert same, f"{place}\nexpected:\n{want}\ngot:\n{got}"
    return len(commands)
