"""The register images of a call: which it takes, their dtypes and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadShape, BadType
from . import registers
from .calls import Call
from .instructions import Instruction
from .modifiers import Modifiers

OPERANDS = ("a", "b", "c", "idx", "scale_a", "scale_b")


@dataclass(frozen=True)
class Operands:
    """Register images of one leading shape and one library; idx and scales may be missing."""

    a: Any
    b: Any
    c: Any
    idx: Any = None
    scale_a: Any = None
    scale_b: Any = None


@lru_cache(maxsize=4096)
def expected(i: Instruction, m: Modifiers) -> dict[str, int]:
    """Return the names of the operands that a call takes, and their registers."""
    found = {
        "a": i.operand_vgprs("A", m.cbsz, m.blgp),
        "b": i.operand_vgprs("B", m.cbsz, m.blgp),
        "c": i.vgprs["D"],
    }
    if i.sparse:
        found["idx"] = 1
    if i.kind == "mfma_scale":
        found |= {"scale_a": 1, "scale_b": 1}
    return found


def check(made: Call, given: dict[str, Any]) -> tuple[int, ...]:
    """Check dtype and shape of every operand; return the common leading shape."""
    i = made.instruction
    wanted = expected(i, made.modifiers)
    for name, x in given.items():
        if x is None and name in wanted:
            raise BadType(f"{name} is missing; {i.mnemonic} ({i.arch}) needs {', '.join(wanted)}")
        if x is not None and name not in wanted:
            raise BadType(
                f"{name} is given; {i.mnemonic} ({i.arch}) takes only {', '.join(wanted)}"
            )
    for name, vgprs in wanted.items():
        registers.check_image(i, name, given[name], vgprs)
    return common_lead({name: given[name].shape[:-2] for name in wanted})


def common_lead(leads: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which leading shapes, by operand, broadcast; raise `BadShape` if none."""
    first, *others = leads.values()
    if all(other == first for other in others):
        return first
    try:
        return np.broadcast_shapes(*leads.values())
    except ValueError:
        shapes = ", ".join(f"{name} {lead}" for name, lead in leads.items())
        raise BadShape(
            f"leading shapes do not broadcast: {shapes}; each dimension must be equal or 1"
        ) from None


def as_uint32(x: Any) -> Any:
    """Return int32 bits (what PyTorch has for uint32) as uint32, anything else unchanged."""
    return x.view(np.uint32) if x.dtype == np.int32 else x
