"""What follows a chain of instructions: partial sums added, alpha and beta, one rounding to a
narrower format.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import cuda, host
from .oracle.values import NAN32, bits32, bits64

OUTPUTS = {"f16": 1, "bf16": 2}  # the codes of cuda_src/matmul_epilogue.cuh

_THREADS = 256


@dataclass(frozen=True)
class Epilogue:
    """The steps after the chains.

    Attributes
    ----------
    accumulator : str
        "f32", "f64" or "i32".
    alpha, beta : float
        Of binary32; both 1 where C is the accumulator that comes in.
    output : str or None
        "f16" or "bf16"; None keeps the accumulator's format.
    """

    accumulator: str
    alpha: float = 1.0
    beta: float = 1.0
    output: str | None = None

    @property
    def scales(self) -> bool:
        """Tell whether alpha and beta have work to do."""
        return (self.alpha, self.beta) != (1.0, 1.0)

    @property
    def adder(self) -> str:
        """Return the name of the device function that adds partial sums."""
        return {"f32": "add_partials32", "f64": "add_partials64", "i32": "add_partials_integer"}[
            self.accumulator
        ]


class Numpy:
    """The steps in NumPy: the oracle."""

    def add(self, e: Epilogue, total: Any, part: Any) -> Any:
        """Return total + part, rounded to the accumulator's format."""
        with np.errstate(all="ignore"):
            if e.accumulator == "i32":
                return total + part
            if e.accumulator == "f64":
                return bits64(total.view(np.float64) + part.view(np.float64))
            return bits32(total.view(np.float32) + part.view(np.float32))

    def scale(self, e: Epilogue, total: Any, c: Any) -> Any:
        """Return alpha total + beta c, each operation rounded to binary32."""
        with np.errstate(all="ignore"):
            d = np.float32(e.alpha) * total.view(np.float32)
            if c is not None:
                d = d + np.float32(e.beta) * c.view(np.float32)
        return bits32(d)

    def round(self, e: Epilogue, total: Any, dtype: Any) -> Any:
        """Return binary32 bits as bits of the output format, every NaN as its quiet one."""
        with np.errstate(all="ignore"):
            values = total.view(np.float32).astype(dtype)
        quiet = NAN32.view(np.float32).astype(dtype).view(np.uint16)
        return np.where(
            np.isnan(total.view(np.float32)), quiet, np.ascontiguousarray(values).view(np.uint16)
        )


class Host:
    """The steps in the host build."""

    def add(self, e: Epilogue, total: Any, part: Any) -> Any:
        """Add part to total in place."""
        self._call(f"gpuemu_matmul_{e.adder}", total, part, ctypes.c_longlong(total.size))
        return total

    def scale(self, e: Epilogue, total: Any, c: Any) -> Any:
        """Scale total in place."""
        numbers = (ctypes.c_float(e.alpha), ctypes.c_float(e.beta), ctypes.c_int(c is not None))
        self._call("gpuemu_matmul_scale", total, c, *numbers, ctypes.c_longlong(total.size))
        return total

    def round(self, e: Epilogue, total: Any, dtype: Any) -> Any:
        """Return the bits of the output format."""
        out = np.empty(total.shape, np.uint16)
        code = ctypes.c_int(OUTPUTS[str(e.output)])
        self._call("gpuemu_matmul_round_output", total, out, code, ctypes.c_longlong(total.size))
        return out

    def _call(self, name: str, *args: Any) -> None:
        passed = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in args]
        getattr(host.library("matmul"), name)(*passed)


class Cuda:
    """The steps on the current device and stream."""

    def add(self, e: Epilogue, total: Any, part: Any) -> Any:
        """Add part to total in place."""
        self._launch(e.adder, total.size, total, part)
        return total

    def scale(self, e: Epilogue, total: Any, c: Any) -> Any:
        """Scale total in place."""
        numbers = (np.float32(e.alpha), np.float32(e.beta), np.int32(c is not None))
        self._launch("scale", total.size, total, total if c is None else c, *numbers)
        return total

    def round(self, e: Epilogue, total: Any, dtype: Any) -> Any:
        """Return the bits of the output format."""
        import cupy

        out = cupy.empty(total.shape, cupy.uint16)
        self._launch("round_output", total.size, total, out, np.int32(OUTPUTS[str(e.output)]))
        return out

    def _launch(self, name: str, count: int, *args: Any) -> None:
        if count:
            kernel = cuda.kernel("matmul_epilogue.cu", name)
            kernel((-(-count // _THREADS),), (_THREADS,), (*args, np.int64(count)))


STEPS: dict[str, Numpy | Host | Cuda] = {"numpy": Numpy(), "host": Host(), "cuda": Cuda()}
