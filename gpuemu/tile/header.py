"""The words of one bundle as they are collected; a fault here belongs to the word.

Source: PTO ISA 0.58.3, block header rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from ..errors import (
    BundleControlFault,
    IllegalInstructionFault,
    TileLegalityFault,
    UnknownInstruction,
)
from .descriptor import SIZE_CODES
from .numeric import DATA_TYPE_CODES, DTYPE_NONE, DataType, PadValue
from .operations import NOT_EMULATED, SELECTORS, Operation
from .words import PE_MODES, Word

SCALAR_REGISTERS = 24  # r0 reads zero; encodings 24 to 31 are unassigned
LOOPS = 3

# Clauses of the instruction's contract, as messages name them.
BINDINGS, TYPES, SOURCES = "legality 2, bindings", "legality 3, DataType", "legality 4, sources"
ATTRIBUTES, MASKS, EXTENT = (
    "legality 5, B.DATR",
    "legality 6, B.IOR, B.IOS and PE_MASK",
    "defaults 1, LB0 to LB2",
)
ALLOCATION = "exceptions 2, allocation"


@dataclass
class Header:
    """The words of one open bundle."""

    operation: Operation
    dtype: DataType
    attributes: Word | None = None
    extents: dict[int, int] = field(default_factory=dict)
    bindings: list[Word] = field(default_factory=list)
    scalars: Word | None = None
    shared: list[Word] = field(default_factory=list)
    zero_participation: bool = False

    @property
    def mask(self) -> int:
        """Return the PE_MASK, which all bindings share."""
        return mask_of(self.bindings[0])

    @property
    def pad(self) -> PadValue:
        """Return the PadValue; Null where B.DATR is omitted."""
        return PadValue(self.attributes["pad"]) if self.attributes else PadValue.NULL

    def sources(self) -> list[int]:
        """Return the source selectors in order."""
        return [word[f"source{i}"] for word in self.bindings for i in range(source_count(word))]


def mask_of(word: Word) -> int:
    """Return the PE_MASK that a binding's PEMode stands for."""
    return PE_MODES[word["pe_mode"]]


def source_count(word: Word) -> int:
    """Return how many source tiles a B.IOT names."""
    return sum(name.startswith("source") for name in word.form.fields)


def illegal(header: Header, what: str, clause: str) -> NoReturn:
    """Raise `TileLegalityFault` with operation, violation and clause."""
    raise TileLegalityFault(f"{header.operation.name}: {what} [{clause}]")


def start(word: Word) -> Header:
    """Open a bundle at its BSTART."""
    code, selector = word["dtype"], word["mode"] * 32 + word["function"]
    dtype, operation = DATA_TYPE_CODES.get(code), SELECTORS.get(selector)
    if dtype is None:
        raise IllegalInstructionFault(f"BSTART DataType={code} is reserved; legal: {_codes()}")
    if operation is None and selector not in NOT_EMULATED:
        raise IllegalInstructionFault(f"BSTART selector {selector:#05x} is unassigned")
    if operation is None:
        raise UnknownInstruction(
            f"{NOT_EMULATED[selector]} (selector {selector:#05x}) is assigned but not emulated; "
            f"emulated: {', '.join(row.name for row in SELECTORS.values())}"
        )
    return Header(operation, dtype)


def _codes() -> str:
    return ", ".join(f"{row.code} {row.name}" for row in DATA_TYPE_CODES.values())


def collect(header: Header | None, word: Word, scalars: list[int]) -> None:
    """Add a word to the open header, or raise the fault that it takes there."""
    if header is None:
        raise BundleControlFault(f"{word.form.name} outside a bundle; a BSTART must come first")
    if word.form.name.startswith("B.IOT"):
        _collect_binding(header, word)
    elif word.form.name == "B.DATR":
        _collect_attributes(header, word)
    elif word.form.name == "B.IOR":
        _collect_scalars(header, word)
    elif word.form.name == "B.IOS":
        header.shared.append(word)
    else:
        _collect_extent(header, word, scalars)


def _collect_binding(header: Header, word: Word) -> None:
    if word["size"] and word["size"] not in SIZE_CODES:
        raise IllegalInstructionFault(
            f"B.IOT SizeCode={word['size']} is reserved; legal: 1 to {SIZE_CODES[-1]}"
        )
    if source_count(word) == 0 and not word["size"]:
        raise IllegalInstructionFault(
            "B.IOT has neither source nor destination: SizeCode=0; legal: 1 to 10"
        )
    if word["pe_mode"] == 0:
        header.zero_participation = True
        return
    if header.bindings and header.bindings[-1]["last"]:
        raise BundleControlFault("B.IOT after the binding marked last")
    if header.bindings and mask_of(word) != header.mask:
        illegal(
            header,
            f"B.IOT mask={mask_of(word):04b} after mask={header.mask:04b}; all masks are equal",
            MASKS,
        )
    header.bindings.append(word)


def _collect_attributes(header: Header, word: Word) -> None:
    if header.attributes is not None:
        raise BundleControlFault("a second B.DATR; legal: at most one")
    code = word["dtype"]
    if code != DTYPE_NONE and code not in DATA_TYPE_CODES:
        illegal(
            header,
            f"B.DATR DataType={code} is reserved; legal: {DTYPE_NONE} (not specified)",
            ATTRIBUTES,
        )
    header.attributes = word


def _collect_scalars(header: Header, word: Word) -> None:
    for name, value in zip(word.form.fields, word.values, strict=True):
        if value >= SCALAR_REGISTERS:
            raise IllegalInstructionFault(f"B.IOR {name}=r{value} is unassigned; legal: r0 to r23")
    if header.scalars is not None:
        raise BundleControlFault("a second B.IOR; legal: at most one")
    header.scalars = word


def _collect_extent(header: Header, word: Word, scalars: list[int]) -> None:
    loop, base = word["loop"], 0
    if loop >= LOOPS:
        raise IllegalInstructionFault(
            f"{word.form.name} dimension LB{loop} is unassigned; legal: LB0, LB1, LB2"
        )
    if word.form.name == "B.DIM":
        if word["register"] >= SCALAR_REGISTERS:
            raise IllegalInstructionFault(
                f"B.DIM RegSrc=r{word['register']} is unassigned; legal: r0 to r23"
            )
        base = scalars[word["register"]]
    if loop in header.extents:
        raise BundleControlFault(f"LB{loop} is written twice; legal: at most once")
    header.extents[loop] = (base + word["immediate"]) & 0xFFFF
