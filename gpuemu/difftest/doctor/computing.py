"""D computed again with something changed: what the suspected faults of the inputs are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import formats
from ...errors import GpuemuError
from ...mfma import execute
from ..images import Images, formats_only
from .outputs import matrix_of
from .problem import Array, Problem

Candidates = Iterator[tuple[str, str, Array | None]]


def compute(
    p: Problem, images: Images | None = None, *, model: Any = None, **modifiers: Any
) -> Array | None:
    """Return the D (n, blocks, M, N) of changed images, model or modifiers; None where that is
    illegal.
    """
    i = p.instruction
    m = dataclasses.replace(p.modifiers, **modifiers)
    given: dict[str, Any] = {**p.operands, **(images or {}), **m.non_default()}
    try:
        d = execute.execute(i, **given, model=model, backend="numpy", legality="llvm")
    except GpuemuError:
        return None
    return matrix_of(i, d, output_layout=m.output_layout)


def unpacked(p: Problem, matrix: str) -> Array:
    """Return the bits of an operand as it lies in the registers."""
    i = p.instruction
    found = i.unpack(matrix, p.operands[matrix.lower()], **formats_only(i, p.modifiers))
    return np.asarray(found.view(format_of(p, matrix).storage))


def packed(p: Problem, matrix: str, bits: Array) -> Images:
    """Return an operand as an image, by its name."""
    i = p.instruction
    return {matrix.lower(): i.pack(matrix, bits, **formats_only(i, p.modifiers))}


def format_of(p: Problem, matrix: str) -> formats.Format:
    found: formats.Format = p.instruction.operand_format(matrix, p.modifiers.cbsz, p.modifiers.blgp)
    return found
