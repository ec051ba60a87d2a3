"""One input through many instructions: what each of them answers, and from which product on they
part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import formats
from ..errors import BadShape, BadValue
from ..mfma.instructions import Instruction, instructions

Array = np.ndarray[Any, Any]

# One input, five answers: products of very different size whose order and rounding every
# generation chose anew.
FIVE_ANSWERS = (
    np.array([[-(2.0**13), -0.5, -0.25, -0.125]]),
    np.array([[2.0**10], [1.0], [1.0], [1.0]]),
    np.array([[2.0**23]]),
)


@dataclass(frozen=True)
class Answer:
    """What one instruction computes.

    Attributes
    ----------
    instruction : Instruction
    bits : unsigned array (rows, columns)
        D, in its format.
    values : float64 array (rows, columns)
    prefixes : float64 array (K + 1, rows, columns)
        D of the first 0, 1, … K products alone, the others zero.
    """

    instruction: Instruction
    bits: Array
    values: Array
    prefixes: Array


def representatives() -> tuple[Instruction, ...]:
    """Return one dense instruction an architecture, input format and arithmetic model, in 16x16
    where it exists.
    """
    chosen: dict[tuple[str, ...], Instruction] = {}
    for row in instructions(kind="mfma"):
        key = (row.arch, row.formats["A"], row.formats["B"], row.model)
        best = chosen.get(key)
        if best is None or _rank(row) > _rank(best):
            chosen[key] = row
    return tuple(row for row in chosen.values() if row.formats["A"] == row.formats["B"])


def _rank(row: Instruction) -> tuple[bool, int]:
    return row.M == 16 and row.blocks == 1, row.K


def check_input(A: Array, B: Array, C: Array | None) -> tuple[Array, Array, Array]:
    """Return A (rows, K), B (K, columns) and C (rows, columns) as float64; raise where they do
    not fit.
    """
    A, B = (np.asarray(x, np.float64) for x in (A, B))
    if A.ndim != 2 or B.ndim != 2 or A.shape[1] != B.shape[0] or 0 in (*A.shape, *B.shape):
        raise BadShape(f"A {A.shape}, B {B.shape}; legal: A (rows, K), B (K, columns)")
    C = np.zeros((A.shape[0], B.shape[1])) if C is None else np.asarray(C, np.float64)
    if C.shape != (A.shape[0], B.shape[1]):
        raise BadShape(
            f"C {C.shape}; legal with A {A.shape}, B {B.shape}: {(A.shape[0], B.shape[1])}"
        )
    return A, B, C


def exact(values: Array, fmt: formats.Format, name: str) -> Array:
    """Return values in a format's dtype; raise `BadValue` where one of them is no number of that
    format.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = values.astype(fmt.dtype)
        back = found.astype(np.float64)
    wrong = ~((back == values) | (np.isnan(back) & np.isnan(values)))
    if wrong.any():
        at = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise BadValue(f"{name}{list(at)} = {values[at]:g} is no number of {fmt.name}")
    return found


def answer(i: Instruction, A: Array, B: Array, C: Array, backend: str = "auto") -> Answer:
    """Run an instruction on an input, padded with zeros; a K longer than its own takes a chain
    of instructions.

    Raises
    ------
    BadValue
        Where a value is no number of the instruction's formats.
    BadShape
        Where the input has more rows or columns than the instruction.
    """
    rows, K = A.shape
    columns = B.shape[1]
    if rows > i.M or columns > i.N:
        raise BadShape(f"{rows} rows and {columns} columns; {i.mnemonic} has {i.M} and {i.N}")
    links = -(-K // i.K)
    fa, fb, fc = (i.operand_format(matrix) for matrix in ("A", "B", "C"))
    left = np.zeros((K + 1, i.blocks, i.M, links * i.K), fa.dtype)
    right = np.zeros((i.blocks, links * i.K, i.N), fb.dtype)
    left[:, 0, :rows, :K] = exact(A, fa, "A")
    right[0, :K, :columns] = exact(B, fb, "B")
    for first in range(K + 1):
        left[first, :, :, first:] = 0
    d = np.zeros((K + 1, i.blocks, i.M, i.N), fc.dtype)
    d[:, 0, :rows, :columns] = exact(C, fc, "C")
    for link in range(links):
        at = slice(link * i.K, (link + 1) * i.K)
        d = i(left[..., at], right[:, at], d, backend=backend)
    found = np.ascontiguousarray(d[:, 0, :rows, :columns])
    values = found.astype(np.float64)
    return Answer(i, found[-1].view(fc.storage), values[-1], values)


def first_parting(answers: list[Answer]) -> tuple[int, int, int] | None:
    """Return (row, column, k): the first output that differs, and the product from which on
    answers part.

    k is 0 for the first product, -1 where C alone makes the difference; None where all agree.
    """
    for row, column in np.ndindex(answers[0].values.shape):
        if len({_key(a.values[row, column]) for a in answers}) > 1:
            for k in range(len(answers[0].prefixes)):
                if len({_key(a.prefixes[k, row, column]) for a in answers}) > 1:
                    return row, column, k - 1
    return None


def _key(value: Any) -> str:
    return "nan" if np.isnan(value) else float(value).hex()
