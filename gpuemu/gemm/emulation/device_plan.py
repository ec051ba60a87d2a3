"""How a product is cut into blocks that fit the workspace, and where everything lies in it."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import BadValue
from . import scheme
from .scheme import Setting

#: Rows of a block: int8 products and recombination are fastest when an int32 plane of a block has
#: about 2^25 elements (measured at 8192 and 16384), and never over more than 8192 rows.
BLOCK_OUTPUTS = 1 << 25
ROW_BLOCK, SMALLEST_ROW_BLOCK = 8192, 2048
SMALLEST_BLOCK = 256
UNIT = 16  # every extent is padded to what the fast int8 kernels ask for
ALIGNMENT = 256
#: Copies of A's planes and of the sums where a product has several blocks: 1 or 2. Two let a block
#: be encoded or recombined while the next is multiplied.
BUFFERS = 2
#: Most bytes that cuBLAS gets for its own use.
PRODUCT_SCRATCH = 32 << 20


def padded(extent: int) -> int:
    """Return an extent rounded up to the unit of 16."""
    return -(-extent // UNIT) * UNIT


def aligned(size: int) -> int:
    """Return a number of bytes rounded up to the alignment of an allocation."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Plan:
    """One product: padded extents, block sizes, int32 planes, offsets in bytes.

    `sums` names each int32 plane: (diagonal, first product of it), or (modulus, 0). A's planes and
    the sums exist `buffers` times, `a_bytes` and `sums_bytes` apart, so that one block is encoded
    or recombined while another is multiplied. `spare` bytes may follow `total` for cuBLAS.
    """

    rows: int
    columns: int
    k: int
    padded_k: int
    row_block: int
    column_block: int
    sums: tuple[tuple[int, int], ...]
    buffers: int
    a_offset: int
    a_bytes: int
    b_offset: int
    sums_offset: int
    sums_bytes: int
    total: int
    spare: int

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


def _places(
    setting: Setting, rows: int, columns: int, padded_k: int, sums: int, buffers: int
) -> tuple[int, int, int, int, int, int]:
    """Return the offsets from `a_offset` to `total` of a plan."""
    a_bytes = aligned(setting.planes * rows * padded_k)
    b_offset = buffers * a_bytes
    sums_offset = b_offset + aligned(setting.planes * columns * padded_k)
    sums_bytes = aligned(4 * sums * rows * columns)
    return 0, a_bytes, b_offset, sums_offset, sums_bytes, sums_offset + buffers * sums_bytes


def plan(
    rows: int,
    columns: int,
    k: int,
    setting: Setting,
    workspace: int,
    fused: bool = False,
    buffers: int = 1,
) -> Plan:
    """Return the plan with the largest blocks that the workspace (bytes) holds.

    A fused product has no int32 planes. `buffers` is 2 where a product of several blocks may take
    two, if the workspace holds them.

    Raises
    ------
    BadValue
        Where even blocks of 256 x 256 do not fit.
    """
    padded_k = padded(k)
    sums = () if fused else int32_sums(setting, padded_k)
    column_block = padded(columns)
    most = max(SMALLEST_ROW_BLOCK, padded(BLOCK_OUTPUTS // column_block))
    row_block = min(padded(rows), most, ROW_BLOCK)
    while True:
        block = (setting, row_block, column_block, padded_k, len(sums))
        places = _places(*block, 1)
        if places[-1] <= workspace:
            break
        if max(row_block, column_block) <= SMALLEST_BLOCK:
            raise BadValue(
                f"workspace={workspace} bytes; "
                f"this product needs at least {places[-1]} (blocks of 256 x 256)"
            )
        if row_block >= column_block:
            row_block = padded(max(SMALLEST_BLOCK, row_block // 2))
        else:
            column_block = padded(max(SMALLEST_BLOCK, column_block // 2))
    alone = rows <= row_block and columns <= column_block
    if alone or _places(*block, buffers)[-1] > workspace:
        buffers = 1
    places = _places(*block, buffers)
    spare = min(PRODUCT_SCRATCH, workspace - places[-1]) // ALIGNMENT * ALIGNMENT
    return Plan(rows, columns, k, padded_k, row_block, column_block, sums, buffers, *places, spare)
