"""The classes of products that are measured, and operands for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpuemu
from gpuemu.mfma import execute
from gpuemu.mfma.matmul_device import Chain, Matrices

KINDS = ("normal", "zeros", "wide", "bits", "special")
PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], np.uint8)


@dataclass(frozen=True)
class Class:
    """One arithmetic class.

    Attributes
    ----------
    mnemonic, arch : str
    formats : tuple of int
        cbsz and blgp of an f8f6f4 instruction.
    wanted : float
        What is to be reached at 8192, in Tera-MAC/s; of a sparse A its stored products count.
    of_ceiling : float
        What is to be reached of cuBLAS's own product of the format, measured in the same run.
    over_mmasim : int
        How many times the published model on the same GPU, measured in the same run.
    loop_macs : int
        Multiply-adds of a thread in one turn of the main loop, for `matmul_sass.py`.
    issue : float, optional
        Instructions a multiply-add for sm_90a, the conversion of operands included.
    """

    mnemonic: str
    arch: str
    formats: tuple[int, int] = (0, 0)
    wanted: float = 0.0
    of_ceiling: float = 0.0
    over_mmasim: int = 0
    loop_macs: int = 0
    issue: float | None = None


CLASSES = {
    "f32": Class("v_mfma_f32_32x32x2_f32", "gfx942", of_ceiling=0.75, loop_macs=64, issue=1.07),
    "f64": Class("v_mfma_f64_16x16x4_f64", "gfx942", of_ceiling=0.75),
    "i8": Class("v_mfma_i32_32x32x16_i8", "gfx942", of_ceiling=0.8),
    "cdna1 f16": Class("v_mfma_f32_32x32x8f16", "gfx908", wanted=1.5, over_mmasim=400, issue=3.8),
    "cdna1 bf16": Class("v_mfma_f32_32x32x4bf16", "gfx908", wanted=1.5, over_mmasim=400, issue=5.4),
    "cdna2 f16": Class("v_mfma_f32_32x32x8f16", "gfx90a", wanted=6, over_mmasim=200, issue=1.6),
    "cdna2 bf16": Class("v_mfma_f32_32x32x4bf16", "gfx90a", wanted=6, over_mmasim=200, issue=1.6),
    "cdna2 bf16_1k": Class(
        "v_mfma_f32_32x32x8bf16_1k", "gfx90a", wanted=6, over_mmasim=200, issue=1.6
    ),
    "cdna3 f16": Class(
        "v_mfma_f32_32x32x8_f16", "gfx942", wanted=3.2, over_mmasim=400, loop_macs=128, issue=5.9
    ),
    "cdna3 bf16": Class(
        "v_mfma_f32_32x32x8_bf16", "gfx942", wanted=3.2, over_mmasim=400, loop_macs=128, issue=5.9
    ),
    "cdna3 xf32": Class(
        "v_mfma_f32_16x16x8_xf32", "gfx942", wanted=2, over_mmasim=400, loop_macs=64
    ),
    "cdna3 fp8": Class("v_mfma_f32_16x16x32_fp8_fp8", "gfx942", wanted=2.5, over_mmasim=400),
    "cdna3 bf8": Class("v_mfma_f32_16x16x32_bf8_bf8", "gfx942", wanted=2.5, over_mmasim=400),
    "cdna4 f8f6f4": Class("v_mfma_f32_16x16x128_f8f6f4", "gfx950", (0, 4), wanted=1.5),
    "cdna4 f16 wide": Class("v_mfma_f32_16x16x32_f16", "gfx950"),
    "smfmac f16": Class("v_smfmac_f32_16x16x32_f16", "gfx942", wanted=1.5, loop_macs=128),
    "smfmac fp8": Class("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942", wanted=1.5),
    "smfmac i8": Class("v_smfmac_i32_16x16x64_i8", "gfx942", wanted=1.5),
}


def chain_of(name: str) -> Chain:
    """Return a class's chain."""
    row = CLASSES[name]
    cbsz, blgp = row.formats
    made = execute.call(gpuemu.instruction(row.mnemonic, row.arch), None, cbsz=cbsz, blgp=blgp)
    return Chain(made.instruction, made.model, made.modifiers)


def macs(chain: Chain, m: int, n: int, k: int) -> int:
    """Return the products that are computed: of a sparse A the stored ones."""
    return m * n * k * chain.instruction.products // chain.instruction.K


def operand(
    fmt: Any, shape: tuple[int, ...], kind: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return bits: normal numbers, mostly zeros, wide exponents, raw bits, or one special item."""
    if kind == "bits" or not fmt.is_float:
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64, endpoint=False).astype(
            fmt.storage
        )
    x = rng.standard_normal(shape)
    if kind == "zeros":
        x *= rng.random(shape) < 0.2
    if kind == "wide":
        x *= 2.0 ** rng.integers(-12, 10, shape)
    bits = x.astype(np.float32).astype(fmt.dtype).view(fmt.storage)
    if kind == "special":
        bits[0, 0, 0] = (
            (1 << fmt.bits) - 1 if fmt.bits > 8 else 0x80 if fmt.nan == "negative-zero" else 0x7F
        )
    return bits


def operands(
    chain: Chain, shape: tuple[int, int, int, int], kind: str, layout: str = "rr"
) -> Matrices:
    """Random matrices (batch, m, n, k) on the host; layout says whether rows or columns are dense,
    of A and B.
    """
    i, m = chain.instruction, chain.modifiers
    batch, rows, columns, k = shape
    rng = np.random.default_rng(KINDS.index(kind))
    stored = k // 2 if i.sparse else k
    a = operand(i.operand_format("A", m.cbsz, m.blgp), (batch, rows, stored), kind, rng)
    b = operand(i.operand_format("B", m.cbsz, m.blgp), (batch, k, columns), kind, rng)
    c = (
        rng.standard_normal((batch, rows, columns))
        * 2.0 ** rng.integers(-30, 20, (batch, rows, columns))
    ).astype(i.operand_format("C").dtype if i.formats["C"] != "i32" else np.int32)
    c[rng.random(c.shape) < 0.1] = -0.0 if c.dtype.kind == "f" else 0
    if layout[0] == "c":
        a = np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1)
    if layout[1] == "c":
        b = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    chosen = None
    if i.sparse:
        chosen = PAIRS[rng.integers(0, 6, (batch, rows, stored // 2))].reshape(a.shape)
    return Matrices(a, b, c.view(chain.accumulator), chosen)


def on_device(x: Matrices) -> Matrices:
    """Return the matrices on the device, in the same order of memory."""
    import cupy

    def move(array: Any) -> Any:
        if array is None or array.flags.c_contiguous:
            return None if array is None else cupy.asarray(array)
        return cupy.asarray(np.ascontiguousarray(array.transpose(0, 2, 1))).transpose(0, 2, 1)

    return Matrices(move(x.a), move(x.b), move(x.c), move(x.chosen))


def device_operands(chain: Chain, batch: int, size: int) -> Matrices:
    """Random normal operands made on the device, by repeating a block of 1024 x 1024."""
    import cupy

    block = min(size, 1024)
    x = on_device(operands(chain, (1, block, block, block), "normal"))
    times = (batch, size // block, size // block)
    tiled = {
        name: cupy.tile(getattr(x, name), times)
        for name in ("a", "b")
        if getattr(x, name) is not None
    }
    chosen = None if x.chosen is None else cupy.tile(x.chosen, times)
    return Matrices(tiled["a"], tiled["b"], None, chosen)
