"""Bits of emulated precision on CUDA against the oracle: a part of `emulation_report.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

Results = dict[str, Any]


def check_bits() -> Results:
    """Compare CUDA with the oracle, bit for bit: shapes, orientations, specials, split K."""
    from gpuemu.errors import GpuemuError
    from gpuemu.gemm.emulation import emulated_matmul

    random = np.random.default_rng(5)
    failures: list[str] = []
    count = 0
    for dtype in (np.float32, np.float64):
        for m, n, k in ((1, 1, 1), (5, 7, 3), (33, 65, 129), (64, 140, 2100)):
            for case in ("rows", "columns", "special", "strided", "spread"):
                a, b, c = _case(random, case, dtype, m, n, k)
                for scheme, bits in (
                    ("slices", 23),
                    ("slices", 52),
                    ("slices", 61),
                    ("crt", 23),
                    ("crt", 52),
                ):
                    for rounding in ("truncate", "nearest") if scheme == "slices" else ("nearest",):
                        label = (
                            f"{np.dtype(dtype).name} {m}x{n}x{k} {case} {scheme}-{bits} {rounding}"
                        )
                        count += 1
                        try:
                            emulated_matmul(
                                a, b, c, -1.5, 0.75, mantissa_bits=bits, scheme=scheme,
                                slice_rounding=rounding, backend="check",
                            )  # fmt: skip
                        except GpuemuError as error:
                            failures.append(f"{label}: {error}")
    count += _check_long_k(failures)
    print(f"bits: {count} products compared with the oracle, {len(failures)} differ")
    for line in failures[:20]:
        print("  DIFFERS", line)
    return {"compared": count, "differ": failures}


def _case(random: Any, case: str, dtype: Any, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    a, b, c = (random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    if case == "columns":
        a, b, c = np.asfortranarray(a), np.asfortranarray(b), np.asfortranarray(c)
    if case == "strided":
        a, b = (
            np.repeat(a, 2, axis=1)[:, ::2],
            np.repeat(np.repeat(b, 2, axis=0), 2, axis=1)[::2, ::2],
        )
    if case == "spread":
        a = (a * np.exp2(random.integers(-30, 30, a.shape))).astype(dtype)
        a[0] *= dtype(2.0) ** (-120 if dtype == np.float32 else -1000)
    if case == "special":
        a[m // 2, k // 2], b[k // 3, n // 2] = np.inf, np.nan
        a[m - 1] = 0
    return a, b, c


def _check_long_k(failures: list[str]) -> int:
    """K with several int32 sums a diagonal (worst-case digits), and split K."""
    from gpuemu.errors import GpuemuError
    from gpuemu.gemm.emulation import emulated_matmul

    for bits, k, split in ((55, 33024, None), (55, 18816, None), (23, 70000, "auto")):
        worst = -(126.0 + sum(128 * 256.0**-i for i in range(1, (bits + 8) // 8)))
        a = np.full((4, k), worst)
        a[1] = np.random.default_rng(1).standard_normal(k)
        try:
            emulated_matmul(
                a, np.ascontiguousarray(a.T), mantissa_bits=bits, split_k=split, backend="check"
            )
        except GpuemuError as error:
            failures.append(f"K={k} {bits} bits: {error}")
    return 3
