"""CUDA: compile `cuda_src` through NVRTC to cubins, cache them, launch kernels.

CuPy's own compiler front end appends `-ftz=true`, which flushes subnormals even in conversions, and
it targets plain `sm_90`. So cubins are compiled here, kept on disk under a key that covers every
source file, the options, the architecture and NVRTC's version, and loaded by CuPy only as binaries.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BackendUnavailable, BadType, CompileError
from . import sources

OPTIONS = (
    "--ftz=false",
    "--fmad=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "-std=c++17",
    "--device-int128",
)

Defines = Mapping[str, "int | str"]


@cache
def why_unavailable() -> str:
    """Return the reason why no CUDA device can be used, or an empty string where one can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is not installed ({error}); pip install 'gpuemu[cuda13]' or 'gpuemu[cuda12]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy {cupy.__version__} finds no usable CUDA device ({error})"
    return "" if count else f"CuPy {cupy.__version__} finds no CUDA device"


def available() -> bool:
    """Tell whether a CUDA device can be used."""
    return not why_unavailable()


def require() -> None:
    """Raise `BackendUnavailable` with the reason where no CUDA device can be used."""
    reason = why_unavailable()
    if reason:
        raise BackendUnavailable(f"backend 'cuda' is not available: {reason}")


def _nvrtc() -> Any:
    try:
        from cupy_backends.cuda.libs import nvrtc
    except ImportError as error:
        raise BackendUnavailable(
            f"NVRTC is not available ({error}); pip install 'gpuemu[cuda13]'"
        ) from error
    return nvrtc


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return NVRTC's version; raise `BackendUnavailable` where its library cannot be loaded."""
    nvrtc = _nvrtc()
    try:
        major, minor = nvrtc.getVersion()
    except Exception as error:
        raise BackendUnavailable(f"NVRTC cannot be loaded: {error}") from error
    return int(major), int(minor)


def _compile(source: str, defines: Defines, arch: str, want: str) -> bytes:
    nvrtc = _nvrtc()
    nvrtc_version()
    target = arch if want == "cubin" else arch.replace("sm_", "compute_")
    options = (
        *OPTIONS,
        f"-arch={target}",
        *(f"-D{name}={value}" for name, value in sorted(defines.items())),
    )
    text = f'#include "{source}"\n'
    # Headers are handed over by name: NVRTC would look in the working directory first.
    headers = {name.encode(): body.encode() for name, body in sources.texts().items()}
    program = nvrtc.createProgram(text, f"gpuemu_{source}", tuple(headers.values()), tuple(headers))
    try:
        nvrtc.compileProgram(program, options)
        data = nvrtc.getCUBIN(program) if want == "cubin" else nvrtc.getPTX(program)
    except Exception as error:
        log = nvrtc.getProgramLog(program)
        raise CompileError(f"{source} for {arch} with {dict(defines)}: {error}\n{log}") from error
    finally:
        nvrtc.destroyProgram(program)
    if isinstance(data, bytes):
        # CuPy cuts the last byte off, which is the zero that ends the program headers: tools that
        # check the file's size refuse it without.
        return data + b"\0"
    return str(data).encode()


_in_work: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def cubin_path(source: str, defines: Defines | None = None, arch: str = "sm_90a") -> Path:
    """Return the cached binary of one source file for one architecture, compiled now if missing.

    Parameters
    ----------
    source : str
        A file name in `cuda_src`.
    defines : mapping of str to int or str
        Preprocessor definitions that specialise it.
    arch : str
        A real architecture, such as "sm_80", "sm_90a", "sm_100".

    Raises
    ------
    CompileError
        With NVRTC's log.
    BackendUnavailable
        Where NVRTC is not installed. No GPU is needed.
    """
    defines = defines or {}
    facts = (sources.digest(), source, sorted(defines.items()), arch, OPTIONS, nvrtc_version())
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
    path = sources.cache_directory() / f"{source.removesuffix('.cu')}-{arch}-{key}.cubin"
    with _in_work[str(path)]:  # two threads that want one kernel compile it once
        if not path.is_file():
            sources.store(path, _compile(source, defines, arch, "cubin"))
    return path


def cubin(source: str, defines: Defines | None = None, arch: str = "sm_90a") -> bytes:
    """Return the binary of one source file for one architecture; see `cubin_path`."""
    return cubin_path(source, defines, arch).read_bytes()


def ptx(source: str, defines: Defines | None = None, arch: str = "sm_90a") -> str:
    """Return the PTX of one source file, never cached: what tests read."""
    return _compile(source, defines or {}, arch, "ptx").decode()


def device_arch() -> str:
    """Return the current device's architecture, with the `a` that unlocks Hopper's instructions."""
    import cupy

    capability = str(cupy.cuda.Device().compute_capability)
    return f"sm_{capability}a" if capability == "90" else f"sm_{capability}"


def as_struct(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as the single element that CuPy passes by value; itself where it is one."""
    return array if array.size == 1 else array.view(f"V{array.nbytes}")


class Kernel:
    """One loaded kernel, launched on the caller's current device and stream.

    Arguments are CuPy arrays (pointers), NumPy scalars, or NumPy arrays (structs by value). CuPy
    passes a Python float to a `float` parameter as garbage, so Python numbers are refused here, the
    one place where kernels are launched.
    """

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self.name = name
        self._shared = 0
        self._raising = threading.Lock()

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
    ) -> None:
        """Launch `grid` blocks of `block` threads, `shared_mem` bytes of dynamic shared memory."""
        import cupy

        for position, value in enumerate(args):
            if not isinstance(value, (cupy.ndarray, np.generic, np.ndarray)):
                raise BadType(
                    f"argument {position} of kernel {self.name} is a {type(value).__name__}; "
                    "legal: a CuPy array, or a NumPy scalar or struct of the parameter's dtype"
                )
        # CuPy passes a NumPy array by value where it has a single element.
        args = [as_struct(x) if isinstance(x, np.ndarray) else x for x in args]
        self.allow_shared(shared_mem)
        self._function(tuple(grid), tuple(block), tuple(args), shared_mem=shared_mem)

    def allow_shared(self, size: int) -> None:
        """Let launches ask for `size` bytes of dynamic shared memory.

        The driver keeps one limit a kernel, which is never lowered here: launches that were
        prepared earlier may need more.
        """
        with self._raising:
            if size > self._shared:
                self._function.max_dynamic_shared_size_bytes = size
                self._shared = size

    @property
    def attributes(self) -> dict[str, int]:
        """Return registers, shared and local memory as the driver reports them."""
        return dict(self._function.attributes)


_loaded: dict[tuple[Any, ...], Kernel] = {}


def kernel(source: str, name: str, defines: Defines | None = None) -> Kernel:
    """Return a kernel of `cuda_src`, compiled and loaded for the current device.

    Parameters
    ----------
    source : str
        A file name in `cuda_src`.
    name : str
        The `extern "C"` kernel in it.
    defines : mapping
        Preprocessor definitions that specialise it.
    """
    import cupy

    defines = defines or {}
    device = cupy.cuda.Device().id
    key = (device, source, name, tuple(sorted(defines.items())))
    found = _loaded.get(key)
    if found is None:
        require()
        module = cupy.RawModule(path=str(cubin_path(source, defines, device_arch())))
        found = _loaded[key] = Kernel(module.get_function(name), name)
    return found
