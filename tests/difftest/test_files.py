"""Array files that are damaged or foreign are refused with their name, whatever NumPy raises."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpuemu.difftest.files import load_arrays
from gpuemu.errors import BadFile


def member(header: str) -> bytes:
    """Return a .npy file of no data with a header, as text."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HEADERS = {
    "memory": "{'descr': '<u4', 'fortran_order': False, 'shape': (1000000000000,)}",
    "overflow": "{'descr': '<u4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
    "token": "{'descr': '<u4', 'fortran_order': (False",
    "type": "{[]: '<u4', 'fortran_order': False, 'shape': (1,)}",
    "negative": "{'descr': '<u4', 'fortran_order': False, 'shape': (-1,)}",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_damaged_headers(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", member(header))
    with pytest.raises(BadFile, match=r"x\.npz: no readable .npy or .npz file of plain numbers: "):
        load_arrays(path)


def test_an_encrypted_member(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros(3))
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + flags] |= 1
    path.write_bytes(data)
    with pytest.raises(BadFile, match="is encrypted"):
        load_arrays(path)


@pytest.mark.parametrize("data", [b"", b"foreign", b"\x80\x04N."], ids=["none", "text", "pickle"])
def test_foreign_bytes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(BadFile, match=r"plain numbers: its first bytes are of neither$"):
        load_arrays(tmp_path / "x.npz")


def test_python_objects_are_named_as_such(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object))
    with pytest.raises(BadFile, match=r"plain numbers: it holds Python objects$"):
        load_arrays(tmp_path / "x.npy")
