"""The device side: a call handed to CUDA, or to the host build of the same headers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import cuda, host
from ..errors import BadValue
from .batch import is_dense, prepare
from .config import CONFIG_FIELDS, ROUNDINGS, TYPES, config
from .instructions import Instruction
from .kernels import kernel_shape, kernel_source, value_bytes
from .layouts import LANES
from .models import Model
from .modifiers import Modifiers
from .operands import OPERANDS, Operands

__all__ = [
    "CONFIG_FIELDS",
    "OPERANDS",
    "ROUNDINGS",
    "TYPES",
    "Launch",
    "Operands",
    "config",
    "kernel_source",
    "prepare_cuda",
    "run_cuda",
    "run_host",
    "value_bytes",
]


def _cupy() -> Any:
    import cupy

    return cupy


def current() -> int:
    """Return the number of the current device."""
    found: int = _cupy().cuda.runtime.getDevice()
    return found


@dataclass(frozen=True)
class Launch:
    """A kernel with everything of a call but the addresses of its operands.

    Attributes
    ----------
    kernel : cuda.Kernel
    blocks, threads, shared : int
        Grid, block, and bytes of shared memory.
    call : int64 array
        The fields of `Call`; the addresses at its end are still zero.
    shape : tuple of int
        Of D.
    """

    kernel: cuda.Kernel
    blocks: int
    threads: int
    shared: int
    call: np.ndarray[Any, Any]
    shape: tuple[int, ...]

    def arguments(self, operands: Sequence[Any], d: Any) -> tuple[Any, ...]:
        """Return the kernel's arguments for operands in the order of `OPERANDS`, and D."""
        call = self.call.copy()
        call[-1 - len(OPERANDS) :] = [0 if x is None else x.data.ptr for x in (*operands, d)]
        return (cuda.as_struct(call),)

    def __call__(self, operands: Sequence[Any], d: Any = None) -> Any:
        """Run on the current stream; return D, made where none is given."""
        if d is None:
            d = _cupy().empty(self.shape, np.uint32)
        self.kernel((self.blocks,), (self.threads,), self.arguments(operands, d), self.shared)
        return d


_launches: dict[tuple[Any, ...], Launch] = {}
_host_calls: dict[tuple[Any, ...], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
LAUNCHES = 4096  # remembered ones of each kind; then all are forgotten


def _remember(kept: dict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
    if len(kept) >= LAUNCHES:
        kept.clear()
    kept[key] = value


def _launch(
    instruction: Instruction,
    model: Model,
    m: Modifiers,
    batch: np.ndarray[Any, Any],
    lead: tuple[int, ...],
) -> Launch:
    made = kernel_source(instruction, model, kernel_shape(instruction, m), is_dense(batch))
    waves = int(batch[0])
    blocks = -(-waves // made.waves)
    if blocks > 0x7FFFFFFF:
        raise BadValue(f"{waves} wavefronts in one call; legal: at most {0x7FFFFFFF * made.waves}")
    kernel = cuda.kernel(made.source, "mfma", made.defines)
    call = np.concatenate([batch, np.zeros(len(OPERANDS) + 1, np.int64)])
    shape = (*lead, instruction.vgprs["D"], LANES)
    return Launch(kernel, blocks, made.waves * made.threads, made.shared, call, shape)


def _places(operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(None if x is None else (x.shape, x.strides) for x in operands)


def prepare_cuda(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> tuple[Launch, list[Any]]:
    """Return the launch of a batch on the current device, and its operands, copied if they must be.

    Launches are remembered by everything but addresses. The batch is not empty.
    """
    found = [getattr(operands, name) for name in OPERANDS]
    places = _places(found)
    key = (instruction, model, m, lead, places, current())
    launch = _launches.get(key)
    if launch is None:
        found, batch = prepare(instruction, m, operands, lead)
        launch = _launch(instruction, model, m, batch, lead)
        if places == _places(found):
            _remember(_launches, key, launch)
    return launch, found


def run_cuda(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> Any:
    """Run a batch on the current device and stream: CuPy uint32, out as (*lead, vgprs, 64)."""
    if 0 in lead:
        return _cupy().empty((*lead, instruction.vgprs["D"], LANES), np.uint32)
    launch, found = prepare_cuda(instruction, model, m, operands, lead)
    return launch(found)


def run_host(
    instruction: Instruction, model: Model, m: Modifiers, operands: Operands, lead: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Run a batch in the host build; NumPy uint32 in, NumPy uint32 (*lead, vgprs, 64) out."""
    found = [getattr(operands, name) for name in OPERANDS]
    places = _places(found)
    key = (instruction, model, m, lead, places)
    made = _host_calls.get(key)
    if made is None:
        found, batch = prepare(instruction, m, operands, lead)
        made = np.array(config(instruction, model, m), np.int32), batch
        if places == _places(found):
            _remember(_host_calls, key, made)
    d = np.empty((*lead, instruction.vgprs["D"], LANES), np.uint32)
    pointers = np.array([0 if x is None else x.ctypes.data for x in found], np.uint64)
    host.library("mfma").gpuemu_mfma(
        *(ctypes.c_void_p(x.ctypes.data) for x in (*made, pointers, d))
    )
    return d
