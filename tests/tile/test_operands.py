"""Operands in other forms than the native array: byte orders, nested lists, batches of no tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu import tile
from gpuemu.backends import host

needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "present")
BACKENDS = ["numpy", pytest.param("host", marks=needs_host)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("kind", ["i2", "u2", "i8", "f2"])
def test_byte_order_is_no_part_of_an_element(kind: str, order: str, backend: str) -> None:
    one, zero = (1.0 if kind == "f2" else 0x3C00), 0
    operands = [np.array([value], order + kind) for value in (one, one, zero)]
    bits, flags = tile.fma(*operands, "FP16", backend)
    assert (bits.tolist(), flags) == ([0x3C00], 0)
    core = tile.Core(backend=backend)
    core.write(0, np.full((1, 64), one, order + kind), "FP16")
    assert (core.tile(0).bits == 0x3C00).all()
    assert core.tile(0).bits.dtype.isnative


def test_signed_bits_keep_their_sign_in_either_byte_order() -> None:
    for order in "<>":
        bits, _ = tile.elements("TABS", (np.array([-0x4400], order + "i2"),), "FP16", "numpy")
        assert bits.tolist() == [0x3C00]


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("check", marks=needs_host)])
@pytest.mark.parametrize("shape", [(0, 4, 4, 16), (2, 0, 1, 4, 16)])
def test_a_batch_of_no_tile(shape: tuple[int, ...], backend: str) -> None:
    none = np.zeros(shape, np.uint16)
    batch = tile.tiles("TFMA", (none, none, none), "FP16", backend, valid=(3, 5))
    assert (batch.bits.shape, batch.defined.shape, batch.flags.shape) == (shape, shape, shape[:-3])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrap", [list, tuple])
def test_tiles_of_lists(wrap: Any, backend: str) -> None:
    rows = wrap([[[0xBC00] * 64]])
    batch = tile.tiles("TABS", (rows,), "FP16", backend)
    assert (batch.bits == np.full((1, 1, 64), 0x3C00, np.uint16)).all()
    assert isinstance(batch.bits, np.ndarray)
    assert batch.defined.all()
    assert (batch.flags.shape, int(batch.flags)) == ((), 0)


def test_whole_numbers_of_numpy_are_numbers() -> None:
    ones = np.full((1, 64), 0x3C00, np.uint16)
    digests = set()
    for number in (int, np.int64):
        core = tile.Core(backend="numpy")
        core.write(number(0), ones, "FP16", valid=(number(1), number(7)))
        core.operate("TADD", number(0), number(0), number(0))
        digests.add(core.snapshot())
        valid = (number(1), number(7))
        assert tile.tiles("TABS", (ones[None],), "FP16", "numpy", valid=valid).defined.sum() == 7
    assert len(digests) == 1
