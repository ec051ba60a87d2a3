"""LLVM 22 as the reference: assembler and compiler of the PyPI package `ziglang`."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SPEC = importlib.util.find_spec("ziglang")
_ZIG = Path(str(_SPEC.origin)).parent / "zig" if _SPEC is not None and _SPEC.origin else None
_TARGET = ("-triple", "amdgcn-amd-amdhsa", "-target-cpu")


def version() -> int:
    """Return the major version of LLVM, or 0 where there is none."""
    if _ZIG is None or not _ZIG.exists():
        return 0
    text = subprocess.run(
        [_ZIG, "clang", "--version"], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"clang version (\d+)", text)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class Answer:
    """What LLVM says to a line: its printed form and words, or a message."""

    accepted: bool
    printed: str
    words: str


def _clang(arguments: list[str], source: Path) -> subprocess.CompletedProcess[str]:
    command = [str(_ZIG), "clang", *arguments, "-o", "-", str(source)]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=60, check=False
    )


def assemble(lines: list[str], arch: str, folder: Path) -> list[Answer]:
    """Return LLVM's answer to every line; each line stands alone."""
    source = folder / "lines.s"
    arguments = ["-cc1as", *_TARGET, arch, "-show-encoding"]
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    errors = _clang(arguments, source).stderr
    found: dict[int, Answer] = {}
    for match in re.finditer(
        rf"^{re.escape(str(source))}:(\d+):\d+: error: (.*)$", errors, re.MULTILINE
    ):
        found.setdefault(int(match[1]) - 1, Answer(False, match[2], ""))
    good = [n for n in range(len(lines)) if n not in found]
    # A marker before each line: some, such as a lone label, are accepted and give no instruction.
    marked = "".join(f'.ident "{n}"\n{lines[n]}\n' for n in good)
    source.write_text(marked, encoding="utf-8")
    parts = re.split(r'\t\.ident\t"(\d+)"\n', _clang(arguments, source).stdout)[1:]
    assert parts[::2] == [str(n) for n in good], "LLVM prints every marker"
    for n, part in zip(good, parts[1::2], strict=True):
        printed = [line for line in part.split("\n") if "; encoding:" in line]
        if len(printed) != 1:
            found[n] = Answer(False, f"{len(printed)} instructions", "")
            continue
        text, _, encoding = printed[0].partition("; encoding: [")
        words = encoding.rstrip("]").replace("0x", "").replace(",", "")
        found[n] = Answer(True, text.split("\t;")[0].strip(), words)
    return [found[n] for n in range(len(lines))]


def compile_c(text: str, arch: str, folder: Path) -> str:
    """Return the assembly that clang makes of C, or its errors."""
    source = folder / "kernel.c"
    source.write_text(text, encoding="utf-8")
    done = _clang(["-cc1", *_TARGET, arch, "-O1", "-S", "-x", "c"], source)
    return done.stdout + done.stderr


def compile_hip(source: Path, arch: str, folder: Path) -> str:
    """Return the assembly of a HIP program's device side; its object is made, too."""
    host = ["-aux-triple", "x86_64-linux-gnu", "-x", "hip", "-fcuda-is-device", "-std=c++17", "-O1"]
    arguments = ["-cc1", *_TARGET, arch, *host, "-I", str(Path(__file__).parent / "hip")]
    command = [str(_ZIG), "clang", *arguments, "-emit-obj", "-o", str(folder / "o"), str(source)]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert (folder / "o").read_bytes()[:4] == b"\x7fELF"
    return _clang([*arguments, "-S"], source).stdout
