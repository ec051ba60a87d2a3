"""cublasLt through ctypes: the algorithm of an int8 product chosen once, not in every call.

cublasGemmEx searches for an algorithm each time, and its choice cannot be changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...errors import BackendUnavailable

# Enumerations of cublasLt.h and library_types.h.
_INT8, _INT32, _COMPUTE_INT32 = 3, 10, 72
_TRANSPOSE_A, _TRANSPOSED = 3, 1
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
_ALGORITHM_BYTES = 64
_SWIZZLE, _CLUSTER = 4, 8  # of an algorithm: raster of the blocks, shape of their clusters
_ONE, _ZERO = ctypes.c_int32(1), ctypes.c_int32(0)


@dataclass(frozen=True)
class Product:
    """`out = left^T @ right`, column-major: m x n int32 from k x m and k x n int8.

    `left`, `right` and `out` are offsets in bytes; `left_row` and `right_row` are the strides of
    their vectors. `count` such products lie one after the other.
    """

    m: int
    n: int
    k: int
    left: int
    right: int
    out: int
    left_row: int
    right_row: int
    count: int = 1


def alignment(offset: int) -> int:
    """Return the bytes, at most 256, that an offset into aligned memory is a multiple of."""
    return min(256, offset & -offset) if offset else 256


#: Runs a product (workspace address, stream), and its bytes of scratch.
Choice = tuple[Callable[[int, int], None], int]


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_byte * _ALGORITHM_BYTES),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Library:
    """cublasLt of one device."""

    def __init__(self, loaded: ctypes.CDLL, handle: int) -> None:
        self._loaded, self._handle = loaded, handle
        self._matmul = loaded.cublasLtMatmul
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._matmul.argtypes = (*(pointer,) * 14, size, pointer)
        loaded.cublasLtGetVersion.restype = size

    @property
    def version(self) -> int:
        """cublasLt's version, 130100 for 13.1.0."""
        return int(self._loaded.cublasLtGetVersion())

    def _do(self, name: str, *arguments: Any) -> None:
        status = getattr(self._loaded, name)(*arguments)
        if status:
            raise BackendUnavailable(f"{name} returned status {status}")

    def _new(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._do(name, ctypes.byref(made), *arguments)
        return made

    def _set(self, name: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._do(name, of, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def layout(self, kind: int, rows: int, columns: int, stride: int, count: int) -> Any:
        """Return a column-major layout; matrices of a batch lie one after the other."""
        made = self._new(
            "cublasLtMatrixLayoutCreate",
            kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(stride),
        )  # fmt: skip
        if count > 1:
            change = "cublasLtMatrixLayoutSetAttribute"
            self._set(change, made, _BATCH_COUNT, ctypes.c_int32(count))
            self._set(change, made, _BATCH_STRIDE, ctypes.c_int64(stride * columns))
        return made

    def operation(self) -> ctypes.c_void_p:
        """Return int8 times int8 in int32, the left operand transposed."""
        made = self._new("cublasLtMatmulDescCreate", _COMPUTE_INT32, _INT32)
        self._set("cublasLtMatmulDescSetAttribute", made, _TRANSPOSE_A, ctypes.c_int32(_TRANSPOSED))
        return made

    def _preference(self, p: Product, spare: int) -> ctypes.c_void_p:
        made = self._new("cublasLtMatmulPreferenceCreate")
        change = "cublasLtMatmulPreferenceSetAttribute"
        self._set(change, made, _MOST_WORKSPACE, ctypes.c_uint64(spare))
        for attribute, offset in zip(_ALIGNMENTS, (p.left, p.right, p.out, p.out), strict=True):
            self._set(change, made, attribute, ctypes.c_uint32(alignment(offset)))
        return made

    def candidates(self, p: Product, spare_offset: int, spare: int, most: int = 1) -> list[Choice]:
        """Return at most `most` algorithms for a product, in the order of cublasLt's guess at their
        speed; none where no algorithm fits.
        """
        problem = self._problem(p)
        results, found = (Heuristic * most)(), ctypes.c_int()
        status = self._loaded.cublasLtMatmulAlgoGetHeuristic(
            ctypes.c_void_p(self._handle), *problem,
            self._preference(p, spare), most, ctypes.byref(results), ctypes.byref(found),
        )  # fmt: skip
        if status:
            return []
        given = [result for result in results[: found.value] if not result.state]
        return [
            (self._runner(p, problem, result, spare_offset), int(result.workspace))
            for result in given
        ]

    def rastered(self, p: Product, spare_offset: int, spare: int, cluster: int) -> Choice | None:
        """Return cublasLt's first guess in another raster: blocks in clusters of a shape (an item
        of `cublasLtClusterShape_t`), and neighbours in time near each other in the result. None
        where this cannot be had.
        """
        problem = self._problem(p)
        guess, checked, found = Heuristic(), Heuristic(), ctypes.c_int()
        handle, algorithm = ctypes.c_void_p(self._handle), ctypes.byref(guess.algorithm)
        change = self._loaded.cublasLtMatmulAlgoConfigSetAttribute
        settings = (_SWIZZLE, ctypes.c_uint32(1)), (_CLUSTER, ctypes.c_uint16(cluster))
        failed = self._loaded.cublasLtMatmulAlgoGetHeuristic(
            handle, *problem, self._preference(p, spare), 1,
            ctypes.byref(guess), ctypes.byref(found),
        )  # fmt: skip
        for attribute, value in settings:
            size = ctypes.c_size_t(ctypes.sizeof(value))
            failed = failed or change(algorithm, attribute, ctypes.byref(value), size)
        failed = failed or self._loaded.cublasLtMatmulAlgoCheck(
            handle, *problem, algorithm, ctypes.byref(checked)
        )
        if failed or checked.state or checked.workspace > spare:
            return None
        guess.workspace = checked.workspace
        return self._runner(p, problem, guess, spare_offset), int(guess.workspace)

    def _problem(self, p: Product) -> tuple[Any, ...]:
        """Return what cublasLt is asked about: the operation, layouts of A, B, C and D."""
        left = self.layout(_INT8, p.k, p.m, p.left_row, p.count)
        right = self.layout(_INT8, p.k, p.n, p.right_row, p.count)
        out = self.layout(_INT32, p.m, p.n, p.m, p.count)
        return self.operation(), left, right, out, out

    def _runner(
        self, p: Product, problem: tuple[Any, ...], chosen: Heuristic, spare_offset: int
    ) -> Callable[[int, int], None]:
        matmul, handle = self._matmul, self._handle
        operation, left, right, out, _ = problem
        one, zero = ctypes.addressof(_ONE), ctypes.addressof(_ZERO)
        algorithm, scratch = ctypes.addressof(chosen), int(chosen.workspace)

        def run(base: int, stream: int, _keep: Any = chosen) -> None:
            to = base + p.out
            status = matmul(
                handle, operation, one, base + p.left, left, base + p.right, right, zero,
                to, out, to, out, algorithm, base + spare_offset, scratch, stream,
            )  # fmt: skip
            if status:
                raise BackendUnavailable(f"cublasLtMatmul returned status {status} for {p}")

        return run


@cache
def library(device: int) -> Library | None:
    """Return cublasLt for the current device, `device`; None where the library is not found."""
    import cupy

    major = int(cupy.cuda.runtime.runtimeGetVersion()) // 1000
    try:
        loaded = ctypes.CDLL(f"libcublasLt.so.{major}")
    except OSError:
        return None
    made = ctypes.c_void_p()
    status = loaded.cublasLtCreate(ctypes.byref(made))
    if status or made.value is None:
        raise BackendUnavailable(f"cublasLtCreate returned status {status}")
    return Library(loaded, made.value)
