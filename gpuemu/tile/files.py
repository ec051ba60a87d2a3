"""Tiles in `.npz` files: what `gpuemu tile run` reads and writes.

An array named after a register (`T#1`, or its number) holds element bits or values. Beside it may
stand `T#1.dtype`, `.valid`, `.columns`, `.capacity`, `.mask`, `.layout`, `.defined`, as in
`Machine.write`, and for the core `flags`. A written file holds all of them, so it can be read back
as input.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, BadType
from .descriptor import HAND_SIZE, HANDS, REGISTERS, register_name
from .execute import Core
from .numeric import DATA_TYPES

_BY_DTYPE = {row.dtype_name: name for name, row in DATA_TYPES.items() if row.bits}
_BY_DTYPE |= {"float32": "FP32"}  # TF32 and HF32 must be named
_PROPERTIES = ("dtype", "valid", "columns", "capacity", "mask", "layout", "defined")


def register_index(name: str) -> int:
    """Return the register that a name in a file stands for; raise `BadFile` for another name.

    >>> register_index("N#1"), register_index("48")
    (48, 48)
    """
    match = re.fullmatch(r"([TUMN])#(\d+)", name)
    if match and 1 <= int(match[2]) <= HAND_SIZE:
        return HANDS.index(match[1]) * HAND_SIZE + int(match[2]) - 1
    if name.isdigit() and int(name) < REGISTERS:
        return int(name)
    raise BadFile(f"array {name!r} names no register; legal: T#1 to N#16, 0 to 63, or flags")


def load(core: Core, path: Path, dtype: str | None = None) -> None:
    """Fill a core's registers from a file.

    Parameters
    ----------
    core : Core
        Its registers are written one by one.
    path : Path
        `.npz` file.
    dtype : str
        Element type of arrays beside which the file has none.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("one array without a name")
            content = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise BadFile(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path}: {error}; legal: an .npz file of tiles") from error
    names = [name for name in content if "." not in name and name != "flags"]
    for name in names:
        properties = {
            what: content[f"{name}.{what}"] for what in _PROPERTIES if f"{name}.{what}" in content
        }
        _write(core, name, content[name], dtype, properties)
    core.machine.flags |= int(content.get("flags", 0))


def _write(
    core: Core, name: str, array: np.ndarray[Any, Any], dtype: str | None, given: dict[str, Any]
) -> None:
    chosen = str(given["dtype"]) if "dtype" in given else dtype or _BY_DTYPE.get(str(array.dtype))
    if chosen is None:
        raise BadType(f"array {name!r} of dtype {array.dtype} needs {name}.dtype or --dtype")
    if array.dtype.kind == "V":  # NumPy stores dtypes that it does not know as raw bytes
        array = array.view(f"u{array.dtype.itemsize}")
    options: dict[str, Any] = {
        what: int(given[what]) for what in ("columns", "capacity", "mask") if what in given
    }
    if "valid" in given:
        options["valid"] = tuple(int(extent) for extent in given["valid"])
    if "layout" in given:
        options["layout"] = str(given["layout"])
    if "defined" in given:
        options["defined"] = given["defined"]
    core.write(register_index(name), array, chosen, **options)


def save(core: Core, path: Path) -> None:
    """Write every allocated register and the flags."""
    content: dict[str, Any] = {"flags": np.uint8(core.flags)}
    for index, tile in sorted(core.machine.registers.items()):
        name, have = register_name(index), tile.descriptor
        content[name] = tile.bits
        content[f"{name}.dtype"] = np.str_(have.dtype.name)
        content[f"{name}.valid"] = np.array([have.valid_rows, have.valid_columns])
        content[f"{name}.columns"] = np.int64(have.columns)
        content[f"{name}.capacity"] = np.int64(have.capacity)
        content[f"{name}.mask"] = np.int64(tile.mask)
        content[f"{name}.layout"] = np.str_(have.layout)
        content[f"{name}.defined"] = tile.defined
    with path.open("wb") as file:
        np.savez(file, **content)
