"""A user's callable in a process of its own: it may hang, crash or be killed, and the campaign goes
on.

The process is started once and asked batch after batch; after a hang or a crash the next batch
starts a new one. Run as `python -m gpuemu.difftest.child FD`, this file is that process.
"""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import weakref
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ..errors import BadValue
from . import processes
from .catalogue import Row, find
from .operation import ArrayOperation, Arrays
from .subject import Subject, SubjectFailed, SubjectHung, last_error

START_TIMEOUT = 120.0  # seconds that importing the user's module may take


class Child:
    """A callable "package.module:function" behind a pipe.

    Parameters
    ----------
    name : str
    timeout : float
        Seconds that one batch may take.

    Raises
    ------
    BadValue
        Where there is no such module or callable.
    """

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self._deaths = processes.Deaths()
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def __call__(self, i: Row, images: Arrays, m: Any) -> Any:
        """Return what the callable returned, checked in its process.

        Raises
        ------
        SubjectFailed
            With the callable's error, or with how its process ended.
        SubjectHung
            After the timeout; the process is gone then. And where it has died `processes.DEATHS`
            times in a row.
        """
        if self._process is None:
            self._start()
        try:
            self._pipe.send((i.mnemonic, i.arch, images, m, self.timeout))
        except OSError:
            raise self._deaths.another(f"{self.name} {self._end()}") from None
        kind, value = self._answer(self.timeout)
        self._deaths.answered()
        if kind == "failed":
            raise SubjectFailed(value)
        return value

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuemu.difftest.child", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno() if _real(sys.stderr) else None,
            start_new_session=True,  # Ctrl-C is the campaign's
            env=processes.environment(),
        )
        theirs.close()
        self._finalizer = weakref.finalize(self, processes.kill, self._process, self._pipe)
        self._pipe.send((self.name, sys.path))
        kind, value = self._answer(START_TIMEOUT)
        if kind == "failed":
            self._end()
            raise BadValue(value)

    def _answer(self, seconds: float) -> tuple[str, Any]:
        try:
            if not self._pipe.poll(seconds):
                self._finalizer()
                self._process = None
                raise SubjectHung(f"{self.name} ran longer than {seconds:g} s")
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            raise self._deaths.another(f"{self.name} {self._end()}") from None
        except KeyboardInterrupt:
            self.close()  # an answer that nobody waits for must not be taken for the next one
            raise
        return kind, value

    def _end(self) -> str:
        """Reap the process; return how it ended."""
        process, self._process = self._process, None
        code = processes.wait(process) if process else 0
        self._finalizer()
        return processes.ending(code)

    def close(self) -> None:
        """End the process; another call starts a new one."""
        self._finalizer()
        self._process = None


def _real(stream: Any) -> bool:
    """Tell whether a stream has a file descriptor."""
    try:
        return bool(stream.fileno() >= 0)
    except (OSError, AttributeError, ValueError):
        return False


def load_callable(name: str) -> Subject:
    """Return a callable "package.module:function" of this process as a subject."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise BadValue(f"subject {name!r}; legal: package.module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script does not look in the working directory
    try:
        function: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            function = getattr(function, part)
    except Exception:
        raise BadValue(f"subject {name!r} cannot be loaded: {last_error()}") from None
    if not callable(function):
        raise BadValue(f"subject {name!r} is a {type(function).__name__}; legal: a callable")

    def call(i: Row, images: Arrays, m: Any) -> Any:
        if isinstance(i, ArrayOperation):
            return i.ask(function, images, m)
        own = dict(images)
        return function(i, own.pop("a"), own.pop("b"), own.pop("c"), **own, **m.non_default())

    return Subject(name, call)


def _answer_one(subject: Subject, asked: Any) -> tuple[str, Any]:
    mnemonic, arch, images, m, timeout = asked
    # Should the parent be gone and the callable hang, the kernel ends this process.
    signal.setitimer(signal.ITIMER_REAL, 2 * timeout + 10)
    try:
        return "d", subject(find(mnemonic, arch), images, m)
    except SubjectFailed as error:
        return "failed", str(error)
    except KeyboardInterrupt:  # its own: this process ignores Ctrl-C
        return "failed", f"{subject.name} raised KeyboardInterrupt"
    except SystemExit as error:
        return "failed", f"{subject.name} called exit({error.code!r})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def serve(pipe: Connection) -> None:
    """Answer until the other end is closed: the process's whole work."""
    name, path = pipe.recv()
    sys.path[:] = path
    try:
        subject = load_callable(name)
    except BadValue as error:
        pipe.send(("failed", str(error)))
        return
    pipe.send(("ready", ""))
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer_one(subject, asked))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(Connection(int(sys.argv[1])))
