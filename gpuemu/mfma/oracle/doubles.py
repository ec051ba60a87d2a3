"""Register images of f64 as matrices whose wavefronts lie side by side in memory.

NumPy's inner loops are then as long as there are wavefronts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import registers
from ..instructions import Instruction
from ..layouts import LANES
from ..modifiers import Modifiers
from . import scratch

Array = np.ndarray[Any, Any]


def gather(instruction: Instruction, matrix: str, image: Array, m: Modifiers) -> Array:
    """Return a matrix, float64 (blocks * waves, rows, columns), of images (waves, vgprs, 64)."""
    waves, vgprs = image.shape[:2]
    items = scratch.array("items", (vgprs // 2 * LANES, waves, 2), np.uint32)
    for word in range(2):
        items[..., word] = image[:, word::2].reshape(waves, len(items)).T
    table = registers.whole_items(instruction, matrix, m).place
    blocks, rows, columns = instruction.shape(matrix)
    turned = table.reshape(blocks, rows, columns).transpose(2, 1, 0)
    whole = items.view(np.float64)[..., 0]
    found = scratch.array("matrix " + matrix, (columns, rows, blocks, waves))
    whole.take(turned, 0, out=found, mode="wrap")
    if m.neg["ABC".index(matrix)]:
        np.negative(found, out=found)
    return found.reshape(columns, rows, blocks * waves).T


def scatter(instruction: Instruction, D: Array, m: Modifiers) -> Array:
    """Return the images (waves, vgprs, 64) of such a matrix of bits."""
    blocks, rows, columns = instruction.shape("D")
    waves, vgprs = D.shape[0] // blocks, instruction.vgprs["D"]
    table = registers.whole_items(instruction, "D", m).place
    turned = table.reshape(blocks, rows, columns).transpose(2, 1, 0)
    items = scratch.array("items", (vgprs // 2 * LANES, waves), np.uint64)
    items[turned] = D.T.reshape(columns, rows, blocks, waves)
    words = items.view(np.uint32).reshape(vgprs // 2, LANES, waves, 2)
    image = np.empty((waves, vgprs, LANES), np.uint32)
    for word in range(2):
        image[:, word::2] = words[..., word].transpose(2, 0, 1)
    return image
