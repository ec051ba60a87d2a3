"""Wavefronts: register files of 64 lanes, and matrix instructions executed on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import AssemblyError, BadShape, BadType, BadValue
from . import device, execute
from .assembly import AssemblyCall, Registers, parse
from .assembly.operands import REGISTERS
from .assembly.reader import check_mode
from .assembly.register_text import read_registers
from .assembly.schedule import Launch, Schedule
from .layouts import LANES
from .program import Program, Step, make_step

BANKS = ("v", "a")


def prepare_cuda(made: execute.Call, operands: device.Operands, d: Any) -> Launch:
    """Return a launch of a call's kernel on the current device: compiled, its arguments fixed.

    Operands are CuPy arrays whose batch is one stride, as views of register files are; d is dense.
    The launch holds addresses: whoever runs it keeps the arrays, as a `Schedule` does.
    """
    if d.size == 0:
        return lambda: None
    ready, found = device.prepare_cuda(
        made.instruction, made.model, made.modifiers, operands, d.shape[:-2]
    )
    arguments = ready.arguments(found, d)

    def launch() -> None:
        ready.kernel((ready.blocks,), (ready.threads,), arguments, ready.shared)

    return launch


class ArrayMachine:
    """Runs steps on NumPy arrays by the host build or the oracle, or by both with `check`."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return a NumPy array."""
        return np.empty(shape, np.uint32)

    def upload(self, image: Any) -> Any:
        """Return the image: it is where it has to be."""
        return image

    def copy(self, target: Any, source: Any) -> Launch:
        """Return a launch that copies an array into another."""
        return lambda: np.copyto(target, source)

    def step(self, step: Step, given: dict[str, Any], d: Any) -> Launch:
        """Return a launch that computes a step into d."""
        operands = dict.fromkeys(device.OPERANDS) | given

        def launch() -> None:
            # The schedule has checked sparsity indices, once.
            np.copyto(d, execute.run(step.made, operands, self.backend, strict_index=False))

        return launch


class CudaMachine:
    """Runs steps on the current device and stream; kernels are compiled beforehand."""

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return a CuPy array."""
        import cupy

        return cupy.empty(shape, cupy.uint32)

    def upload(self, image: Any) -> Any:
        """Return the image on the device."""
        return arrays.to_cupy(image)

    def copy(self, target: Any, source: Any) -> Launch:
        """Return a launch that copies an array into another."""
        import cupy

        return lambda: cupy.copyto(target, source)

    def step(self, step: Step, given: dict[str, Any], d: Any) -> Launch:
        """Return a launch that computes a step into d."""
        return prepare_cuda(step.made, device.Operands(**given), d)


class Wavefront:
    """The vector registers of a wavefront, or of a batch of them.

    Parameters
    ----------
    arch : str
        "gfx908", "gfx90a", "gfx942" or "gfx950".
    batch : int or tuple of int
        The shape of a batch that starts with zeros; () is one wavefront.
    vgprs, accvgprs : int, or uint32 array (..., registers, 64)
        How many registers there are (all zero), or their values, which are copied.
    legality : "strict" or "llvm"
        How lines of text are read.
    backend : "auto", "cuda", "host", "numpy" or "check"

    Raises
    ------
    GpuemuError
        For shapes or values that do not fit.

    >>> import numpy as np
    >>> w = Wavefront("gfx942", vgprs=8, accvgprs=4, backend="numpy")
    >>> w.write("v[4:5]", np.full((2, 64), 0x3F800000, np.uint32))
    >>> w.execute("v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v5, 2.0")
    >>> hex(w.accvgprs[0, 0])
    '0x40400000'
    """

    def __init__(
        self,
        arch: str,
        batch: int | Sequence[int] = (),
        *,
        vgprs: Any = REGISTERS,
        accvgprs: Any = REGISTERS,
        legality: str = "strict",
        backend: str = "auto",
    ) -> None:
        check_mode(arch, legality)
        self.arch = arch
        self.legality = legality
        given = {"v": vgprs, "a": accvgprs}
        present = tuple(x for x in given.values() if not isinstance(x, (int, np.integer)))
        self.backend = dispatch.resolve(backend, present)
        self._template = present[0] if present else np.empty(0)
        lead = (batch,) if isinstance(batch, (int, np.integer)) else tuple(batch)
        self.batch = self._common_batch(given, lead)
        self._machine = CudaMachine() if self.backend == "cuda" else ArrayMachine(self.backend)
        self._files = {bank: self._file(bank, value) for bank, value in given.items()}

    @staticmethod
    def _common_batch(given: dict[str, Any], batch: tuple[int, ...]) -> tuple[int, ...]:
        if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in batch):
            raise BadShape(f"batch={batch}; legal: a tuple of ints from 0 on")
        for bank, value in given.items():
            if isinstance(value, (int, np.integer)):
                if isinstance(value, bool) or not 0 <= value <= REGISTERS:
                    raise BadValue(f"{value} registers in bank {bank!r}; legal: 0..{REGISTERS}")
                continue
            if (
                getattr(value, "ndim", 0) < 2
                or value.shape[-1] != LANES
                or value.shape[-2] > REGISTERS
            ):
                shape = getattr(value, "shape", type(value).__name__)
                raise BadShape(
                    f"registers of bank {bank!r} are {shape}; legal: (..., 0..{REGISTERS}, {LANES})"
                )
        leads = {tuple(x.shape[:-2]) for x in given.values() if hasattr(x, "shape")} | (
            {batch} if batch else set()
        )
        if len(leads) > 1:
            raise BadShape(
                f"batches {sorted(leads)} differ; legal: one shape for both banks and batch="
            )
        return next(iter(leads), ())

    def _file(self, bank: str, value: Any) -> Any:
        if isinstance(value, (int, np.integer)):
            file = self._machine.empty((*self.batch, int(value), LANES))
            file[...] = 0
            return file
        return self._image(value, f"registers of bank {bank!r}").copy()

    def _image(self, value: Any, name: str) -> Any:
        convert = arrays.to_cupy if self.backend == "cuda" else arrays.to_numpy
        image = convert(value, name)
        if image.dtype not in (np.uint32, np.int32):
            raise BadType(
                f"{name} have dtype {image.dtype}; legal: uint32 (or int32, taken as bits)"
            )
        return image.view(np.uint32)

    @property
    def vgprs(self) -> Any:
        """Return the VGPRs, uint32 (..., registers, 64), as the caller's kind of array."""
        return arrays.like(self._files["v"], self._template)

    @property
    def accvgprs(self) -> Any:
        """Return the AccVGPRs, uint32 (..., registers, 64), as the caller's kind of array."""
        return arrays.like(self._files["a"], self._template)

    def _registers(self, text: str) -> Registers:
        registers = read_registers(text)
        if registers.last >= self._files[registers.bank].shape[-2]:
            count = self._files[registers.bank].shape[-2]
            raise AssemblyError(
                f"{registers}; the wavefront has {count} registers in bank {registers.bank!r}"
            )
        return registers

    def read(self, registers: str) -> Any:
        """Return a copy of registers such as "v[0:3]", uint32 (..., count, 64)."""
        r = self._registers(registers)
        return arrays.like(self._files[r.bank][..., r.slice, :].copy(), self._template)

    def write(self, registers: str, image: Any) -> None:
        """Set registers such as "a[0:15]" from uint32 (..., count, 64); the batch broadcasts."""
        r = self._registers(registers)
        target = self._files[r.bank][..., r.slice, :]
        source = self._image(image, f"values of {registers}")
        try:
            fits = np.broadcast_shapes(source.shape, target.shape) == target.shape
        except ValueError:
            fits = False
        if not fits or source.shape[-2:] != (r.count, LANES):
            raise BadShape(
                f"values of {registers} are {source.shape}; legal: {target.shape}, "
                "or less of the batch"
            )
        target[...] = source

    def execute(self, instruction: str | AssemblyCall, **switches: Any) -> None:
        """Execute one instruction: an assembly line, or what `gpuemu.parse` or `decode` gave.

        All operands are read before D is written, so D may overlap any of them. EXEC is not looked
        at: matrix instructions run on all 64 lanes.

        Parameters
        ----------
        instruction : str or AssemblyCall
        **switches
            broadcast, output_layout, model; see `gpuemu.execute`.
        """
        call = (
            parse(instruction, self.arch, self.legality)
            if isinstance(instruction, str)
            else instruction
        )
        if not isinstance(call, AssemblyCall):
            raise BadType(
                f"instruction is a {type(call).__name__}; legal: an assembly line, or a call of it"
            )
        if call.arch != self.arch:
            raise BadValue(f"{call} is of {call.arch}; the wavefront is a {self.arch}")
        self.run(Program(self.arch, (make_step(call, **switches),)))

    def run(self, program: Program) -> None:
        """Execute a program; registers that the wavefront lacks are found before it starts."""
        self.schedule(program).run()

    def schedule(self, program: Program) -> Schedule:
        """Return the launches of a program on these registers, to be run once or many times."""
        if program.arch != self.arch:
            raise BadValue(f"the program is of {program.arch}; the wavefront is a {self.arch}")
        program.check_registers({bank: file.shape[-2] for bank, file in self._files.items()})
        return Schedule(self._machine, self._files, program.steps)
