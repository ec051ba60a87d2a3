"""8-bit floats through `mma.sync` of 9.0: two sums of f16, the addend last."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import cuda, host
from gpuemu.difftest import tensor_cores
from gpuemu.gemm.elements import ELEMENTS
from gpuemu.gemm.instructions import FP8, TENSOR_CORES, tensor_core
from gpuemu.gemm.pipeline import Refusal

Array = np.ndarray[Any, Any]

LINK = 32  # K of one instruction
ROWS = gemm.Arrangement("row_major", "row_major", "row_major")
BACKENDS = ("numpy", "host") if host.available() else ("numpy",)


def product(A: Array, B: Array, a: str, b: str, sm: int, depth: int, backend: str) -> Array:
    """Return A B in f32, one instruction's K at a time."""
    m, n = A.shape[0], B.shape[1]
    problem = gemm.Size(m, n, depth) + gemm.Precision(a, b, "f32") + gemm.Function("MM")
    problem = problem + gemm.Block() + gemm.WithPipeline() + ROWS + gemm.SM(sm)
    assert problem.mma_class == "mma_sync"
    given = np.ascontiguousarray(A), np.ascontiguousarray(B)
    found = gemm.suggest_pipeline(problem, *given, depth=1)
    assert not isinstance(found, Refusal)
    result: Array = np.asarray(found.execute(backend=backend))
    return result


def operands(a: str, b: str, special: bool) -> tuple[Array, Array]:
    """Return A (16, 96) and B (96, 8) of every exponent, half of A subnormal; with infinities and
    NaN or without.
    """
    draw = np.random.default_rng(11)

    def codes(name: str, shape: tuple[int, int]) -> Array:
        found = draw.integers(0, 256, shape).astype(np.uint8)
        finite = np.isfinite(found.view(ELEMENTS[name].dtype).astype(np.float32))
        kept = finite | (special & (draw.integers(0, 40, shape) == 0))
        return np.where(kept, found, found & 0x3F).astype(np.uint8)

    A, B = codes(a, (16, 3 * LINK)), codes(b, (3 * LINK, 8))
    A[8:] &= 0x87 if a == "f8e4m3fn" else 0x83
    return A.view(ELEMENTS[a].dtype), B.view(ELEMENTS[b].dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("a", "b"), [(a, b) for a in FP8 for b in FP8])
def test_a_link_is_two_f16_instructions_and_an_addition(
    a: str, b: str, special: bool, backend: str
) -> None:
    A, B = operands(a, b, special)
    got = product(A, B, a, b, 900, LINK, backend)
    want = np.zeros(got.shape, np.float32)
    k = np.arange(LINK)
    halves_first = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])  # 16 of f16, then 16
    with np.errstate(invalid="ignore", over="ignore"):
        for link in range(0, A.shape[1], LINK):
            at = link + halves_first
            x, y = A[:, at].astype(np.float16), B[at].astype(np.float16)
            want = product(x, y, "f16", "f16", 900, LINK, "numpy") + want
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all() and np.isfinite(want).any() and np.isnan(want).any() == special


def test_which_chips_are_believed_to_do_so() -> None:
    names = (FP8[0], FP8[1], "f32")
    believed = [arch for arch in TENSOR_CORES if tensor_core(arch, names).through_f16]
    assert believed == [900, 1000, 1030, 1070, 1100]
    assert [arch for arch in believed if tensor_core(arch, names).published] == [900]
    assert not tensor_core(900, names, wgmma=True).through_f16
    half = tensor_core(900, (FP8[0], FP8[0], "f16"))
    assert not (half.through_f16 or half.published)


def machine_code(elf: bytes) -> Counter[int]:
    """Return how often every operation code stands in the first text section of a cubin."""
    (table,), (count, names) = (
        struct.unpack_from("<Q", elf, 0x28),
        struct.unpack_from("<HH", elf, 60),
    )
    sections = [struct.unpack_from("<IIQQQQ", elf, table + 64 * n) for n in range(count)]
    text = next(s for s in sections if elf[sections[names][4] + s[0] :].startswith(b".text"))
    words = range(text[4], text[4] + text[5], 16)
    return Counter(struct.unpack_from("<H", elf, at)[0] & 0xFFF for at in words)


@pytest.mark.parametrize("arch", [890, 900, 1000, 1030, 1070, 1100, 1200, 1210])
@pytest.mark.parametrize("name", FP8)
def test_the_machine_code_says_so(arch: int, name: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed (extra 'cuda13')")
    defines = tensor_cores.KINDS[name].defines
    found = machine_code(cuda.cubin("tensor_probe.cu", defines, f"sm_{arch // 10}"))
    half, own = found[0x23C], found[0x27A]  # HMMA, QMMA
    through_f16 = tensor_core(arch, (name, name, "f32")).through_f16
    assert (half, own) == ((2, 0) if through_f16 else (0, 1))


def test_the_new_rule_is_no_other() -> None:
    A, B = operands(*FP8, special=False)
    assert (
        product(A, B, *FP8, 900, LINK, "numpy") != product(A, B, *FP8, 1200, LINK, "numpy")
    ).any()
