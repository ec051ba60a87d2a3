"""The host build of the kernels' headers against the oracle, and the kernels through NVRTC."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.backends import cuda
from gpuemu.gemm.emulation import crt, emulated_matmul, scheme


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 61),
    st.sampled_from(["slices", "crt"]),
    st.booleans(),
    st.sampled_from(["normal", "bits", "halves", "subnormal"]),
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 40)),
)
def test_bits(
    seed: int,
    dtype: Any,
    bits: int,
    name: str,
    nearest: bool,
    kind: str,
    shape: tuple[int, int, int],
) -> None:
    random = np.random.default_rng(seed)
    m, n, k = shape
    a, b = data(random, kind, dtype, (m, k)), data(random, kind, dtype, (k, n))
    c = random.standard_normal((m, n)).astype(dtype)
    rounding = "nearest" if nearest else "truncate"
    emulated_matmul(
        a,
        b,
        c,
        1.25,
        -0.7,
        mantissa_bits=bits,
        scheme=name,
        slice_rounding=rounding,
        backend="check",
    )


def data(random: np.random.Generator, kind: str, dtype: Any, shape: tuple[int, int]) -> Any:
    """Return elements of one kind: raw bits hold every exponent and NaNs; halves, ties."""
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    if kind == "bits":
        return random.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True).view(
            dtype
        )
    if kind == "halves":
        return (random.integers(-255, 256, shape) * 0.5 ** random.integers(0, 60, shape)).astype(
            dtype
        )
    x = random.standard_normal(shape)
    return (
        x * (2.0**-140 if dtype == np.float32 else 2.0**-1060) if kind == "subnormal" else x
    ).astype(dtype)


def test_every_plane_count() -> None:
    random = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        a, b = (
            random.standard_normal((3, 50)).astype(dtype),
            random.standard_normal((50, 4)).astype(dtype),
        )
        for count in range(1, 9):
            emulated_matmul(a, b, mantissa_bits=min(8 * count - 1, 61), backend="check")
        for count in range(scheme.MIN_MODULI, len(scheme.MODULI) + 1):
            bits = int(scheme.residue_bits(count))
            assert scheme.moduli_for(bits) == count
            emulated_matmul(a, b, mantissa_bits=bits, scheme="crt", backend="check")


def test_int32_sums_of_worst_digits() -> None:
    """With the sanitizer, an overflow of any int32 sum ends the process."""
    worst = -(126.0 + sum(128 * 256.0**-i for i in range(1, 7)))
    a = np.full((1, 18816), worst)
    emulated_matmul(a, a.T, mantissa_bits=55, backend="check")


def test_residues_at_the_norm_limit() -> None:
    """One element a vector: the scaled integer comes as close to the limit as it can."""
    for count in range(scheme.MIN_MODULI, len(scheme.MODULI) + 1):
        limit, exponent = scheme.residue_limit(count)
        top = float((limit * 2.0**exponent) ** 0.5)
        for factor in (0.999, 0.9999, 1.0001, 1.9, 1.0):
            a = np.array([[top * factor]])
            bits = int(scheme.residue_bits(count))
            emulated_matmul(a, a, mantissa_bits=bits, scheme="crt", backend="check")
            values, _ = crt.integers(a, count)
            assert abs(int(values[0, 0])) < 2**63


VARIANTS = [
    (f"emulation_encode_{direction}.cu", defines)
    for direction in ("rows", "columns")
    for defines in (
        {"ELEMENT_BITS": 32, "SCHEME": 0, "PLANE_COUNT": 3, "USE_NEAREST": 1, "CLUSTER": 1},
        {"ELEMENT_BITS": 64, "SCHEME": 1, "PLANE_COUNT": 14, "USE_WEIGHTS": 1, "CLUSTER": 1},
    )
] + [
    (
        "emulation_recombine.cu",
        {"ELEMENT_BITS": 32, "SCHEME": 0, "PLANE_COUNT": 3, "USE_GROUPS": 0},
    ),
    (
        "emulation_recombine.cu",
        {"ELEMENT_BITS": 64, "SCHEME": 0, "PLANE_COUNT": 7, "USE_GROUPS": 1},
    ),
    (
        "emulation_recombine.cu",
        {"ELEMENT_BITS": 64, "SCHEME": 1, "PLANE_COUNT": 14, "USE_GROUPS": 0},
    ),
    ("emulation_span.cu", {"ELEMENT_BITS": 64}),
]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
@pytest.mark.parametrize(("source", "defines"), VARIANTS)
def test_kernels_compile(source: str, defines: dict[str, int], arch: str) -> None:
    assert cuda.cubin(source, defines, arch)


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_the_fused_kernel_compiles(planes: int) -> None:
    defines = {"ELEMENT_BITS": 32, "SCHEME": 0, "PLANE_COUNT": planes, "STAGES": 4}
    assert cuda.cubin("emulation_fused.cu", defines, "sm_90a")
    text = cuda.ptx("emulation_fused.cu", defines, "sm_90a")
    assert ".ftz" not in text
    products = planes * (planes + 1) // 2 * 2  # two steps of 32 bytes in a stage
    assert text.count("wgmma.mma_async") == products


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("cluster", [4, 8])
def test_clusters_compile(cluster: int, arch: str) -> None:
    defines = {"ELEMENT_BITS": 64, "SCHEME": 0, "PLANE_COUNT": 7, "USE_NEAREST": 0}
    assert cuda.cubin("emulation_encode_columns.cu", defines | {"CLUSTER": cluster}, arch)


#: Fused multiply-adds that the sources write, by (source, scheme): no others may appear.
FUSED = {
    ("emulation_encode_rows.cu", 0): set(),
    ("emulation_encode_rows.cu", 1): {"fma.rn.f32"},  # quotients of residues
    ("emulation_encode_columns.cu", 0): set(),
    ("emulation_encode_columns.cu", 1): {"fma.rn.f32"},
    ("emulation_recombine.cu", 0): {"fma.rn.f64"},  # weights of diagonals
    ("emulation_recombine.cu", 1): {"fma.rn.f32"},  # the quotient of the CRT
    ("emulation_span.cu", 0): set(),
}


@pytest.mark.parametrize(("source", "defines"), VARIANTS)
def test_no_flush_and_no_contraction(source: str, defines: dict[str, int]) -> None:
    """`.rn` forbids the assembler to fuse; a fusion by the compiler would change the counts."""
    text = cuda.ptx(source, defines)
    assert ".ftz" not in text
    found = Counter(re.findall(r"\b(?:add|sub|mul|fma|mad)(?:\.\w+)*\.f(?:32|64)\b", text))
    assert all(".rn." in operation for operation in found), found
    fused = {operation for operation in found if operation.startswith(("fma", "mad"))}
    assert fused == FUSED[source, defines.get("SCHEME", 0)]
    if "recombine" in source and not defines["USE_GROUPS"] and defines["SCHEME"] == 0:
        # Each is paired with the subtraction that made an int32 a double: none is alpha's.
        assert found["fma.rn.f64"] == found["add.rn.f64"]
