"""What is tested, and against what, behind one signature."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import arrays
from ..errors import GpuemuError
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from .images import Images

Array = np.ndarray[Any, Any]

BACKENDS = ("cuda", "host", "numpy")


class SubjectFailed(GpuemuError):
    """A subject raised, died, or returned something that is no register image of D."""


class SubjectHung(SubjectFailed):
    """A subject took longer than its timeout, and was killed: asking it again takes as long."""


@dataclass(frozen=True)
class Subject:
    """Something that computes D.

    Attributes
    ----------
    name : str
        As given on the command line.
    function : callable (instruction, images, modifiers) -> array
    """

    name: str
    function: Callable[[Instruction, Images, Modifiers], Any]

    def __call__(self, i: Instruction, images: Images, m: Modifiers) -> Array:
        """Return D, uint32 (n, vgprs, 64).

        Raises
        ------
        SubjectFailed
            With the subject's own error, or with what it returned.
        """
        try:
            d = self.function(i, images, m)
        except SubjectFailed:
            raise
        except GpuemuError:
            if self.name in BACKENDS:
                raise
            raise SubjectFailed(f"{self.name} raised {last_error()}") from None
        except Exception:
            raise SubjectFailed(f"{self.name} raised {last_error()}") from None
        return self._checked(i, d, (*images["a"].shape[:-2], i.vgprs["D"], 64))

    def _checked(self, i: Instruction, d: Any, shape: tuple[int, ...]) -> Array:
        try:
            found = arrays.to_numpy(d, "D")
        except GpuemuError as error:
            raise SubjectFailed(f"{self.name} returned no array: {error}") from None
        if found.dtype == np.int32:
            found = found.view(np.uint32)
        if found.dtype != np.uint32 or found.shape != shape:
            raise SubjectFailed(
                f"{self.name} returned {found.dtype} {found.shape}; the D of {i.mnemonic} is "
                f"uint32 {shape}"
            )
        return found


def last_error() -> str:
    """Return the exception that is being handled, as one text."""
    kind, value, _ = sys.exc_info()
    name = kind.__name__ if kind else "nothing"
    return f"{name}: {value}" if str(value) else name
