"""Which products have a kernel faster than the plain one, and their launches.

Every tuned kernel gives the bits of the plain one for every input; `bench/matmul_report.py`
compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..backends import cuda
from .device import ROUNDINGS
from .matmul_device import MAX_BLOCKS, Chain, Matrices, pointers, problem

THREADS = 256
# Of the binary64 product: k of an mma (4 or 8), chunks of k in shared memory.
MMA_K, STAGES = 8, 5
# Of the binary32 product: k in shared memory at a time.
FMA_CHUNK = 8
# Of the aligned product: what keeps accumulators between links, blocks of a multiprocessor.
KEPT, BLOCKS = "double", 1
# Of the aligned product of a sparse A: the same, stored k in shared memory, rows of a thread, what
# holds an item of B.
SPARSE: dict[str, int | str] = {
    "KEPT": "float",
    "BLOCKS": 1,
    "CHUNK": 16,
    "PER_THREAD": 8,
    "VALUE": "u32",
}


@dataclass(frozen=True)
class Tuned:
    """One tuned kernel: source, entry, definitions, outputs of a block, bytes of shared memory."""

    source: str
    name: str
    defines: dict[str, int | str]
    rows: int
    columns: int
    shared: int
    takes_k: bool = False


_ALIGNED = {
    "product_bits": 24,
    "product_rounding": ROUNDINGS["zero"],
    "sum_bits": 32,
    "sum_rounding": ROUNDINGS["down"],
    "accumulator_bits": 24,
    "accumulator_rounding": ROUNDINGS["down"],
    "result_bits": 31,
    "result_rounding": ROUNDINGS["down"],
    "output_rounding": ROUNDINGS["nearest"],
    "flush_inputs": 0,
    "flush_outputs": 0,
}


def plan(chain: Chain) -> Tuned | None:
    """Return the tuned kernel of a chain, or None where only the plain one computes it."""
    c = chain.config
    if c["scaled"] or (c["sparse"] and chain.model.algorithm != "aligned"):
        return None
    defines: dict[str, int | str] = {"GPUEMU_CONFIG": ",".join(map(str, c.values()))}
    match chain.model.algorithm:
        case "aligned":
            return _aligned(c, defines)
        case "fma" if chain.model.output == "f64":
            return _double()
        case "fma" if not (c["flush_inputs"] or c["flush_outputs"]) and FMA_CHUNK % c["k"] == 0:
            return _float("FmaTile", defines, 128, 128, 4, FMA_CHUNK)
        case "pairwise" if (
            chain.model.flush_inputs and chain.model.flush_outputs and _is_pairwise(c)
        ):
            return _float("PairwiseTile", defines, 128, 64, 4)
        case "exact" if _is_exact(c):
            return _float("ExactTile", defines, 64, 64, 8)
    return None


def _double() -> Tuned:
    defines: dict[str, int | str] = {"MMA_K": MMA_K, "STAGES": STAGES}
    shared = STAGES * 2 * 128 * (16 + 4) * 8
    return Tuned("matmul_double.cu", "matmul_double", defines, 128, 128, shared, True)


def _aligned(c: dict[str, int], defines: dict[str, int | str]) -> Tuned | None:
    fits = all(c[name] == value for name, value in _ALIGNED.items())
    merged = c["interleave"] == 1 or (
        c["interleave"] == 2 and c["merge_rounding"] == ROUNDINGS["down"]
    )
    dropped = not c["drop_tiny"] or c["interleave"] == 2
    narrow = all(c[f"{m}.mantissa_bits"] <= 23 for m in "ab")
    if not (fits and merged and dropped and narrow and 2 <= c["group"] <= 32):
        return None
    if c["sparse"]:
        return None if c["interleave"] > 1 and c["dense_grouping"] else _sparse(c, defines)
    chunk = max(16, c["group"])
    extra: dict[str, int | str] = {
        "WORD": "i32" if c["narrow"] else "i64",
        "CHUNK": chunk,
        "KEPT": KEPT,
        "BLOCKS": BLOCKS,
    }
    return Tuned(
        "matmul_aligned.cu",
        "matmul_aligned",
        defines | extra,
        64,
        64,
        2 * 2 * chunk * 64 * (8 + 4 + 2),
    )


def _sparse(c: dict[str, int], defines: dict[str, int | str]) -> Tuned:
    extra: dict[str, int | str] = {"WORD": "i32" if c["narrow"] else "i64"}
    rows, chunk = 16 * int(SPARSE["PER_THREAD"]), int(SPARSE["CHUNK"])
    value = 8 if SPARSE["VALUE"] == "double" else 4
    shared = 2 * chunk * (2 * 64 * (value + 2) + rows * 16)
    name = "matmul_aligned_sparse"
    return Tuned(f"{name}.cu", name, defines | extra | SPARSE, rows, 64, shared)


def _is_pairwise(c: dict[str, int]) -> bool:
    exact_products = c["a.used_bits"] + c["b.used_bits"] + 2 <= 24
    same = all(c[f"a.{name}"] == c[f"b.{name}"] for name in ("bits", "exponent_bits", "used_bits"))
    return exact_products and same and c["group"] in (2, 4) and 16 % c["k"] == 0


def _is_exact(c: dict[str, int]) -> bool:
    plain = not (c["flush_inputs"] or c["flush_outputs"] or c["product_overflow"])
    nearest = c["output_rounding"] == ROUNDINGS["nearest"]
    return plain and nearest and c["group"] <= 16 and all(c[f"{m}.bits"] in (16, 32) for m in "ab")


def _float(
    model: str, defines: dict[str, int | str], rows: int, columns: int, size: int, chunk: int = 16
) -> Tuned:
    shared = 2 * chunk * (rows + columns + 2 * (16 // size)) * size
    return Tuned(
        "matmul_float.cu",
        "matmul_float",
        defines | {"MODEL": model, "CHUNK": chunk},
        rows,
        columns,
        shared,
    )


@lru_cache(maxsize=256)
def _kernel(chain: Chain, device_id: int) -> tuple[Tuned, cuda.Kernel] | None:
    import cupy

    tuned = plan(chain)
    if tuned is None:
        return None
    if tuned.shared > cupy.cuda.Device(device_id).attributes["MaxSharedMemoryPerBlockOptin"]:
        return None
    return tuned, cuda.kernel(tuned.source, tuned.name, tuned.defines)


def run(chain: Chain, matrices: Matrices, d: Any) -> bool:
    """Write D by a tuned kernel; return False where there is none for this product."""
    import cupy

    batches, m, n = d.shape
    if matrices.b.shape[1] == 0:
        return False
    if chain.model.algorithm == "integer":
        from . import matmul_integer

        return matmul_integer.run(chain, matrices, d)
    found = _kernel(chain, cupy.cuda.runtime.getDevice())
    if found is None:
        return False
    tuned, kernel = found
    blocks = batches * -(-m // tuned.rows) * -(-n // tuned.columns)
    if blocks > MAX_BLOCKS:
        return False
    args = [problem(matrices, d), pointers(matrices, d)]
    if tuned.takes_k:
        args.append(np.int32(chain.instruction.K))
    kernel((blocks,), (THREADS,), tuple(args), shared_mem=tuned.shared)
    return True
