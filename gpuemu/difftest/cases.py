"""Cases: which modifiers, which input class, which number; and the JSON text that repeats one.

Case n of an operation takes input class n modulo the number of classes. Its modifiers come from
the list of all legal ones, in an order that reaches every pair of class and modifiers before any
comes again; where modifiers move lanes, every other turn has the default ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BadFile
from .catalogue import Row, find, operation_of
from .files import check_fields, json_object
from .generators import InputClass
from .matrix_cases import empty_images, select, sweep
from .operation import ArrayOperation, Arrays, Operation
from .streams import Array

if TYPE_CHECKING:
    from .campaign.pieces import Outcome, Piece
    from .subject import Subject

MOST = 1 << 62  # the number of a case, so that int64 holds it and what is worked out of it
Word = tuple[Any, ...]  # operand or result, its indices, the item's bits


@dataclass(frozen=True)
class Plan:
    """The cases of one operation under one seed.

    Attributes
    ----------
    instruction : Instruction or ArrayOperation
    seed : int
    classes : tuple of InputClass
    modifiers : tuple of Modifiers, or of Configuration
    """

    instruction: Any
    seed: int
    classes: tuple[InputClass, ...]
    modifiers: tuple[Any, ...]

    @property
    def operation(self) -> Operation:
        """Return what the cases are cases of."""
        return operation_of(self.instruction)

    def places(self, numbers: Array) -> tuple[Array, Array]:
        """Return the classes and the modifiers of cases, int64, as positions in their lists."""
        turn, cls = np.divmod(numbers.astype(np.int64), len(self.classes))
        step = round(len(self.modifiers) * 0.618)
        if not self.operation.moves_lanes:
            return cls, (turn + cls * step) % len(self.modifiers)
        # Moved lanes break up what a class has put together: every other turn leaves them alone.
        return cls, np.where(turn % 2 == 0, 0, (turn // 2 + cls * step) % len(self.modifiers))

    def place(self, number: int) -> tuple[int, int]:
        """Return the class and the modifiers of a case, as positions in their lists."""
        cls, modifiers = self.places(np.array([number]))
        return int(cls[0]), int(modifiers[0])

    def case(self, number: int) -> Case:
        """Return one case."""
        cls, modifiers = self.place(number)
        return Case(
            self.instruction, self.modifiers[modifiers], self.classes[cls].name, self.seed, number
        )

    def outputs(self, m: Any) -> int:
        """Return how many outputs of one case are compared."""
        return self.operation.outputs(m)

    def run(
        self, todo: Iterable[Piece], subject: Subject, reference: Subject, **options: Any
    ) -> list[Outcome]:
        """Run pieces of the plan; options as `engine.run` has them."""
        if isinstance(self.instruction, ArrayOperation):
            from .campaign import arrays_engine

            return arrays_engine.run(self, todo, subject, reference, **options)
        from .campaign import engine

        return engine.run(self, todo, subject, reference, **options)


def plan(
    i: Row, seed: int = 0, classes: tuple[str, ...] = (), *, only_default: bool = False
) -> Plan:
    """Return the plan of an operation over the named classes (all that apply, where none is
    named).
    """
    found = operation_of(i)
    chosen, modifiers = found.named(classes), found.sweep()
    return Plan(i, seed, chosen, modifiers[:1] if only_default else modifiers)


@dataclass(frozen=True)
class Case:
    """One case: an operation, its modifiers, and either a place in the random inputs or the inputs
    themselves.

    Attributes
    ----------
    instruction : Instruction or ArrayOperation
    modifiers : Modifiers or Configuration
    cls : str
        Input class; "" where `words` holds the inputs.
    seed, number : int
    words : tuple of (operand, index, …, bits), optional
        The items that are not zero, of a register image (operand, VGPR, lane, word); those of
        results ("d") are the expected output.
    expects : bool
        Whether there is an expected output: it may be zero everywhere.
    """

    instruction: Any
    modifiers: Any
    cls: str = ""
    seed: int = 0
    number: int = 0
    words: tuple[Word, ...] | None = None
    expects: bool = False

    @property
    def operation(self) -> Operation:
        """Return what it is a case of."""
        return operation_of(self.instruction)

    def images(self) -> Arrays:
        """Return the operands, arrays (1, …)."""
        if self.words is None:
            (cls,) = self.operation.named((self.cls,))
            numbers = np.array([self.number])
            return self.operation.operands(self.modifiers, cls, self.seed, numbers)
        return _filled(self.operation.empty(self.modifiers), self.words)

    def expected(self) -> Any:
        """Return the expected results where the case has its own: D, uint32 (1, vgprs, 64), or
        arrays by name.
        """
        if self.words is None or not self.expects:
            return None
        found = _filled(self.operation.results(self.modifiers), self.words)
        return found if isinstance(self.instruction, ArrayOperation) else found["d"]

    def with_images(self, found: Arrays) -> Case:
        """Return the case with its inputs, and the expected results if any, written out."""
        words = tuple(
            (name, *map(int, at), int(image[(0, *at)]))
            for name, image in sorted(found.items())
            for at in np.argwhere(image[0])
        )
        expects = not self.operation.results(self.modifiers).keys().isdisjoint(found)
        return Case(self.instruction, self.modifiers, words=words, expects=expects)

    def rank(self) -> tuple[bool, int, int]:
        """Return how plain the case is: default modifiers, then the order of the classes, then
        the number.
        """
        names = [cls.name for cls in self.operation.named(())]
        at = names.index(self.cls) if self.cls in names else len(names)
        return bool(self.modifiers.non_default()), at, self.number

    def to_json(self, **more: object) -> str:
        """Return the case as one line of JSON; `more` adds fields, such as the subject."""
        facts: dict[str, Any] = {
            "instruction": self.instruction.mnemonic,
            "arch": self.instruction.arch,
        }
        if self.modifiers.non_default():
            facts["modifiers"] = self.modifiers.non_default()
        if self.words is None:
            facts |= {"class": self.cls, "seed": self.seed, "case": self.number}
        else:
            shapes = self._shapes()
            inputs: dict[str, dict[str, str]] = {}
            for name, *at, word in self.words:
                text = f"{word:0{2 * shapes[name].dtype.itemsize}X}"
                inputs.setdefault(name, {})[":".join(map(str, at))] = text
            if self.expects:
                for name in self.operation.results(self.modifiers):
                    inputs.setdefault(name, {})
            facts["inputs"] = inputs
        return json.dumps(facts | more, separators=(",", ":"))

    def _shapes(self) -> Arrays:
        return self.operation.empty(self.modifiers) | self.operation.results(self.modifiers)


def _filled(empty: Arrays, words: Iterable[Word]) -> Arrays:
    for name, *at, word in words:
        if name in empty:
            empty[name][(0, *at)] = word
    return empty


_FIELDS: dict[str, Any] = {
    "instruction": str,
    "arch": str,
    "modifiers": dict,
    "class": str,
    "seed": int,
    "case": int,
    "inputs": dict,
    "subject": str,
    "reference": str,
    "nan": str,
    "timeout": (int, float),
}


_BESIDE = ("subject", "reference", "nan", "timeout")


def from_json(text: str) -> tuple[Case, dict[str, Any]]:
    """Return the case that a replay line describes, and its further fields: subject, reference,
    nan, timeout.

    Raises
    ------
    BadFile
        Naming the field that is missing, unknown or wrong.
    """
    where = "replay text"
    facts = json_object(text, where)
    needed = {"inputs"} if "inputs" in facts else {"class", "seed", "case"}
    check_fields(facts, _FIELDS, where, required={"instruction", "arch"} | needed)
    i = find(facts["instruction"], facts["arch"])
    m = operation_of(i).check(facts.get("modifiers", {}))
    more = {name: facts[name] for name in _BESIDE if name in facts}
    if "inputs" in facts:
        given = Case(i, m, words=_words(Case(i, m), facts["inputs"]))
        expects = not given.operation.results(m).keys().isdisjoint(facts["inputs"])
        return replace(given, expects=expects), more
    legal = operation_of(i).known_classes
    if facts["class"] not in legal:
        raise BadFile(f"{where}: field 'class' is {facts['class']!r}; legal: {', '.join(legal)}")
    if not 0 <= facts["case"] <= MOST:
        raise BadFile(f"{where}: field 'case' is {facts['case']}; legal: 0 to 2^62")
    return Case(i, m, facts["class"], facts["seed"], facts["case"]), more


def _words(case: Case, given: dict[str, Any]) -> tuple[Word, ...]:
    shapes = case._shapes()
    words = []
    for name, places in given.items():
        if name not in shapes or not isinstance(places, dict):
            raise BadFile(
                f"replay field 'inputs': {name!r}; legal: objects named {', '.join(shapes)}"
            )
        shape, bits = shapes[name].shape[1:], 8 * shapes[name].dtype.itemsize
        for place, text in places.items():
            try:
                at = tuple(int(part) for part in place.split(":") if part or shape)
                word = int(text, 16)
            except (ValueError, TypeError, AttributeError):
                raise BadFile(
                    f'replay inputs of {name}: {place!r}: {text!r}; legal: "INDEX:…": "HEX"'
                ) from None
            inside = len(at) == len(shape) and all(
                0 <= x < n for x, n in zip(at, shape, strict=True)
            )
            if not (inside and 0 <= word < 1 << bits):
                raise BadFile(
                    f"replay inputs of {name}: {place} = {text} is outside {shape} items of "
                    f"{bits} bits"
                )
            words.append((name, *at, word))
    return tuple(words)


__all__ = ["Case", "Plan", "empty_images", "from_json", "plan", "select", "sweep"]
