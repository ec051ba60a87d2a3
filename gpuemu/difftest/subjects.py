"""Subjects by name: the project's backends, this GPU's tensor cores, and what users bring along."""

from __future__ import annotations

from typing import Any

from .. import dispatch
from ..errors import BadValue
from ..mfma import execute
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from . import tensor_cores
from .campaign import reference
from .child import Child
from .images import Images
from .programs import Program
from .subject import BACKENDS, Subject, SubjectFailed, SubjectHung

TIMEOUT = 60.0  # seconds that a user's subject may take for one batch


def _backend(name: str) -> Subject:
    dispatch.resolve(name)

    def call(i: Instruction, images: Images, m: Modifiers) -> Any:
        # What is legal was decided when the case was made or read, in the mode that it names.
        given: dict[str, Any] = {**images, **m.non_default(), "legality": "llvm", "backend": name}
        return execute.execute(i, **given)

    return Subject(name, call)


def load(name: str, timeout: float | None = None) -> Subject:
    """Return a subject by name.

    Parameters
    ----------
    name : str
        "cuda", "host", "numpy"; "reference", the second implementation for devices;
        "tensor-core:f16" and so on, this GPU's own `mma.sync` (see `tensor_cores`); a path with a
        slash in it, a program that is run as `PROGRAM in.npz out.npz`, reads a vector file without
        `d` and writes a .npz file with `d`, uint32 (n, vgprs, 64); or "package.module:function", a
        callable `f(instruction, a, b, c, **modifiers) -> d` on NumPy register images (n, vgprs,
        64). Modifiers at their default are not passed; idx, scale_a and scale_b are, where the
        instruction reads them. Callables and programs run in processes of their own.
    timeout : float, optional
        Seconds that a callable or program may take for one batch; default `TIMEOUT`.

    Raises
    ------
    BadValue
        Where there is no such module or callable, or a timeout that is none.
    BackendUnavailable
        Where this machine cannot run the backend.
    """
    seconds = TIMEOUT if timeout is None else timeout
    if not 0 < seconds < 1e7:
        raise BadValue(f"timeout={timeout}; legal: seconds, above 0")
    if name in BACKENDS:
        return _backend(name)
    if name == reference.NAME:
        reference.require()
        return Subject(name, reference.on_this_machine)
    if name.startswith(tensor_cores.PREFIX):
        core = tensor_cores.kind(name)
        return Subject(name, lambda i, images, m: tensor_cores.run(core, i, images, m))
    if "/" in name:
        return Subject(name, Program(name, seconds))
    if not all(name.partition(":")):
        raise BadValue(
            f"subject {name!r}; legal: {', '.join(BACKENDS)}, or package.module:function"
        )
    return Subject(name, Child(name, seconds))


def default() -> str:
    """Return the fastest implementation present: "cuda", else "host"."""
    return dispatch.checked_backend()


__all__ = ["BACKENDS", "TIMEOUT", "Subject", "SubjectFailed", "SubjectHung", "default", "load"]
