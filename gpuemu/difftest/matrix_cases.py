"""Matrix instructions as operations of a campaign: MFMA, SMFMAC, scaled MFMA."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadFile, BadValue, UnknownInstruction
from ..mfma import modifiers as mods
from ..mfma import operands
from ..mfma.instructions import ARCHITECTURES, Instruction, instructions
from ..mfma.layouts import LANES
from ..mfma.modifiers import Modifiers
from .generators import CLASSES, InputClass, classes_for
from .images import Images, images
from .operation import Arrays, Operation
from .streams import Array


def sweep(i: Instruction) -> tuple[Modifiers, ...]:
    """Return every set of modifiers that `strict` allows, the default first.

    >>> from gpuemu import instruction
    >>> len(sweep(instruction("v_mfma_f32_4x4x1_16b_f32", "gfx942")))
    248
    """
    rules = i.modifiers
    if rules.cbsz == "broadcast":
        lanes = [(c, a) for c in range(rules.cbsz_max + 1) for a in range(1 << c)]
    elif rules.cbsz == "index-set":
        lanes = list(itertools.product(range(rules.cbsz_max + 1), range(rules.abid_max + 1)))
    else:
        lanes = [(c, 0) for c in range(rules.cbsz_max + 1)] if rules.cbsz == "format" else [(0, 0)]
    bytes_ = list(itertools.product(range(4), repeat=2)) if i.kind == "mfma_scale" else [(0, 0)]
    return tuple(
        mods.check(i, cbsz=cbsz, abid=abid, blgp=blgp, op_sel=op_sel)
        for op_sel, (cbsz, abid), blgp in itertools.product(
            bytes_, lanes, range(rules.blgp_max + 1)
        )
    )


def empty_images(i: Instruction, m: Modifiers) -> Images:
    """Return operands of zeros, uint32 arrays (1, vgprs, 64)."""
    vgprs = operands.expected(i, m)
    return {name: np.zeros((1, count, LANES), np.uint32) for name, count in vgprs.items()}


class Matrix(Operation):
    """A matrix instruction; operands and D are register images, uint32 (n, vgprs, 64)."""

    def __init__(self, i: Instruction) -> None:
        self.instruction = i
        self.mnemonic, self.arch = i.mnemonic, i.arch
        self.classes = classes_for(i)
        self.moves_lanes = i.modifiers.blgp == "lanes" or i.modifiers.cbsz == "broadcast"

    def sweep(self) -> tuple[Modifiers, ...]:
        """Return every set of modifiers that `strict` allows."""
        return sweep(self.instruction)

    def check(self, given: Mapping[str, Any]) -> Modifiers:
        """Return modifiers by name."""
        legal = set(vars(Modifiers())) | {"legality"}
        unknown = sorted(set(given) - legal)
        if unknown:
            raise BadFile(f"modifiers: {unknown[0]!r}; legal: {', '.join(sorted(legal))}")
        return mods.check(self.instruction, **given)

    def empty(self, m: Modifiers) -> Arrays:
        """Return `empty_images`."""
        return empty_images(self.instruction, m)

    def results(self, m: Modifiers) -> Arrays:
        """Return D of zeros."""
        return {"d": np.zeros((1, self.instruction.vgprs["D"], LANES), np.uint32)}

    def operands(self, m: Modifiers, cls: InputClass, seed: int, numbers: Array) -> Arrays:
        """Return `images`."""
        return images(self.instruction, m, cls, seed, numbers)

    def elements(self) -> int:
        """Return the elements of A, B, C and D of one case."""
        return sum(math.prod(self.instruction.shape(x)) for x in ("A", "B", "C", "D"))

    def outputs(self, m: Modifiers) -> int:
        """Return the elements of D."""
        return self.instruction.blocks * self.instruction.M * self.instruction.N

    @property
    def known_classes(self) -> Mapping[str, InputClass]:
        """Return all classes, whether they say much about the instruction or not."""
        return CLASSES


@lru_cache(maxsize=1024)
def matrix(i: Instruction) -> Matrix:
    """Return an instruction as an operation."""
    return Matrix(i)


def select(pattern: str, arch: str, kinds: tuple[str, ...] = ()) -> tuple[Instruction, ...]:
    """Return the instructions whose mnemonic, alias or builtin name fits a shell pattern, of
    fitting architectures.

    Raises
    ------
    UnknownInstruction, BadValue
        Where none fits.
    """

    archs = [name for name in ARCHITECTURES if fnmatchcase(name, arch)]
    if not archs:
        raise BadValue(f"arch pattern {arch!r} fits none of {', '.join(ARCHITECTURES)}")
    rows = [row for row in instructions() if row.arch in archs and (not kinds or row.kind in kinds)]
    found = tuple(row for row in rows if any(fnmatchcase(name, pattern) for name in row.names))
    if found:
        return found
    known = sorted({row.mnemonic for row in rows})
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    hint = f"; near names: {', '.join(near)}" if near else "; `gpuemu list` shows all"
    raise UnknownInstruction(f"no instruction of {', '.join(archs)} fits {pattern!r}{hint}")


__all__ = ["Matrix", "empty_images", "matrix", "select", "sweep"]
