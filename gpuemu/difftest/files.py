"""Reading what users name: array files of plain numbers, and JSON objects with checked fields."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile

_NPY = b"\x93NUMPY"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # with members, and without
_NONE_READABLE = "no readable .npy or .npz file of plain numbers"


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a .npy (under the name "") or .npz file; nothing is ever unpickled.

    Raises
    ------
    BadFile
        For a missing, corrupt or foreign file, or one that holds Python objects.
    """
    try:
        with path.open("rb") as file:  # numpy leaves files open that it cannot read
            if not file.read(len(_NPY)).startswith((_NPY, *_ZIP)):
                raise BadFile(f"{path}: {_NONE_READABLE}: its first bytes are of neither")
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            found = {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise BadFile(f"{path}: no such file") from None
    except BadFile:
        raise
    # A damaged header goes through Python's tokenizer, zlib, lzma: it can raise anything.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = "it holds Python objects" if "pickle" in reason else reason
        raise BadFile(f"{path}: {_NONE_READABLE}: {reason}") from None
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise BadFile(f"{path}: {_NONE_READABLE}: {name!r} is no array")
    return found


def json_object(text: str, where: str) -> dict[str, Any]:
    """Return the object that a JSON text holds; raise `BadFile` where it is none."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{where} is no JSON: {error}") from None
    if not isinstance(facts, dict):
        raise BadFile(f"{where} is a JSON {type(facts).__name__}; legal: an object")
    return facts


def check_fields(
    facts: dict[str, Any],
    kinds: Mapping[str, type | tuple[type, ...]],
    where: str,
    required: Collection[str] | None = None,
) -> None:
    """Raise `BadFile` unless an object has these fields, of these types, and no others.

    Parameters
    ----------
    facts : dict
    kinds : mapping of field to type, or to types
    where : str
        What the message begins with.
    required : collection of str, optional
        Fields that must be there; default: all.
    """
    needed = kinds if required is None else sorted(required)
    for state, names in (
        ("unknown", [name for name in facts if name not in kinds]),
        ("missing", [name for name in needed if name not in facts]),
    ):
        if names:
            raise BadFile(f"{where}: field {names[0]!r} is {state}; legal: {', '.join(kinds)}")
    for name, value in facts.items():
        kind = kinds[name]
        # JSON's true and false are no integers.
        if not isinstance(value, kind) or isinstance(value, bool):
            legal = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise BadFile(f"{where}: field {name!r} is {value!r}; legal: a JSON {legal}")
