"""The door: arguments, IEEE rows and columns, scalars, batches, dynamic control, the report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.errors import BadShape, BadType, BadValue, Mismatch
from gpuemu.gemm.emulation import emulated_matmul, emulation_report, execute, tuning

A = np.ones((3, 4), np.float32)
B = np.ones((4, 2), np.float32)
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scheme": "slice"}, BadValue, "scheme='slice'; legal: 'slices', 'crt', 'auto'"),
        ({"slice_rounding": "up"}, BadValue, "slice_rounding='up'"),
        ({"mantissa_control": "auto"}, BadValue, "mantissa_control='auto'"),
        ({"split_k": 2}, BadValue, "split_k=2"),
        ({"mantissa_bits": 0}, BadValue, "mantissa_bits=0; legal for 'slices': 1 to 63"),
        ({"mantissa_bits": 64, "scheme": "auto"}, BadValue, "legal for 'auto': 1 to 63"),
        ({"mantissa_bits": 62, "scheme": "crt"}, BadValue, "legal for 'crt': 1 to 61"),
        ({"mantissa_bits": 23.0}, BadType, "mantissa_bits=23.0"),
        ({"mantissa_bits": True}, BadType, "mantissa_bits=True"),
        ({"workspace": 0}, BadValue, "workspace=0"),
        ({"workspace": True}, BadValue, "workspace=True"),
        ({"beta": 1.0}, BadValue, "beta=1.0 without C"),
        ({"C": np.ones((3, 3), np.float32)}, BadShape, r"C has shape \(3, 3\); legal: \(3, 2\)"),
        ({"C": np.ones((3, 2))}, BadType, "C is float64; legal: float32"),
        ({"C": [[0.0] * 2] * 3}, BadType, "C is a list; legal: an array of float32"),
        ({"A": A.astype(np.float64)}, BadType, "A is float64 and B is float32"),
        (
            {"A": A.astype(np.float16), "B": B.astype(np.float16)},
            BadType,
            "both float32, or both float64",
        ),
        ({"A": [[1.0]]}, BadType, "A is a list"),
        ({"A": A[0]}, BadShape, r"A has shape \(4,\)"),
        ({"A": A[:, :3]}, BadShape, "A has K=3, B has K=4"),
        (
            {"A": np.ones((2, 3, 4), np.float32), "B": np.ones((3, 4, 2), np.float32)},
            BadShape,
            "do not broadcast",
        ),
        ({"alpha": "1"}, BadType, "alpha='1'; legal: a real number"),
        ({"alpha": None}, BadType, "alpha=None"),
        ({"alpha": np.complex64(1)}, BadType, "legal: a real number"),
        ({"alpha": 10**400}, BadValue, "legal: a number that float64 holds"),
        ({"beta": "0", "C": np.ones((3, 2), np.float32)}, BadType, "beta='0'"),
        ({"backend": "gpu"}, BadValue, "backend='gpu'"),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        emulated_matmul(**({"A": A, "B": B, "backend": "numpy"} | options))


def test_k_limit() -> None:
    for k, options in ((33025, {}), (33026, {"split_k": "auto"}), (33026, {"scheme": "crt"})):
        a = np.ones((1, k), np.float32)
        assert emulated_matmul(a, a.T, backend="numpy", **options)[0, 0] == k
    for k, scheme in ((33026, "slices"), (33026, "auto"), (131057, "crt")):
        a = np.ones((1, k), np.float32)
        with pytest.raises(BadValue, match=f"emulation_k_dimension_too_large: K={k}"):
            emulated_matmul(a, a.T, scheme=scheme, backend="numpy")


def test_split_k_sums_partial_products_in_order() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 40000)), random.standard_normal((40000, 2))
    c = random.standard_normal((2, 2))
    got = emulated_matmul(a, b, c, 0.5, 2.0, mantissa_bits=31, split_k="auto", backend="numpy")
    parts = [
        emulated_matmul(a[:, s], b[s], mantissa_bits=31, backend="numpy")
        for s in (slice(20000), slice(20000, None))
    ]
    assert np.array_equal(got, (parts[0] + parts[1]) * 0.5 + c * 2.0)


@pytest.mark.parametrize("scheme", ["slices", "crt"])
@pytest.mark.parametrize("backend", ["numpy", "host"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_and_nans_follow_ieee(scheme: str, backend: str, dtype: Any) -> None:
    a = np.array(
        [[1, 2, 3], [INF, 1, 1], [-INF, INF, 1], [NAN, 0, 0], [0, 0, 0], [INF, 0, 0]], dtype
    )
    b = np.array([[1, 0, INF, -1], [1, 1, 1, 2], [1, 1, 1, 3]], dtype)
    with np.errstate(invalid="ignore"):
        want = np.array([[np.sum(a[i] * b[:, j]) for j in range(4)] for i in range(6)], dtype)
    got = emulated_matmul(a, b, scheme=scheme, backend=backend)
    assert np.array_equal(got, want, equal_nan=True)
    report = emulation_report()
    assert (report.rows_native, report.columns_native) == (4, 1)


@pytest.mark.parametrize("scheme", ["slices", "crt"])
def test_sums_that_overflow_on_the_way(scheme: str) -> None:
    a = np.array([[1e308, 1e308, -1e308, -1e308]])
    b = np.full((4, 1), 10.0)
    with np.errstate(over="ignore", invalid="ignore"):
        assert not np.isfinite(np.cumsum(a[0] * b[:, 0])).all()
    assert emulated_matmul(a, b, scheme=scheme, backend="numpy")[0, 0] == 0.0
    assert emulated_matmul(a[:, :2], b[:2], scheme=scheme, backend="numpy")[0, 0] == INF
    assert emulated_matmul(-a[:, :2], b[:2], scheme=scheme, backend="numpy")[0, 0] == -INF


@pytest.mark.parametrize("scheme", ["slices", "crt"])
@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 2.0**-149), (np.float64, 2.0**-1074)])
def test_subnormals_zeros_and_signs(scheme: str, dtype: Any, tiny: float) -> None:
    a = np.array([[tiny, 3 * tiny], [0.0, 0.0], [-0.0, -0.0]], dtype)
    b = np.array([[1.0, 0.5], [1.0, 0.5]], dtype)
    got = emulated_matmul(a, b, scheme=scheme, backend="numpy")
    assert got[0].tolist() == [4 * tiny, 2 * tiny]
    assert np.array_equal(np.signbit(got[1:]), np.zeros((2, 2), bool)) and not got[1:].any()


def test_alpha_beta_round_once_each() -> None:
    random = np.random.default_rng(2)
    a, b, c = (random.standard_normal(s).astype(np.float32) for s in ((5, 6), (6, 7), (5, 7)))
    product = emulated_matmul(a, b, backend="numpy")
    for alpha, beta in ((1.1, 0.0), (-0.3, 0.7), (0.0, 1.0)):
        got = emulated_matmul(a, b, c, alpha, beta, backend="numpy")
        want = product * np.float32(alpha)
        assert np.array_equal(got, want + c * np.float32(beta) if beta else want)
    c[:] = NAN
    assert np.array_equal(emulated_matmul(a, b, c, 1.0, 0.0, backend="numpy"), product)


def test_inputs_stay_as_they_are_and_may_alias() -> None:
    a = np.random.default_rng(3).standard_normal((6, 6))
    kept = a.copy()
    got = emulated_matmul(a, a, a, 1.0, 1.0, backend="host")
    assert np.array_equal(a, kept)
    assert np.array_equal(
        got, emulated_matmul(kept.copy(), kept.copy(), kept.copy(), 1.0, 1.0, backend="numpy")
    )


@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_batches_broadcast(backend: str) -> None:
    random = np.random.default_rng(4)
    a, b = random.standard_normal((2, 1, 3, 5)), random.standard_normal((4, 5, 2))
    got = emulated_matmul(a, b, mantissa_bits=31, backend=backend)
    assert got.shape == (2, 4, 3, 2)
    for i, j in np.ndindex(2, 4):
        assert np.array_equal(
            got[i, j], emulated_matmul(a[i, 0], b[j], mantissa_bits=31, backend="numpy")
        )
    assert emulation_report().products == 10


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
@pytest.mark.parametrize("backend", ["numpy", "host"])
def test_empty(shape: tuple[int, int, int], backend: str) -> None:
    m, n, k = shape
    c = np.full((m, n), 2.0)
    got = emulated_matmul(np.ones((m, k)), np.ones((k, n)), c, 1.0, 3.0, backend=backend)
    assert got.shape == (m, n) and (got == 6.0).all()


def test_default_bits() -> None:
    for dtype, bits, planes in ((np.float32, 23, 3), (np.float64, 52, 7)):
        emulated_matmul(A.astype(dtype), B.astype(dtype), backend="numpy")
        report = emulation_report()
        assert (report.bits_asked, report.planes, report.bits_reached) == (
            bits,
            planes,
            8.0 * planes - 1,
        )


def test_dynamic_control_raises_the_count_or_goes_native() -> None:
    random = np.random.default_rng(5)
    a, b = random.standard_normal((8, 64)), random.standard_normal((64, 8))
    fixed = {}
    for spread, scheme, planes in ((0, "slices", 4), (24, "slices", 7), (400, "native", 0)):
        wide = a * np.exp2(np.where(np.arange(64) % 2, -spread, 0))
        right = b * np.exp2(np.where(np.arange(64) % 2, 0, -spread))[:, None]
        got = emulated_matmul(
            wide, right, mantissa_bits=23, mantissa_control="dynamic", backend="numpy"
        )
        report = emulation_report()
        assert report.scheme == scheme and (planes is None or report.planes == planes)
        magnitude = np.abs(wide) @ np.abs(right)
        assert (np.abs(got - wide @ right) <= 64 * 2.0**-23 * magnitude).all()
        if spread:
            assert (
                report.note and report.exponent_span is not None and report.exponent_span >= spread
            )
            fixed[spread] = emulated_matmul(wide, right, mantissa_bits=23, backend="numpy")
            assert (np.abs(fixed[spread] - wide @ right) > 64 * 2.0**-23 * magnitude).any()


def test_dynamic_control_of_zeros() -> None:
    emulated_matmul(np.zeros((2, 3)), np.ones((3, 2)), mantissa_control="dynamic", backend="numpy")
    assert emulation_report().exponent_span == 0


def test_report_before_any_call_in_a_thread() -> None:
    import threading

    caught: list[BaseException] = []

    def ask() -> None:
        try:
            emulation_report()
        except BadValue as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_check_finds_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuemu.gemm.emulation import slices

    right = slices.diagonal
    monkeypatch.setattr(slices, "diagonal", lambda a, b, d: right(a, b, d) + (d == 0))
    with pytest.raises(
        Mismatch, match=r"emulated_matmul: 6 of 6 outputs differ; first at \(0, 0\)"
    ):
        emulated_matmul(A, B, backend="check")


TIMES: tuning.Table = {
    "float32": {
        "1024": {"native": 1.0, "slices-3": 1.0, "slices-4": 1.0, "crt-7": 1.5, "crt-9": 1.5},
        "4096": {"native": 4.0, "slices-3": 1.0, "slices-4": 1.2, "crt-7": 1.5, "crt-9": 1.1},
    },
    "float64": {"1024": {"native": 1.0, "slices-7": 1.5, "crt-14": 0.8}},
}


@pytest.mark.parametrize(
    ("dtype", "shape", "bits", "scheme"),
    [
        ("float32", (4096, 4096, 4096), 23, "slices"),
        ("float32", (4096, 4096, 4095), 23, "slices"),
        ("float32", (1100, 1100, 1100), 23, "native"),  # near 1024: too little gain
        ("float32", (1024, 1024, 1023), 23, "native"),  # just below the table
        ("float32", (2500, 2500, 2500), 31, "slices"),  # 1.12 and 1.23 ms
        ("float32", (4000, 4000, 4000), 31, "crt"),
        ("float32", (8192, 9000, 4096), 31, "crt"),
        ("float32", (300, 9000, 4096), 23, "native"),  # below the table
        ("float32", (2048, 16384, 16384), 23, "slices"),  # like a square of 4915
        ("float32", (400, 8192, 8192), 23, "native"),  # like one of 1093
        ("float32", (0, 8192, 8192), 23, "native"),
        ("float32", (1024, 1024, 1024), 32, "crt"),  # more bits than float32 has
        ("float32", (300, 9000, 4096), 32, "slices"),  # the same, below the table
        ("float64", (1024, 1024, 1024), 52, "crt"),
        ("float64", (1024, 1024, 1024), 45, "crt"),  # unmeasured counts: the next that was measured
    ],
)
def test_auto_reads_the_table(
    dtype: str, shape: tuple[int, int, int], bits: int, scheme: str
) -> None:
    assert tuning.choose_from(TIMES, dtype, shape, bits) == scheme


def test_auto_measures_no_table_for_small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure() -> tuning.Table:
        raise AssertionError("a small product must not wait for a measurement")

    monkeypatch.setattr(tuning, "table", lambda device: measure())
    for shape in ((500, 500, 500), (170, 10**6, 10**6), (0, 1, 1)):
        assert tuning._choose(0, "float32", shape, 23) == "native"


def test_auto_without_a_device() -> None:
    for bits, scheme in ((23, "slices"), (31, "slices"), (39, "crt")):
        emulated_matmul(A, B, mantissa_bits=bits, scheme="auto", backend="numpy")
        assert emulation_report().scheme == scheme


def test_native_setting_runs_natively() -> None:
    assert execute.planes_for("slices", 64, False).scheme == "native"
    assert execute.planes_for("crt", 62, False).scheme == "native"


def test_check_reports_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report after `check` is the tested side's, not the oracle's."""
    monkeypatch.setattr("gpuemu.dispatch.checked_backend", lambda: "host")
    emulated_matmul(A, B, backend="check")
    assert emulation_report().backend == "host"
