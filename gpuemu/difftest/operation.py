"""What a campaign runs over: an operation with input classes, configurations and cases.

Matrix instructions are one kind (`matrix_cases.Matrix`). The others are `ArrayOperation`s: their
operands and results are arrays by name, whose first axis counts the cases.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import BadValue
from ..formats import Format
from .generators import InputClass
from .streams import Array

Arrays = dict[str, Array]


class Operation(ABC):
    """One row of a campaign.

    Modifiers are what configures a call: hashable, with `non_default() -> dict`.

    Attributes
    ----------
    mnemonic, arch : str
    classes : tuple of InputClass
        Those that say something about the operation, the plainest first.
    moves_lanes : bool
        Whether modifiers break up what a class has put together: every other turn has the default
        ones then.
    """

    mnemonic: str
    arch: str
    classes: tuple[InputClass, ...]
    moves_lanes = False

    @abstractmethod
    def sweep(self) -> tuple[Any, ...]:
        """Return the modifiers that cases take in turn, the default first."""

    @abstractmethod
    def check(self, given: Mapping[str, Any]) -> Any:
        """Return modifiers by name; raise `GpuemuError` for what is unknown or illegal."""

    @abstractmethod
    def empty(self, m: Any) -> Arrays:
        """Return operands of zeros, arrays (1, …)."""

    @abstractmethod
    def results(self, m: Any) -> Arrays:
        """Return results of zeros, arrays (1, …)."""

    @abstractmethod
    def operands(self, m: Any, cls: InputClass, seed: int, numbers: Array) -> Arrays:
        """Return the operands of cases, which depend on nothing else."""

    @abstractmethod
    def elements(self) -> int:
        """Return about how many elements of operands and results one case has."""

    @abstractmethod
    def outputs(self, m: Any) -> int:
        """Return how many outputs of one case are compared."""

    @property
    def known_classes(self) -> Mapping[str, InputClass]:
        """Return the classes that may be asked for by name."""
        return {cls.name: cls for cls in self.classes}

    def named(self, classes: tuple[str, ...]) -> tuple[InputClass, ...]:
        """Return input classes by name, all where none is named; raise `BadValue` for others."""
        known = self.known_classes
        for name in classes:
            if name not in known:
                raise BadValue(f"input class {name!r}; legal: {', '.join(known)}")
        return tuple(known[name] for name in classes) or self.classes


@dataclass(frozen=True)
class Configuration:
    """The value of every factor of an `ArrayOperation`, where matrix instructions have modifiers.

    >>> Configuration((("pad", "Max"), ("mask", "1111")), (("pad", "Null"), ("mask", "1111")))
    Configuration(pad:Max)
    """

    values: tuple[tuple[str, Any], ...]
    default: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        """Return the value of a factor."""
        return self.all()[name]

    def __repr__(self) -> str:
        """Return what differs from the default."""
        return f"Configuration({' '.join(f'{k}:{v}' for k, v in self.non_default().items())})"

    def all(self) -> dict[str, Any]:
        """Return the value of every factor."""
        return dict(self.values)

    def non_default(self) -> dict[str, Any]:
        """Return the values that differ from the default."""
        return dict(x for x, y in zip(self.values, self.default, strict=True) if x != y)


class ArrayOperation(Operation):
    """An operation on arrays by name.

    Attributes
    ----------
    factors : dict of str to tuple
        What a configuration chooses, and the levels of each choice, the default first.
    described : tuple of str
        Operands that `describe` shows.
    axes : (str, str)
        What the last two axes of the first result are.
    """

    factors: Mapping[str, tuple[Any, ...]]
    described: tuple[str, ...] = ()
    axes: tuple[str, str] = ("row", "column")

    def __repr__(self) -> str:
        """Return the name as messages show it."""
        return f"{self.mnemonic} ({self.arch})"

    @abstractmethod
    def compute(self, backend: str, operands: Arrays, m: Configuration) -> Arrays:
        """Return the results on one of the project's backends."""

    @abstractmethod
    def ask(self, function: Callable[..., Any], operands: Arrays, m: Configuration) -> Any:
        """Return what a user's callable makes of the operands: arrays by name, or a tuple in the
        order of `results`.
        """

    def given(self, operands: Arrays, m: Configuration) -> Arrays:
        """Return the operands as a user's program reads them, under the same names."""
        return operands

    @property
    def items(self) -> Any:
        """Return the module that finds, clears and simplifies items for shrinking."""
        from . import array_items

        return array_items

    def item_format(self, name: str) -> Format | None:
        """Return the number format of an operand's items; None where no number is simpler."""
        return None

    def describe(self, operands: Arrays, m: Configuration) -> str:
        """Return what a case is as text, where its items do not say it."""
        return ""

    def ignored(self, name: str, got: Arrays, want: Arrays, nan: str) -> Array | None:
        """Return where differences of a result do not count; None: nowhere.

        Parameters
        ----------
        nan : "any" or "exact"
            Whether any NaN equals any other where the operation fixes none.
        """
        return None

    def show(self, name: str, value: Any) -> str:
        """Return an item of a result as messages show it: its bits in hex."""
        return f"{int(value):0{2 * value.dtype.itemsize}X}"

    @cached_property
    def _sweep(self) -> tuple[Configuration, ...]:
        return tuple(self.check(row) for row in pairwise(self.factors))

    def sweep(self) -> tuple[Configuration, ...]:
        """Return configurations in which every two levels of two factors meet."""
        return self._sweep

    def check(self, given: Mapping[str, Any]) -> Configuration:
        """Return a configuration; raise `BadValue` for an unknown factor or level."""
        values = {name: levels[0] for name, levels in self.factors.items()}
        for name, value in given.items():
            if name not in values:
                raise BadValue(f"{self.mnemonic}: {name!r}; legal: {', '.join(values)}")
            level = tuple(value) if isinstance(value, list) else value
            levels = self.factors[name]
            if not any(type(level) is type(x) and level == x for x in levels):
                legal = ", ".join(map(str, levels))
                raise BadValue(f"{self.mnemonic}: {name}={value!r}; legal: {legal}")
            values[name] = level
        default = tuple((name, levels[0]) for name, levels in self.factors.items())
        return Configuration(tuple(values.items()), default)


def pairwise(factors: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return rows of levels such that every two levels of two factors meet in one; the first row
    has the first levels.

    Rows are made one by one: the first pair that has not met yet, and for every other factor the
    level of most new pairs with what the row has (Cohen et al., AETG, 1997, without its dice).

    >>> len(pairwise({"a": (0, 1, 2), "b": (0, 1, 2), "c": (0, 1, 2)})) <= 11
    True
    """
    names = list(factors)
    sizes = [len(factors[name]) for name in names]
    missing: dict[frozenset[tuple[int, int]], None] = {}
    if len(names) == 1:
        return [{names[0]: level} for level in factors[names[0]]]
    for one, other in itertools.combinations(range(len(names)), 2):
        for pair in itertools.product(range(sizes[one]), range(sizes[other])):
            missing[frozenset({(one, pair[0]), (other, pair[1])})] = None

    def new(row: dict[int, int], at: int, level: int) -> int:
        return sum(frozenset({(at, level), item}) in missing for item in row.items())

    row = dict.fromkeys(range(len(names)), 0)
    found = []
    while True:
        found.append(row)
        for pairs in itertools.combinations(row.items(), 2):
            missing.pop(frozenset(pairs), None)
        if not missing:
            break
        row = dict(next(iter(missing)))
        for at in sorted(set(range(len(names))) - set(row), key=lambda n: -sizes[n]):
            row[at] = max(range(sizes[at]), key=lambda x: (new(row, at, x), -x))
    return [{name: factors[name][row[at]] for at, name in enumerate(names)} for row in found]


def count_of(operands: Mapping[str, Any]) -> int:
    """Return how many cases operands hold."""
    return len(next(iter(operands.values())))


def part_of(operands: Mapping[str, Any], at: Any) -> Arrays:
    """Return the operands of some of the cases."""
    return {name: x[at] for name, x in operands.items()}


def joined(parts: list[Arrays]) -> Arrays:
    """Return the operands of several lists of cases as one."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


__all__ = [
    "ArrayOperation",
    "Arrays",
    "Configuration",
    "Operation",
    "count_of",
    "joined",
    "pairwise",
    "part_of",
]
