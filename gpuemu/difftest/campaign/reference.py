"""The device reference: a second implementation of the instructions (`cuda_src/reference.cuh`).

It computes one output at a time from tables of where every matrix element lies, in double
arithmetic, and shares no code with the kernels that it checks. It runs on the device, or in the
host build where there is none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...backends import cuda, host
from ...formats import Format
from ...mfma.instructions import Instruction
from ...mfma.layouts import LANES
from ...mfma.models import Model
from ...mfma.models import models as known_models
from ...mfma.modifiers import Modifiers
from ..images import Images, stored_layout
from ..streams import Array, namespace

NAME = "reference"
SOURCE = "reference.cu"
KERNEL = "reference_outputs"
THREADS = 256

# In the order of the enumerations of reference.cuh.
_NANS = ("ieee", "all-ones", "negative-zero", "none")
_ALGORITHMS = ("fma", "fma64", "exact", "pairwise", "aligned", "integer")
_ROUNDINGS = ("zero", "down", "up", "nearest")

OPERANDS = ("a", "b", "c", "idx", "scale_a", "scale_b")
TABLES = ("A", "B", "D", "K", "SCALE_A", "SCALE_B")


def _format(fmt: Format, model: Model) -> list[int]:
    cut = 0 if model.input_bits is None else max(fmt.mantissa_bits - model.input_bits, 0)
    return [
        fmt.bits,
        fmt.exponent_bits,
        fmt.mantissa_bits,
        fmt.bias,
        int(fmt.infinities),
        _NANS.index(fmt.nan),
        cut,
    ]


def _model(i: Instruction, model: Model) -> list[int]:
    dense = model.dense_grouping and i.sparse
    group = max(model.group // 2, 1) if dense else model.group
    return [
        _ALGORITHMS.index("fma64" if model.output == "f64" else model.algorithm),
        min(group, i.products),
        model.interleave,
        model.product_bits,
        _ROUNDINGS.index(model.product_rounding),
        _ROUNDINGS.index(model.merge_rounding),
        model.sum_bits,
        _ROUNDINGS.index(model.sum_rounding),
        model.accumulator_bits,
        _ROUNDINGS.index(model.accumulator_rounding),
        int(model.drop_tiny_accumulator),
        model.result_bits,
        _ROUNDINGS.index(model.result_rounding),
        _ROUNDINGS.index(model.output_rounding),
        int(model.product_overflow),
        int(model.flush_inputs),
        int(model.flush_outputs),
        int(dense),
    ]


@lru_cache(maxsize=8192)
def fields(i: Instruction, m: Modifiers, model: Model) -> Array:
    """Return the numbers of `reference::Call` after its pointers and `waves`, int64."""
    a, b = (i.operand_format(x, m.cbsz, m.blgp) for x in ("A", "B"))
    words = [i.operand_vgprs(x, m.cbsz, m.blgp) * LANES for x in ("A", "B", "D")]
    negate = m.neg[0] | m.neg[1] << 1 | m.neg[2] << 2
    numbers = [i.blocks, i.M, i.N, i.K, i.products, *words]
    numbers += [int(i.sparse), int(i.kind == "mfma_scale"), negate]
    return np.array([*numbers, *_format(a, model), *_format(b, model), *_model(i, model)], np.int64)


# The modifiers that move the elements of a matrix; the others leave its table as it is.
MOVED_BY = {
    "A": ("cbsz", "abid", "broadcast"),
    "B": ("blgp",),
    "D": ("output_layout",),
    "K": ("cbsz", "abid"),
    "SCALE_A": ("op_sel",),
    "SCALE_B": ("op_sel",),
}


def _moving(i: Instruction, m: Modifiers, matrix: str) -> Modifiers:
    """Return the modifiers that a table depends on, the others at their defaults."""
    names = MOVED_BY[matrix]
    if i.modifiers.cbsz == "format" and matrix in ("A", "B"):
        names = ("cbsz", "blgp")  # the formats of A and B
    return Modifiers(**{name: getattr(m, name) for name in names})


@lru_cache(maxsize=8192)
def _table(i: Instruction, m: Modifiers, matrix: str) -> Array:
    where = stored_layout(i, matrix, **{**vars(m), "legality": "llvm"}).reshape(-1, 4)
    word = where[:, 0] * LANES + where[:, 1]
    return (word << 8 | where[:, 2]).astype(np.uint32)


@lru_cache(maxsize=8192)
def _table_on_device(_device: int, i: Instruction, m: Modifiers, matrix: str) -> Any:
    import cupy

    return cupy.asarray(_table(i, m, matrix))


@lru_cache(maxsize=8192)
def tables(i: Instruction, m: Modifiers, device: int | None = None) -> tuple[Any, ...]:
    """Return where the elements of the matrices of `TABLES` lie, uint32 arrays: word << 8 | first
    bit; None for what the instruction has not. With a device's number they lie on that device.
    """
    scaled = i.kind == "mfma_scale"
    has = {"A": True, "B": True, "D": True, "K": i.sparse, "SCALE_A": scaled, "SCALE_B": scaled}

    def table(matrix: str) -> Any:
        moving = _moving(i, m, matrix)
        if device is None:
            return _table(i, moving, matrix)
        return _table_on_device(device, i, moving, matrix)

    return tuple(table(matrix) if has[matrix] else None for matrix in TABLES)


def run(i: Instruction, images: Images, m: Modifiers, model: Model | None = None) -> Any:
    """Return D, uint32 (n, vgprs, 64), of the library of the images.

    Parameters
    ----------
    i : Instruction
    images : dict of name to uint32 array (n, vgprs, 64), dense
        CuPy arrays run on their device, NumPy arrays in the host build.
    m : Modifiers
    model : Model, optional
        In place of the instruction's own.
    """
    xp = namespace(images["a"])
    known = model or known_models()[i.model]
    given = [xp.ascontiguousarray(images[x]) if x in images else None for x in OPERANDS]
    waves = len(images["a"])
    d = xp.zeros((waves, i.vgprs["D"], LANES), np.uint32)
    numbers = fields(i, m, known)
    if xp is np:
        pointers = [0 if x is None else x.ctypes.data for x in (*given, d, *tables(i, m))]
        call = _call(pointers, waves, numbers)
        host.library("reference").gpuemu_reference(ctypes.c_void_p(call.ctypes.data))
        return d
    places = tables(i, m, images["a"].device.id)
    call = _call([0 if x is None else x.data.ptr for x in (*given, d, *places)], waves, numbers)
    blocks = -(-waves * i.blocks * i.M * i.N // THREADS)
    cuda.kernel(SOURCE, KERNEL)((blocks,), (THREADS,), (cuda.as_struct(call),))
    return d


def _call(pointers: Sequence[int], waves: int, numbers: Array) -> Array:
    return np.concatenate([np.array([*pointers, waves], np.int64), numbers])


def on_this_machine(i: Instruction, images: Images, m: Modifiers) -> Any:
    """Return D of NumPy images, computed on the device where there is one, else in the host
    build.
    """
    if not cuda.available():
        return run(i, images, m)
    import cupy

    return run(i, {name: cupy.asarray(x) for name, x in images.items()}, m).get()


def require() -> None:
    """Raise `BackendUnavailable` where neither a device nor a compiler is there."""
    if not cuda.available():
        host.require()
