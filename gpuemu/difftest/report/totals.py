"""What a campaign's records add up to, in one pass and bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERDICTS = ("equal", "differ", "failed")

# More than a campaign over every instruction has; what goes beyond is counted under OTHERS.
MOST = {"instructions": 400, "classes": 64, "modifiers": 600, "references": 16, "workers": 256}
OTHERS = "others"
MOST_FAILURES = 40  # with their replay lines
MOST_FAILURES_EACH = 2  # of one instruction
LANES = 64
MOST_ROWS, MOST_COLUMNS = 128, 256  # of the places of registers, tiles and products
TEXT = 2000  # characters of a message that are kept
REPLAY = 40_000  # of a replay line


@dataclass
class Cell:
    """Cases of one kind: how many, and how many of them were wrong."""

    cases: int = 0
    failed_cases: int = 0
    verdict: str = "equal"

    def add(self, record: Mapping[str, Any], verdict: str) -> None:
        """Count a record in."""
        self.cases += record["cases"]
        self.failed_cases += record["failed_cases"]
        self.verdict = max(self.verdict, verdict, key=VERDICTS.index)


@dataclass
class InstructionTotals(Cell):
    """The cases of one instruction, and where they were wrong."""

    name: str = ""
    arch: str = ""
    outputs: int = 0
    sampled: int = 0
    classes: dict[str, Cell] = field(default_factory=dict)
    modifiers: dict[str, Cell] = field(default_factory=dict)
    wrong: Counter[tuple[int, int]] = field(default_factory=Counter)


@dataclass
class Share:
    """What one worker, or one reference, has done."""

    cases: int = 0
    outputs: int = 0
    seconds: float = 0.0


@dataclass
class Totals(Cell):
    """Sums over all records."""

    chunks: int = 0
    outputs: int = 0
    sampled: int = 0
    seconds: float = 0.0
    instructions: dict[tuple[str, str], InstructionTotals] = field(default_factory=dict)
    references: dict[str, Share] = field(default_factory=dict)
    workers: dict[str, Share] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    failing_records: int = 0

    @property
    def failing(self) -> list[InstructionTotals]:
        """Return the instructions with a wrong or missing answer, the worst first."""
        bad = [row for row in self.instructions.values() if row.verdict != "equal"]
        return sorted(bad, key=lambda row: -row.failed_cases)


def modifiers_text(given: Mapping[str, Any]) -> str:
    """Return modifiers as an assembly line has them; "default" where there are none.

    >>> modifiers_text({"cbsz": 2, "neg": [1, 0, 0]})
    'cbsz:2 neg:[1,0,0]'
    """
    parts = (
        f"{name}:[{','.join(map(str, x))}]" if isinstance(x, (list, tuple)) else f"{name}:{x}"
        for name, x in given.items()
    )
    return " ".join(parts)[:TEXT] or "default"


def add_up(records: Iterable[Any]) -> Totals:
    """Return the sums of records: mappings, or objects with the fields of `campaign.Record`."""
    totals = Totals()
    for record in records:
        _add(totals, _plain(record))
    return totals


def _plain(record: Any) -> dict[str, Any]:
    facts = dict(record if isinstance(record, Mapping) else vars(record))
    if "cls" in facts:
        facts["class"] = facts.pop("cls")
    for name in ("cases", "outputs", "sampled", "failed_cases"):
        facts[name] = int(facts.get(name, 0))
    return facts


def _add(totals: Totals, record: dict[str, Any]) -> None:
    verdict = record["verdict"] if record["verdict"] in VERDICTS else "failed"
    key = str(record["instruction"])[:TEXT], str(record["arch"])[:TEXT]
    row = _entry(totals.instructions, key, (OTHERS, ""), InstructionTotals, "instructions")
    row.name, row.arch = key if key in totals.instructions else (OTHERS, "")
    worker = str(record.get("worker", ""))[:TEXT]
    reference = str(record.get("reference", ""))[:TEXT]
    shares = (
        _entry(totals.workers, worker, OTHERS, Share, "workers"),
        _entry(totals.references, reference, OTHERS, Share, "references"),
    )
    for share in shares:
        share.cases += record["cases"]
        share.outputs += record["outputs"]
        share.seconds += float(record.get("seconds", 0))
    cls = str(record["class"])[:TEXT]
    text = modifiers_text(record.get("modifiers") or {})
    cells = (
        totals,
        row,
        _entry(row.classes, cls, OTHERS, Cell, "classes"),
        _entry(row.modifiers, text, OTHERS, Cell, "modifiers"),
    )
    for cell in cells:
        cell.add(record, verdict)
    for sums in (totals, row):
        sums.outputs += record["outputs"]
        sums.sampled += record["sampled"]
    totals.chunks += 1
    totals.seconds += float(record.get("seconds", 0))
    for at, across, count in record.get("wrong") or ():
        if 0 <= at < MOST_ROWS and 0 <= across < MOST_COLUMNS:
            row.wrong[at, across] += count
    if verdict != "equal":
        totals.failing_records += 1
        _keep(totals, record, key, cls, text, verdict)


def _entry(found: dict[Any, Any], key: Any, others: Any, kind: Any, limit: str) -> Any:
    """Return the entry of a key, a new one where there is room, else that of the others."""
    if key not in found and len(found) >= MOST[limit]:
        key = others
    return found.setdefault(key, kind())


def _keep(
    totals: Totals,
    record: dict[str, Any],
    key: tuple[str, str],
    cls: str,
    modifiers: str,
    verdict: str,
) -> None:
    """Keep a failure to show, where there is room."""
    name, arch = key
    alike = sum(kept["instruction"] == name and kept["arch"] == arch for kept in totals.failures)
    if len(totals.failures) >= MOST_FAILURES or alike >= MOST_FAILURES_EACH:
        return
    lines = {x: str(record.get(x) or "")[:REPLAY] for x in ("replay", "small")}
    facts = {
        "instruction": name,
        "arch": arch,
        "class": cls,
        "modifiers": modifiers,
        "verdict": verdict,
        "what": str(record.get("what") or "")[:TEXT],
    }
    totals.failures.append(facts | lines)
