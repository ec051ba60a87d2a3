"""Reading files: text, what cannot be read, and arrays in dtypes that NumPy cannot name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadFile, BadType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def unreadable(path: Path, error: OSError | UnicodeDecodeError) -> BadFile:
    """Return the error of a file that cannot be read, in the words of every command."""
    if isinstance(error, FileNotFoundError):
        return BadFile(f"{path}: no such file")
    reason = error if isinstance(error, UnicodeDecodeError) else error.strerror
    return BadFile(f"{path}: cannot be read: {reason}")


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for "-"."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def names_file(text: str) -> bool:
    """Tell whether a text names a file, be it there or not: no assembly line is one word with a
    slash, or with a dot before an ending.
    """
    try:
        if text and Path(text).exists():
            return True
    except OSError:  # too long for a name
        return False
    return len(text.split()) == 1 and ("/" in text or Path(text).suffix != "")


def typed(array: Array, name: str, bits: bool | None = None) -> Array:
    """Return an array of a file; raw bytes in the dtype that they were saved from.

    Parameters
    ----------
    array : array
    name : str
        What to call it in an error.
    bits : bool, optional
        Whether the operands are bits of the formats; None where the command has no such option.

    Raises
    ------
    BadType
        For single raw bytes without `bits`: they may have been any of several formats, pairs only
        bfloat16.
    """
    from ..formats import get

    if array.dtype == "V2":
        return array.view(get("bf16").dtype)
    if array.dtype != "V1":
        return array
    if not bits:
        legal = "dtypes of NumPy" if bits is None else "the same with --bits"
        raise BadType(
            f"{name} has dtype {array.dtype}: NumPy saves all 8-bit floats as raw bytes and does "
            f"not say which they were; legal: {legal}"
        )
    return array.view("u1")
