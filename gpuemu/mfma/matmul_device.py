"""The device side of whole products: a problem as the ints that `cuda_src/matmul_problem.cuh`
reads.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..backends import cuda, host
from ..errors import BadValue
from . import device
from .instructions import Instruction
from .models import Model
from .modifiers import Modifiers

TILE = 16  # outputs along a side of the plain kernel's block
OPERANDS = ("a", "b", "c", "d", "chosen", "scale_a", "scale_b")
MAX_BLOCKS = 0x7FFFFFFF


@dataclass(frozen=True)
class Matrices:
    """Bits of the operands, (batch, rows, columns) each, arrays of one library; c, chosen and
    scales may be missing.
    """

    a: Any
    b: Any
    c: Any = None
    chosen: Any = None
    scale_a: Any = None
    scale_b: Any = None


@dataclass(frozen=True)
class Chain:
    """What is computed: a chain of one instruction along k, under a model."""

    instruction: Instruction
    model: Model
    modifiers: Modifiers

    @property
    def config(self) -> dict[str, int]:
        """Return the fields of `Config` by name."""
        fields = device.config(self.instruction, self.model, self.modifiers)
        return dict(zip(device.CONFIG_FIELDS, fields, strict=True))

    @property
    def accumulator(self) -> type[np.unsignedinteger[Any]]:
        """Return the dtype of C's and D's bits."""
        return np.uint64 if self.instruction.formats["D"] == "f64" else np.uint32


def problem(matrices: Matrices, d: Any) -> Any:
    """Return the fields of `Problem` as an int64 array."""
    batches, m, n = d.shape
    fields = [batches, m, n, matrices.b.shape[1]]
    for name in OPERANDS:
        x = d if name == "d" else getattr(matrices, name)
        fields += [0, 0, 0] if x is None else [step // x.dtype.itemsize for step in x.strides]
    return np.array(fields, np.int64)


def pointers(matrices: Matrices, d: Any) -> Any:
    """Return the fields of `MatmulPointers` as a uint64 array."""
    found = [
        matrices.a,
        matrices.b,
        matrices.c,
        matrices.chosen,
        matrices.scale_a,
        matrices.scale_b,
        d,
    ]
    return np.array([0 if x is None else _address(x) for x in found], np.uint64)


def _address(x: Any) -> int:
    return int(x.ctypes.data if isinstance(x, np.ndarray) else x.data.ptr)


def plain_source(chain: Chain) -> tuple[str, dict[str, int | str], int]:
    """Return the source, definitions and shared memory of the plain kernel."""
    i, c = chain.instruction, chain.config
    name = device.TYPES[c["algorithm"]]
    if name == "Aligned":
        name = "Aligned<i32>" if c["narrow"] else "Aligned<i64>"
    repeats = max(1, 32 // i.products)
    defines: dict[str, int | str] = {
        "GPUEMU_CONFIG": ",".join(map(str, c.values())),
        "ALGORITHM": name,
        "REPEATS": repeats,
    }
    value = device.value_bytes(c["algorithm"])
    shared = TILE * repeats * ((i.products + i.K) * value + (i.products if i.sparse else 0))
    return "matmul.cu", defines, shared


@lru_cache(maxsize=256)
def _plain_kernel(chain: Chain, device_id: int) -> tuple[cuda.Kernel, int]:
    source, defines, shared = plain_source(chain)
    return cuda.kernel(source, "matmul", defines), shared


def run_cuda(chain: Chain, matrices: Matrices, d: Any, *, tuned: bool = True) -> None:
    """Write D on the current device and stream; `tuned=False` takes the plain kernel even where a
    faster one exists.
    """
    import cupy

    from . import matmul_tuned

    batches, m, n = d.shape
    if d.size == 0:
        return
    if tuned and matmul_tuned.run(chain, matrices, d):
        return
    kernel, shared = _plain_kernel(chain, cupy.cuda.runtime.getDevice())
    blocks = batches * -(-m // TILE) * -(-n // TILE)
    if blocks > MAX_BLOCKS:
        raise BadValue(
            f"{batches} products of {m} x {n} outputs in one call; "
            f"legal: at most {MAX_BLOCKS} tiles of {TILE}"
        )
    kernel(
        (blocks,), (TILE * TILE,), (problem(matrices, d), pointers(matrices, d)), shared_mem=shared
    )


def run_host(chain: Chain, matrices: Matrices, d: Any) -> None:
    """Write D by the host build; NumPy arrays."""
    config = np.array(device.config(chain.instruction, chain.model, chain.modifiers), np.int32)
    args = (config, problem(matrices, d), pointers(matrices, d))
    host.library("matmul").gpuemu_matmul(*(ctypes.c_void_p(x.ctypes.data) for x in args))
