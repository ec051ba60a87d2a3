"""What is tested, and against what: the project's backends, or a callable of the user, behind one
signature.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import BadValue, GpuemuError
from ..mfma import execute
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from .images import Images

Array = np.ndarray[Any, Any]

BACKENDS = ("cuda", "host", "numpy")


class SubjectFailed(GpuemuError):
    """A subject raised, or returned something that is no register image of D."""


@dataclass(frozen=True)
class Subject:
    """Something that computes D.

    Attributes
    ----------
    name : str
        As given on the command line.
    function : callable (instruction, images, modifiers) -> array
    """

    name: str
    function: Callable[[Instruction, Images, Modifiers], Any]

    def __call__(self, i: Instruction, images: Images, m: Modifiers) -> Array:
        """Return D, uint32 (n, vgprs, 64).

        Raises
        ------
        SubjectFailed
            With the subject's own error, or with what it returned.
        """
        try:
            d = self.function(i, images, m)
        except SubjectFailed:
            raise
        except GpuemuError:
            if self.name in BACKENDS:
                raise
            raise SubjectFailed(f"{self.name} raised {_last_error()}") from None
        except Exception:
            raise SubjectFailed(f"{self.name} raised {_last_error()}") from None
        return self._checked(i, d, (*images["a"].shape[:-2], i.vgprs["D"], 64))

    def _checked(self, i: Instruction, d: Any, shape: tuple[int, ...]) -> Array:
        try:
            found = arrays.to_numpy(d, "D")
        except GpuemuError as error:
            raise SubjectFailed(f"{self.name} returned no array: {error}") from None
        if found.dtype == np.int32:
            found = found.view(np.uint32)
        if found.dtype != np.uint32 or found.shape != shape:
            raise SubjectFailed(
                f"{self.name} returned {found.dtype} {found.shape}; the D of {i.mnemonic} is "
                f"uint32 {shape}"
            )
        return found


def _last_error() -> str:
    kind, value, _ = sys.exc_info()
    name = kind.__name__ if kind else "nothing"
    return f"{name}: {value}" if str(value) else name


def _backend(name: str) -> Subject:
    dispatch.resolve(name)

    def call(i: Instruction, images: Images, m: Modifiers) -> Any:
        # What is legal was decided when the case was made or read, in the mode that it names.
        given: dict[str, Any] = {**images, **m.non_default(), "legality": "llvm", "backend": name}
        return execute.execute(i, **given)

    return Subject(name, call)


TIMEOUT = 60.0  # seconds that a program may take for one batch


def _program(name: str) -> Subject:
    """Return a program that reads and writes the vector file format."""
    from . import vectors
    from .files import load_arrays

    path = shutil.which(name)
    if path is None:
        raise BadValue(f"subject {name!r} is no executable file")

    def call(i: Instruction, images: Images, m: Modifiers) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            given, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
            vectors.save_inputs(given, i, m, images)
            command = [path, str(given), str(answer)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                raise SubjectFailed(f"{name} ran longer than {TIMEOUT:g} s") from None
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["nothing on its standard error"])[-1]
                raise SubjectFailed(f"{name} ended with {done.returncode}: {last}")
            found = load_arrays(answer)
            if "d" not in found:
                raise SubjectFailed(f"{name} wrote no array 'd', only {', '.join(found) or 'none'}")
            return found["d"]

    return Subject(name, call)


def load(name: str) -> Subject:
    """Return a subject by name.

    Parameters
    ----------
    name : str
        "cuda", "host", "numpy"; a path with a slash in it, a program that is run as `PROGRAM in.npz
        out.npz`, reads a vector file without `d` and writes a .npz file with `d`, uint32 (n,
        vgprs, 64); or "package.module:function", a callable
        `f(instruction, a, b, c, **modifiers) -> d` on NumPy register images (n, vgprs, 64).
        Modifiers at their default are not passed; idx, scale_a and scale_b are, where the
        instruction reads them.

    Raises
    ------
    BadValue
        Where there is no such module or callable.
    BackendUnavailable
        Where this machine cannot run the backend.
    """
    if name in BACKENDS:
        return _backend(name)
    if "/" in name:
        return _program(name)
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise BadValue(
            f"subject {name!r}; legal: {', '.join(BACKENDS)}, or package.module:function"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script does not look in the working directory
    try:
        function: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            function = getattr(function, part)
    except Exception:
        raise BadValue(f"subject {name!r} cannot be loaded: {_last_error()}") from None
    if not callable(function):
        raise BadValue(f"subject {name!r} is a {type(function).__name__}; legal: a callable")

    def call(i: Instruction, images: Images, m: Modifiers) -> Any:
        own = {
            key: image.copy() for key, image in images.items()
        }  # what it does to them stays with it
        return function(i, own.pop("a"), own.pop("b"), own.pop("c"), **own, **m.non_default())

    return Subject(name, call)


def default() -> str:
    """Return the fastest implementation present: "cuda", else "host"."""
    return dispatch.checked_backend()
