"""How a product is cut into blocks that fit the workspace, and where everything lies in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...errors import BadValue
from . import scheme
from .scheme import Setting

#: cuBLAS's int8 product is slower when its column count (our rows) passes 8192 in one call.
ROW_BLOCK = 8192
SMALLEST_BLOCK = 256
UNIT = 16  # every extent is padded to what the fast int8 kernels ask for


def padded(extent: int) -> int:
    """Return an extent rounded up to the unit of 16."""
    return -(-extent // UNIT) * UNIT


@dataclass(frozen=True)
class Plan:
    """One product: padded extents, block sizes, int32 planes, offsets in bytes."""

    rows: int
    columns: int
    k: int
    padded_k: int
    row_block: int
    column_block: int
    sums: tuple[tuple[int, int], ...]
    a_offset: int
    b_offset: int
    sums_offset: int
    workspace_bytes: int

    @property
    def grouped(self) -> bool:
        """Whether some diagonal needs more than one int32 sum."""
        return any(first > 0 for _, first in self.sums)


def int32_sums(setting: Setting, padded_k: int) -> tuple[tuple[int, int], ...]:
    """Return (diagonal, first product) of every int32 plane; (modulus, 0) for crt."""
    if setting.scheme == "crt":
        return tuple((modulus, 0) for modulus in range(setting.planes))
    return tuple(
        (d, group * scheme.SUM_LIMIT)
        for d in range(setting.planes)
        for group in range(scheme.groups(d, padded_k))
    )


def _sizes(
    setting: Setting, rows: int, columns: int, padded_k: int, sums: int
) -> tuple[int, int, int]:
    return (
        setting.planes * rows * padded_k,
        setting.planes * columns * padded_k,
        4 * sums * rows * columns,
    )


@lru_cache(maxsize=256)
def plan(rows: int, columns: int, k: int, setting: Setting, workspace: int) -> Plan:
    """Return the plan with the largest blocks that the workspace (bytes) holds.

    Raises
    ------
    BadValue
        Where even blocks of 256 x 256 do not fit.
    """
    padded_k = padded(k)
    sums = int32_sums(setting, padded_k)
    row_block, column_block = min(padded(rows), ROW_BLOCK), padded(columns)
    while True:
        sizes = _sizes(setting, row_block, column_block, padded_k, len(sums))
        total = sum(-(-size // 256) * 256 for size in sizes)
        if total <= workspace:
            break
        if max(row_block, column_block) <= SMALLEST_BLOCK:
            raise BadValue(
                f"workspace={workspace} bytes; "
                f"this product needs at least {total} (blocks of 256 x 256)"
            )
        if row_block >= column_block:
            row_block = padded(max(SMALLEST_BLOCK, row_block // 2))
        else:
            column_block = padded(max(SMALLEST_BLOCK, column_block // 2))
    a_bytes, b_bytes = (-(-size // 256) * 256 for size in sizes[:2])
    return Plan(
        rows, columns, k, padded_k, row_block, column_block, sums,
        0, a_bytes, a_bytes + b_bytes, total,
    )  # fmt: skip
