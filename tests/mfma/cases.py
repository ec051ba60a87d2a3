"""What the MFMA tests share: rows as parameters, inputs of every class, a comparison of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import cases, generators, images
from gpuemu.mfma import execute
from gpuemu.mfma.modifiers import Modifiers

Array = np.ndarray[Any, Any]
ROWS = gpuemu.instructions()
DENSE = gpuemu.instructions(kind="mfma")


def row_parameters(rows: tuple[gpuemu.Instruction, ...] = ROWS) -> Any:
    """Return a parametrisation over table rows, named by architecture and mnemonic."""
    return pytest.mark.parametrize("i", rows, ids=[f"{i.arch}-{i.mnemonic}" for i in rows])


def inputs(
    i: gpuemu.Instruction, m: Modifiers, count: int, names: tuple[str, ...] = ()
) -> dict[str, Array]:
    """Return `count` wavefronts of every input class (or the named ones), stacked."""
    chosen = [c for c in generators.classes_for(i) if not names or c.name in names]
    parts = [images.images(i, m, cls, 7, np.arange(count)) for cls in chosen]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def options(m: Modifiers) -> dict[str, Any]:
    """Return modifiers as keyword arguments of `gpuemu.execute`."""
    return m.non_default()


def sweep(i: gpuemu.Instruction) -> tuple[Modifiers, ...]:
    """Return every legal combination of modifiers, broadcast readings and f64 4x4x4 layouts."""
    found = list(cases.sweep(i))
    if i.modifiers.cbsz == "broadcast":
        found += [
            gpuemu.mfma.modifiers.check(i, cbsz=c, abid=a, broadcast="lane_block")
            for c in range(1, i.modifiers.cbsz_max + 1)
            for a in range(1 << c)
        ]
    if i.formats["D"] == "f64" and i.blocks > 1:
        found += [gpuemu.mfma.modifiers.check(i, output_layout="formula")]
    return tuple(found)


def assert_same(i: gpuemu.Instruction, got: Array, want: Array, what: str = "") -> None:
    """Assert that two D images agree bit for bit, any NaN being equal to any other."""
    same = execute.equal_bits(i, got, want)
    if not same.all():
        where = tuple(np.argwhere(~same)[0])
        pytest.fail(
            f"{i} {what}: {int((~same).sum())} of {same.size} registers differ; first at {where}: "
            f"{int(got[where]):08X} != {int(want[where]):08X}"
        )
