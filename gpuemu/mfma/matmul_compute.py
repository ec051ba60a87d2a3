"""A validated whole product, computed: parts of a split k, the epilogue, and pieces of the result
that keep what is needed beside operands and result small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import formats
from ..backends import arrays
from ..errors import Mismatch
from . import matmul_device, matmul_oracle, matmul_sparse
from .matmul_device import Chain, Matrices
from .matmul_epilogue import STEPS, Epilogue
from .matmul_pieces import Cost, Piece, cut, plan

LARGE = 1 << 30  # bytes of operands and result from where on scratch memory counts
SHARE = 16  # of them, one part may be scratch
LEAST = (128, 128)  # rows and columns of the smallest piece


@dataclass(frozen=True)
class Product:
    """A validated call.

    Attributes
    ----------
    chain : Chain
    epilogue : Epilogue
    split_k : int
    lead : tuple of int
        The leading shape of the result.
    """

    chain: Chain
    epilogue: Epilogue
    split_k: int
    lead: tuple[int, ...]

    @property
    def result_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the result."""
        return formats.get(self.epilogue.output or self.chain.instruction.formats["D"]).dtype


def scratch(product: Product, x: dict[str, Any]) -> Cost:
    """Return what a product on a device needs beside its operands, (batch, rows, columns) each,
    and its result.
    """
    i, k = product.chain.instruction, x["B"].shape[1]
    item = np.dtype(product.chain.accumulator).itemsize
    row = column = output = 0
    if i.sparse:
        row += k // 2 * (x["A"].itemsize + 1)
    if i.formats["D"] == "i32":
        # The int8 product of cuBLAS wants k dense in both operands.
        row += k if i.sparse or x["A"].strides[2] != 1 else 0
        column += k if x["B"].strides[1] != 1 else 0
        output += item
    if product.split_k > 1 or not _is_direct(product):
        output += item
    if product.split_k > 1:
        output += item
    if product.epilogue.scales and x["C"] is not None:
        output += item
    if product.epilogue.output:
        output += 2
    return Cost(row, column, output)


def _is_direct(product: Product) -> bool:
    """Tell whether the chain's accumulators are the result."""
    e = product.epilogue
    return product.split_k == 1 and not e.scales and not e.output


def too_large(product: Product, operands: dict[str, Any]) -> bool:
    """Tell whether host arrays and the result outgrow the device's free memory."""
    if any(arrays.kind(x) != "numpy" for x in operands.values() if x is not None):
        return False
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    return needed_bytes(product, operands) > int(0.8 * (free + pool.free_bytes()))


def needed_bytes(product: Product, operands: dict[str, Any]) -> int:
    """Return the bytes of a product's operands and result."""
    shape = (*product.lead, operands["A"].shape[-2], operands["B"].shape[-1])
    outputs = int(np.prod(shape, dtype=np.int64)) * product.result_dtype.itemsize
    return outputs + sum(int(x.nbytes) for x in operands.values() if x is not None)


def compute(product: Product, operands: dict[str, Any], backend: str, *, tuned: bool = True) -> Any:
    """Run a validated product on a resolved backend; returns NumPy, or CuPy from "cuda"."""
    convert = arrays.to_cupy if backend == "cuda" else arrays.to_numpy
    flat: dict[str, Any] = {
        name: None if x is None else flattened(convert(x), product.lead)
        for name, x in operands.items()
    }
    batches, m, n = flat["A"].shape[0], flat["A"].shape[1], flat["B"].shape[2]
    library = _cupy() if backend == "cuda" else np
    result = library.empty((batches, m, n), np.dtype(f"u{product.result_dtype.itemsize}"))
    pieces = [Piece(slice(0, batches), slice(0, m), slice(0, n))]
    total = needed_bytes(product, operands)
    if total > LARGE:
        cost = scratch(product, flat)
        pieces = plan(batches, m, n, cost, max(total // SHARE, cost.of(*LEAST)))
    for piece in pieces:
        _piece(product, cut(flat, piece), backend, tuned, result[piece.place])
    return result.reshape(*product.lead, m, n).view(product.result_dtype)


def _piece(product: Product, flat: dict[str, Any], backend: str, tuned: bool, result: Any) -> None:
    """Write a piece of the result."""
    matrices = Matrices(flat["A"], flat["B"], flat["C"], None, flat["scale_a"], flat["scale_b"])
    if product.chain.instruction.sparse:
        matrices = matmul_sparse.compressed(product.chain, matrices)
    steps = STEPS[backend]
    start = None if product.epilogue.scales else matrices.c
    parts = _parts(product, matrices, start)
    if _is_direct(product):
        _chain(product.chain, parts[0], backend, tuned, result)
        return
    library = _cupy() if backend == "cuda" else np
    total = None
    for part in parts:
        sums = library.empty(result.shape, product.chain.accumulator)
        _chain(product.chain, part, backend, tuned, sums)
        total = sums if total is None else steps.add(product.epilogue, total, sums)
    if product.epilogue.scales:
        c = None if matrices.c is None else library.ascontiguousarray(matrices.c)
        total = steps.scale(product.epilogue, total, c)
    if product.epilogue.output:
        total = steps.round(product.epilogue, total, product.result_dtype)
    result[...] = total


def flattened(x: Any, lead: tuple[int, ...]) -> Any:
    """Return an operand with one batch dimension, copied only where its strides need it."""
    if x.shape[:-2] != lead:
        broadcast = np.broadcast_to if isinstance(x, np.ndarray) else _cupy().broadcast_to
        x = broadcast(x, (*lead, *x.shape[-2:]))
    count = int(np.prod(lead, dtype=np.int64))
    x = x.reshape(count, *x.shape[-2:])
    # Strides are counted in items.
    return x if all(s % x.dtype.itemsize == 0 for s in x.strides) else x.copy()


def _cupy() -> Any:
    import cupy

    return cupy


def _parts(product: Product, x: Matrices, start: Any) -> list[Matrices]:
    """Return the parts of a split k; the last ones may be shorter, and none is empty."""
    i, k = product.chain.instruction, x.b.shape[1]
    instructions = -(-k // i.K)
    length = -(-instructions // product.split_k) * i.K
    parts = []
    for first in range(0, max(k, 1), max(length, 1)):
        stored = i.products * first // i.K, i.products * (first + length) // i.K
        blocks = slice(first // 32, (first + length) // 32)
        parts.append(
            Matrices(
                x.a[:, :, stored[0] : stored[1]],
                x.b[:, first : first + length],
                start if first == 0 else None,
                None if x.chosen is None else x.chosen[:, :, stored[0] : stored[1]],
                None if x.scale_a is None else x.scale_a[:, :, blocks],
                None if x.scale_b is None else x.scale_b[:, blocks],
            )
        )
    return parts


def _chain(chain: Chain, x: Matrices, backend: str, tuned: bool, d: Any) -> None:
    """Write the accumulators after one chain, bits (batch, M, N)."""
    if backend == "cuda":
        matmul_device.run_cuda(chain, x, d, tuned=tuned)
    elif backend == "host":
        matmul_device.run_host(chain, x, d)
    else:
        c = np.zeros(d.shape, chain.accumulator) if x.c is None else x.c.copy()
        scales = None if x.scale_a is None else (x.scale_a, x.scale_b)
        d[...] = matmul_oracle.chain(
            chain.instruction, chain.model, chain.modifiers, x.a, x.b, c, x.chosen, scales
        )


def compare(product: Product, got: Any, want: np.ndarray[Any, Any], backend: str) -> None:
    """Raise `Mismatch` at the first output that differs, with its place and both bit patterns."""
    storage = np.dtype(f"u{want.dtype.itemsize}")
    mine = arrays.to_numpy(got)
    same = mine.view(storage) == want.view(storage)
    if product.chain.instruction.formats["D"] != "i32":
        same |= np.isnan(mine) & np.isnan(want)
    if same.all():
        return
    where = tuple(int(n) for n in np.argwhere(~same)[0])
    i = product.chain.instruction
    width = 2 * storage.itemsize
    codes = [f"{int(x.view(storage)[where]):0{width}X}" for x in (mine, want)]
    raise Mismatch(
        f"matmul by {i.mnemonic} ({i.arch}): {backend} and the oracle differ in "
        f"{int((~same).sum())} of {same.size} outputs; first: {where}: {backend} {codes[0]}, "
        f"oracle {codes[1]}. Repeat with the same matrices: gpuemu.matmul(A, B, C, "
        f"instruction=gpuemu.instruction({i.mnemonic!r}, {i.arch!r}), backend='check')"
    )
