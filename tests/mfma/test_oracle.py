"""The oracle against the golden vectors, and the host build on the same ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.backends import host
from gpuemu.mfma.oracle import fma64

Array = np.ndarray[Any, Any]

FOLDER = Path(__file__).parent.parent / "vectors" / "numerics"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
ARCH = {"CDNA1": "gfx908", "CDNA2": "gfx90a", "CDNA3": "gfx942", "CDNA4": "gfx950"}
FILES = MANIFEST["instructions"]


def differing(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return where bits differ though the mask has them compared."""
    same = got == want
    if got.dtype.itemsize == 8 or mask.any():
        nan = np.isnan(got.view(f"f{got.dtype.itemsize}"))
        zero = (got << got.dtype.type(1)) == 0
        same |= (
            (mask == 1) & nan
            | (mask == 2)
            | (mask == 3) & zero & ((want << want.dtype.type(1)) == 0)
        )
    return ~same


@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("entry", FILES, ids=[e["file"].removesuffix(".npz") for e in FILES])
def test_golden_vectors(entry: dict[str, Any], backend: str) -> None:
    if backend == "host" and not host.available():
        pytest.skip(host.why_unavailable())
    i = gpuemu.instruction(entry["instr"], ARCH[entry["arch"]])
    with np.load(FOLDER / entry["file"]) as file:
        A, B, C, D, mask, category = (file[name] for name in ("A", "B", "C", "D", "mask", "cat"))
    bits = [x.view(f"u{x.dtype.itemsize}") for x in (A, B, C)]
    images = [i.pack(matrix, x) for matrix, x in zip("ABC", bits, strict=True)]
    d = gpuemu.execute(i, *images, backend=backend)
    want = D.view(f"u{D.dtype.itemsize}")
    bad = differing(i.unpack("D", d).view(want.dtype), want, mask)
    where = [MANIFEST["categories"][c] for c in np.unique(category[np.argwhere(bad)[:, 0]])]
    assert not bad.any(), f"{int(bad.sum())} of {bad.size} differ, in {where}"


def test_the_vectors_cover_every_published_row() -> None:
    """Every `published-model` row has a golden file, its own or an identical instruction's."""
    covered = {(ARCH[e["arch"]], e["instr"]) for e in FILES}
    missing = {
        (i.arch, i.mnemonic) for i in gpuemu.instructions() if i.fidelity == "published-model"
    } - covered
    assert not missing


FIVE_ANSWERS = [
    ("gfx908", "v_mfma_f32_16x16x4f16", "BF600000"),
    ("gfx908", "v_mfma_f32_16x16x8bf16", "BF600000"),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", "BEC00000"),
    ("gfx90a", "v_mfma_f32_16x16x16f16", "00000000"),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", "00000000"),
    ("gfx942", "v_mfma_f32_16x16x16_f16", "BF000000"),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", "BF000000"),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", "BF000000"),
    ("gfx942", "v_mfma_f32_16x16x32_bf8_bf8", "BF800000"),
    ("gfx942", "v_mfma_f32_16x16x4_f32", "BF600000"),
]


@pytest.mark.parametrize(("arch", "name", "bits"), FIVE_ANSWERS)
def test_one_input_five_answers(arch: str, name: str, bits: str) -> None:
    i = gpuemu.instruction(name, arch)
    A = np.zeros((i.blocks, 16, i.K), i.operand_format("A").dtype)
    B = np.zeros((i.blocks, i.K, 16), i.operand_format("B").dtype)
    A[0, 0, :4] = -(2.0**13), -0.5, -0.25, -0.125
    B[0, :4, 0] = 2.0**10, 1, 1, 1
    C = np.full((i.blocks, 16, 16), 2.0**23, np.float32)
    D = i(A, B, C, backend="numpy")
    assert f"{D.view(np.uint32)[0, 0, 0]:08X}" == bits


def triples(rng: np.random.Generator, kind: str, n: int) -> tuple[Array, Array, Array]:
    """Return a, b, c whose fused multiply-add is hard to round: float64 (n,) each."""
    signs, steps = rng.choice([-1.0, 1.0], n), rng.integers(0, 8, (3, n)) * 2.0**-52
    a, b = rng.standard_normal((2, n))
    match kind:
        case "ties":
            return (
                1 + steps[0],
                signs * (1 + steps[1]),
                (1 + steps[2]) * 2.0 ** rng.integers(-56, 56, n),
            )
        case "cancelling":
            return a, b, -(a * b) * (1 + rng.integers(-4, 5, n) * 2.0**-52)
        case "zeros":
            return tuple(rng.choice([0.0, -0.0, 1.0, -1.0], (3, n)))  # type: ignore[return-value]
        case "far apart":
            return a, b, rng.standard_normal(n) * 2.0 ** rng.integers(-700, 700, n)
        case _:
            return a * 2.0**-530, b * 2.0**-520, rng.standard_normal(n) * 2.0**-1060


KINDS = ("ties", "cancelling", "zeros", "far apart", "subnormal")


def bits_of_chain(A: Array, B: Array, C: Array) -> Array:
    with np.errstate(all="ignore"):
        return fma64.chain(A, B, C).view(np.uint64)


@pytest.mark.parametrize("kind", KINDS)
def test_fused_multiply_add_of_doubles_is_rounded_once(kind: str) -> None:
    a, b, c = triples(np.random.default_rng(5), kind, 2000)
    got = bits_of_chain(*(x[:, None, None] for x in (a, b, c)))[:, 0, 0]
    want = np.array([fma64.exact_fma(*map(float, x)) for x in zip(a, b, c, strict=True)])
    assert np.array_equal(got, want.view(np.uint64))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", KINDS)
def test_chains_of_doubles_are_rounded_once_a_product(
    kind: str, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several products, columns of a tile and tiles, in either memory order."""
    monkeypatch.setattr(fma64, "TILE", 5 * 3 * 2)
    rng = np.random.default_rng(6)
    A, B = np.empty((5, 3, 4)), np.empty((5, 4, 7))
    C = triples(rng, kind, 105)[2].reshape(5, 3, 7)
    for p in range(4):
        A[:, :, p], B[:, p] = (
            x[: 5 * n].reshape(5, n)
            for x, n in zip(triples(rng, kind, 35)[:2], (3, 7), strict=True)
        )
    want = C.copy()
    for p in range(4):
        for n, i, j in np.ndindex(want.shape):
            want[n, i, j] = fma64.exact_fma(A[n, i, p], B[n, p, j], want[n, i, j])
    got = bits_of_chain(*(np.array(x, order=order) for x in (A, B, C)))
    assert np.array_equal(got, want.view(np.uint64))


def test_ties_of_doubles_need_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above has them: without the repair it fails."""
    a, b, c = (x[:, None, None] for x in triples(np.random.default_rng(5), "ties", 2000))
    right = bits_of_chain(a, b, c)
    monkeypatch.setattr(fma64, "any_fma", lambda a, b, c: a * b + c)
    assert (bits_of_chain(a, b, c) != right).any()


def test_scratch_arrays_are_a_threads_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from gpuemu.mfma.oracle import scratch

    mine = scratch.array("test", (4,))
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(scratch.array, "test", (4,)).result()
    assert np.shares_memory(mine, scratch.array("test", (2, 2)))
    assert not np.shares_memory(mine, other)
    assert scratch.array("test", (3, 5), np.float32).ctypes.data % scratch.LINE == 0


def test_inner_loops_leave_the_buffer_as_it_was() -> None:
    from gpuemu.mfma.oracle import scratch

    before = np.getbufsize()
    with pytest.raises(ZeroDivisionError), scratch.inner_loops(100):
        assert np.getbufsize() == 112
        _ = 1 / 0
    assert np.getbufsize() == before


def test_a_call_as_large_as_several_chunks_is_its_parts() -> None:
    """The oracle's chunks of f32 and f64, the last one shorter."""
    for name in ("v_mfma_f32_16x16x4_f32", "v_mfma_f64_4x4x4_4b_f64"):
        i = gpuemu.instruction(name, "gfx942")
        rng = np.random.default_rng(7)
        images = [
            i.pack(n, rng.standard_normal((600, *i.shape(n))).astype(i.operand_format(n).dtype))
            for n in "ABC"
        ]
        d = gpuemu.execute(i, *images, backend="numpy")
        parts = [
            gpuemu.execute(i, *(x[n : n + 50] for x in images), backend="numpy")
            for n in range(0, 600, 50)
        ]
        assert np.array_equal(d, np.concatenate(parts))
