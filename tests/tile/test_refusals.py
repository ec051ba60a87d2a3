"""Names, words, shapes and lines that the tile machine does not know: each message says what is
legal.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuemu import errors
from gpuemu.tile import elementwise, picture
from gpuemu.tile.numeric import PadValue, data_type
from gpuemu.tile.operations import operation
from gpuemu.tile.words import decode

FP16 = data_type("FP16")


def shape(*extent: int, valid: Any = None, mask: Any = 0b1111) -> Any:
    return elementwise.tile_shape(extent, FP16, valid, PadValue(0), mask)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: data_type(16), errors.BadType, "data type 16; legal: one of FP64"),  # type: ignore[arg-type]
        (lambda: data_type("FP9"), errors.BadValue, "data type 'FP9'; legal: FP64"),
        (lambda: operation("TNOT"), errors.UnknownInstruction, "'TNOT'; legal: TFMA"),
        (lambda: operation([]), errors.UnknownInstruction, r"tile operation \[\]; legal"),  # type: ignore[arg-type]
        (lambda: decode(1.5), errors.BadType, "word 1.5; legal: an integer"),  # type: ignore[arg-type]
        (lambda: shape(16, 16), errors.BadShape, r"legal: \(\.\.\., 4 or 1 fragments, rows, col"),
        (lambda: shape(2, 16, 16), errors.BadShape, r"tiles have shape \(2, 16, 16\)"),
        (lambda: shape(1, 24, 16), errors.BadShape, "tiles of 24 x 16 FP16; legal: powers of two"),
        (lambda: shape(1, 4, 8), errors.BadShape, "powers of two, 128 bytes or more"),
        (lambda: shape(1, 8, 8, valid=(0, 8)), errors.BadShape, r"legal: \(1, 1\) to \(8, 8\)"),
        (lambda: shape(1, 8, 8, valid=(8, 9)), errors.BadShape, r"valid=\(8, 9\)"),
        (lambda: shape(1, 8, 8, valid=(1.5, 2)), errors.BadType, r"\(1.5, 2\); legal: \(1, 1\) to"),
        (lambda: shape(1, 8, 8, valid=(True, 2)), errors.BadType, r"\(1, 1\) to \(8, 8\), two int"),
        (lambda: shape(1, 8, 8, valid=(1, 2, 3)), errors.BadType, r"valid=\(1, 2, 3\); legal"),
        (lambda: shape(1, 8, 8, valid=()), errors.BadType, r"valid=\(\); legal: \(1, 1\) to"),
        (lambda: shape(1, 8, 8, valid=5), errors.BadType, "valid=5; legal"),
        (lambda: shape(1, 8, 8, mask=16), errors.BadValue, "mask=16; legal: 0b0000 to 0b1111"),
        (lambda: shape(1, 8, 8, mask="1"), errors.BadValue, "mask='1'"),
    ],
)
def test_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_the_smallest_tile() -> None:
    assert shape(1, 8, 8).valid == (8, 8)
    assert shape(1, 8, 8, mask=0b0100).selected == (True,)
    assert shape(4, 8, 8, mask=0b0100).selected == (False, True, False, False)


def test_a_picture_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(errors.BackendUnavailable, match=r"pip install 'gpuemu\[plot\]'"):
        picture.draw(SimpleNamespace(bits=[0]), tmp_path / "t.png")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
