"""Rare lines of assembly: what is refused, where, and what would be legal."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma.assembly.reader import hexadecimal

F16 = "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], "
F64 = "v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7] "


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (F16 + "a[" + 200 * "(" + "0" + 200 * ")" + ":3]", "an expression nested deeper than"),
        (F16 + "a[alignto(3):3]", "alignto takes 2 arguments, found 1"),
        (F16 + "a[alignto(3, 0):3]", "alignto to a multiple of 0"),
        (F16 + "1e999999999999", "legal: "),
        (F64 + "neg:[0,2,0]", r"neg holds 2; legal: 0 or 1"),
        (F64 + "neg:[0,0,0,0,0]", r"neg has at most 4 members"),
    ],
)
def test_lines(line: str, message: str) -> None:
    with pytest.raises(errors.GpuemuError, match=message):
        gpuemu.parse(line, arch="gfx942")


@pytest.mark.parametrize("text", ["zz", "0x", ""])
def test_words(text: str) -> None:
    with pytest.raises(errors.AssemblyError, match="is no hexadecimal text"):
        hexadecimal(text)
