"""A validated call goes to a backend.

`auto` is CUDA where a usable device is there, else NumPy. A named backend that this machine cannot
run raises `BackendUnavailable`; a kernel that fails raises. Nothing falls back after a failure.
`check` runs the fastest implementation present (CUDA, else the host build) and the oracle, and
compares bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from .backends import arrays, cuda, host
from .errors import BackendUnavailable, BadType, BadValue

Backend = Literal["auto", "cuda", "host", "numpy", "check"]
BACKENDS = ("auto", "cuda", "host", "numpy", "check")

Result = TypeVar("Result")


def resolve(backend: str, operands: tuple[Any, ...] = ()) -> str:
    """Return the backend that will run: "cuda", "host", "numpy" or "check".

    Parameters
    ----------
    backend : str
        "auto", "cuda", "host", "numpy" or "check".
    operands : tuple of arrays
        Arrays that lie on a device choose CUDA under "auto".

    Raises
    ------
    BadValue
        For another name.
    BackendUnavailable
        Where this machine cannot run it, with the reason.
    """
    if not isinstance(backend, str):
        raise BadType(f"backend={backend!r}; legal: one of {', '.join(BACKENDS)}")
    if backend not in BACKENDS:
        raise BadValue(f"backend={backend!r}; legal: one of {', '.join(BACKENDS)}")
    if backend == "cuda" or (backend == "auto" and any(arrays.on_cuda(x) for x in operands)):
        cuda.require()
        return "cuda"
    if backend == "auto":
        return "cuda" if cuda.available() else "numpy"
    if backend == "host":
        host.require()
    if backend == "check":
        checked_backend()
    return backend


def checked_backend() -> str:
    """Return what `check` compares with the oracle: "cuda", else "host"; raise without either."""
    if cuda.available():
        return "cuda"
    if host.available():
        return "host"
    raise BackendUnavailable(
        "backend 'check' needs CUDA or the host build beside the oracle: "
        f"{cuda.why_unavailable()}; {host.why_unavailable()}"
    )


def run(
    backend: str,
    implementations: Mapping[str, Callable[[], Result]],
    compare: Callable[[Result, Result, str], None],
    operands: tuple[Any, ...] = (),
) -> Result:
    """Run a validated call on a backend.

    Parameters
    ----------
    backend : str
        As the user gave it.
    implementations : mapping of "cuda", "host" and "numpy" to a function without arguments
        Each computes the same call.
    compare : function (got, want, backend name)
        Raises `Mismatch` where the two results differ; used by `check`.
    operands : tuple of arrays
        The caller's arrays, which "auto" looks at.
    """
    chosen = resolve(backend, operands)
    if chosen != "check":
        return implementations[chosen]()
    checked = checked_backend()
    got, want = implementations[checked](), implementations["numpy"]()
    compare(got, want, checked)
    return got
