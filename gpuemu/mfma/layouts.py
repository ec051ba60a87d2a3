"""Where every matrix element lies in the registers.

A layout is an int array (blocks, rows, columns, 4): the VGPR, the lane, the first bit in that VGPR,
and the width in bits. Items are packed little-endian; 64-bit items take two VGPRs, low word first,
and 6-bit items may straddle two.

Sources: CDNA3 guide 7.1.4 and CDNA4 guide 7.1.4, 7.1.5, 7.5.1, AMD's matrix instruction calculator.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadValue
from . import modifiers as mods
from .instructions import Instruction, check_matrix

LANES = 64

Array = np.ndarray[Any, Any]


def source_lanes_a(instruction: Instruction, m: mods.Modifiers) -> Array:
    """Return, for each lane, the lane whose A registers it uses under cbsz and abid."""
    lane = np.arange(LANES)
    if instruction.kind != "mfma" or (m.cbsz == 0 and m.abid == 0):
        return lane
    if m.broadcast == "lane_block":
        span = LANES >> m.cbsz
        return (lane % span + span * m.abid) % LANES
    block = lane // instruction.M % instruction.blocks
    source = ((block >> m.cbsz << m.cbsz) + m.abid) % instruction.blocks
    return lane + instruction.M * (source - block)


def source_lanes_b(instruction: Instruction, m: mods.Modifiers) -> Array:
    """Return, for each lane, the lane whose B registers it uses under blgp."""
    lane = np.arange(LANES)
    if instruction.modifiers.blgp == "format" or m.blgp == 0:
        return lane
    patterns = {1: lane % 32, 2: lane % 32 + 32, 3: (lane + 16) % LANES}
    return patterns.get(m.blgp, lane % 16 + 16 * (m.blgp - 4))


def chunk(instruction: Instruction, matrix: str, m: mods.Modifiers) -> int:
    """Return how many neighbours along k a lane holds before the next lane group takes over."""
    rows = instruction.M if matrix == "A" else instruction.N
    columns = instruction.products if matrix == "A" else instruction.K
    per_lane = columns * rows * instruction.blocks // LANES
    if instruction.formats[matrix] == "f8f6f4":
        return 16 if instruction.operand_format(matrix, m.cbsz, m.blgp).bits == 8 else per_lane
    # The wide sparse instructions of gfx950 hold their k in two halves, each laid out as on gfx942.
    if instruction.sparse and instruction.vgprs["A"] == 4:
        return per_lane // 2
    return per_lane


def _place(instruction: Instruction, matrix: str, m: mods.Modifiers) -> tuple[Array, Array]:
    """Return (lane, item) of every (block, row, k) of A or of every (block, k, column) of B."""
    rows = instruction.M if matrix == "A" else instruction.N
    columns = instruction.products if matrix == "A" else instruction.K
    block, row, k = np.meshgrid(
        np.arange(instruction.blocks), np.arange(rows), np.arange(columns), indexing="ij"
    )
    groups = LANES // (rows * instruction.blocks)
    size = chunk(instruction, matrix, m)
    number = k // size
    lane = row + rows * (block + instruction.blocks * (number % groups))
    item = number // groups * size + k % size
    if matrix == "B":
        lane, item = lane.transpose(0, 2, 1), item.transpose(0, 2, 1)
    return lane, item


def _operand_layout(instruction: Instruction, matrix: str, m: mods.Modifiers) -> Array:
    lane, item = _place(instruction, matrix, m)
    source = source_lanes_a(instruction, m) if matrix == "A" else source_lanes_b(instruction, m)
    bits = instruction.operand_format(matrix, m.cbsz, m.blgp).bits
    first = item * bits
    return np.stack([first // 32, source[lane], first % 32, np.full_like(first, bits)], axis=-1)


def _result_layout(instruction: Instruction, m: mods.Modifiers) -> Array:
    M, N, blocks = instruction.M, instruction.N, instruction.blocks
    b, i, j = np.meshgrid(np.arange(blocks), np.arange(M), np.arange(N), indexing="ij")
    if instruction.formats["D"] == "f64":
        if blocks == 1:
            item, lane = i // 4, 16 * (i % 4) + j
        elif m.output_layout == "formula":
            item, lane = np.zeros_like(i), 4 * i + 16 * b + j
        else:
            item, lane = np.zeros_like(i), 16 * i + 4 * b + j
        return np.stack([2 * item, lane, np.zeros_like(i), np.full_like(i, 64)], axis=-1)
    # Rows come in fours; blocks, then fours of rows, fill the lanes, the rest goes to further
    # registers.
    lane_blocks = -(-LANES // (N * M // 4))
    lane_rows = LANES // lane_blocks // N
    groups = M // (4 * lane_rows)
    item = i % 4 + 4 * (i // (4 * lane_rows) + groups * (b // lane_blocks))
    lane = j + N * (i // 4 % lane_rows + lane_rows * (b % lane_blocks))
    return np.stack([item, lane, np.zeros_like(i), np.full_like(i, 32)], axis=-1)


def _pair_layout(stored: Array) -> Array:
    """Spread the layout of stored items over the four dense columns that each pair serves."""
    pairs = stored[:, :, ::2].copy()
    pairs[..., 3] *= 2
    return np.repeat(pairs, 4, axis=2)


def _index_layout(instruction: Instruction, m: mods.Modifiers) -> Array:
    """Return where the index fields lie: for every dense column of A, the 4 bits of its group."""
    lane, item = _place(instruction, "A", m)
    first = m.index_set(instruction) * instruction.modifiers.index_bits + 2 * item
    stored = np.stack([np.zeros_like(item), lane, first, np.full_like(item, 2)], axis=-1)
    return _pair_layout(stored)


def _scale_layout(instruction: Instruction, matrix: str, m: mods.Modifiers) -> Array:
    rows = instruction.M if matrix == "SCALE_A" else instruction.N
    byte = m.op_sel[0 if matrix == "SCALE_A" else 1]
    row, block = np.meshgrid(np.arange(rows), np.arange(instruction.K // 32), indexing="ij")
    parts = [
        np.zeros_like(row),
        row + rows * block,
        np.full_like(row, 8 * byte),
        np.full_like(row, 8),
    ]
    found = np.stack(parts, axis=-1)[None]
    return found if matrix == "SCALE_A" else found.transpose(0, 2, 1, 3)


@lru_cache(maxsize=4096)
def stored_layout(instruction: Instruction, matrix: str, m: mods.Modifiers) -> Array:
    """Return the layout of a matrix under checked modifiers; of a sparse A as it is stored."""
    if matrix in ("C", "D"):
        found = _result_layout(instruction, m)
    elif matrix == "K":
        found = _index_layout(instruction, m)
    elif matrix in ("SCALE_A", "SCALE_B"):
        found = _scale_layout(instruction, matrix, m)
    else:
        found = _operand_layout(instruction, matrix, m)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=4096)
def _dense_layout(instruction: Instruction, m: mods.Modifiers) -> Array:
    found = _pair_layout(stored_layout(instruction, "A", m))
    found.flags.writeable = False
    return found


def layout(instruction: Instruction, matrix: str, **modifiers: Any) -> Array:
    """Return where every element of a matrix lies in the registers.

    Parameters
    ----------
    instruction : Instruction
    matrix : str
        "A", "B", "C" or "D"; "K", the index fields of a sparse instruction; "SCALE_A" or "SCALE_B".
    **modifiers
        cbsz, abid, blgp, op_sel, legality, broadcast, output_layout; see `modifiers.check`.

    Returns
    -------
    int array (blocks, rows, columns, 4)
        VGPR, lane, first bit, bits. A of a sparse instruction has its K dense columns: each of a
        group of four names the two stored items of that group. Read-only.

    >>> from gpuemu.mfma.instructions import instruction
    >>> layout(instruction("v_mfma_f32_32x32x8_f16", "gfx942"), "D")[0, 12, 0].tolist()
    [4, 32, 0, 32]
    """
    m = mods.check(instruction, **modifiers)
    if matrix == "K" and not instruction.sparse:
        raise BadValue(
            f"matrix 'K' (index fields) exists on sparse instructions only, "
            f"not on {instruction.mnemonic}"
        )
    if matrix in ("SCALE_A", "SCALE_B"):
        if instruction.kind != "mfma_scale":
            raise BadValue(
                f"matrix {matrix!r} exists on mfma_scale instructions only, "
                f"not on {instruction.mnemonic}"
            )
        return stored_layout(instruction, matrix, m)
    if matrix == "A" and instruction.sparse:
        return _dense_layout(instruction, m)
    return stored_layout(instruction, matrix if matrix == "K" else check_matrix(matrix), m)
