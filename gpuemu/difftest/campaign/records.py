"""What came of one chunk of a campaign: one JSON object, one line of `results.jsonl`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...errors import BadFile

VERDICTS = ("equal", "differ", "failed")


@dataclass(frozen=True)
class Record:
    """The result of one chunk: cases of one instruction, one input class, one set of modifiers.

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
        The registers that were wrong in any case, and in how many.
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
        found = asdict(self)
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
        try:
            facts = json.loads(text)
        except ValueError as error:
            raise BadFile(f"{where} is no JSON: {error}") from None
        if not isinstance(facts, dict):
            raise BadFile(f"{where} is a JSON {type(facts).__name__}; legal: an object")
        if set(facts) != set(_TYPES):
            odd = sorted(set(facts) ^ set(_TYPES))[0]
            state = "unknown" if odd in facts else "missing"
            raise BadFile(f"{where}: field {odd!r} is {state}; legal: {', '.join(_TYPES)}")
        for name, kind in _TYPES.items():
            value = facts[name]
            if not isinstance(value, kind) or isinstance(value, bool):
                legal = kind[0].__name__ if isinstance(kind, tuple) else kind.__name__
                raise BadFile(f"{where}: field {name!r} is {value!r}; legal: a JSON {legal}")
        if facts["verdict"] not in VERDICTS:
            raise BadFile(
                f"{where}: field 'verdict' is {facts['verdict']!r}; legal: {', '.join(VERDICTS)}"
            )
        found: dict[str, Any] = {_NAMES.get(str(name), str(name)): x for name, x in facts.items()}
        found["wrong"] = tuple(_place(row, where) for row in facts["wrong"])
        return Record(**found)


def _place(row: Any, where: str) -> tuple[int, int, int]:
    if not (isinstance(row, list) and len(row) == 3 and all(type(n) is int for n in row)):
        raise BadFile(f"{where}: field 'wrong' holds {row!r}; legal: [VGPR, lane, count]")
    return row[0], row[1], row[2]


_JSON = {"cls": "class"}
_NAMES = {"class": "cls"}
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
