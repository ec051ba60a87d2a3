"""The CUDA path against the oracle: on CPU threads here, on the device where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.backends import cuda
from gpuemu.errors import BadValue
from gpuemu.gemm.emulation import (
    cublaslt,
    device_encode,
    device_fused,
    device_plan,
    device_products,
    device_steps,
    emulated_matmul,
    emulation_report,
)

from . import simulator


@pytest.fixture(params=["threads", pytest.param("device", marks=pytest.mark.gpu)])
def cuda_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test on CPU threads, and again on the device."""
    if request.param == "threads":
        simulator.install(monkeypatch)
    return str(request.param)


def operands(case: str, dtype: Any, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """Return A, B and C of one layout or kind of data."""
    random = np.random.default_rng(m + n + k)
    a, b, c = (random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    if case == "columns":
        a, b, c = np.asfortranarray(a), np.asfortranarray(b), np.asfortranarray(c)
    if case == "strided":
        a = np.repeat(a, 2, axis=1)[:, ::2]
        b = np.repeat(np.repeat(b, 2, axis=0), 2, axis=1)[::2, ::2]
    if case == "special":
        a[m // 2, k // 2], b[k // 3, n // 2] = np.inf, np.nan
        a[m - 1], a[0] = 0, a[0] * dtype(2.0) ** (-140 if dtype == np.float32 else -1060)
    return a, b, c


SCHEMES = [
    ("slices", 23, np.float32),
    ("slices", 52, np.float64),
    ("crt", 23, np.float32),
    ("crt", 52, np.float64),
]


@pytest.mark.parametrize("case", ["rows", "columns", "strided", "special"])
@pytest.mark.parametrize(("scheme", "bits", "dtype"), SCHEMES)
def test_bits(cuda_path: str, scheme: str, bits: int, dtype: Any, case: str) -> None:
    for m, n, k in ((1, 1, 1), (5, 7, 3), (33, 140, 150)):
        a, b, c = operands(case, dtype, m, n, k)
        emulated_matmul(a, b, c, -1.5, 0.75, mantissa_bits=bits, scheme=scheme, backend="check")


@pytest.mark.parametrize(("scheme", "bits", "dtype"), SCHEMES)
def test_longer_than_registers(cuda_path: str, scheme: str, bits: int, dtype: Any) -> None:
    """Rows and columns of which registers hold a part, shared memory another, and the rest is read
    again (without clusters of blocks).
    """
    a, b, _ = operands("columns", dtype, 2, 2, 17000)
    a[0, -1] = 1000.0
    emulated_matmul(a.copy(), b, mantissa_bits=bits, scheme=scheme, backend="check")
    emulated_matmul(a, b.copy(), mantissa_bits=bits, scheme=scheme, backend="check")


@pytest.mark.gpu
@pytest.mark.parametrize("k", [1000, 2100, 9000, 33000])
@pytest.mark.parametrize(("scheme", "bits", "dtype"), SCHEMES)
def test_clusters_of_blocks(scheme: str, bits: int, dtype: Any, k: int) -> None:
    """Columns that 1 to 8 blocks share: the largest magnitude, infinity or NaN in any of them."""
    a, b, _ = operands("rows", dtype, 3, 19, k)
    b[k - 1, 2], b[k // 2, 3], b[0, 4], b[k - 1, 5], b[k // 3, 6] = 1e3, -1e4, 1e3, np.inf, np.nan
    emulated_matmul(a, b, mantissa_bits=bits, scheme=scheme, backend="check")


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("clusters", [False, True])
def test_columns_fit_a_multiprocessor(itemsize: int, clusters: bool) -> None:
    for k in (16, 512, 1024, 1040, 2048, 4096, 8192, 16384, 33024, 131056):
        how = device_encode.columns(itemsize, k, clusters)
        holds = how.cluster * how.threads // how.vectors * how.held * 32 // itemsize
        assert how.threads % 32 == how.threads % how.vectors == how.held % 2 == 0
        assert how.threads <= 256 and how.cluster in ((1, 4, 8) if clusters else (1,))
        assert how.shared == (how.held - 2) * 32 * how.threads <= 48 << 10
        # Held whole; or more cannot be held.
        assert holds >= k or (how.held == 8 and how.cluster == (8 if clusters else 1))


@pytest.mark.parametrize("buffers", [1, 2])
def test_blocks_and_batches(cuda_path: str, buffers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace too small for the whole cuts rows and columns; a batch runs one by one."""
    monkeypatch.setattr(device_plan, "BUFFERS", buffers)
    monkeypatch.setattr(device_plan, "SMALLEST_BLOCK", 16)
    monkeypatch.setattr(device_plan, "ROW_BLOCK", 32)
    device_steps.program.cache_clear()
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 40, 24)), random.standard_normal((1, 24, 35))
    for scheme, products in (("slices", 28), ("crt", 14)):
        want = emulated_matmul(a, b, mantissa_bits=52, scheme=scheme, backend="numpy")
        for workspace, most in ((1 << 20, 32), (30_000, 16)):
            got = emulated_matmul(
                a, b, mantissa_bits=52, scheme=scheme, workspace=workspace, backend="cuda"
            )
            assert np.array_equal(np.asarray(got), want)
            report = emulation_report()
            assert report.workspace_bytes <= workspace and min(report.blocks) == most
            assert report.products == 2 * products
    with pytest.raises(BadValue, match="needs at least"):
        emulated_matmul(a, b, mantissa_bits=52, workspace=1000, backend="cuda")
    device_steps.program.cache_clear()


def test_split_k_and_int32_groups(cuda_path: str) -> None:
    """Worst digits: int32 sums would overflow without groups; a longer K is summed in parts."""
    worst = -(126.0 + sum(128 * 256.0**-i for i in range(1, 7)))
    a = np.full((2, 33024), worst)
    emulated_matmul(a, np.ascontiguousarray(a.T), mantissa_bits=55, backend="check")
    a = np.full((2, 34000), worst)
    c = np.ones((2, 2))
    emulated_matmul(a, a.T, c, 2.0, 3.0, mantissa_bits=55, split_k="auto", backend="check")
    assert emulation_report().k_ranges in (1, 2)


def test_dynamic_span(cuda_path: str) -> None:
    """The device's estimate equals the oracle's, and the slice count follows it."""
    random = np.random.default_rng(3)
    for spread in (0, 14, 60):
        a = random.standard_normal((66, 150)) * np.exp2(random.integers(0, spread + 1, (66, 150)))
        b = random.standard_normal((150, 33))
        a[3], b[5, 7], a[9, 0] = 0, 0, np.inf
        if spread == 0:
            a[:, 75:], b[:75, 4] = 0, 0  # column 4 of the result: zeros, and no reason for bits
        if spread == 14:
            a[0, ::2], b[1::2, 0] = 0, 0  # zeros, too, but blocks of two cannot tell
        got = emulated_matmul(a, b, mantissa_bits=23, mantissa_control="dynamic", backend="cuda")
        on_cuda = emulation_report()
        want = emulated_matmul(a, b, mantissa_bits=23, mantissa_control="dynamic", backend="numpy")
        on_cpu = emulation_report()
        assert (on_cuda.exponent_span, on_cuda.scheme, on_cuda.planes) == (
            on_cpu.exponent_span,
            on_cpu.scheme,
            on_cpu.planes,
        )
        if on_cpu.scheme != "native":
            assert np.array_equal(np.asarray(got), np.asarray(want), equal_nan=True)


def test_nonfinite_rows_are_counted(cuda_path: str) -> None:
    a, b = np.ones((4, 8), np.float32), np.ones((8, 5), np.float32)
    a[1, 2], b[7, 4], b[0, 3] = np.nan, np.inf, -np.inf
    emulated_matmul(a, b, backend="cuda")
    report = emulation_report()
    assert (report.rows_native, report.columns_native) == (1, 2)


@pytest.mark.gpu
@pytest.mark.parametrize("bits", [7, 15, 23])
@pytest.mark.parametrize("order", ["C", "F"])
def test_fused_kernel(bits: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole and ragged tiles, K below and above the stages in flight, the epilogue, specials."""
    monkeypatch.setattr(device_fused, "LIMIT", 4096**3)
    device_steps.program.cache_clear()
    for m, n, k in ((1, 1, 1), (128, 128, 64), (77, 131, 70), (200, 300, 1000), (129, 257, 5000)):
        a, b, c = operands("special", np.float32, m, n, k)
        b = np.asarray(b, order=order)
        emulated_matmul(a, b, c, 1.5, -0.3, mantissa_bits=bits, backend="check")
        planes = emulation_report().planes
        only_slices = planes * (m + n + 32) * (k + 16) + 2 * device_plan.ALIGNMENT
        assert emulation_report().workspace_bytes <= only_slices
    device_steps.program.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize(("scheme", "bits", "dtype"), SCHEMES)
def test_without_the_fused_kernel(
    scheme: str, bits: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planes in memory and blocks beside each other give the bits of the oracle, every time."""
    monkeypatch.setattr(device_fused, "LIMIT", 0)
    monkeypatch.setattr(device_plan, "BUFFERS", 2)
    monkeypatch.setattr(device_plan, "ROW_BLOCK", 48)
    device_steps.program.cache_clear()
    for _ in range(3):
        a, b, c = operands("rows", dtype, 300, 140, 200)
        emulated_matmul(a, b, c, -1.5, 0.75, mantissa_bits=bits, scheme=scheme, backend="check")
        assert emulation_report().blocks[0] == 48
    device_steps.program.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize(("scheme", "bits", "dtype"), SCHEMES)
def test_every_int8_product_gives_the_same_bits(
    scheme: str, bits: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cublasLt's tried algorithm, its first in another raster, and cublasGemmEx."""
    a, b, _ = operands("rows", dtype, 2048, 1040, 1500)
    library, found = cublaslt.library, []
    for limit, used in ((1 << 60, library), (0, library), (0, lambda device: None)):
        monkeypatch.setattr(device_products, "DIRECT_LIMIT", limit)
        monkeypatch.setattr(cublaslt, "library", used)
        device_steps.program.cache_clear()
        found.append(emulated_matmul(a, b, mantissa_bits=bits, scheme=scheme, backend="cuda"))
    product = cublaslt.Product(2048, 2048, 2048, 0, 1 << 22, 1 << 23, 2048, 2048)
    chosen = library(0).rastered(product, 1 << 25, 1 << 25, device_products.LARGE_CLUSTER)
    assert chosen is not None or cuda.device_arch() != "sm_90a"
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[2])
    device_steps.program.cache_clear()


def test_what_the_fused_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_fused, "available", lambda: True)
    monkeypatch.setattr(device_fused, "LIMIT", 4096**3)
    square = (512, 512, 512)
    assert device_fused.wanted(4, False, 3, *square)
    for itemsize, crt, planes, extents in (
        (8, False, 3, square),
        (4, True, 3, square),
        (4, False, 4, square),
        (4, False, 3, (16, 16, 43700)),  # an int32 sum might overflow
        (4, False, 3, (8192, 8192, 8192)),
    ):
        assert not device_fused.wanted(itemsize, crt, planes, *extents)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_products_run_natively(cuda_path: str, dtype: Any) -> None:
    """Integers, so that no order of the sum matters; every orientation, scalars, a batch."""
    random = np.random.default_rng(8)
    a, b, c = (random.integers(-9, 9, shape).astype(dtype) for shape in ((5, 7), (7, 3), (5, 3)))
    for left, right in (
        (a, b),
        (np.asfortranarray(a), b),
        (a, np.asfortranarray(b)),
        (np.repeat(a, 2, axis=1)[:, ::2], b),
    ):
        got = emulated_matmul(left, right, c, 2.0, -3.0, scheme="auto", backend="cuda")
        assert np.array_equal(np.asarray(got), 2 * (a @ b) - 3 * c)
        assert emulation_report().scheme == "native"
    got = emulated_matmul(np.stack([a, 2 * a]), b, scheme="auto", backend="cuda")
    assert np.array_equal(np.asarray(got), np.stack([a @ b, 2 * (a @ b)]))
