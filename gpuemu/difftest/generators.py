"""The input classes: what random matrices never reach, made on purpose.

A class is a function over (`Spec`, `Stream`) that returns the matrices A (n, blocks, M, products),
B (n, blocks, products, N) and C (n, blocks, M, N), as float64 values or as unsigned bits. The
module `images` packs them into registers and adds index sets and scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..mfma.instructions import Instruction
from . import edges, patterns
from .spec import Matrices, Spec
from .streams import Stream


@dataclass(frozen=True)
class InputClass:
    """One class: its function, and whether it says anything about integers (it always does about
    floats).
    """

    name: str
    generate: Callable[[Spec, Stream], Matrices]
    integers: bool = False

    @property
    def text(self) -> str:
        """Return what the class is made for."""
        return (self.generate.__doc__ or "").strip()


_CLASSES = (
    InputClass("normal", patterns.normal, True),
    InputClass("raw", patterns.raw, True),
    InputClass("unique", patterns.unique, True),
    InputClass("specials", patterns.specials, True),
    InputClass("ties", patterns.ties),
    InputClass("shifts", patterns.shifts),
    InputClass("signs", patterns.signs, True),
    InputClass("cancel_pair", patterns.cancel_pair, True),
    InputClass("cancel_c", patterns.cancel_c, True),
    InputClass("carry", edges.carry, True),
    InputClass("flush", edges.flush),
    InputClass("subnormals", edges.subnormals),
    InputClass("signed_zeros", edges.signed_zeros, True),
    InputClass("overflow", edges.overflow, True),
    InputClass("round_down", edges.round_down),
    InputClass("staggered", patterns.staggered),
)

CLASSES: dict[str, InputClass] = {row.name: row for row in _CLASSES}


def classes_for(instruction: Instruction) -> tuple[InputClass, ...]:
    """Return the classes that say something about an instruction.

    >>> from gpuemu import instruction
    >>> len(classes_for(instruction("v_mfma_f32_16x16x16_f16", "gfx942")))
    16
    """
    floats = instruction.formats["D"] != "i32"
    return tuple(row for row in _CLASSES if floats or row.integers)
