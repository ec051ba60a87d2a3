"""An instruction and its model as ints: the fields of `Config` in `cuda_src/mfma_config.cuh`."""

from __future__ import annotations

from functools import lru_cache

from .. import formats
from . import layouts
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
USED_BITS, SHIFT = 5, 6  # of an operand's fields

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
        layouts.chunk(instruction, matrix, m),
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
