"""Cycles of programs, and the claim that a cheaper instruction gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.mfma.assembly import parse
from gpuemu.mfma.assembly.cost import cheaper, cost

PAIRS = [(row, other) for row in gpuemu.instructions() for other in cheaper(row)]


def chain(row: gpuemu.Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the first 4x4 outputs of the chain of an instruction along K, as bits."""
    dtype = row.operand_format("D").dtype
    d = np.zeros(row.shape("D"), dtype)
    d[0, :4, :4] = c
    for start in range(0, a.shape[1], row.K):
        left = np.zeros((row.blocks, row.M, row.K), a.dtype)
        right = np.zeros((row.blocks, row.K, row.N), b.dtype)
        left[0, :4], right[0, :, :4] = a[:, start : start + row.K], b[start : start + row.K]
        d = row(left, right, d, backend="numpy")
    bits: np.ndarray = d[0, :4, :4].view(f"u{dtype.itemsize}")
    return bits


@pytest.mark.parametrize(("row", "other"), PAIRS, ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_cheaper_instructions_give_the_same_bits(
    row: gpuemu.Instruction, other: gpuemu.Instruction
) -> None:
    assert other.flops / other.cycles > row.flops / row.cycles and other.arch == row.arch
    r = np.random.default_rng(4)
    k = int(np.lcm(row.K, other.K)) * 2
    operands = []
    for matrix, shape in (("A", (4, k)), ("B", (k, 4)), ("C", (4, 4))):
        numbers = r.standard_normal(shape) * 2.0 ** r.integers(-4, 5, shape)
        integers = row.formats["A"] == "i8"
        numbers = r.integers(-128, 128, shape) if integers else numbers
        operands.append(numbers.astype(row.operand_format(matrix).dtype))
    if row.sparse:  # two of every four columns
        operands[0].reshape(4, -1, 4)[:, :, [1, 3]] = 0
    assert np.array_equal(chain(row, *operands), chain(other, *operands))


def test_unlike_chains_are_not_offered() -> None:
    """Links of four and eight products round differently."""
    four = gpuemu.instruction("v_mfma_f32_16x16x4_4b_f16", "gfx942")
    eight = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
    assert eight not in cheaper(four) and cheaper(eight) == ()


def test_costs() -> None:
    c = cost(parse("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "gfx942"))
    assert (c.cycles, c.passes, c.flops, c.flops_per_cycle, c.registers) == (32, 8, 16384, 2048, 20)
    line = "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:{}], v[12:{}], v[0:3] cbsz:{} blgp:{}"
    for a, b, formats, cycles in ((7, 15, (4, 4), 16), (11, 15, (0, 4), 32), (9, 17, (2, 3), 16)):
        assert cost(parse(line.format(a, b, *formats), "gfx950")).cycles == cycles
