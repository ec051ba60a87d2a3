"""Pieces of a result: which outputs are computed together, within a budget of memory.

Every output is computed from whole rows and columns, so the bits do not depend on the pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import BadValue

ALIGNMENT = 128  # outputs: the tuned kernels' largest tile


@dataclass(frozen=True)
class Piece:
    """A part of the result: batch items, rows and columns."""

    batch: slice
    rows: slice
    columns: slice

    @property
    def place(self) -> tuple[slice, slice, slice]:
        """Return where the piece lies in the result."""
        return self.batch, self.rows, self.columns


@dataclass(frozen=True)
class Cost:
    """Bytes that a row of A, a column of B and an output take."""

    row: int
    column: int
    output: int

    def of(self, rows: int, columns: int) -> int:
        """Return the bytes of a piece of one batch item."""
        return rows * self.row + columns * self.column + rows * columns * self.output


def plan(batches: int, m: int, n: int, cost: Cost, budget: int, least: int = 1) -> list[Piece]:
    """Return pieces that cover the result, each within a budget of memory.

    Parameters
    ----------
    batches, m, n : int
        The result's shape.
    cost : Cost
    budget : int
        Bytes that a piece may take.
    least : int
        How many pieces to make at least, where there are rows enough.

    >>> [(p.rows, p.columns) for p in plan(1, 300, 64, Cost(8, 8, 4), 1 << 30, 2)]
    [(slice(0, 256, None), slice(0, 64, None)), (slice(256, 300, None), slice(0, 64, None))]
    """
    if 0 in (batches, m, n):
        return []
    rows, columns = m, n
    while cost.of(rows, columns) > budget and (rows, columns) != (1, 1):
        if rows * cost.row >= columns * cost.column and rows > 1:
            rows = _half(rows)
        else:
            columns = _half(columns) if columns > 1 else columns
            rows = rows if columns > 1 else _half(rows)
    if cost.of(rows, columns) > budget:
        raise BadValue(
            f"one output takes {cost.of(1, 1)} bytes of device memory; {budget} are free"
        )
    together = (
        max(1, min(batches, budget // max(1, cost.of(rows, columns))))
        if (rows, columns) == (m, n)
        else 1
    )
    made = -(-batches // together) * -(-m // rows) * -(-n // columns)
    if made < least:
        together = max(1, -(-batches // least))
        per_batch = -(-least // -(-batches // together))
        rows = min(rows, _aligned(-(-m // per_batch)))
    return [
        Piece(
            slice(b, min(batches, b + together)),
            slice(r, min(m, r + rows)),
            slice(c, min(n, c + columns)),
        )
        for b in range(0, batches, together)
        for c in range(0, n, columns)
        for r in range(0, m, rows)
    ]


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def _half(count: int) -> int:
    half = -(-count // 2)
    return _aligned(half) if half > ALIGNMENT and _aligned(half) < count else half


def cut(operands: dict[str, Any], piece: Piece) -> dict[str, Any]:
    """Return the parts of the operands, (batch, rows, columns) each, that a piece needs."""
    rows, columns, every = piece.rows, piece.columns, slice(None)
    places = {
        "A": (rows, every),
        "B": (every, columns),
        "C": (rows, columns),
        "scale_a": (rows, every),
        "scale_b": (every, columns),
    }
    return {
        name: None if x is None else x[(piece.batch, *places[name])] for name, x in operands.items()
    }
