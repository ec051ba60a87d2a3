"""Reading the array files that users name: plain numbers, never Python objects."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a .npy (under the name "") or .npz file; nothing is ever unpickled.

    Raises
    ------
    BadFile
        For a missing, corrupt or foreign file, or one that holds Python objects.
    """
    try:
        with path.open("rb") as file:  # numpy leaves files open that it cannot read
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            found = {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise BadFile(f"{path}: no such file") from None
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadFile(f"{path}: no readable .npy or .npz file of plain numbers: {reason}") from None
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise BadFile(
                f"{path}: no readable .npy or .npz file of plain numbers: {name!r} is no array"
            )
    return found
