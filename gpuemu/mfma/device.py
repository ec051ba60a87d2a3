"""The device side: a call as ints, run by CUDA or by the host build of the same headers.

The ints are those that `cuda_src/mfma_config.cuh` and `mfma_batch.cuh` read.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import formats
from ..backends import cuda, host
from ..errors import BadValue
from . import registers
from .instructions import Instruction
from .models import Model
from .modifiers import Modifiers

ALGORITHMS = {
    ("fma", "f32"): 0,
    ("fma", "f64"): 1,
    "exact": 2,
    "pairwise": 3,
    "aligned": 4,
    "integer": 5,
}
TYPES = ("Fma32", "Fma64", "Exact", "Pairwise", "Aligned", "Integer")
ROUNDINGS = {"zero": 0, "down": 1, "up": 2, "nearest": 3}
NAN_CODES = {"ieee": 0, "all-ones": 1, "negative-zero": 2, "none": 3}

CHAIN = 8  # products that a chain takes at a time
SHARED_MEMORY = 48 * 1024  # bytes a block may take without asking
USED_BITS, SHIFT = 5, 6  # of an operand's fields
OPERANDS = ("a", "b", "c", "idx", "scale_a", "scale_b")


@dataclass(frozen=True)
class Operands:
    """Register images of one leading shape and one library; idx and scales may be missing."""

    a: Any
    b: Any
    c: Any
    idx: Any = None
    scale_a: Any = None
    scale_b: Any = None


def _operand_fields(instruction: Instruction, matrix: str, model: Model, m: Modifiers) -> list[int]:
    fmt: formats.Format = instruction.operand_format(matrix, m.cbsz, m.blgp)
    used = (
        fmt.mantissa_bits if model.input_bits is None else min(model.input_bits, fmt.mantissa_bits)
    )
    vgprs = instruction.operand_vgprs(matrix, m.cbsz, m.blgp)
    return [
        fmt.bits,
        fmt.exponent_bits,
        fmt.mantissa_bits,
        fmt.bias,
        NAN_CODES[fmt.nan],
        used,
        0,
        vgprs,
        vgprs * 32 // fmt.bits,
        registers.chunk(instruction, matrix, m),
    ]


@lru_cache(maxsize=1024)
def config(instruction: Instruction, model: Model, m: Modifiers) -> tuple[int, ...]:
    """Return the fields of `Config`, in its order."""
    a = _operand_fields(instruction, "A", model, m)
    b = _operand_fields(instruction, "B", model, m)
    algorithm = ALGORITHMS.get(model.algorithm)
    if algorithm is None:
        algorithm = ALGORITHMS[model.algorithm, model.output]
    dense_grouping = model.dense_grouping and instruction.sparse
    length = max(model.group // 2, 1) if dense_grouping else model.group
    if model.algorithm in ("fma", "integer"):
        length = CHAIN  # a chain of any link length has the same bits
    group = min(length, instruction.products)
    fraction = a[USED_BITS] + b[USED_BITS]
    # Products of one partial sum; dealt out by dense k, they may all go to the same.
    terms = group if dense_grouping else group // model.interleave
    narrow = (
        model.algorithm == "aligned"
        and model.product_rounding == "zero"
        and fraction + 2 <= 31
        and model.product_bits + 2 + (terms - 1).bit_length() <= 31
    )
    if narrow:
        b[SHIFT] = max(model.product_bits - fraction, 0)
    # Products of narrow formats and their sums are multiples of a unit far above 2**-126: no step
    # of a pairwise sum is subnormal unless the accumulator was.
    formats_ab = [instruction.operand_format(matrix, m.cbsz, m.blgp) for matrix in ("A", "B")]
    unit = sum(fmt.emin - fmt.mantissa_bits for fmt in formats_ab)
    never_subnormal = model.algorithm == "pairwise" and model.flush_inputs and unit >= -100
    return (
        algorithm,
        instruction.M,
        instruction.N,
        instruction.K,
        instruction.blocks,
        instruction.products,
        instruction.vgprs["D"],
        int(instruction.sparse),
        instruction.modifiers.index_bits,
        int(instruction.kind == "mfma_scale"),
        *a,
        *b,
        group,
        int(dense_grouping),
        model.interleave,
        int(narrow),
        model.product_bits,
        ROUNDINGS[model.product_rounding],
        ROUNDINGS[model.merge_rounding],
        model.sum_bits,
        ROUNDINGS[model.sum_rounding],
        model.accumulator_bits,
        ROUNDINGS[model.accumulator_rounding],
        model.result_bits,
        ROUNDINGS[model.result_rounding],
        ROUNDINGS[model.output_rounding],
        int(model.drop_tiny_accumulator),
        int(model.product_overflow),
        int(model.flush_inputs),
        int(model.flush_outputs and not never_subnormal),
    )


def kernel_modifiers(instruction: Instruction, m: Modifiers) -> tuple[int, ...]:
    """Return the modifier fields of `Batch`: only what moves lanes, negates, or selects."""
    dense = instruction.kind == "mfma"
    neg = m.neg[0] | m.neg[1] << 1 | m.neg[2] << 2
    return (
        m.cbsz if dense else 0,
        m.abid if dense else 0,
        m.blgp if dense else 0,
        int(dense and m.broadcast == "lane_block"),
        neg,
        m.index_set(instruction),
        *m.op_sel,
        int(m.output_layout == "formula"),
    )


def _collapse(
    shape: tuple[int, ...], strides: list[tuple[int, ...]]
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Merge neighbouring batch dimensions where every operand's strides allow.

    Returns a list of (size, stride of each operand), outermost first; None where over two remain.
    """
    merged: list[tuple[int, tuple[int, ...]]] = []
    for axis in reversed(range(len(shape))):
        step = tuple(s[axis] for s in strides)
        if shape[axis] == 1:
            continue
        if merged:
            size, inner = merged[-1]
            if all(outer == size * i for outer, i in zip(step, inner, strict=True)):
                merged[-1] = (size * shape[axis], inner)
                continue
        merged.append((shape[axis], step))
    return merged[::-1] if len(merged) <= 2 else None


def _batch(
    instruction: Instruction, m: Modifiers, operands: list[Any], lead: tuple[int, ...]
) -> np.ndarray[Any, Any] | None:
    """Return the fields of `Batch` as int64; None where strides need over two batch dimensions."""
    rank = len(lead)
    batch_strides, image_strides = [], []
    for x in operands:
        if x is None:
            batch_strides.append((0,) * rank)
            image_strides.append((registers.LANES, 1))
            continue
        words = tuple(step // 4 for step in x.strides)
        missing = (0,) * (rank - (x.ndim - 2))
        own = tuple(
            0 if size == 1 else step for size, step in zip(x.shape[:-2], words, strict=False)
        )
        batch_strides.append(missing + own)
        image_strides.append(words[-2:])
    dims = _collapse(lead, batch_strides)
    if dims is None:
        return None
    none = (0,) * len(operands)
    (_, outer), (inner_size, inner) = ([(1, none)] * 2 + dims)[-2:]
    places = [v for n in range(len(operands)) for v in (outer[n], inner[n], *image_strides[n])]
    return np.array(
        [math.prod(lead), inner_size, *places, *kernel_modifiers(instruction, m)], np.int64
    )


def _is_dense(batch: np.ndarray[Any, Any]) -> bool:
    """Tell whether every image is (vgprs, 64) without gaps and the batch has one dimension."""
    places = batch[2 : 2 + 4 * len(OPERANDS)].reshape(-1, 4)
    return bool(
        batch[0] == batch[1]
        and (places[:, 2] == registers.LANES).all()
        and (places[:, 3] == 1).all()
    )


def _prepare(
    instruction: Instruction, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Return the operands, copied only where their strides have no expression, and the batch."""
    found = [getattr(operands, name) for name in OPERANDS]
    for n, x in enumerate(found):
        if x is not None and any(s % 4 for s in x.strides):
            found[n] = x.copy()
    batch = _batch(instruction, m, found, lead)
    if batch is None:
        found = [x if x is None or x.ndim == 2 else _contiguous(x, lead) for x in found]
        batch = _batch(instruction, m, found, lead)
        assert batch is not None
    return found, batch


def _contiguous(x: Any, lead: tuple[int, ...]) -> Any:
    """Return an operand as a dense array of the whole leading shape."""
    target = np.broadcast_to if isinstance(x, np.ndarray) else _cupy().broadcast_to
    return target(x, (*lead, *x.shape[-2:])).copy()


def _cupy() -> Any:
    import cupy

    return cupy


def current() -> int:
    """Return the number of the current device."""
    found: int = _cupy().cuda.runtime.getDevice()
    return found


def value_bytes(algorithm: int) -> int:
    """Return the bytes of one decoded item in a wavefront's shared memory."""
    return {0: 4, 1: 8, 2: 8, 3: 4, 4: 8, 5: 4}[algorithm]


def wave_bytes(instruction: Instruction, algorithm: int) -> int:
    """Return the shared memory of a wavefront, as `Wave::bytes` counts it."""
    size = value_bytes(algorithm)
    pad = 16 // size
    stride = instruction.products + (pad if instruction.products >= 2 * pad else 0)
    items = instruction.blocks * (instruction.M * stride + instruction.K * instruction.N)
    dense = instruction.M * instruction.products if instruction.sparse else 0
    return (items * size + dense + 15) // 16 * 16


@dataclass(frozen=True)
class KernelSource:
    """What specialises a register-level kernel, and how it is launched.

    Attributes
    ----------
    source : str
        The file of `cuda_src`.
    defines : dict
        Preprocessor definitions.
    waves : int
        Wavefronts of a block.
    threads : int
        Threads of a wavefront.
    shared : int
        Bytes of shared memory of a block.
    """

    source: str
    defines: dict[str, int | str]
    waves: int
    threads: int
    shared: int


def kernel_source(
    instruction: Instruction, model: Model, m: Modifiers, dense: bool = True
) -> KernelSource:
    """Return the register-level kernel of an instruction and a model.

    f64 and dense i8 run on the tensor cores, which compute the same bits; the rest runs lane by
    lane. `dense` says that every register image is (vgprs, 64) without gaps and the batch has one
    dimension.
    """
    fields = config(instruction, model, m)
    defines: dict[str, int | str] = {"GPUEMU_CONFIG": ",".join(map(str, fields))}
    if dense:
        defines["GPUEMU_DENSE"] = 1
    name = TYPES[fields[0]]
    if name == "Fma64" or (name == "Integer" and not instruction.sparse):
        return KernelSource("mfma_tensor.cu", defines | {"WAVES": 8}, 8, 32, 0)
    size = wave_bytes(instruction, fields[0])
    waves = max(1, min(4, SHARED_MEMORY // size))
    if name == "Aligned":
        name = "Aligned<i32>" if fields[CONFIG_FIELDS.index("narrow")] else "Aligned<i64>"
    defines |= {"ALGORITHM": name, "WAVES": waves}
    return KernelSource("mfma.cu", defines, waves, registers.LANES, waves * size)


OPERAND_FIELDS = [
    *["bits", "exponent_bits", "mantissa_bits", "bias", "nan"],
    *["used_bits", "shift", "vgprs", "items", "chunk"],
]
CONFIG_FIELDS = [
    *["algorithm", "m", "n", "k", "blocks", "products", "d_vgprs"],
    *["sparse", "index_bits", "scaled"],
    *(f"a.{name}" for name in OPERAND_FIELDS),
    *(f"b.{name}" for name in OPERAND_FIELDS),
    *["group", "dense_grouping", "interleave", "narrow"],
    *["product_bits", "product_rounding", "merge_rounding", "sum_bits", "sum_rounding"],
    *["accumulator_bits", "accumulator_rounding", "result_bits", "result_rounding"],
    *["output_rounding", "drop_tiny", "product_overflow", "flush_inputs", "flush_outputs"],
]


def kernel_shape(instruction: Instruction, m: Modifiers) -> Modifiers:
    """Return the modifiers that change a kernel's shape (formats of f8f6f4), the rest default."""
    if instruction.modifiers.cbsz == "format":
        return Modifiers(cbsz=m.cbsz, blgp=m.blgp)
    return Modifiers()


@dataclass(frozen=True)
class Launch:
    """A kernel with everything of a call but the addresses of its operands.

    Attributes
    ----------
    kernel : cuda.Kernel
    blocks, threads, shared : int
        Grid, block, and bytes of shared memory.
    call : int64 array
        The fields of `Call`; the addresses at its end are still zero.
    shape : tuple of int
        Of D.
    """

    kernel: cuda.Kernel
    blocks: int
    threads: int
    shared: int
    call: np.ndarray[Any, Any]
    shape: tuple[int, ...]

    def arguments(self, operands: Sequence[Any], d: Any) -> tuple[Any, ...]:
        """Return the kernel's arguments for operands in the order of `OPERANDS`, and D."""
        call = self.call.copy()
        call[-1 - len(OPERANDS) :] = [0 if x is None else x.data.ptr for x in (*operands, d)]
        return (cuda.as_struct(call),)

    def __call__(self, operands: Sequence[Any], d: Any = None) -> Any:
        """Run on the current stream; return D, made where none is given."""
        if d is None:
            d = _cupy().empty(self.shape, np.uint32)
        self.kernel((self.blocks,), (self.threads,), self.arguments(operands, d), self.shared)
        return d


_launches: dict[tuple[Any, ...], Launch] = {}
LAUNCHES = 4096  # remembered ones; then all are forgotten


def _launch(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    batch: np.ndarray[Any, Any],
    lead: tuple[int, ...],
) -> Launch:
    made = kernel_source(instruction, model, kernel_shape(instruction, m), _is_dense(batch))
    waves = int(batch[0])
    blocks = -(-waves // made.waves)
    if blocks > 0x7FFFFFFF:
        raise BadValue(f"{waves} wavefronts in one call; legal: at most {0x7FFFFFFF * made.waves}")
    kernel = cuda.kernel(made.source, "mfma", made.defines)
    call = np.concatenate([batch, np.zeros(len(OPERANDS) + 1, np.int64)])
    shape = (*lead, instruction.vgprs["D"], registers.LANES)
    return Launch(kernel, blocks, made.waves * made.threads, made.shared, call, shape)


def _places(operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(None if x is None else (x.shape, x.strides) for x in operands)


def prepare_cuda(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> tuple[Launch, list[Any]]:
    """Return the launch of a batch on the current device, and its operands, copied if they must be.

    Launches are remembered by everything but addresses. The batch is not empty.
    """
    found = [getattr(operands, name) for name in OPERANDS]
    places = _places(found)
    key = (instruction, model, m, lead, places, current())
    launch = _launches.get(key)
    if launch is None:
        found, batch = _prepare(instruction, m, operands, lead)
        launch = _launch(instruction, model, m, batch, lead)
        if places == _places(found):
            if len(_launches) >= LAUNCHES:
                _launches.clear()
            _launches[key] = launch
    return launch, found


def run_cuda(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> Any:
    """Run a batch on the current device and stream: CuPy uint32, out as (*lead, vgprs, 64)."""
    if 0 in lead:
        return _cupy().empty((*lead, instruction.vgprs["D"], registers.LANES), np.uint32)
    launch, found = prepare_cuda(instruction, model, m, operands, lead)
    return launch(found)


def run_host(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Run a batch in the host build; NumPy uint32 in, NumPy uint32 (*lead, vgprs, 64) out."""
    found, batch = _prepare(instruction, m, operands, lead)
    d = np.empty((*lead, instruction.vgprs["D"], registers.LANES), np.uint32)
    fields = np.array(config(instruction, model, m), np.int32)
    pointers = np.array([0 if x is None else x.ctypes.data for x in found], np.uint64)
    host.library("mfma").gpuemu_mfma(
        *(ctypes.c_void_p(x.ctypes.data) for x in (fields, batch, pointers, d))
    )
    return d
