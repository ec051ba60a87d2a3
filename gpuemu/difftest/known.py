"""The arithmetic that a unit may turn out to have: our models, and NVIDIA's tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GpuemuError
from ..gemm.arithmetic import Arithmetic
from ..gemm.elements import ELEMENTS, Element
from ..gemm.instructions import FP8, TENSOR_CORES, TensorCore, tensor_core
from ..gemm.oracle import fused
from ..mfma import execute, models
from ..mfma.instructions import Instruction
from .images import Images

Array = np.ndarray[Any, Any]
Types = tuple[Element, Element, Element]

WIDE = ("f16", "bf16", "xf32")
TF32_MASK = np.uint32(0xFFFFE000)  # the 10 mantissa bits that the multiplier reads


@dataclass(frozen=True)
class TensorCoreModel:
    """How one generation of tensor cores adds up a `mma` of some input formats.

    Attributes
    ----------
    name : str
    formats : tuple of str
        Of A and B.
    core : TensorCore
        Its row of published facts.
    """

    name: str
    formats: tuple[str, ...]
    core: TensorCore

    def __call__(self, A: Array, B: Array, C: Array, types: Types) -> Array:
        """Return D (M, N) as float64."""
        group = self.core.group_bytes // types[0].bytes
        how = Arithmetic(
            "fused",
            group=group,
            fraction=self.core.fraction,
            zero_exponent=self.core.zero_exponent_f32,
            output_fraction=self.core.output_fraction,
            through_f16=self.core.through_f16,
        )
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            return fused(A, B, C, types, how)


KNOWN = (
    TensorCoreModel("tensor_core_sm80", WIDE, TENSOR_CORES[800]),
    TensorCoreModel("tensor_core_sm90", WIDE, TENSOR_CORES[900]),
    TensorCoreModel("tensor_core_sm89_fp8", FP8, tensor_core(890, (FP8[0], FP8[0], "f32"))),
    TensorCoreModel("tensor_core_sm90_fp8", FP8, tensor_core(900, (FP8[0], FP8[0], "f32"))),
    TensorCoreModel(
        "tensor_core_sm90_fp8_wgmma", FP8, tensor_core(900, (FP8[0], FP8[0], "f32"), wgmma=True)
    ),
)


def answers(i: Instruction, given: Images) -> Iterator[tuple[str, Array]]:
    """Yield the name and D, uint32 (n, vgprs, 64), of every known model that computes the formats
    of an instruction.
    """
    for name, model in models.models().items():
        options: dict[str, Any] = {**given, "model": model, "backend": "numpy"}
        try:
            found = execute.execute(i, **options)
        except GpuemuError:
            continue  # a model of other formats
        yield name, found
    if i.formats["D"] == "f32" and i.blocks == 1:
        for row in KNOWN:
            if {i.formats["A"], i.formats["B"]} <= set(row.formats):
                yield row.name, tensor_core_answer(row, i, given)


def tensor_core_answer(row: TensorCoreModel, i: Instruction, given: Images) -> Array:
    """Return D, uint32 (n, vgprs, 64), of an instruction's shape on a tensor core."""
    A, B, C = (i.unpack(m, given[m.lower()])[:, 0] for m in "ABC")
    if i.formats["A"] == "xf32":
        A, B = ((x.view(np.uint32) & TF32_MASK).view(np.float32) for x in (A, B))
    left, right = ("tf32" if i.formats[m] == "xf32" else i.formats[m] for m in "AB")
    types = ELEMENTS[left], ELEMENTS[right], ELEMENTS["f32"]
    with np.errstate(over="ignore", invalid="ignore"):  # NaN may signal
        wide = (x.astype(np.float64) for x in (A, B, C))
        D = np.stack([row(a, b, c, types) for a, b, c in zip(*wide, strict=True)])
        return np.asarray(i.pack("D", D.astype(np.float32)[:, None]))
