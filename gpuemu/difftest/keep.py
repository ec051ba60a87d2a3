"""Keep captured vectors that agree: they raise the label of their instructions."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadFile
from ..mfma import silicon
from ..mfma.instructions import Instruction
from .vectors import Provenance

Name = tuple[str, str]  # mnemonic, architecture


@dataclass(frozen=True)
class Verified:
    """What came of one group of a vector file: its instruction, how many cases, how many wrong."""

    path: Path
    origin: Provenance
    instruction: Instruction
    cases: int
    differ: int

    @property
    def name(self) -> Name:
        """Return mnemonic and architecture."""
        return self.instruction.mnemonic, self.instruction.arch


def keep(folder: Path, results: list[Verified]) -> list[Name]:
    """Copy captured files whose bits all agree into a folder and its index.

    An instruction of which any captured case disagrees is not kept, and leaves the index.

    Parameters
    ----------
    folder : Path
        Made where it is missing. With GPUEMU_SILICON set to it, its instructions have the label.
    results : list of Verified
        Files of another origin than "silicon" count for nothing.

    Returns
    -------
    list of (mnemonic, arch)
        What was kept.

    Raises
    ------
    BadFile
        Where the folder cannot be written, or its index is none.
    """
    captured = [r for r in results if r.origin.origin == "silicon" and r.cases]
    wrong = {r.name for r in captured if r.differ}
    agreeing = [r for r in captured if r.name not in wrong]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {(e["instruction"], e["arch"], e["file"]): e for e in silicon.entries(folder)}
        found = {key: e for key, e in found.items() if key[:2] not in wrong}
        new: dict[tuple[str, str, str], dict[str, Any]] = {}
        for r in agreeing:
            entry = _copy(folder, r)
            key = (*r.name, entry["file"])
            new.setdefault(key, entry | {"cases": 0})["cases"] += r.cases
        _write(folder / silicon.INDEX, [e for _, e in sorted((found | new).items())])
    except OSError as error:
        raise BadFile(f"{folder}: cannot be written: {error.strerror or error}") from None
    return sorted({r.name for r in agreeing})


def _copy(folder: Path, r: Verified) -> dict[str, Any]:
    """Copy a file under a name that tells its content; return its entry."""
    sha = silicon.digest(r.path)
    name = f"{r.path.stem}-{sha[:12]}{r.path.suffix}"
    if not (folder / name).exists():
        shutil.copyfile(r.path, folder / f".{name}")
        (folder / f".{name}").replace(folder / name)
    return {
        "instruction": r.instruction.mnemonic,
        "arch": r.instruction.arch,
        "model": silicon.model_digest(r.instruction.model),
        "file": name,
        "sha256": sha,
        "device": r.origin.device,
        "date": r.origin.date,
    }


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, prefix=".index") as file:
        file.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
