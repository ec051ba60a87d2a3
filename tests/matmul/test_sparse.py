"""A of 2:4 structure: compressed and expanded on the device as on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma import matmul_sparse
from gpuemu.mfma.matmul import matmul
from gpuemu.mfma.matmul_device import Matrices

from . import simulator
from .operands import KINDS, bits, chain_of, columns_dense, dense_2_4

NAMES = (
    ("v_smfmac_f32_16x16x32_f16", "gfx942"),
    ("v_smfmac_f32_16x16x64_fp8_fp8", "gfx942"),
    ("v_smfmac_f32_16x16x64_bf8_bf8", "gfx950"),
    ("v_smfmac_i32_16x16x64_i8", "gfx942"),
)
SHAPE = (2, 37, 52)

Array = np.ndarray[Any, Any]


def with_negative_zeros(x: Array, rng: np.random.Generator) -> Array:
    sign = x.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    return np.where((x == 0) & (rng.random(x.shape) < 0.4), sign, x)


@pytest.mark.parametrize(("mnemonic", "arch"), NAMES)
@pytest.mark.parametrize("order", ["row", "column"])
def test_compress_kernel(mnemonic: str, arch: str, order: str) -> None:
    chain = chain_of(gpuemu.instruction(mnemonic, arch))
    fmt = chain.instruction.operand_format("A")
    rng = np.random.default_rng(0)
    A = dense_2_4(fmt, SHAPE, "zeros", rng)
    if fmt.is_float and fmt.nan != "negative-zero":
        A = with_negative_zeros(A, rng)
    A = columns_dense(A) if order == "column" else A
    want = matmul_sparse.compressed(chain, Matrices(A, None))
    stored, chosen = np.zeros_like(want.a), np.zeros_like(want.chosen)
    too_many = np.zeros(1, np.int32)
    strides = [step // A.itemsize for step in A.strides]
    at, *sizes = matmul_sparse.compress_arguments(chain, A.shape, strides)
    arrays = [np.array(x.ctypes.data) for x in (A, stored, chosen, too_many)]
    args = [arrays[0], at, *arrays[1:], *sizes]
    blocks = -(-int(sizes[2]) // 256)
    simulator.launch("matmul_sparse.cu", "compress", {}, blocks, 256, args)
    assert np.array_equal(stored, want.a)
    assert np.array_equal(chosen, want.chosen)
    assert too_many[0] == 0
    A[1, 20, 4:7] = 1
    simulator.launch("matmul_sparse.cu", "compress", {}, blocks, 256, args)
    assert too_many[0] == 1


def test_expand_kernel() -> None:
    rng = np.random.default_rng(0)
    chain = chain_of(gpuemu.instruction(*NAMES[3]))
    A = dense_2_4(chain.instruction.operand_format("A"), (1, 19, 64), "bits", rng)
    x = matmul_sparse.compressed(chain, Matrices(A, None))
    stored, chosen = columns_dense(x.a)[0], x.chosen[0]
    out = np.zeros((19, 64), np.uint8)
    strides = [np.array(n, np.int64) for y in (stored, chosen) for n in y.strides]
    pointers = [np.array(y.ctypes.data) for y in (stored, chosen, out)]
    args = [pointers[0], *strides[:2], pointers[1], *strides[2:], pointers[2]]
    args += [np.array(n, np.int64) for n in (16, 19 * 16)]
    simulator.launch("matmul_sparse.cu", "expand", {}, 2, 256, args)
    assert np.array_equal(out, A[0])


@pytest.mark.gpu
@pytest.mark.parametrize(("mnemonic", "arch"), NAMES)
def test_cupy_equals_numpy(mnemonic: str, arch: str) -> None:
    import cupy

    chain = chain_of(gpuemu.instruction(mnemonic, arch))
    i = chain.instruction
    rng = np.random.default_rng(1)
    for kind in KINDS:
        A = dense_2_4(i.operand_format("A"), SHAPE, kind, rng)
        B = bits(i.operand_format("B"), (2, 52, 40), kind, rng)
        want = matmul_sparse.compressed(chain, Matrices(A, None))
        got = matmul_sparse.compressed(chain, Matrices(cupy.asarray(A), None))
        assert np.array_equal(got.a.get(), want.a)
        assert np.array_equal(got.chosen.get(), want.chosen)
        D = matmul(cupy.asarray(A), cupy.asarray(B), instruction=i, bits=True)
        E = matmul(A, B, instruction=i, bits=True, backend="host")
        assert np.array_equal(D.get().view(np.uint32), E.view(np.uint32)), kind
    A[1, 20, 4:7] = 1
    with pytest.raises(errors.BadValue, match=r"matrix \(1,\), row 20, group 1"):
        matmul(cupy.asarray(A), cupy.asarray(B), instruction=i, bits=True)
