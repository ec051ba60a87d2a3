"""A validated call: an instruction, its modifiers and a model that can compute it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import BadType, BadValue
from . import models
from . import modifiers as mods
from .instructions import Instruction


@dataclass(frozen=True)
class Call:
    """A validated call: instruction, modifiers, model."""

    instruction: Instruction
    modifiers: mods.Modifiers
    model: models.Model


def call(instruction: Instruction, model: Any = None, **modifiers: Any) -> Call:
    """Return a validated call of an instruction.

    Parameters
    ----------
    instruction : Instruction
    model : Model or str, optional
        An arithmetic model in place of the instruction's own.
    **modifiers
        See `modifiers.check`.
    """
    if not isinstance(instruction, Instruction):
        raise BadType(
            f"instruction={instruction!r} is a {type(instruction).__name__}; "
            "legal: what gpuemu.instruction(name, arch) returns"
        )
    checked = mods.check(instruction, **modifiers)
    if model is None:
        return Call(instruction, checked, models.get(instruction.model))
    chosen = models.get(model)
    _check_model(instruction, chosen, checked)
    return Call(instruction, checked, chosen)


@lru_cache(maxsize=4096, typed=True)
def _hashable_call(
    instruction: Instruction,
    model: Any,
    neg: tuple[Any, ...],
    neg_types: tuple[type, ...],
    op_sel: tuple[Any, ...],
    op_sel_types: tuple[type, ...],
    **modifiers: Any,
) -> Call:
    """Return `call`, remembered; the types keep True apart from 1 inside the tuples."""
    return call(instruction, model, neg=neg, op_sel=op_sel, **modifiers)


def remembered_call(
    instruction: Instruction, model: Any, neg: Any, op_sel: Any, **modifiers: Any
) -> Call:
    """Return `call`, remembered if its arguments are hashable, for a model named or built in."""
    if isinstance(model, str):
        model = models.get(model)  # a name may come to mean another model
    try:
        types = tuple(map(type, neg)), tuple(map(type, op_sel))
        return _hashable_call(instruction, model, neg, types[0], op_sel, types[1], **modifiers)
    except TypeError:
        return call(instruction, model, neg=neg, op_sel=op_sel, **modifiers)


def _check_model(instruction: Instruction, model: models.Model, m: mods.Modifiers) -> None:
    """Raise where a model cannot compute an instruction's formats."""
    if model.output != instruction.formats["D"]:
        raise BadValue(
            f"model {model.name} computes {model.output}; "
            f"{instruction.mnemonic} wants {instruction.formats['D']}"
        )
    if instruction.kind == "mfma_scale" and model.algorithm != "aligned":
        raise BadValue(
            f"model {model.name} is {model.algorithm!r}; "
            "scaled instructions want an 'aligned' model"
        )
    length = min(model.group, instruction.products)
    if length % model.interleave:
        raise BadValue(
            f"model {model.name}: {model.interleave} partial sums "
            f"do not share links of {length} products"
        )
    if instruction.kind == "mfma_scale" and model.group > 32:
        raise BadValue(
            f"model {model.name}: a link of {model.group} products spans several scales of 32"
        )
