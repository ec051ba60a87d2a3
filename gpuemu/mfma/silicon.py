"""Vectors captured on chips, and the instructions whose label they raise to "silicon-vectors".

A folder of captures holds vector files and `index.json`, a list of entries that `gpuemu verify
--keep` writes after every bit agreed. Two folders count: the package's own `captures`, and the one
that the environment variable GPUEMU_SILICON names. An entry counts while its file is the one that
was verified and the instruction's arithmetic model is the one that it was verified with.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import BadFile
from . import models

VARIABLE = "GPUEMU_SILICON"
INDEX = "index.json"
PACKAGE = Path(__file__).parent / "captures"
FIELDS = ("instruction", "arch", "model", "file", "sha256", "device", "date", "cases")


def folders() -> list[Path]:
    """Return the folders of captures that count."""
    own = os.environ.get(VARIABLE)
    return [PACKAGE, *([Path(own)] if own else [])]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def model_digest(name: str) -> str:
    """Return a short digest of every parameter of a model that bits depend on."""
    text = ("fidelity", "source")
    facts = {k: v for k, v in models.get(name).parameters().items() if k not in text}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a folder's index; none where it has no index.

    Raises
    ------
    BadFile
        Naming the index and the field that is missing or of another kind.
    """
    path = folder / INDEX
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: no readable JSON: {error}") from None
    if not isinstance(found, list):
        raise BadFile(f"{path} is a JSON {type(found).__name__}; legal: a list of entries")
    for n, entry in enumerate(found):
        for name in FIELDS:
            kind = int if name == "cases" else str
            if not isinstance(entry, dict) or not isinstance(entry.get(name), kind):
                raise BadFile(f"{path}: entry {n}, field {name!r}; legal: a JSON {kind.__name__}")
    return found


def captures() -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield (mnemonic, arch, model digest) and source of every capture that counts.

    Raises
    ------
    BadFile
        For an index that is no index, or one that names a file that is missing or has changed.
    """
    for folder in folders():
        for entry in entries(folder):
            path = folder / Path(entry["file"]).name
            if not path.is_file() or digest(path) != entry["sha256"]:
                raise BadFile(
                    f"{folder / INDEX} names {entry['file']}, which is missing or has changed; "
                    "run gpuemu verify --keep on it again"
                )
            source = f"{entry['cases']} cases of {entry['device'] or 'a chip'}, {path.name}"
            yield (entry["instruction"], entry["arch"], entry["model"]), source
