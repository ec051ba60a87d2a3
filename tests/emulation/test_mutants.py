"""Planted faults: each must change a result that a comparison with the oracle sees.

A mutant of the kernels is one changed line of `cuda_src`, run on CPU threads; a mutant of the host
side of CUDA, or of the oracle, is one changed function.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu.backends import sources
from gpuemu.errors import Mismatch
from gpuemu.gemm.emulation import (
    crt,
    device,
    device_products,
    device_steps,
    emulated_matmul,
    scheme,
    slices,
)

from . import simulator

SLICES, CRT = {"mantissa_bits": 23}, {"mantissa_bits": 12, "scheme": "crt"}
NEAREST = SLICES | {"slice_rounding": "nearest"}


def compare(options: dict[str, Any]) -> None:
    """Run inputs that show the faults: leading ones, halves, ties, large sums, strides, NaN."""
    random = np.random.default_rng(1)
    a, b, c = (random.standard_normal(s).astype(np.float32) for s in ((16, 40), (40, 16), (16, 16)))
    a[0] = 127.5 / 128
    a[1], b[:, 1] = 0, 0
    a[1, :2], b[:2, 1] = (1.0, 2.0**-12), (1.0, 2.0**-12)  # exact product: a tie of float32
    a[2, 3], b[7, 2] = np.nan, np.inf
    b[:, 3] = np.ldexp(random.integers(-(2**23), 2**23, 40) + 0.5, -20).astype(np.float32)
    a[3:], b[:, 4:] = random.uniform(0.5, 1, (13, 40)), random.uniform(0.5, 1, (40, 12))
    strided, right = np.repeat(a, 2, axis=1)[:, ::2], np.asfortranarray(b)
    emulated_matmul(a, b, c, 1.5, 0.3, backend="check", **options)
    emulated_matmul(np.asfortranarray(a), right, backend="check", **options)
    emulated_matmul(strided, right, backend="check", **options)
    long = random.standard_normal((2300, 3)).astype(np.float32)  # more than registers hold
    long[1100:] *= 4
    emulated_matmul(long.T.copy(), long, backend="check", **options)


@pytest.mark.parametrize("options", [SLICES, NEAREST, CRT])
def test_the_unchanged_code_survives(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator.install(monkeypatch)
    compare(options)


UPWARDS = "for (int d = 0; d < SLICES; ++d)"

#: (file, line, its fault, the call that shows it)
KERNELS = [
    ("digits.cuh", "(below_leading >> 58 == 63)", "(below_leading >> 57 == 127)", SLICES),
    ("digits.cuh", "+ ((v >> shift) & 1)", "+ 1", NEAREST),
    ("digits.cuh", "(value + bias) ^ bias", "value", SLICES),
    ("values.cuh", "UNROLL for (int d = SLICES - 1; d >= 0; --d)", UPWARDS, SLICES),
    ("values.cuh", "if (a_exponent == NONFINITE || ", "if (", SLICES),
    ("values.cuh", "v = alpha * v;", "", SLICES),
    ("residues.cuh", "return (fits ? y : y - 1)", "return y - 1", CRT),
    ("residues.cuh", "return (u32)acc - quotient", "return (u32)acc + quotient", CRT),
    ("values.cuh", "rest == half && (kept & 1)", "rest == half", CRT),
    ("values.cuh", "i64 part = limb[i] - (i64)nearest", "i64 part = limb[i] + (i64)nearest", CRT),
    ("encode_rows.cu", "k < padded) store_quad", "k < length) store_quad", SLICES),
    ("encode.cuh", "step >= KEPT", "step > KEPT", SLICES),
    ("encode_columns.cu", "j < left ? x[j", "j + 1 < left ? x[j", SLICES),
    ("encode_columns.cu", "shared[j * blockDim.x] = run", "shared[j] = run", SLICES),
    ("encode_columns.cu", "i >= KEPT; --i", "i > held; --i", CRT),
    ("encode_columns.cu", "count + KEPT - 1 - n", "count - 1 - n", SLICES),
]  # fmt: skip


@pytest.mark.parametrize(("file", "line", "fault", "options"), KERNELS)
def test_kernel_mutants(
    file: str,
    line: str,
    fault: str,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for path in (*sources.directory().glob("emulation_*"), sources.directory() / "common.cuh"):
        shutil.copy(path, tmp_path)
    changed = tmp_path / f"emulation_{file}"
    text = changed.read_text()
    assert line in text
    changed.write_text(text.replace(line, fault))
    simulator.install(monkeypatch, dict.fromkeys(simulator.KERNELS, tmp_path))
    with pytest.raises(Mismatch):
        compare(options)


def _layout(part: Any, right: bool, block: int, buffer: int) -> tuple[int, int, int]:
    start, vector, plane = LAYOUT(part, right, block, buffer)
    return (part.plan.b_offset, vector, -plane) if right and plane < 0 else (start, vector, plane)


LAYOUT = device_steps._Part._layout
PRODUCTS = device_products.products
ORACLE_SHIFT, ORACLE_SCALE, ROUNDED = slices.shared_shift, crt.norm_scale, crt.rounded

#: (module or class, name, the fault, the call that shows it)
FUNCTIONS: list[tuple[Any, str, Callable[..., Any], dict[str, Any]]] = [
    (device_steps._Part, "_layout", _layout, SLICES),
    (device, "encodable", lambda x, axis: x, SLICES),
    (
        device_products,
        "products",
        lambda *args: [replace(p, k=max(16, p.k - 16)) for p in PRODUCTS(*args)],
        SLICES,
    ),
    (device_products, "products", lambda *args: PRODUCTS(*args)[:-1], SLICES),
    (slices, "shared_shift", lambda x: ORACLE_SHIFT(x) - 1, SLICES),
    (slices, "diagonal", lambda a, b, d: np.zeros((a.shape[1], b.shape[1])), SLICES),
    (crt, "norm_scale", lambda x, moduli: ORACLE_SCALE(x, moduli) - 1, CRT),
    (crt, "rounded", lambda v, e, dtype: ROUNDED(v | 1, e, dtype), CRT),
    (scheme, "residue_limit", lambda moduli: (1 << 31, 40), CRT),
]


@pytest.mark.parametrize(("owner", "name", "fault", "options"), FUNCTIONS)
def test_function_mutants(
    owner: Any,
    name: str,
    fault: Callable[..., Any],
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulator.install(monkeypatch)
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(Mismatch):
        compare(options)
