"""A program on register files that stay where they are, without a copy for each instruction.

Every result D goes to a buffer of its own, and the registers that it overwrites are renamed to that
buffer: an instruction reads all of its operands before anything is written, whatever overlaps. The
operands of an instruction are views of the files or of earlier results; they are gathered into one
array only where they lie in several. At the end the renamed registers are copied back to the
files. Buffers whose registers have all been overwritten are used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import BadValue
from .. import sparse
from .operands import Registers

if TYPE_CHECKING:
    from ..program import Step

Launch = Callable[[], None]


class Machine(Protocol):
    """What a backend has to do for a schedule."""

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return a uint32 array."""

    def upload(self, image: Any) -> Any:
        """Return a constant register image where the machine reads it."""

    def copy(self, target: Any, source: Any) -> Launch:
        """Return a launch that copies an array into another."""

    def step(self, step: Step, given: dict[str, Any], d: Any) -> Launch:
        """Return a launch that computes a step into d (..., vgprs, 64)."""


@dataclass(eq=False)
class _Place:
    """Where a register's value lies: row of an array (..., rows, 64), and its buffer, if any."""

    array: Any
    row: int
    buffer: _Buffer | None


@dataclass(eq=False)
class _Buffer:
    array: Any
    users: int


class Schedule:
    """The launches of a program on given register files.

    Parameters
    ----------
    machine : Machine
    files : mapping of "v" and "a" to uint32 array (..., registers, 64)
        Changed by `run`, and by nothing else.
    steps : iterable of Step
        Checked before: every register that they name exists.
    """

    def __init__(self, machine: Machine, files: Mapping[str, Any], steps: Iterable[Step]) -> None:
        self._machine = machine
        self._files = files
        self._places = {
            bank: [_Place(file, row, None) for row in range(file.shape[-2])]
            for bank, file in files.items()
        }
        self._free: dict[int, list[Any]] = {}
        self._buffers: list[Any] = []  # kept as long as the launches, which may hold addresses
        self._constants: dict[tuple[int, bytes], Any] = {}
        self.checks: list[Launch] = []
        self.launches: list[Launch] = []
        for step in steps:
            self._add(step)
        self._write_back()

    def run(self) -> None:
        """Run the program; the files then hold its results.

        Raises
        ------
        BadValue
            In `strict`, where a sparsity index does not ascend: before anything runs, but for an
            index that the program computes itself.
        """
        for launch in (*self.checks, *self.launches):
            launch()

    def _add(self, step: Step) -> None:
        gathered: list[Any] = []
        given = {name: self._operand(registers, gathered) for name, registers in step.reads.items()}
        if step.constant is not None:
            given["c"] = self._constant(step.constant)
        if step.call.legality == "strict" and step.call.operands.idx is not None:
            initial = self._places["v"][step.call.operands.idx.first].buffer is None
            (self.checks if initial else self.launches).append(_index_check(step, given["idx"]))
        target = step.call.operands.D
        d = self._take(target.count, target.bank)
        self.launches.append(self._machine.step(step, given, d))
        for array in gathered:
            self._give(array)
        buffer = _Buffer(d, target.count)
        places = self._places[target.bank]
        for row in range(target.count):
            self._release(places[target.first + row])
            places[target.first + row] = _Place(d, row, buffer)

    def _operand(self, registers: Registers, gathered: list[Any]) -> Any:
        """Return the registers as one array, a view where they follow each other in one."""
        places = self._places[registers.bank][registers.slice]
        first = places[0]
        if all(p.array is first.array and p.row == first.row + n for n, p in enumerate(places)):
            return first.array[..., first.row : first.row + registers.count, :]
        array = self._take(registers.count, registers.bank)
        gathered.append(array)
        for n, place in enumerate(places):
            source = place.array[..., place.row : place.row + 1, :]
            self.launches.append(self._machine.copy(array[..., n : n + 1, :], source))
        return array

    def _constant(self, image: Any) -> Any:
        key = (image.shape[0], image[:2, 0].tobytes())
        if key not in self._constants:
            self._constants[key] = self._machine.upload(image)
        return self._constants[key]

    def _take(self, count: int, bank: str) -> Any:
        free = self._free.setdefault(count, [])
        if free:
            return free.pop()
        file = self._files[bank]
        self._buffers.append(self._machine.empty((*file.shape[:-2], count, file.shape[-1])))
        return self._buffers[-1]

    def _give(self, array: Any) -> None:
        """Let a buffer be written again: launches run in order, its readers come before."""
        self._free[array.shape[-2]].append(array)

    def _release(self, place: _Place) -> None:
        if place.buffer is None:
            return
        place.buffer.users -= 1
        if place.buffer.users == 0:
            self._give(place.buffer.array)

    def _write_back(self) -> None:
        """Copy every run of renamed registers to its file."""
        for bank, places in self._places.items():
            row = 0
            while row < len(places):
                last = row + 1
                place = places[row]
                while (
                    last < len(places)
                    and places[last].array is place.array
                    and places[last].row == place.row + last - row
                ):
                    last += 1
                if place.buffer is not None:
                    source = place.array[..., place.row : place.row + last - row, :]
                    target = self._files[bank][..., row:last, :]
                    self.launches.append(self._machine.copy(target, source))
                row = last


def _index_check(step: Step, idx: Any) -> Launch:
    def check() -> None:
        try:
            sparse.check_index(step.made.instruction, idx, step.made.modifiers)
        except BadValue as error:
            raise BadValue(f"line {step.number}: {error}") from None

    return check
