"""A unit that no known model describes: its links in another order."""

from __future__ import annotations

from typing import Any

import gpuemu
from gpuemu.difftest.probe import probe
from gpuemu.difftest.subjects import Subject

F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")


def turned(i: gpuemu.Instruction, images: Any, m: Any) -> Any:
    """Sum the products of a wavefront from the last k to the first."""
    A, B = i.unpack("A", images["a"]), i.unpack("B", images["b"])
    images = {**images, "a": i.pack("A", A[..., ::-1]), "b": i.pack("B", B[..., ::-1, :])}
    return gpuemu.execute(i, **images, backend="numpy")


def test_from_the_last_k_to_the_first() -> None:
    found = probe(Subject("turned", turned), F16)
    assert found.order == "descending"
    assert found.links == (tuple(range(8)), tuple(range(8, 16)))
    assert not found.exact_models
