"""The NumPy oracle: gather, dot, scatter, written to be read.

It works on values, in float64 and in whole numbers held by float64, where `cuda_src` works on bit
fields and machine integers: the two share tables, and no arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import layouts, registers
from ..instructions import Instruction
from ..models import Model
from ..modifiers import Modifiers
from . import aligned, doubles, exact, fma, fma64, integer, pairwise
from .products import Products
from .values import bits64

Array = np.ndarray[Any, Any]

_DOT: dict[str, Callable[..., Array]] = {
    "fma": fma.dot,
    "exact": exact.dot,
    "pairwise": pairwise.dot,
    "aligned": aligned.dot,
    "integer": integer.dot,
}

# Outputs worked on at a time: their intermediate arrays stay in the processor's cache.
CHUNK, CHUNK_FMA = 1 << 15, 1 << 16
WAVES_F64 = 256  # wavefronts at a time: the length of inner loops


def execute(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    a: Array,
    b: Array,
    c: Array,
    idx: Array | None = None,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
) -> Array:
    """Run an instruction on register images, all of one leading shape (waves,).

    Parameters
    ----------
    a, b, c : uint32 array (waves, vgprs, 64)
    idx, scale_a, scale_b : uint32 array (waves, 1, 64), optional

    Returns
    -------
    uint32 array (waves, vgprs, 64)
    """
    if model.output == "f64":
        return _execute_f64(instruction, m, a, b, c)
    waves = a.shape[0]
    chunk = CHUNK_FMA if model.algorithm == "fma" else CHUNK
    step = max(1, chunk // (instruction.M * instruction.N * instruction.blocks))
    d = np.empty((waves, instruction.vgprs["D"], layouts.LANES), np.uint32)
    for first in range(0, waves, step):
        part = slice(first, first + step)
        A = registers.gather(instruction, "A", a[part], m)
        B = registers.gather(instruction, "B", b[part], m)
        C = registers.gather(instruction, "C", c[part], m)
        chosen = None if idx is None else dense_columns(instruction, idx[part], m)
        scales = None
        if scale_a is not None and scale_b is not None:
            scales = scale_codes(scale_a[part], scale_b[part], instruction, m)
        D = matrix_dot(instruction, model, m, A, B, C, chosen, scales)
        d[part] = registers.scatter(instruction, "D", D, m)
    return d


def _execute_f64(instruction: Instruction, m: Modifiers, a: Array, b: Array, c: Array) -> Array:
    """Run an f64 instruction, whose only model is "fma"."""
    d = np.empty((len(a), instruction.vgprs["D"], layouts.LANES), np.uint32)
    for first in range(0, len(a), WAVES_F64):
        part = slice(first, first + WAVES_F64)
        images = (("A", a[part]), ("B", b[part]), ("C", c[part]))
        with np.errstate(all="ignore"):
            D = fma64.chain(*(doubles.gather(instruction, name, x, m) for name, x in images))
        d[part] = doubles.scatter(instruction, bits64(D), m)
    return d


def matrix_dot(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    A: Array,
    B: Array,
    C: Array,
    chosen: Array | None = None,
    scales: tuple[Array, Array] | None = None,
) -> Array:
    """Run an instruction on the bits of matrices.

    Parameters
    ----------
    A : unsigned array (waves, blocks, M, products)
    B : unsigned array (waves, blocks, K, N)
    C : unsigned array (waves, blocks, M, N)
    chosen : int array (waves, blocks, M, products), optional
        The dense column of every stored product, of a sparse instruction.
    scales : two uint8 arrays (waves, M, K/32) and (waves, K/32, N), optional
    """
    fa = instruction.operand_format("A", m.cbsz, m.blgp)
    fb = instruction.operand_format("B", m.cbsz, m.blgp)
    if any(m.neg):
        A, B, C = (negate(x) if flag else x for x, flag in zip((A, B, C), m.neg, strict=True))
    waves, blocks = A.shape[:2]
    A, B, C = (x.reshape(waves * blocks, *x.shape[2:]) for x in (A, B, C))
    stored = None if chosen is None else chosen.reshape(A.shape)
    products = Products(A, B, stored, model.dense_grouping)
    D: Array = _DOT[model.algorithm](model, fa, fb, products, C, scales)
    return D.reshape(waves, blocks, *D.shape[1:])


def negate(bits: Array) -> Array:
    """Return f64 bits with their signs flipped."""
    return bits ^ np.uint64(1 << 63)


def dense_columns(instruction: Instruction, idx: Array, m: Modifiers) -> Array:
    """Return the dense column (waves, 1, M, K/2) that each stored item of A multiplies."""
    where = layouts.layout(instruction, "K", cbsz=m.cbsz, abid=m.abid, legality="llvm")[:, :, ::2]
    stored = np.arange(instruction.products)
    lanes, first = where[..., 1], where[..., 2]
    # Two stored items share a group's four bits: the first has the low two.
    lanes, first = lanes[..., stored // 2 * 2], first[..., stored // 2 * 2] + 2 * (stored % 2)
    fields = idx[:, 0, lanes] >> first.astype(np.uint32) & np.uint32(3)
    return stored // 2 * 4 + fields.astype(np.int64)


def scale_codes(
    scale_a: Array, scale_b: Array, instruction: Instruction, m: Modifiers
) -> tuple[Array, Array]:
    """Return the E8M0 codes (waves, M, K/32) of A's rows and (waves, K/32, N) of B's columns."""
    codes = []
    for matrix, image in (("SCALE_A", scale_a), ("SCALE_B", scale_b)):
        where = layouts.layout(instruction, matrix, cbsz=m.cbsz, blgp=m.blgp, op_sel=m.op_sel)[0]
        codes.append(
            (image[:, 0, where[..., 1]] >> where[..., 2].astype(np.uint32)).astype(np.uint8)
        )
    return codes[0], codes[1]
