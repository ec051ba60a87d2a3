"""All that a campaign can run over, by name: matrix instructions, tile and emulated operations."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from ..errors import BadValue, UnknownInstruction
from ..mfma.instructions import ARCHITECTURES, Instruction, instruction
from .matrix_cases import matrix, select
from .operation import ArrayOperation, Operation

Row = Instruction | ArrayOperation


@lru_cache(maxsize=1)
def array_operations() -> tuple[ArrayOperation, ...]:
    """Return TFMA on every element type, TFMA's bundles, and emulated products."""
    from . import bundle_cases, emulated_cases, tile_cases

    return (*tile_cases.ROWS, *bundle_cases.ROWS, *emulated_cases.ROWS)


def operation_of(row: Row) -> Operation:
    """Return a row as an operation of a campaign."""
    return row if isinstance(row, ArrayOperation) else matrix(row)


def find(mnemonic: str, arch: str) -> Row:
    """Return a row by its exact name; raise `GpuemuError` with what would be legal."""
    for row in array_operations():
        if (row.mnemonic, row.arch) == (mnemonic, arch):
            return row
    archs = [row.arch for row in array_operations() if row.mnemonic == mnemonic]
    if archs:
        raise BadValue(f"arch {arch!r} of {mnemonic}; legal: {', '.join(archs)}")
    return instruction(mnemonic, arch)


def choose(patterns: str, arch: str) -> tuple[Row, ...]:
    """Return the rows that fit shell patterns with commas between them, and an architecture.

    A pattern that fits matrix instructions stands for these alone; another for tile and emulated
    operations: "*" means all matrix instructions, "*,tfma*,emulated*" everything.

    Raises
    ------
    UnknownInstruction, BadValue
        Where a pattern fits nothing.

    >>> [row.mnemonic for row in choose("tfma_fp*,emulated_f32*", "*")][:4]
    ['tfma_fp16', 'tfma_fp32', 'tfma_fp64', 'emulated_f32_slices']
    """
    found = [row for pattern in patterns.split(",") for row in _fitting(pattern.strip(), arch)]
    return tuple(dict.fromkeys(found))


def _fitting(pattern: str, arch: str) -> tuple[Row, ...]:
    archs = (*ARCHITECTURES, *dict.fromkeys(row.arch for row in array_operations()))
    if not any(fnmatchcase(name, arch) for name in archs):
        raise BadValue(f"arch pattern {arch!r} fits none of {', '.join(archs)}")
    try:
        return select(pattern, arch)
    except (UnknownInstruction, BadValue) as error:
        others = [row for row in array_operations() if fnmatchcase(row.mnemonic, pattern)]
        fitting = tuple(row for row in others if fnmatchcase(row.arch, arch))
        if fitting:
            return fitting
        if others:
            need = ", ".join(dict.fromkeys(row.arch for row in others))
            raise BadValue(f"arch pattern {arch!r} with {pattern!r}; legal: {need}") from None
        if isinstance(error, BadValue):  # an architecture without matrix instructions
            known = ", ".join(row.mnemonic for row in array_operations() if row.arch == arch)
            raise UnknownInstruction(
                f"nothing of {arch} fits {pattern!r}" + (f"; legal: {known}" if known else "")
            ) from None
        raise UnknownInstruction(f"{error}; beside them: tfma_*, emulated_*") from None


__all__ = ["Row", "array_operations", "choose", "find", "operation_of"]
