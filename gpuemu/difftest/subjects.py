"""Subjects by name: the project's backends, this GPU's tensor cores, and what users bring along."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import dispatch
from ..backends import cuda, host
from ..errors import BackendUnavailable, BadValue
from ..mfma import execute
from ..mfma.instructions import Instruction
from . import tensor_cores
from .campaign import reference
from .catalogue import Row
from .child import Child
from .operation import ArrayOperation, Arrays
from .programs import Program
from .subject import BACKENDS, Subject, SubjectFailed, SubjectHung

TIMEOUT = 60.0  # seconds that a user's subject may take for one batch


def _backend(name: str) -> Subject:
    dispatch.resolve(name)

    def call(i: Row, images: Arrays, m: Any) -> Any:
        if isinstance(i, ArrayOperation):
            return i.compute(name, images, m)
        # What is legal was decided when the case was made or read, in the mode that it names.
        given: dict[str, Any] = {**images, **m.non_default(), "legality": "llvm", "backend": name}
        return execute.execute(i, **given)

    return Subject(name, call)


def _matrix_only(name: str, function: Callable[[Instruction, Arrays, Any], Any]) -> Subject:
    """Return a subject that knows matrix instructions alone."""

    def call(i: Row, images: Arrays, m: Any) -> Any:
        refuse(name, [i])
        assert isinstance(i, Instruction)
        return function(i, images, m)

    return Subject(name, call)


def refuse(name: str, rows: Iterable[Row]) -> None:
    """Raise `BadValue` where a subject does not know an operation."""
    core = name.startswith(tensor_cores.PREFIX)
    if not core and name != reference.NAME:
        return
    for i in rows:
        if isinstance(i, ArrayOperation):
            raise BadValue(
                f"{name!r} computes matrix instructions alone; for {i.mnemonic} legal: "
                f"{', '.join(BACKENDS)}, a program, or package.module:function"
            )


def load(name: str, timeout: float | None = None) -> Subject:
    """Return a subject by name.

    Parameters
    ----------
    name : str
        "cuda", "host", "numpy"; "reference", the second implementation for devices;
        "tensor-core:f16" and so on, this GPU's own `mma.sync` (see `tensor_cores`); a path with a
        slash in it, a program; or "package.module:function", a callable. Both run in processes of
        their own.
    timeout : float, optional
        Seconds that a callable or program may take for one batch; default `TIMEOUT`.

    Raises
    ------
    BadValue
        Where there is no such module or callable, or a timeout that is none.
    BackendUnavailable
        Where this machine cannot run the backend.

    Notes
    -----
    A callable is, by what is tested; n counts cases:

    - matrix instructions: `f(instruction, a, b, c, **modifiers) -> d` on NumPy register images,
      uint32 (n, vgprs, 64). Modifiers at their default are not passed; idx, scale_a and scale_b
      are, where the instruction reads them.
    - `tfma_TYPE`: `f(operation, left, right, addend, *, dtype, valid, pad, mask, nan_corner) ->
      bits, defined, flags`: element bits, unsigned (n, fragments, rows, columns), and the options
      of `tile.tiles`; bits and defined have the operands' shape, flags is uint8 (n,). Bits of
      undefined elements do not count. Aliased operands are one array.
    - `tfma_bundle`: `f(operation, program, core) -> fault, flags, tiles`, called for every case:
      the words of the program; a `tile.Core` in its state before it, whose switches are
      `core.rules`. Returned: the architecture's name of the fault, "" without one; the sticky flags
      afterwards; the new tiles as `tile.Tile` by register, 0 to 63, at most two. Their descriptors
      and PE masks count, too.
    - `emulated_TYPE_SCHEME`: `f(operation, a, b, c, *, alpha, beta, mantissa_bits, scheme,
      slice_rounding) -> d`: float32 or float64 arrays (n, M, K), (n, K, N), (n, M, N) in several
      memory orders, and the options of `gemm.emulated_matmul`.

    A program is run as `PROGRAM in.npz out.npz`. It reads a vector file without `d`, and writes
    `d`, uint32 (n, vgprs, 64); of the other operations it reads the operands as above (for a bundle
    those of `bundle_cases.Bundles`) with the configuration as JSON in `header`, and writes the
    results by name.
    """
    seconds = TIMEOUT if timeout is None else timeout
    if not 0 < seconds < 1e7:
        raise BadValue(f"timeout={timeout}; legal: seconds, above 0")
    if name in BACKENDS:
        return _backend(name)
    if name == reference.NAME:
        reference.require()
        return _matrix_only(name, reference.on_this_machine)
    if name.startswith(tensor_cores.PREFIX):
        core = tensor_cores.kind(name)
        return _matrix_only(name, lambda i, images, m: tensor_cores.run(core, i, images, m))
    if "/" in name:
        return Subject(name, Program(name, seconds))
    if not all(name.partition(":")):
        raise BadValue(
            f"subject {name!r}; legal: {', '.join(BACKENDS)}, {reference.NAME}, tensor-core:TYPE, "
            "a program (a path with a slash), or package.module:function"
        )
    return Subject(name, Child(name, seconds))


def default() -> str:
    """Return the fastest implementation present: "cuda", else "host"; raise without either."""
    try:
        return dispatch.checked_backend()
    except BackendUnavailable:
        raise BackendUnavailable(
            f"no subject is named, and neither of the default ones runs here: "
            f"{cuda.why_unavailable()}; {host.why_unavailable()}; legal: --subject numpy, a "
            f"program (a path with a slash), or package.module:function"
        ) from None


__all__ = ["BACKENDS", "TIMEOUT", "Subject", "SubjectFailed", "SubjectHung", "default", "load"]
