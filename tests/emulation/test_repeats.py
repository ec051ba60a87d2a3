"""Repeated calls: what is remembered, what is not, and that nothing of a call goes stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpuemu.backends import arrays
from gpuemu.errors import GpuemuError
from gpuemu.gemm.emulation import emulated_matmul, emulation_report, execute, repeats

from . import simulator


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Run the CUDA path on CPU threads; the list grows with every call that is not a repetition."""
    simulator.install(monkeypatch)
    kind = arrays.kind
    fakes = (simulator.FakeArray,)
    monkeypatch.setattr(arrays, "kind", lambda x: "cupy" if isinstance(x, fakes) else kind(x))
    repeats.forget()
    found: list[Any] = []
    run = execute._run

    def counted(call: Any, backend: str, *key: Any, **options: Any) -> Any:
        if backend == "cuda":
            found.append(call)
        return run(call, backend, *key, **options)

    monkeypatch.setattr(execute, "_run", counted)
    yield found
    repeats.forget()


def operands(seed: int, m: int = 6, n: int = 5, k: int = 40) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(seed)
    shapes = ((m, k), (k, n), (m, n))
    a, b, c = (simulator._fake(random.standard_normal(s).astype(np.float32)) for s in shapes)
    return a, b, c


def oracle(*args: Any, **options: Any) -> Any:
    given = (np.asarray(x) if isinstance(x, np.ndarray) else x for x in args)
    return emulated_matmul(*given, **(options | {"backend": "numpy"}))


@pytest.mark.parametrize("scheme", ["slices", "crt"])
def test_new_data_new_scalars_same_launches(calls: list[Any], scheme: str) -> None:
    for seed, alpha, beta in ((0, 1.0, 0.5), (1, -2, 0.5), (2, 0.1, 3)):
        a, b, c = operands(seed)
        a[seed, 0] = np.nan
        got = emulated_matmul(a, b, c, alpha, beta, scheme=scheme, backend="cuda")
        report = emulation_report()
        assert (report.rows_native, report.columns_native, report.scheme) == (1, 0, scheme)
        assert len(calls) == 1
        want = oracle(a, b, c, alpha, beta, scheme=scheme)
        assert np.array_equal(np.asarray(got), want, equal_nan=True)


def test_native_repetitions(calls: list[Any]) -> None:
    for seed, alpha, beta in ((0, 1.0, 2.0), (1, 3.0, -1.0)):
        a, b, c = (np.rint(x) for x in operands(seed))
        got = emulated_matmul(a, b, c, alpha, beta, scheme="auto", backend="cuda")
        assert np.array_equal(np.asarray(got), np.asarray(alpha * (a @ b) + beta * c))
        report = emulation_report()
        assert (report.scheme, report.products) == ("native", 0) and report.note
    assert len(calls) == 1


def test_a_beta_that_rounds_to_zero_is_never_remembered(calls: list[Any]) -> None:
    a, b, c = operands(9)
    for beta in (1e-60, 1.0, 1e-60):
        got = emulated_matmul(a, b, c, 1.0, beta, backend="cuda")
        assert np.array_equal(np.asarray(got), oracle(a, b, c, 1.0, beta))
    assert len(calls) == 3


def test_an_addend_of_another_library_is_no_repetition(calls: list[Any]) -> None:
    a, b, c = operands(8)
    emulated_matmul(a, b, c, 1.0, 0.5, backend="cuda")
    got = emulated_matmul(a, b, np.array(c), 1.0, 0.5, backend="cuda")
    assert len(calls) == 2
    assert np.array_equal(np.asarray(got), oracle(a, b, c, 1.0, 0.5))


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda a, b, c: (a[:4].copy(), b, c[:4].copy()), {}),
        (lambda a, b, c: (simulator._fake(np.asfortranarray(a)), b, c), {}),
        (lambda a, b, c: (a, b, simulator._fake(np.asfortranarray(c))), {}),
        (lambda a, b, c: (a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)), {}),
        (lambda a, b, c: (a, b, c), {"mantissa_bits": 15}),
        (lambda a, b, c: (a, b, c), {"slice_rounding": "nearest"}),
        (lambda a, b, c: (a, b, c), {"scheme": "crt"}),
        (lambda a, b, c: (a, b, c), {"workspace": 1 << 20}),
    ],
)
def test_what_differs_is_not_a_repetition(
    calls: list[Any], change: Any, options: dict[str, Any]
) -> None:
    a, b, c = operands(3)
    emulated_matmul(a, b, c, 1.0, 1.0, backend="cuda")
    x, y, z = change(a, b, c)
    got = emulated_matmul(x, y, z, 1.0, 1.0, backend="cuda", **options)
    assert len(calls) == 2
    assert np.array_equal(np.asarray(got), oracle(x, y, z, 1.0, 1.0, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"mantissa_bits": True},
        {"mantissa_bits": 23.0},
        {"beta": 1.0},
        {"alpha": "1x"},
        {"scheme": ["slices"]},
        {"backend": ["cuda"]},
        {"workspace": 0},
        {"slice_rounding": "up"},
    ],
)
def test_bad_arguments_are_refused_after_a_good_call(
    calls: list[Any], options: dict[str, Any]
) -> None:
    a, b, _ = operands(4)
    emulated_matmul(a, b, mantissa_bits=1, backend="cuda")
    emulated_matmul(a, b, mantissa_bits=23, backend="cuda")
    with pytest.raises(GpuemuError):
        emulated_matmul(a, b, **({"mantissa_bits": 23, "backend": "cuda"} | options))


def test_dynamic_control_looks_at_the_data_every_time(calls: list[Any]) -> None:
    a, b, _ = operands(5)
    for spread, planes in ((0, 4), (24, 7)):
        wide = simulator._fake(a * np.exp2(np.where(np.arange(40) % 2, -spread, 0)))
        right = simulator._fake(b * np.exp2(np.where(np.arange(40) % 2, 0, -spread))[:, None])
        x, y = wide.astype(np.float64), right.astype(np.float64)
        emulated_matmul(x, y, mantissa_bits=23, mantissa_control="dynamic", backend="cuda")
        assert emulation_report().planes >= planes
    assert len(calls) == 2


def test_what_is_copied_is_not_remembered(calls: list[Any]) -> None:
    a, b, _ = operands(6)
    apart = simulator._fake(np.repeat(np.repeat(a, 2, axis=0), 2, axis=1))[::2, ::2]
    for _ in range(2):
        got = emulated_matmul(apart, b, backend="cuda")
        assert np.array_equal(np.asarray(got), oracle(apart, b))
    assert len(calls) == 2


def test_memory_of_calls_is_bounded(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MOST", 2)
    for m in range(1, 6):
        a, b, _ = operands(7, m=m)
        emulated_matmul(a, b, backend="cuda")
    assert len(repeats._known) <= 2
