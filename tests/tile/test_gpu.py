"""The kernels on a device: against the oracle, and every product of two 16-bit floats."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gpuemu import tile
from gpuemu.tile import Core, oracle
from gpuemu.tile.numeric import ELEMENT_TYPES, NV, NX, OF, UF, data_type
from gpuemu.tile.operations import OPERATIONS
from tests.tile.cases import (
    check_alone_in_a_vector,
    edge_tuples,
    one_by_one,
    random_codes,
    sweep,
    triples,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_every_operation(dtype: str) -> None:
    row, rng = data_type(dtype), np.random.default_rng(31)
    for name, operation in OPERATIONS.items():
        sources = tuple(
            np.concatenate([edge, random_codes(row, rng, 2001)])
            for edge in edge_tuples(row, operation.sources)
        )
        if dtype == "FP64":
            keep = rng.permutation(len(sources[0]))[:3001]
            sources = tuple(source[keep] for source in sources)
        tile.elements(name, sources, dtype, "check", dtype_set="adr0080")


@pytest.mark.parametrize("corner", ["ieee", "asl"])
@pytest.mark.parametrize(
    "dtype", [name for name in ELEMENT_TYPES if data_type(name).kind == "float"]
)
def test_flags_of_each_element(dtype: str, corner: Any) -> None:
    row = data_type(dtype)
    count = 4000 if dtype == "FP64" else 100_000
    sources = triples(dtype, 32, count)
    keep = np.random.default_rng(4).permutation(len(sources[0]))[:count]
    sources = tuple(source[keep] for source in sources)
    bits, flags = one_by_one("TFMA", sources, dtype, "cuda", nan_corner=corner)
    want, want_flags = oracle.elements(OPERATIONS["TFMA"], row, sources, corner)
    np.testing.assert_array_equal(bits, want)
    np.testing.assert_array_equal(flags, want_flags)


@pytest.mark.parametrize("dtype", ["FP16", "BF16", "TF32", "E4M3", "FP32"])
def test_flags_of_an_element_among_zeros(dtype: str) -> None:
    check_alone_in_a_vector(dtype, "cuda", 500)


@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
def test_many_triples(dtype: str) -> None:
    tile.fma(*triples(dtype, 33, 5_000_000), dtype, "check")


def test_exponent_sweep() -> None:
    """Every triple of exponents of BF16, with edge significands."""
    for part in range(8):
        tile.fma(*sweep("BF16", part, 8, seed=50), "BF16", "check")


@pytest.mark.parametrize("dtype", ["FP16", "FP32", "E4M3", "U64"])
@pytest.mark.parametrize("mask", [0b1111, 0b0100, 0b1100, 0b0000])
@pytest.mark.parametrize(("shape", "valid"), [((8, 16), (3, 5)), ((64, 128), (64, 127))])
def test_batches(dtype: str, mask: int, shape: tuple[int, int], valid: tuple[int, int]) -> None:
    rng = np.random.default_rng(8)
    for fragments, pad in ((4, "Max"), (1, "Null")):
        extent = (9, fragments, *shape)
        sources = tuple(
            random_codes(data_type(dtype), rng, int(np.prod(extent))).reshape(extent)
            for _ in range(3)
        )
        tile.tiles(
            "TFMA", sources, dtype, "check", valid=valid, pad=pad, mask=mask, dtype_set="adr0080"
        )


def test_sizes_and_alignments() -> None:
    import cupy

    for dtype, length in (("FP16", 1 << 12), ("FP32", 1 << 12), ("U8", 1 << 12)):
        row = data_type(dtype)
        codes = random_codes(row, np.random.default_rng(1), length)
        device = cupy.asarray(codes)
        for start, size in ((0, 1), (0, 7), (1, 8), (3, 4093), (8, 0), (5, 1023)):
            part = slice(start, start + size)
            got, flags = tile.fma(
                device[part], device[part], device[part], dtype, dtype_set="adr0080"
            )
            assert isinstance(got, cupy.ndarray)
            want, want_flags = tile.fma(
                codes[part], codes[part], codes[part], dtype, "numpy", dtype_set="adr0080"
            )
            np.testing.assert_array_equal(got.get(), want)
            assert flags == want_flags
        np.testing.assert_array_equal(device.get(), codes)


def test_the_callers_stream() -> None:
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        ones = cupy.full(1 << 20, 0x3C00, cupy.uint16)
        bits, flags = tile.fma(ones, ones, ones, "FP16")
        assert (int(bits.min()), int(bits.max()), flags) == (0x4000, 0x4000, 0)


def test_core_on_the_device() -> None:
    digests = set()
    for backend in ("numpy", "cuda", "check"):
        core, rng = Core(backend=backend), np.random.default_rng(9)
        for index in range(3):
            codes = rng.integers(0, 1 << 16, (4, 3, 5)).astype(np.uint16)
            core.write(index, codes, "BF16", columns=8, capacity=128)
        core.execute(
            "BSTART.VEC TFMA, BF16; B.DATR Max; B.DIM LB0=5; B.DIM LB1=3; B.DIM LB2=8; "
            "B.IOT T#1, T#2, mask=1110; B.IOT T#3, mask=1110, last, ->N<128B>; BSTOP"
        )
        digests.add(core.snapshot())
    assert len(digests) == 1


class Products:
    """Products by tables: every code's value in binary64, and every midpoint between neighbours.

    A product of two such values is exact in binary64; its place among the midpoints is its result.
    """

    def __init__(self, dtype: str) -> None:
        import cupy

        self.row = data_type(dtype)
        native = {"FP16": np.float16, "BF16": ml_dtypes.bfloat16}[dtype]
        codes = np.arange(1 << 16, dtype=np.uint16)
        with np.errstate(invalid="ignore"):  # signaling NaNs
            values = codes.view(native).astype(np.float64)
        finite = values[: self.row.infinity]
        beyond = 2 * finite[-1] - finite[-2]
        self.values = cupy.asarray(values)
        self.midpoints = cupy.asarray((finite + np.append(finite[1:], beyond)) / 2)
        # The last midpoint of the normal numbers' grid, continued below them.
        smallest = finite[1 << self.row.mantissa_bits]
        self.threshold = smallest * (1 - 2.0 ** -(self.row.mantissa_bits + 2))
        fraction = codes & (self.row.sign_bit - 1)
        quiet = 1 << (self.row.mantissa_bits - 1)
        self.signaling = cupy.asarray((fraction > self.row.infinity) & (codes & quiet == 0))

    def __call__(self, left: Any, right: Any) -> tuple[Any, Any]:
        import cupy

        x, y = self.values[left], self.values[right]
        product = x * y
        size = cupy.abs(product)
        code = cupy.searchsorted(self.midpoints, size)  # midpoints below the product
        tie = size == self.midpoints[cupy.minimum(code, self.row.infinity - 1)]
        code = code + (tie & (code % 2 == 1))
        value = self.values[code]
        inexact = cupy.isfinite(product) & (value != size)
        flags = inexact * NX + (inexact & (size < self.threshold)) * UF
        flags += cupy.isfinite(product) & (code == self.row.infinity)
        flags = cupy.where(flags % 2 == 1, OF | NX, flags)
        invalid = cupy.isnan(product) & ~cupy.isnan(x) & ~cupy.isnan(y)
        invalid |= self.signaling[left] | self.signaling[right]
        flags = cupy.where(cupy.isnan(product), invalid * NV, flags)
        sign = cupy.signbit(product) & (size != 0)  # an exact zero plus +0 is +0
        bits = cupy.where(cupy.isnan(product), self.row.canonical_nan, code + sign * 0x8000)
        return bits.astype(cupy.uint16), flags.astype(cupy.uint8)


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_every_product(dtype: str) -> None:
    """All 2^32 products plus zero; flags as the OR over every 64 neighbours."""
    import cupy

    reference = Products(dtype)
    block = 1 << 8  # left codes a call: 2^24 products
    right = cupy.tile(cupy.arange(1 << 16, dtype=cupy.uint16), block)
    zeros = cupy.zeros(right.size, cupy.uint16)
    shape = (-1, 1, 1, 64)
    for start in range(0, 1 << 16, block):
        left = cupy.repeat(cupy.arange(start, start + block).astype(cupy.uint16), 1 << 16)
        sources = tuple(array.reshape(shape) for array in (left, right, zeros))
        batch = tile.tiles("TFMA", sources, dtype, "cuda")
        bits, flags = reference(left, right)
        wrong = cupy.flatnonzero(batch.bits.reshape(-1) != bits)
        assert wrong.size == 0, [hex(int(a[wrong[0]])) for a in (left, right, bits)]
        grouped = flags.reshape(-1, 64)
        for flag in (NV, OF, UF, NX):
            got = (batch.flags & flag) != 0
            assert bool((got == ((grouped & flag) != 0).any(axis=1)).all()), (start, flag)
        sources = tuple(array for array in (left, right, zeros))
        flat, _ = tile.fma(*sources, dtype, "cuda")
        assert bool((flat == bits).all())
