"""What a campaign has found so far, in bounded memory: counts, and each instruction's first
failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..cases import Case, from_json
from .records import Record


@dataclass
class Row:
    """The counts of one instruction.

    Attributes
    ----------
    instruction, arch : str
    cases, outputs, sampled, failed_cases : int
    first : Record or None
        The record of its plainest failing case: of default modifiers if any, of the first input
        class, of the lowest number.
    case : Case or None
        That case.
    against : str
        What that case is compared with.
    """

    instruction: str
    arch: str
    cases: int = 0
    outputs: int = 0
    sampled: int = 0
    failed_cases: int = 0
    first: Record | None = None
    case: Case | None = None
    against: str = ""

    def add(self, record: Record) -> None:
        """Count a record in."""
        self.cases += record.cases
        self.outputs += record.outputs
        self.sampled += record.sampled
        self.failed_cases += record.failed_cases
        if record.replay:
            case, names = from_json(record.replay)
            if self.case is None or case.rank() < self.case.rank():
                self.first, self.case = record, case
                self.against = names.get("reference", record.reference)


@dataclass
class Tally:
    """Counts by instruction, in the order of their first records."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def add(self, records: Iterable[Record]) -> None:
        """Count records in."""
        for record in records:
            key = record.arch, record.instruction
            if key not in self.rows:
                self.rows[key] = Row(record.instruction, record.arch)
            self.rows[key].add(record)

    def total(self, name: str) -> int:
        """Return the sum of a count over all instructions."""
        return sum(getattr(row, name) for row in self.rows.values())

    @property
    def failing(self) -> list[Row]:
        """Return the instructions with failures."""
        return [row for row in self.rows.values() if row.failed_cases]
