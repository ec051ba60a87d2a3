"""What came of one chunk of a campaign: one JSON object, one line of `results.jsonl`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from ...errors import BadFile
from ..files import check_fields, json_object

VERDICTS = ("equal", "differ", "failed")


@dataclass(frozen=True)
class Record:
    """The result of one chunk: cases of one instruction, one input class, one set of modifiers (of
    TFMA and emulated GEMM: one configuration).

    Attributes
    ----------
    chunk : int
        Its number in the campaign.
    instruction, arch : str
    modifiers : dict
        Those that differ from their defaults.
    cls : str
        Input class; "class" in JSON.
    cases, outputs : int
        How many were compared.
    sampled : int
        Cases that the NumPy oracle computed too.
    reference : str
        What all cases were compared with.
    verdict : "equal", "differ" or "failed"
        "failed" where the subject gave no answer.
    failed_cases : int
    wrong : tuple of (VGPR, lane, count)
        The registers that were wrong in any case, and in how many; of tiles and products (row,
        column, count).
    what : str
        The first failure in a line, or why there was no answer.
    replay, small : str
        The first failing case, and that case shrunk, as `gpuemu replay` reads them.
    seconds : float
    worker : str
        Host name and process that ran the chunk.
    """

    chunk: int
    instruction: str
    arch: str
    modifiers: dict[str, Any]
    cls: str
    cases: int
    outputs: int
    sampled: int
    reference: str
    verdict: str
    failed_cases: int = 0
    wrong: tuple[tuple[int, int, int], ...] = field(default=())
    what: str = ""
    replay: str = ""
    small: str = ""
    seconds: float = 0.0
    worker: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the record as its JSON object."""
        found = dict(vars(self))
        found["wrong"] = [list(row) for row in self.wrong]
        return {_JSON.get(name, name): value for name, value in found.items()}

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.facts(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str, where: str = "record") -> Record:
        """Return the record that a line holds.

        Raises
        ------
        BadFile
            Naming the field that is missing, unknown or wrong, and `where` the line came from.
        """
        facts = json_object(text, where)
        check_fields(facts, _TYPES, where)
        if facts["verdict"] not in VERDICTS:
            raise BadFile(
                f"{where}: field 'verdict' is {facts['verdict']!r}; legal: {', '.join(VERDICTS)}"
            )
        facts["cls"] = facts.pop("class")
        facts["wrong"] = tuple(_place(row, where) for row in facts["wrong"])
        return Record(**facts)


def _place(row: Any, where: str) -> tuple[int, int, int]:
    if not (isinstance(row, list) and len(row) == 3 and all(type(n) is int for n in row)):
        raise BadFile(f"{where}: field 'wrong' holds {row!r}; legal: [VGPR, lane, count]")
    return row[0], row[1], row[2]


_JSON = {"cls": "class"}
_KINDS: dict[str, Any] = {
    "int": int,
    "str": str,
    "float": (float, int),
    "dict[str, Any]": dict,
    "tuple[tuple[int, int, int], ...]": list,
}
_TYPES: dict[str, Any] = {
    _JSON.get(row.name, row.name): _KINDS[str(row.type)] for row in fields(Record)
}
