"""Reading what users type and the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadFile, BadValue

if TYPE_CHECKING:
    import numpy as np


def integer_list(name: str, text: str) -> list[int]:
    """Return comma-separated integers."""
    try:
        return [int(part, 0) for part in text.split(",")]
    except ValueError:
        raise BadValue(f"{name}={text!r}; legal: integers with commas between") from None


def number_list(name: str, text: str) -> list[float]:
    """Return comma-separated numbers; 2**23, -2**-4 and hex floats such as 0x1p-3 are numbers
    too.
    """
    return [_number(name, part.strip()) for part in text.split(",")]


def _number(name: str, text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    body = text.removeprefix("-").removeprefix("+")
    try:
        base, power, exponent = body.partition("**")
        if power:
            return sign * float(base) ** int(exponent)
        return sign * (float.fromhex(body) if "0x" in body else float(body))
    except (ValueError, OverflowError):
        raise BadValue(
            f"{name}: {text!r} is no number; legal: such as 0.5, -2**13, 1e-3, 0x1.8p-4, inf, nan"
        ) from None


def pair(name: str, text: str) -> tuple[int, int]:
    """Return two comma-separated integers."""
    values = integer_list(name, text)
    if len(values) != 2:
        raise BadValue(f"{name}={text!r}; legal: two integers with a comma between")
    return values[0], values[1]


def triple(name: str, text: str) -> tuple[int, int, int]:
    """Return three comma-separated integers."""
    values = integer_list(name, text)
    if len(values) != 3:
        raise BadValue(f"{name}={text!r}; legal: three integers with commas between")
    return values[0], values[1], values[2]


def nan_rule(nan: str) -> str:
    """Return how NaNs are compared; raise `BadValue` where it is no rule."""
    if nan not in ("any", "exact"):
        raise BadValue(f"nan={nan!r}; legal: any, exact")
    return nan


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a .npy (under the name "") or .npz file; see `difftest.files`."""
    from ..difftest import files

    return files.load_arrays(path)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Return the array of a .npy file, or of a .npz file that holds one."""
    found = load_arrays(path)
    if len(found) != 1:
        raise BadFile(
            f"{path} holds {len(found)} arrays ({', '.join(found)}); legal here: a file with one"
        )
    return next(iter(found.values()))
