"""Two results of one call: where they agree, and a message where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Mismatch
from . import operands
from .calls import Call
from .instructions import Instruction


def equal_bits(
    instruction: Instruction, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return where two D images agree, any NaN being equal to any other; bool (..., vgprs, 64)."""
    same: np.ndarray[Any, Any] = got == want
    fmt = instruction.formats["D"]
    if fmt == "i32":
        return same
    if fmt == "f32":
        same |= np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32))
        return same
    pairs = [_doubles(x) for x in (got, want)]
    equal = (pairs[0].view(np.uint64) == pairs[1].view(np.uint64)) | (
        np.isnan(pairs[0]) & np.isnan(pairs[1])
    )
    return np.repeat(equal, 2, axis=-2)


def _doubles(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    low, high = image[..., ::2, :].astype(np.uint64), image[..., 1::2, :].astype(np.uint64)
    return np.ascontiguousarray(low | high << np.uint64(32)).view(np.float64)


def compare(
    made: Call, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], backend: str
) -> None:
    """Raise `Mismatch` at the first register that differs, with its place and both bit patterns."""
    same = equal_bits(made.instruction, got, want)
    if same.all():
        return
    where = tuple(int(n) for n in np.argwhere(~same)[0])
    vgpr, lane = where[-2:]
    i, options = made.instruction, made.modifiers.non_default()
    text = "".join(f", {name}={value!r}" for name, value in options.items())
    names = ", ".join(
        n if len(n) == 1 else f"{n}={n}" for n in operands.expected(i, made.modifiers)
    )
    raise Mismatch(
        f"{i.mnemonic} ({i.arch}): {backend} and the oracle differ in {int((~same).sum())} "
        f"of {same.size} registers; first: wavefront {where[:-2]}, VGPR {vgpr}, lane {lane}: "
        f"{backend} {int(got[where]):08X}, oracle {int(want[where]):08X}. Repeat with the same "
        f"registers: gpuemu.execute(gpuemu.instruction({i.mnemonic!r}, {i.arch!r}), "
        f"{names}{text}, backend='check')"
    )
