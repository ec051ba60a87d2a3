"""The README's table of instructions, written from the code between two comments."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import gpuemu

README = Path(__file__).parents[2] / "README.md"
CHIPS = {"gfx908": "CDNA1", "gfx90a": "CDNA2", "gfx942": "CDNA3", "gfx950": "CDNA4"}
KINDS = {
    "mfma": "MFMA",
    "smfmac": "SMFMAC",
    "mfma_f8f6f4": "f8f6f4",
    "mfma_scale": "scaled f8f6f4",
}
FIDELITIES = ("silicon-vectors", "published-model", "documented", "unverified")
PART = re.compile(r"(?<=<!-- instructions -->\n).*?(?=<!-- end -->)", re.S)


def instructions() -> str:
    """Return one line an architecture: its rows by kind and by fidelity."""
    rows = gpuemu.instructions()
    shown = [name for name in FIDELITIES if any(row.fidelity == name for row in rows)]
    lines = [
        f"| architecture | instructions | {' | '.join(f'`{name}`' for name in shown)} |",
        f"|---|---|{'---|' * len(shown)}",
    ]
    for arch, chip in CHIPS.items():
        mine = gpuemu.instructions(arch)
        kinds = Counter(row.kind for row in mine)
        what = ", ".join(f"{kinds[kind]} {text}" for kind, text in KINDS.items() if kinds[kind])
        counts = [_formats(arch, name) for name in shown]
        lines.append(f"| {arch} ({chip}) | {what} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def _formats(arch: str, fidelity: str) -> str:
    """Return how many rows of an architecture have a fidelity, and of which formats they are."""
    rows = [row for row in gpuemu.instructions(arch) if row.fidelity == fidelity]
    names = dict.fromkeys(short(row) for row in rows)
    return f"{len(rows)}: {', '.join(names)}" if rows else "0"


def short(row: gpuemu.Instruction) -> str:
    """Return a row's input format as mnemonics call it."""
    name = row.formats["A"]
    name = {"f8e5m2": "bf8", "f8e4m3": "fp8"}.get(
        name.removesuffix("fnuz").removesuffix("fn"), name
    )
    return f"sparse {name}" if row.sparse else name


def write() -> None:
    """Bring the README up to date."""
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """Return a text with its tables made anew."""
    assert PART.search(text), "README.md has lost its marks"
    return PART.sub(lambda _: instructions(), text)
