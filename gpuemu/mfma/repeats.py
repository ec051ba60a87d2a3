"""Launches of plain calls on CuPy arrays that were validated before.

A call is the same where instruction, constants, shapes, strides and device are. Repeated, it costs
the host little more than the launch.
"""

from __future__ import annotations

from typing import Any

from ..backends import arrays
from . import device, models
from .calls import Call
from .instructions import Instruction
from .operands import Operands

LAUNCHES: dict[Any, device.Launch] = {}


def key(
    instruction: Instruction,
    operands: tuple[Any, Any, Any],
    constants: tuple[Any, Any, Any],
    switches: tuple[Any, ...],
    model: Any,
) -> tuple[Any, ...] | None:
    """Return what a plain CUDA call has to share with an earlier one; None for other calls."""
    a, b, c = operands
    if not (arrays.kind(a) == "cupy" and type(a) is type(b) is type(c)):
        return None
    # True equals 1, a name may come to mean another model, and what is wrong is refused elsewhere.
    plain = (
        isinstance(instruction, Instruction)
        and all(type(value) is int for value in constants)
        and all(type(value) is str for value in switches)
        and (model is None or type(model) is models.Model)
    )
    if not plain or switches[-1] not in ("auto", "cuda"):
        return None
    places = tuple((x.dtype, x.shape, x.strides, x.device.id) for x in operands)
    return instruction, constants, switches, model, places, device.current()


def remember(key: tuple[Any, ...], made: Call, operands: Operands, lead: tuple[int, ...]) -> None:
    """Keep the launch of a call that ran, unless its operands had to be copied."""
    launch, found = device.prepare_cuda(
        made.instruction, made.model, made.modifiers, operands, lead
    )
    if found[0] is operands.a and found[1] is operands.b and found[2] is operands.c:
        if len(LAUNCHES) >= device.LAUNCHES:
            LAUNCHES.clear()
        LAUNCHES[key] = launch
