"""Subjects of TFMA, its bundles and emulated products, as users write them, right and wrong."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np

import gpuemu
import gpuemu.gemm
import gpuemu.tile
from gpuemu.errors import ArchitecturalFault

Array = np.ndarray[Any, Any]


def tfma(operation: Any, left: Array, right: Array, addend: Array, **options: Any) -> Any:
    """Return what `tile.tiles` returns, an object with the results as attributes."""
    return gpuemu.tile.tiles(
        "TFMA", (left, right, addend), backend="numpy", dtype_set="adr0080", **options
    )


def tfma_without_underflow(operation: Any, *sources: Array, **options: Any) -> Any:
    batch = tfma(operation, *sources, **options)
    return batch.bits, batch.defined, batch.flags & ~np.uint8(8)


def product(operation: Any, a: Array, b: Array, c: Array, **options: Any) -> Array:
    d: Array = gpuemu.gemm.emulated_matmul(a, b, c, **options, backend="numpy")
    return d


def product_to_nearest(operation: Any, a: Array, b: Array, c: Array, **options: Any) -> Array:
    return product(operation, a, b, c, **options | {"slice_rounding": "nearest"})


def bundle(operation: Any, program: list[int], core: Any) -> Any:
    before, fault = set(core.machine.registers), ""
    try:
        core.execute(program)
    except ArchitecturalFault as error:
        fault = error.fault
    new = set(core.machine.registers) - before
    return fault, core.flags, {register: core.tile(register) for register in new}


def bundle_with_holes(operation: Any, program: list[int], core: Any) -> Any:
    """Take undefined elements for zeros."""
    for index, tile in core.machine.registers.items():
        core.write(
            index,
            tile.valid_bits,
            tile.descriptor.dtype.name,
            columns=tile.descriptor.columns,
            capacity=tile.descriptor.capacity,
            layout=tile.descriptor.layout,
            mask=tile.mask,
        )
    return bundle(operation, program, core)


def dies(operation: Any, *_: Any, **options: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def half(operation: Any, a: Array, b: Array, c: Array, **options: Any) -> Array:
    return product(operation, a, b, c, **options)[..., :1]


def no_such_fault(operation: Any, program: list[int], core: Any) -> Any:
    return "Fault_Odd", 0, {}
