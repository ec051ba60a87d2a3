"""The door of whole products: options, shapes, strides, errors, panels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpuemu
from gpuemu import errors
from gpuemu.mfma import matmul_compute, panels
from gpuemu.mfma.matmul import matmul
from gpuemu.mfma.matmul_epilogue import STEPS, Epilogue
from gpuemu.mfma.matmul_pieces import Cost, plan

F16 = gpuemu.instruction("v_mfma_f32_32x32x8_f16", "gfx942")
I8 = gpuemu.instruction("v_mfma_i32_32x32x16_i8", "gfx942")
F64 = gpuemu.instruction("v_mfma_f64_16x16x4_f64", "gfx942")
MIXED = gpuemu.instruction("v_mfma_f32_16x16x128_f8f6f4", "gfx950")
SPARSE = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")

BACKENDS = ["numpy", "host", pytest.param("cuda", marks=pytest.mark.gpu)]


def halves(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("i", [F16, F64, I8], ids=lambda i: i.mnemonic)
def test_split_k_adds_partial_sums_in_order(i: gpuemu.Instruction, backend: str) -> None:
    length = 6 * i.K + 2  # seven instructions in parts of 3, 3 and 1
    A, B = (100 * halves(*shape, seed=1) for shape in ((20, length), (length, 9)))
    A, B = (x.astype(i.operand_format("A").dtype) for x in (A, B))
    C = (1e6 * halves(20, 9, seed=2).astype(np.float32)).astype(i.operand_format("C").dtype)
    if C.dtype.kind == "f":
        B[0, 0] = np.nan
    got = matmul(A, B, C, instruction=i, split_k=3, backend=backend)
    parts = []
    for k in (0, 3 * i.K, 6 * i.K):
        start = C if k == 0 else None
        part = slice(k, k + 3 * i.K)
        parts.append(matmul(A[:, part], B[part], start, instruction=i, backend="numpy"))
    want = (parts[0] + parts[1]) + parts[2]
    assert got.tobytes() == want.tobytes()


def test_more_parts_than_instructions() -> None:
    A, B = halves(4, 20), halves(20, 4, seed=1)
    parts = [
        matmul(A[:, k : k + 8], B[k : k + 8], instruction=F16, backend="numpy") for k in (0, 8, 16)
    ]
    got = matmul(A, B, instruction=F16, split_k=99, backend="numpy")
    assert np.array_equal(got, (parts[0] + parts[1]) + parts[2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_alpha_beta(backend: str) -> None:
    A, B = halves(20, 50), halves(50, 9, seed=1)
    C = halves(20, 9, seed=2).astype(np.float32)
    alpha, beta = np.float32(0.1), np.float32(-3)
    got = matmul(A, B, C, instruction=F16, alpha=alpha, beta=beta, backend=backend)
    want = alpha * matmul(A, B, instruction=F16, backend="numpy") + beta * C
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
    without = matmul(A, B, instruction=F16, alpha=2.0, backend=backend)
    assert np.array_equal(without, 2 * matmul(A, B, instruction=F16, backend="numpy"))


@pytest.mark.parametrize("backend", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("output", ["f16", "bf16"])
def test_output_rounding(backend: str, output: str) -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)
    halfway = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)) | np.uint32(0x8000)
    f16_ties = (np.arange(0x33000000, 0x48000000, 0x1000, dtype=np.uint32)) + np.uint32(0)
    near = np.concatenate(
        [halfway, halfway + 1, halfway - 1, f16_ties, f16_ties + 1, f16_ties - 1, patterns]
    )
    bits = near.astype(np.uint32)
    e = Epilogue("f32", output=output)
    dtype = np.dtype(np.float16 if output == "f16" else ml_dtypes.bfloat16)
    want = STEPS["numpy"].round(e, bits, dtype)
    if backend == "cuda":
        import cupy

        got = STEPS["cuda"].round(e, cupy.asarray(bits), dtype).get()
    else:
        got = STEPS["host"].round(e, bits, dtype)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_strides_and_broadcast_batches(backend: str) -> None:
    A, B, C = (
        halves(3, 1, 33, 40),
        halves(5, 40, 17, seed=1),
        halves(33, 17, seed=2).astype(np.float32),
    )
    plain = matmul(A, B, C, instruction=F16, backend="numpy")
    assert plain.shape == (3, 5, 33, 17)
    for n in range(3):
        for j in range(5):
            one = matmul(A[n, 0], B[j], C, instruction=F16, backend="numpy")
            assert np.array_equal(plain[n, j], one)
    turned = A.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    reversed_b = B[..., ::-1].copy()[..., ::-1]
    strided = np.repeat(C, 2, axis=1)[:, ::2]
    before = turned.copy(), reversed_b.copy(), strided.copy()
    got = matmul(turned, reversed_b, strided, instruction=F16, backend=backend)
    assert np.array_equal(got.view(np.uint32), plain.view(np.uint32))
    assert all(
        np.array_equal(x, y) for x, y in zip(before, (turned, reversed_b, strided), strict=True)
    )


def test_check_backend_and_formats_by_dtype() -> None:
    A = halves(9, 130).astype(ml_dtypes.float8_e5m2)
    B = halves(130, 5, seed=1).astype(ml_dtypes.float4_e2m1fn)
    got = matmul(A, B, instruction=MIXED, backend="check")
    by_number = matmul(
        A.view(np.uint8),
        B.view(np.uint8),
        instruction=MIXED,
        bits=True,
        cbsz=1,
        blgp=4,
        backend="numpy",
    )
    assert got.dtype == np.float32
    assert np.array_equal(got, by_number)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty(backend: str) -> None:
    assert matmul(halves(0, 8), halves(8, 3), instruction=F16, backend=backend).shape == (0, 3)
    C = np.full((2, 3), 7, np.float32)
    got = matmul(halves(2, 0), halves(0, 3), C, instruction=F16, backend=backend)
    assert np.array_equal(got, C)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("i", "model"),
    [(F16, None), (F16, "cdna1_f16"), (F16, "fma_f32"), (SPARSE, None), (F64, None), (I8, None)],
    ids=lambda x: getattr(x, "mnemonic", x),
)
def test_results_without_outputs(i: gpuemu.Instruction, model: str | None, backend: str) -> None:
    for a, b in (
        ((3, 40), (40, 0)),
        ((0, 40), (40, 3)),
        ((0, 5, 40), (40, 3)),
        ((5, 40), (2, 0, 40, 3)),
        ((0, 0), (0, 0)),
    ):
        A = np.zeros(a, i.operand_format("A").dtype)
        B = np.zeros(b, i.operand_format("B").dtype)
        got = matmul(A, B, instruction=i, model=model, split_k=2, backend=backend)
        assert got.shape == np.matmul(A, B).shape and got.size == 0


def test_no_outputs_of_large_operands() -> None:
    """Over 1 GiB a product is made in pieces."""
    A = np.broadcast_to(np.float16(0), (0, 1 << 20))
    B = np.broadcast_to(np.float16(0), (1 << 20, 1024))
    assert matmul(A, B, instruction=F16, backend="host").shape == (0, 1024)
    for shape in ((0, 3, 3), (2, 0, 3), (2, 3, 0)):
        assert plan(*shape, Cost(1000, 1000, 12), 500) == []


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"A": halves(4, 9)}, errors.BadShape, "A's columns must be B's rows"),
        ({"A": halves(8)}, errors.BadShape, "two dimensions or more"),
        ({"A": halves(4, 8).astype(np.float32)}, errors.BadType, "dtype float32"),
        ({"B": None}, errors.BadType, "B is missing"),
        ({"C": np.zeros((4, 4), np.float32)}, errors.BadShape, "C has shape"),
        ({"A": halves(2, 4, 8), "B": halves(3, 8, 3)}, errors.BadShape, "do not broadcast"),
        ({"instruction": "v_mfma"}, errors.BadType, "gpuemu.instruction"),
        ({"split_k": 0}, errors.BadValue, "split_k=0"),
        ({"split_k": 2.0}, errors.BadType, "split_k"),
        ({"alpha": 0.1}, errors.BadValue, "no binary32 number"),
        ({"alpha": "1"}, errors.BadType, "alpha"),
        ({"alpha": 10**5000}, errors.BadValue, "alpha.* magnitude .* 3.4028234663852886e"),
        ({"alpha": -(2**200)}, errors.BadValue, "alpha.* magnitude .* 3.4028234663852886e"),
        ({"beta": 2.0**200}, errors.BadValue, "beta.* magnitude .* 3.4028234663852886e"),
        ({"alpha": 2**53 + 1}, errors.BadValue, "no binary32 number; nearest: 9007199254740992.0"),
        ({"beta": 2.0}, errors.BadValue, "beta=2.0 without C; legal: beta=1 or 0"),
        ({"output": "f8"}, errors.BadValue, "legal: f16, bf16"),
        ({"output": ["f16"]}, errors.BadValue, r"output=\['f16'\]; legal: f16, bf16"),
        ({"output": np.array(["f16", "f8"])}, errors.BadValue, "legal: f16, bf16"),
        ({"cbsz": 1}, errors.BadValue, "f8f6f4"),
        ({"scale_a": np.zeros((4, 1), np.uint8)}, errors.BadType, "takes no scales"),
        ({"backend": "rocm"}, errors.BadValue, "backend"),
        ({"devices": [0], "backend": "numpy"}, errors.BadValue, "devices"),
        ({"model": "cdna9"}, errors.UnknownModel, "cdna9"),
    ],
)
def test_bad_input(change: dict[str, Any], error: type[Exception], text: str) -> None:
    call = {"A": halves(4, 8), "B": halves(8, 3), "instruction": F16, "backend": "numpy"} | change
    with pytest.raises(error, match=text):
        matmul(call.pop("A"), call.pop("B"), **call)


def test_more_bad_input() -> None:
    with pytest.raises(errors.BadValue, match="f32 accumulator"):
        matmul(np.zeros((2, 2)), np.zeros((2, 2)), instruction=F64, alpha=2.0, backend="numpy")
    with pytest.raises(errors.BadShape, match="multiple of 4"):
        matmul(halves(2, 6), halves(6, 2), instruction=SPARSE, backend="numpy")
    with pytest.raises(errors.BadValue, match="not 2:4 sparse"):
        matmul(halves(2, 8), halves(8, 2), instruction=SPARSE, backend="numpy")
    with pytest.raises(errors.BadType, match="names no f8f6f4 format"):
        matmul(halves(2, 8), halves(8, 2), instruction=MIXED, backend="numpy")
    with pytest.raises(errors.BadValue, match="has 4 bits"):
        codes = np.zeros((1, 8), np.uint8), np.full((8, 1), 16, np.uint8)
        matmul(*codes, instruction=MIXED, bits=True, cbsz=0, blgp=4, backend="numpy")


def test_panels_cover_every_output_once() -> None:
    for batches, m, n, budget, least in (
        (1, 1000, 700, 10**5, 1),
        (7, 64, 64, 10**6, 4),
        (3, 999, 5, 10**4, 2),
        (1, 1, 1, 60, 8),
    ):
        seen = np.zeros((batches, m, n), int)
        for p in plan(batches, m, n, Cost(16, 16, 12), budget, least):
            rows, columns = p.rows.stop - p.rows.start, p.columns.stop - p.columns.start
            assert (p.batch.stop - p.batch.start) * (
                rows * 16 + columns * 16 + rows * columns * 12
            ) <= budget
            seen[p.place] += 1
        assert (seen == 1).all()
    with pytest.raises(errors.BadValue, match="of device memory"):
        plan(1, 8, 8, Cost(1000, 1000, 12), 500)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pieces_give_the_same_bits(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = halves(2, 300, 72), halves(72, 200, seed=1)
    C = halves(300, 200, seed=2).astype(np.float32)
    sparse = A.copy().reshape(2, 300, 18, 4)
    sparse[..., :2] = 0
    rng = np.random.default_rng(0)
    A8, B8 = (rng.integers(-128, 128, s, dtype=np.int8) for s in ((300, 72), (72, 200)))
    calls: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (A, B, C, {"instruction": F16, "split_k": 3}),
        (A, B, C, {"instruction": F16, "alpha": 2.0, "output": "bf16"}),
        (sparse.reshape(2, 300, 72), B, C, {"instruction": SPARSE}),
        (A8, B8, None, {"instruction": I8}),
        (A8, B8, C.astype(np.int32), {"instruction": I8, "split_k": 2}),
    ]
    pieces: list[Any] = []

    def recorded(*args: Any) -> list[Any]:
        pieces[:] = plan(*args)
        return pieces

    for a, b, c, options in calls:
        want = matmul(a, b, c, backend=backend, **options)
        with monkeypatch.context() as patched:
            for name, value in (("LARGE", 0), ("SHARE", 40), ("LEAST", (64, 64))):
                patched.setattr(matmul_compute, name, value)
            patched.setattr(matmul_compute, "plan", recorded)
            got = matmul(a, b, c, backend=backend, **options)
        assert len(pieces) > 2
        assert np.array_equal(got.view(np.uint8), want.view(np.uint8)), options


@pytest.mark.gpu
def test_panels_and_devices_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    A, B = halves(2, 700, 200), halves(200, 300, seed=1)
    C = halves(700, 300, seed=2).astype(np.float32)
    want = matmul(A, B, C, instruction=F16, backend="cuda", output="bf16")
    devices = list(range(cupy.cuda.runtime.getDeviceCount()))
    got = matmul(A, B, C, instruction=F16, backend="cuda", output="bf16", devices=devices)
    assert np.array_equal(got.view(np.uint16), want.view(np.uint16))
    monkeypatch.setattr(panels, "_budget", lambda number: 300_000)
    got = matmul(A, B, C, instruction=F16, backend="cuda", output="bf16", devices=[0])
    assert np.array_equal(got.view(np.uint16), want.view(np.uint16))


@pytest.mark.gpu
def test_two_devices_give_the_same_bits() -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("this machine has one GPU; devices=[0, 1] wants two")
    for lead, m in (((), 1000), ((3,), 130), ((2, 2), 5)):
        A, B = halves(*lead, m, 200), halves(*lead, 200, 300, seed=1)
        want = matmul(A, B, instruction=F16, backend="cuda")
        for devices in ([0, 1], [1, 0], [1]):
            got = matmul(A, B, instruction=F16, backend="cuda", devices=devices)
            assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), (lead, devices)
    on_device = cupy.asarray(A), cupy.asarray(B)
    got = matmul(*on_device, instruction=F16, devices=[0, 1])
    assert isinstance(got, cupy.ndarray)
    assert np.array_equal(got.get().view(np.uint32), want.view(np.uint32))


@pytest.mark.gpu
def test_memory_beside_operands_and_result() -> None:
    """At most a tenth of them, of products over 1 GiB."""
    import cupy

    pool = cupy.get_default_memory_pool()
    m, n, k = 24576, 24576, 256
    calls: list[tuple[Any, dict[str, Any]]] = [
        (cupy.float16, {"instruction": F16, "split_k": 4}),
        (cupy.float16, {"instruction": F16, "output": "f16", "alpha": 0.5}),
        (cupy.int8, {"instruction": I8}),
    ]
    for dtype, options in calls:
        A, B = cupy.ones((m, k), dtype), cupy.ones((k, n), dtype)
        C = None if dtype == cupy.float16 else cupy.ones((m, n), cupy.int32)
        pool.free_all_blocks()
        before, held = pool.total_bytes(), sum(x.nbytes for x in (A, B, C) if x is not None)
        D = matmul(A, B, C, **options)
        assert pool.total_bytes() - before <= D.nbytes + (held + D.nbytes) // 10, options
        del A, B, C, D


@pytest.mark.gpu
def test_ten_repeats_and_array_kinds() -> None:
    import cupy

    A, B = halves(500, 300), halves(300, 260, seed=1)
    want = matmul(A, B, instruction=F16, backend="host").view(np.uint32)
    on_device = cupy.asarray(A), cupy.asarray(B)
    for _ in range(10):
        got = matmul(*on_device, instruction=F16)
        assert isinstance(got, cupy.ndarray)
        assert np.array_equal(got.view(np.uint32).get(), want)


@pytest.mark.gpu
def test_i8_with_accumulator_and_long_k() -> None:
    rng = np.random.default_rng(0)
    A = rng.integers(-128, 128, (33, 70_000), dtype=np.int8)
    B = rng.integers(-128, 128, (70_000, 18), dtype=np.int8)
    C = rng.integers(-(2**31), 2**31, (33, 18)).astype(np.int32)
    exact = A.astype(np.int64) @ B.astype(np.int64) + C
    got = matmul(A, B, C, instruction=I8, backend="cuda")
    assert np.array_equal(got, exact.astype(np.uint64).astype(np.uint32).view(np.int32))
