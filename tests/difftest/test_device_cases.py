"""Cases made and compared by the device's code have the bits of NumPy, on the host and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import formats
from gpuemu.backends import cuda, host
from gpuemu.difftest import device_cases, items
from gpuemu.difftest import images as register_images
from gpuemu.difftest.generators import classes_for
from gpuemu.difftest.matrix_cases import sweep
from gpuemu.difftest.runner import wrong_registers
from gpuemu.difftest.streams import Stream, power
from gpuemu.errors import BackendUnavailable

needs_compiler = pytest.mark.skipif(
    not host.available(), reason=host.why_unavailable() or "host build"
)
CASES = np.array([0, 1, 5, 77, 1 << 40])
ROWS = gpuemu.instructions()
# Items of 6 and of 64 bits lie in two registers.
SOME = [*ROWS[::7], *(i for i in ROWS if i.modifiers.cbsz == "format" or i.formats["D"] == "f64")]
NARROW = [name for name, fmt in formats.FORMATS.items() if fmt.bits <= 32]


def equal(got: Any, want: Any) -> bool:
    """Tell whether two arrays have the same type, shape and bits."""
    return (got.dtype, got.shape) == (want.dtype, want.shape) and got.tobytes() == want.tobytes()


class KernelStream(Stream):
    """A stream of NumPy arrays that draws through the kernels' code."""

    on_device = True


DRAWS: dict[str, Any] = {
    "words": lambda s: s.words(3, 5),
    "below": lambda s: s.below(1000003, 7),
    "between": lambda s: s.between(-37, 12, 2, 9),
    "one": lambda s: s.below(2),
    "sign": lambda s: s.sign(11),
    "no digits": lambda s: s.significand(0, 4),
    "digits": lambda s: s.significand(23, 4),
    "all digits": lambda s: s.significand(52, 3),
    "bell": lambda s: s.bell(300),
}


@needs_compiler
def test_draws() -> None:
    ours, theirs = KernelStream(9, CASES), Stream(9, CASES)
    for turn in range(3):  # positions count on alike
        for name, draw in DRAWS.items():
            assert equal(draw(ours), draw(theirs)), (turn, name)


@needs_compiler
def test_powers() -> None:
    exponents = np.arange(-1074, 1024).reshape(2, -1)
    assert equal(device_cases.power(exponents), power(exponents))
    assert equal(device_cases.power(exponents[:, ::3]), power(exponents[:, ::3]))


def values() -> Any:
    """Return doubles of every exponent that matters, both signs, zeros, infinities, halves."""
    s = Stream(3, np.arange(400))
    wide = s.sign(60) * s.significand(52, 60) * power(s.between(-170, 170, 60))
    near = s.sign(60) * s.below(1 << 20, 60) / 8192.0
    edge = np.array([0.0, -0.0, np.inf, -np.inf, 2.0**-149, -(2.0**-150), 1e300, -1e-300])
    ends = [x for n in (4, 8, 32) for x in (2.0**n - 0.5, -(2.0**n) - 0.5, 2.0**n / 2 - 0.5)]
    return np.concatenate([wide.ravel(), near.ravel(), edge, ends, np.negative(ends)])


@needs_compiler
@pytest.mark.parametrize("name", NARROW)
def test_codes(name: str) -> None:
    fmt, given = formats.get(name), values()
    infinity = items.infinity(fmt) if fmt.infinities else None
    got = device_cases.encode(fmt, given, items.max_finite(fmt), infinity)
    assert equal(got, items.encode(fmt, given))


@needs_compiler
@pytest.mark.parametrize("i", SOME, ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_images(i: gpuemu.Instruction) -> None:
    for m in sweep(i)[:: max(len(sweep(i)) // 24, 1)]:
        chosen = register_images.formats_only(i, m)
        for matrix in ("A", "B", "C"):
            fmt = i.operand_format(matrix, **chosen)
            shape = register_images.stored_layout(i, matrix, **chosen).shape[:-1]
            words = Stream(4, np.arange(3)).words(*shape)
            codes = (words >> np.uint64(64 - fmt.bits)).astype(fmt.storage)
            tables = register_images._words(i, matrix, chosen.get("cbsz", 0), chosen.get("blgp", 0))
            got = device_cases.pack(codes.reshape(3, -1), *tables)
            want = register_images.pack(i, matrix, codes, **chosen)
            assert equal(got.reshape(want.shape), want), matrix


def pairs(wide: bool) -> tuple[Any, Any]:
    """Return two results that differ in some cases, by NaNs alone in others."""
    specials = np.array(
        [0, 1, 0x7F800000, 0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7FF00000], np.uint32
    )
    s = Stream(8, np.arange(4000))
    got = specials[s.below(7, 4, 64)] if wide else specials[s.below(7, 1, 64)]
    want = got.copy()
    at = s.below(got.shape[1] * 64)
    want.reshape(4000, -1)[np.arange(4000), at] = specials[s.below(7)]
    return got, want


@needs_compiler
@pytest.mark.parametrize("result", ["i32", "f32", "f64"])
@pytest.mark.parametrize("nan", ["any", "exact"])
def test_comparisons(result: str, nan: str) -> None:
    (i,) = [i for i in gpuemu.instructions() if i.formats["D"] == result][:1]
    got, want = pairs(result == "f64")
    kind = "exact" if nan == "exact" or result == "i32" else result
    expected = wrong_registers(i, got, want, nan).any(axis=(1, 2))
    assert 0 < expected.sum() < len(expected)
    assert equal(device_cases.differing(got, want, kind), expected.astype(np.uint8))


def nvrtc_missing() -> str:
    try:
        cuda.nvrtc_version()
    except BackendUnavailable as error:
        return str(error)
    return ""


@pytest.mark.skipif(bool(nvrtc_missing()), reason=nvrtc_missing() or "NVRTC is there")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_the_kernels_compile(arch: str) -> None:
    assert cuda.cubin(device_cases.SOURCE, {}, arch)[:4] == b"\x7fELF"


@pytest.mark.gpu
@pytest.mark.parametrize("i", gpuemu.instructions(), ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_the_device_makes_the_cases_of_numpy(i: gpuemu.Instruction) -> None:
    import cupy

    m = sweep(i)[-1]
    for cls in classes_for(i):
        want = register_images.images(i, m, cls, 5, CASES)
        got = register_images.images(i, m, cls, 5, cupy.asarray(CASES))
        for name, image in want.items():
            assert equal(got[name].get(), image), (cls.name, name)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", device_cases.NANS)
def test_the_device_finds_the_cases_that_differ(kind: str) -> None:
    import cupy

    got, want = pairs(kind == "f64")
    found = device_cases.differing(cupy.asarray(got), cupy.asarray(want), kind)
    i = next(
        i for i in gpuemu.instructions() if i.formats["D"] == ("f64" if kind == "f64" else "f32")
    )
    expected = wrong_registers(i, got, want, "exact" if kind == "exact" else "any")
    assert equal(found.get(), expected.any(axis=(1, 2)).astype(np.uint8))
