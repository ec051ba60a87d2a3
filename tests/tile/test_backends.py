"""The code that the GPU runs, built for the host, against the oracle; and every kernel compiled."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import tile
from gpuemu.backends import cuda, host
from gpuemu.errors import BackendUnavailable, Mismatch
from gpuemu.tile import Core, device, oracle
from gpuemu.tile.numeric import ELEMENT_TYPES, DataType, data_type
from gpuemu.tile.operations import OPERATIONS
from tests.tile.cases import (
    check_alone_in_a_vector,
    edge_tuples,
    one_by_one,
    random_codes,
    sweep,
    triples,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/tfma/vectors.json").read_text())
needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "present")


def check_elements(name: str, sources: tuple[Any, ...], dtype: str, **options: Any) -> None:
    """Compare bits and the OR of the flags."""
    tile.elements(name, sources, dtype, "check", dtype_set="adr0080", **options)


@needs_host
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_on_every_type(name: str, dtype: str) -> None:
    row = data_type(dtype)
    count = OPERATIONS[name].sources
    rng = np.random.default_rng(11)
    sources = tuple(
        np.concatenate(pair)
        for pair in zip(
            edge_tuples(row, count),
            [random_codes(row, rng, 500) for _ in range(count)],
            strict=True,
        )
    )
    if dtype == "FP64":
        keep = rng.permutation(len(sources[0]))[:2000]
        sources = tuple(source[keep] for source in sources)
    check_elements(name, sources, dtype)


@needs_host
@pytest.mark.parametrize("corner", ["ieee", "asl"])
@pytest.mark.parametrize("dtype", [name for name in ELEMENT_TYPES if name[0] in "FBTHE"])
def test_flags_of_each_element(dtype: str, corner: Any) -> None:
    row = data_type(dtype)
    sources = triples(dtype, 3, 1500 if dtype == "FP64" else 6000)
    keep = np.random.default_rng(4).permutation(len(sources[0]))[
        : 2000 if dtype == "FP64" else 12000
    ]
    sources = tuple(source[keep] for source in sources)
    bits, flags = one_by_one("TFMA", sources, dtype, "host", nan_corner=corner)
    want, want_flags = oracle.elements(OPERATIONS["TFMA"], row, sources, corner)
    np.testing.assert_array_equal(bits, want)
    np.testing.assert_array_equal(flags, want_flags)


@needs_host
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
def test_vectors(dtype: str) -> None:
    rows = [row for row in VECTORS["float_elements"] if row["type"] == dtype]
    operands = tuple(
        np.array([int(row[name], 16) for row in rows], data_type(dtype).storage)
        for name in ("left", "right", "addend")
    )
    bits, flags = one_by_one("TFMA", operands, dtype, "host")
    np.testing.assert_array_equal(bits, [int(row["result"], 16) for row in rows])
    np.testing.assert_array_equal(flags, [row["flags"] for row in rows])


@needs_host
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
def test_many_triples(dtype: str) -> None:
    check_elements("TFMA", triples(dtype, 21, 200_000), dtype)


@needs_host
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "TF32", "E4M3", "FP32"])
def test_flags_of_an_element_among_zeros(dtype: str) -> None:
    check_alone_in_a_vector(dtype, "host", 1000)


@needs_host
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_exponent_sweep(dtype: str, part: int) -> None:
    """All triples of exponents of FP16, a 67th of BF16's; the GPU suite runs the rest."""
    check_elements("TFMA", sweep(dtype, part, 3 if dtype == "FP16" else 201), dtype)


@needs_host
@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_vectors_without_anything_uncommon(dtype: str) -> None:
    """Normal results only, so that the short path of the device code runs, edges included."""
    row, rng = data_type(dtype), np.random.default_rng(5)
    one = ((1 << (row.exponent_bits - 1)) - 1) << row.mantissa_bits
    spread = 3 << row.mantissa_bits
    x, y, z = (
        (rng.integers(one - spread, one + spread, 64_000) | rng.choice([0, row.sign_bit], 64_000))
        for _ in range(3)
    )
    x[::7] = z[::7] = 0
    sources = tuple(a.astype(row.storage) for a in (x, y, z))
    check_elements("TFMA", sources, dtype)
    exact = tuple(a & row.storage.type(-1 << (row.mantissa_bits - 1) & 0xFFFF) for a in sources)
    check_elements("TMUL", exact[:2], dtype)  # few significand bits: no flag at all
    assert tile.elements("TMUL", exact[:2], dtype, "host")[1] == 0


@needs_host
@pytest.mark.parametrize(
    ("dtype", "fragments", "valid", "pad", "mask"),
    [
        ("FP16", 4, (3, 5), "Max", 0b1111),
        ("BF16", 4, (8, 16), "Null", 0b1100),
        ("FP32", 4, (1, 1), "Min", 0b0001),
        ("FP32", 1, (7, 16), "Zero", 0b1000),
        ("E4M3", 4, (8, 3), "Max", 0b1110),
        ("U64", 4, (2, 2), "Max", 0b0100),
        ("FP16", 4, (3, 5), "Zero", 0b0000),
    ],
)
def test_batches(dtype: str, fragments: int, valid: tuple[int, int], pad: str, mask: int) -> None:
    rng = np.random.default_rng(8)
    shape = (3, 2, fragments, 8, 16)
    count = int(np.prod(shape))
    sources = tuple(random_codes(data_type(dtype), rng, count).reshape(shape) for _ in range(3))
    batch = tile.tiles(
        "TFMA", sources, dtype, "check", valid=valid, pad=pad, mask=mask, dtype_set="adr0080"
    )
    assert batch.bits.shape == batch.defined.shape == shape
    assert batch.flags.shape == (3, 2)
    assert (batch.bits[~batch.defined] == 0).all()


@needs_host
def test_core_runs_on_each_backend() -> None:
    text = (
        "BSTART.VEC TFMA, BF16; B.DATR Max; B.DIM LB0=5; B.DIM LB1=3; B.DIM LB2=8; "
        "B.IOT T#1, T#2, mask=1110; B.IOT T#3, mask=1110, last, ->N<128B>; BSTOP"
    )
    digests = set()
    for backend in ("numpy", "host", "check"):
        core, rng = Core(backend=backend), np.random.default_rng(9)
        for index in range(3):
            codes = rng.integers(0, 1 << 16, (4, 3, 5)).astype(np.uint16)
            core.write(index, codes, "BF16", columns=8, capacity=128)
        core.execute(text)
        digests.add(core.snapshot())
    assert len(digests) == 1


class Wrong:
    """The host build with one planted fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def elements(
        self, row: Any, dtype: DataType, sources: Any, corner: Any
    ) -> tuple[np.ndarray[Any, Any], int]:
        bits, flags = oracle.elements(row, dtype, sources, corner)
        total = int(np.bitwise_or.reduce(flags))
        if self.fault == "bits":
            bits = bits.copy()
            bits[5] ^= 1
        return bits, total ^ (4 if self.fault == "flags" else 0)


@needs_host
def test_check_reports_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    where = "elements_cuda" if cuda.available() else "elements_host"
    codes = np.arange(0x3C00, 0x3C10, dtype=np.uint16)
    monkeypatch.setattr(device, where, Wrong("bits").elements)
    with pytest.raises(
        Mismatch, match=r"1 of 16 elements differ; element 5: .* 4004, oracle 4005"
    ) as e:
        tile.elements("TMUL", (codes, np.full(16, 0x4000, np.uint16)), "FP16", "check")
    replay = str(e.value).partition("; gpuemu.tile.")[2]
    assert replay.startswith('elements("TMUL", ([0x3c05], [0x4000],), "FP16"')
    monkeypatch.undo()
    assert eval("tile." + replay, {"tile": tile})[0].tolist() == [0x4005]
    monkeypatch.setattr(device, where, Wrong("flags").elements)
    with pytest.raises(Mismatch, match=r"bits agree, flags do not: .* OF, oracle none"):
        tile.elements("TABS", (codes,), "FP16", "check")


def test_cuda_without_a_device_says_why() -> None:
    if cuda.available():
        pytest.skip("a CUDA device is present")
    with pytest.raises(BackendUnavailable, match="cuda"):
        tile.fma([0], [0], [0], "FP16", "cuda")
    with pytest.raises(BackendUnavailable, match="cuda"):
        Core(backend="cuda")


def nvrtc_missing() -> str:
    try:
        cuda.nvrtc_version()
    except BackendUnavailable as error:
        return str(error)
    return ""


needs_nvrtc = pytest.mark.skipif(bool(nvrtc_missing()), reason=nvrtc_missing() or "present")


@needs_nvrtc
@pytest.mark.parametrize(
    ("arch", "dtype"),
    list(product(["sm_80", "sm_90a", "sm_100"], ["FP16", "BF16", "FP32", "FP64", "S8"])),
)
def test_kernels_compile(arch: str, dtype: str) -> None:
    assert cuda.cubin("tile.cu", {"TILE_OP": "TFMA", "TILE_TYPE": dtype}, arch).startswith(
        b"\x7fELF"
    )


@needs_nvrtc
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_compiles(name: str) -> None:
    for dtype in ("FP32", "E4M3", "U16"):
        cuda.cubin("tile.cu", {"TILE_OP": name, "TILE_TYPE": dtype}, "sm_90a")


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
def test_instructions_that_flush_or_contract_are_absent(dtype: str) -> None:
    text = cuda.ptx("tile.cu", {"TILE_OP": "TFMA", "TILE_TYPE": dtype})
    assert ".ftz" not in text
    assert "fma.rm.f32" in text and "fma.rp.f32" in text
    assert ("fma.rn.f32" in text) == (dtype == "FP32")  # no FP32 fused result is narrowed again
    assert ".f64" not in text
