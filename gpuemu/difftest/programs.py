"""A user's program as a subject: it is run once a batch, on files in the vector file format."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadValue, GpuemuError
from . import processes, vectors
from .catalogue import Row
from .files import load_arrays
from .operation import ArrayOperation, Arrays
from .subject import SubjectFailed, SubjectHung

TAIL = 4096  # bytes of a program's standard error that are looked at


class Program:
    """A program run as `PROGRAM in.npz out.npz`.

    Parameters
    ----------
    name : str
        Its path, with a slash in it.
    timeout : float
        Seconds that one batch may take.
    """

    def __init__(self, name: str, timeout: float) -> None:
        path = shutil.which(name)
        if path is None:
            raise BadValue(f"subject {name!r} is no executable file")
        self.name, self.path, self.timeout = name, path, timeout
        self._deaths = processes.Deaths()

    def __call__(self, i: Row, images: Arrays, m: Any) -> Any:
        """Return the array `d` of the program's answer, or its arrays by name.

        Raises
        ------
        SubjectFailed
            With how the program ended, or what its answer lacks.
        SubjectHung
            After the timeout; the program and all that it started are killed. And where it has
            ended so `processes.DEATHS` times in a row.
        """
        with tempfile.TemporaryDirectory() as folder:
            given, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
            if isinstance(i, ArrayOperation):
                _save_inputs(given, i, m, images)
            else:
                vectors.save_inputs(given, i, m, images)
            self._run([self.path, str(given), str(answer)], Path(folder) / "errors")
            try:
                found = load_arrays(answer)
            except GpuemuError as error:
                raise SubjectFailed(f"{self.name} wrote no answer: {error}") from None
            if isinstance(i, ArrayOperation):
                return found
            if "d" not in found:
                names = ", ".join(found) or "none"
                raise SubjectFailed(f"{self.name} wrote no array 'd', only {names}")
            return found["d"]

    def _run(self, command: list[str], errors: Path) -> None:
        with errors.open("wb+") as file:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=file,
                    start_new_session=True,
                )
            except OSError as error:
                raise SubjectFailed(f"{self.name} cannot be run: {error.strerror}") from None
            try:
                code = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                raise SubjectHung(f"{self.name} ran longer than {self.timeout:g} s") from None
            finally:
                processes.kill(process)
            if code:
                file.seek(max(file.seek(0, 2) - TAIL, 0))
                lines = file.read().decode(errors="replace").strip().splitlines()
                said = lines[-1] if lines else "nothing on its standard error"
                raise self._deaths.another(f"{self.name} {processes.ending(code)}: {said}")
            self._deaths.answered()


def _save_inputs(path: Path, i: ArrayOperation, m: Any, operands: Arrays) -> None:
    """Write the operands of an array operation, and its configuration as JSON in `header`."""
    facts = {"instruction": i.mnemonic, "arch": i.arch, "modifiers": m.all()}
    header: Any = np.array(json.dumps(facts))
    with path.open("wb") as file:
        np.savez(file, header=header, **i.given(operands, m))
