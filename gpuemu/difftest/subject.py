"""What is tested, and against what, behind one signature."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import arrays
from ..errors import GpuemuError
from ..mfma.instructions import Instruction
from .catalogue import Row
from .operation import ArrayOperation, Arrays, count_of
from .streams import Array

BACKENDS = ("cuda", "host", "numpy")


class SubjectFailed(GpuemuError):
    """A subject raised, died, or returned something that is no result of the operation."""


class SubjectHung(SubjectFailed):
    """A subject took longer than its timeout, and was killed: asking it again takes as long."""


class SubjectKeepsDying(SubjectHung):
    """A subject's process has died many times in a row: asking it again costs another one."""


@dataclass(frozen=True)
class Subject:
    """Something that computes D, or the results of an array operation.

    Attributes
    ----------
    name : str
        As given on the command line.
    function : callable (operation, operands, modifiers) -> array, or arrays by name
    """

    name: str
    function: Callable[[Any, Arrays, Any], Any]

    def __call__(self, i: Row, images: Arrays, m: Any) -> Any:
        """Return D, uint32 (n, vgprs, 64), of a matrix instruction; results by name of an array
        operation.

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
        if isinstance(i, ArrayOperation):
            return self._results(i, d, count_of(images), m)
        return self._checked(i, d, (*images["a"].shape[:-2], i.vgprs["D"], 64))

    def _checked(self, i: Instruction, d: Any, shape: tuple[int, ...]) -> Array:
        found = self._array(d, "D")
        if found.dtype == np.int32:
            found = found.view(np.uint32)
        if found.dtype != np.uint32 or found.shape != shape:
            raise SubjectFailed(
                f"{self.name} returned {found.dtype} {found.shape}; the D of {i.mnemonic} is "
                f"uint32 {shape}"
            )
        return found

    def _array(self, value: Any, name: str) -> Array:
        try:
            return arrays.to_numpy(value, name)
        except GpuemuError as error:
            raise SubjectFailed(f"{self.name} returned no array: {error}") from None

    def _results(self, i: ArrayOperation, answer: Any, count: int, m: Any) -> Arrays:
        """Return results by name: from a mapping, from a tuple in their order, from attributes, or
        from the only one.
        """
        wanted = i.results(m)
        given: Any = answer
        if isinstance(answer, (tuple, list)) and len(answer) == len(wanted) > 1:
            given = dict(zip(wanted, answer, strict=True))
        elif not isinstance(answer, Mapping):
            one = len(wanted) == 1
            given = {name: answer if one else getattr(answer, name, None) for name in wanted}
        found = {}
        for name, empty in wanted.items():
            x = self._array(given.get(name), name)
            shape = (count, *empty.shape[1:])
            bits = _as_bits(x, empty.dtype)
            if bits is None or bits.shape != shape:
                raise SubjectFailed(
                    f"{self.name} returned {name} {x.dtype} {x.shape}; the {name} of {i.mnemonic} "
                    f"is {empty.dtype} {shape}"
                )
            found[name] = bits
        return found


def _as_bits(x: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return an array as bits: of its own width, or integers that fit; None for others."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "b":
        return x.astype(dtype)
    if x.dtype.itemsize == dtype.itemsize and x.dtype.kind in "ifV":
        return np.ascontiguousarray(x).view(dtype)
    if x.dtype.kind in "iu" and not ((x < 0) | (x > np.iinfo(dtype).max)).any():
        return x.astype(dtype)
    return None


def last_error() -> str:
    """Return the exception that is being handled, as one text."""
    kind, value, _ = sys.exc_info()
    name = kind.__name__ if kind else "nothing"
    return f"{name}: {value}" if str(value) else name
