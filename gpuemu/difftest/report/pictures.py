"""The pictures of the report as squares: where they lie, what they show, what they say."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import GpuemuError
from ..catalogue import Row, find, operation_of
from ..generators import CLASSES
from ..operation import ArrayOperation
from .totals import LANES, OTHERS, Cell, InstructionTotals, modifiers_text

WIDE = 32  # modifier squares of a line
SIDE = 8  # of a modifier square, in CSS pixels
CLASS_SIDE = 16


@dataclass(frozen=True)
class Square:
    """One square: its place, its CSS class, its text."""

    x: int
    y: int
    look: str
    text: str
    depth: int = 0


@dataclass(frozen=True)
class Picture:
    """Squares of one side length."""

    width: int
    height: int
    side: int
    squares: list[Square]
    label: str


def class_names(rows: list[InstructionTotals]) -> list[str]:
    """Return the input classes of the rows of an architecture in their order, with what else the
    records name.
    """
    known = [_known(row) for row in rows]
    names = [] if all(isinstance(x, ArrayOperation) for x in known) else list(CLASSES)
    for x in known:
        names += [cls.name for cls in operation_of(x).classes] if x else []
    return list(dict.fromkeys([*names, *sorted({name for row in rows for name in row.classes})]))


def class_picture(row: InstructionTotals, names: list[str]) -> Picture:
    """Return one square an input class."""
    legal, known = _legal_classes(row), _known(row)
    why = (
        f"no class of {row.name}"
        if isinstance(known, ArrayOperation)
        else "says nothing about integers"
    )
    squares = [
        _square(
            n % WIDE,
            n // WIDE,
            CLASS_SIDE,
            name,
            row.classes.get(name),
            "" if name in legal else why,
        )
        for n, name in enumerate(names)
    ]
    tested = sum(name in row.classes for name in names)
    height = CLASS_SIDE * -(-len(names) // WIDE)
    label = f"{tested} of {len(legal)} input classes"
    return Picture(CLASS_SIDE * min(len(names), WIDE), height, CLASS_SIDE, squares, label)


def modifier_picture(row: InstructionTotals) -> Picture:
    """Return one square for every legal set of modifiers, and for those that were tested beyond."""
    legal = _legal_modifiers(row)
    names = [*legal, *(name for name in row.modifiers if name not in legal)]
    squares = [
        _square(n % WIDE, n // WIDE, SIDE, name, row.modifiers.get(name))
        for n, name in enumerate(names)
    ]
    lines = -(-len(names) // WIDE)
    label = f"{len(row.modifiers)} of {len(names)} sets of modifiers"
    return Picture(SIDE * min(len(names), WIDE), SIDE * lines, SIDE, squares, label)


def _square(x: int, y: int, side: int, name: str, cell: Cell | None, why: str = "") -> Square:
    """Return a square; `why` says why there is nothing to test."""
    if cell is not None:
        text = f"{name}: {cell.cases:,} cases, {cell.verdict}"
        text += f", {cell.failed_cases:,} wrong" if cell.failed_cases else ""
        return Square(x * side, y * side, cell.verdict, text)
    look = "none" if why else "untested"
    return Square(x * side, y * side, look, f"{name}: {why or 'not tested'}")


def heat_picture(row: InstructionTotals, side: int = 10) -> Picture:
    """Return one square a register and lane, or a row and column of a tile or product, the darker
    the more often it was wrong.

    Registers are all those of D; tiles and products are of several shapes, and shown as far as they
    were wrong.
    """
    lines = max((line for line, _ in row.wrong), default=0) + 1
    columns = max((column for _, column in row.wrong), default=0) + 1
    known = _known(row)
    down, across = axes(row)
    if not isinstance(known, ArrayOperation):
        lines = max(lines, known.vgprs["D"] if known else 1)
        columns = max(columns, LANES)
    most = max(row.wrong.values(), default=0)
    squares = [
        Square(
            column * side,
            line * side,
            "heat",
            f"{down} {line}, {across} {column}: {count:,}",
            depth,
        )
        for (line, column), count in sorted(row.wrong.items())
        if (depth := _depth(count, most))
    ]
    if not isinstance(known, ArrayOperation):
        what = f"{len(squares)} of {lines * columns} registers were wrong, one"
    elif len(squares) == 1:
        what = "1 place was wrong,"
    else:
        what = f"{len(squares)} places were wrong, one"
    label = f"{what} up to {most:,} times"
    return Picture(columns * side, lines * side, side, squares, label)


def _depth(count: int, most: int) -> int:
    """Return 1 to 9, linear."""
    return -(-9 * count // most) if count > 0 else 0


def axes(row: InstructionTotals) -> tuple[str, str]:
    """Return what the lines and the columns of a map of wrong places are."""
    known = _known(row)
    return known.axes if isinstance(known, ArrayOperation) else ("VGPR", "lane")


def _known(row: InstructionTotals) -> Row | None:
    try:
        return find(row.name, row.arch)
    except GpuemuError:
        return None


def _legal_classes(row: InstructionTotals) -> set[str]:
    known = _known(row)
    return {cls.name for cls in operation_of(known).classes} if known else set(row.classes)


def _legal_modifiers(row: InstructionTotals) -> list[str]:
    known = _known(row)
    found = [modifiers_text(m.non_default()) for m in operation_of(known).sweep()] if known else []
    return list(dict.fromkeys(found))


__all__ = [
    "OTHERS",
    "Picture",
    "axes",
    "class_names",
    "class_picture",
    "heat_picture",
    "modifier_picture",
]
