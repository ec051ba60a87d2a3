"""Whatever comes in, a result or the project's own error goes out.

GPUEMU_FUZZ_EXAMPLES sets the number of examples of each test; 10^5 are for a release.
"""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuemu
from gpuemu.errors import GpuemuError
from gpuemu.mfma.assembly import AssemblyCall, decode, parse

from .lines import CONSTANTS, PIECES, Lines

EXAMPLES = int(os.environ.get("GPUEMU_FUZZ_EXAMPLES", "300"))
often = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)

architectures = st.sampled_from(["gfx908", "gfx90a", "gfx942", "gfx950"])
legalities = st.sampled_from(["strict", "llvm", "truncate"])
names = st.sampled_from([name for i in gpuemu.instructions() for name in i.names])
pieces = st.sampled_from(
    [*PIECES, *CONSTANTS, "\n", "\t", "/*", "*/", "'", "\\", "é", "\0", "1" * 400, "(" * 200]
)
soup = st.lists(st.one_of(pieces, names, st.text(max_size=4)), max_size=14)


def consistent(call: AssemblyCall) -> None:
    assert decode(call.encode(), call.arch, call.legality) == call
    assert parse(str(call), call.arch, call.legality) == call


def attempt(text: str, arch: str, legality: str) -> None:
    try:
        call = parse(text, arch, legality)
    except GpuemuError as error:
        assert str(error)
        return
    consistent(call)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 5000 + "z",
        "ab " * 5000 + "z",
        "v_mfma_" + "x" * 100_000,
        "v_mfma_f32_4x4x1f32 " + "(" * 5000,
        "v_mfma_f32_4x4x1f32 v[" + "-" * 5000,
        "v_mfma_f32_4x4x1f32 a0 ; encoding: [" + "0x00 " * 5000 + "x",
        "1900: " + "00 " * 5000 + "-",
        "__builtin_amdgcn_mfma_f32_4x4x1f32(" * 2000,
        "/*" * 5000,
    ],
)
def test_long_text_is_refused_at_once(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(GpuemuError):
        parse(text, "gfx908")
    assert time.perf_counter() - start < 2


@often
@given(st.text(max_size=80), architectures, legalities)
def test_any_text(text: str, arch: str, legality: str) -> None:
    attempt(text, arch, legality)


@often
@given(names, soup, st.sampled_from(["", " ", ", ", ":"]), architectures, legalities)
def test_soup_of_words(name: str, words: list[str], joint: str, arch: str, legality: str) -> None:
    attempt(name + " " + joint.join(words), arch, legality)


@often
@given(names, soup, architectures, legalities)
def test_builtin_soup(name: str, words: list[str], arch: str, legality: str) -> None:
    attempt(f"{name}({', '.join(words)})", arch, legality)


@often
@given(st.integers(0, 2**32), architectures, legalities)
def test_mutated_lines(seed: int, arch: str, legality: str) -> None:
    lines = Lines(seed)
    attempt(lines.line(arch), arch, legality)
    attempt(lines.mutation(arch), arch, legality)


@often
@given(st.binary(max_size=20), architectures, legalities)
def test_any_bytes(data: bytes, arch: str, legality: str) -> None:
    try:
        call = decode(data, arch, legality)
    except GpuemuError:
        return
    assert call.encode() == data
    consistent(call)


@often
@given(
    st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.booleans(), architectures, legalities
)
def test_matrix_words(low: int, high: int, scaled: bool, arch: str, legality: str) -> None:
    """Random fields behind the encoding's own bits, so that most words reach the rules."""
    word = low & ~(0x1FF << 23) & ~(1 << 40) & ~(1 << 49) | 0x1A7 << 23 | 1 << 40 | 1 << 49
    prefix = high & 0x1800_0003_FFFF_1800 | 0x1A7 << 23 | 0x2C << 16 | 1 << 40 | 1 << 49
    if scaled:
        word = word & ~(0x7F << 16) & ~(0xF << 11) | 45 + (high >> 63) << 16 | 1 << 11
    data = (prefix.to_bytes(8, "little") if scaled else b"") + word.to_bytes(8, "little")
    try:
        call = decode(data, arch, legality)
    except GpuemuError:
        return
    assert call.encode() == data
    consistent(call)
