"""One matrix product on CUDA: encode, int8 products through cuBLAS, recombine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...backends import cuda
from . import device_plan, device_products, scheme
from .device_plan import Plan, padded
from .report import Record
from .scheme import Setting

NONFINITE = -(2**31)
MAX_THREADS = 512
COLUMN_ROWS = 256  # as in emulation_encode.cu

i32, i64, u64 = np.int32, np.int64, np.uint64


class Timer:
    """CUDA events around the stages of a call; does nothing unless asked for."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._start: Any = None

    def _event(self) -> Any:
        import cupy

        event = cupy.cuda.Event()
        event.record()
        return event

    def begin(self) -> None:
        """Start the clock of a stage."""
        if self._record.timing:
            self._start = self._event()

    def end(self, stage: str) -> None:
        """Add the time since `begin` to a stage."""
        if self._record.timing:
            start, stop = self._start, self._event()
            self._record.stages.append((stage, lambda: _elapsed(start, stop)))


def _elapsed(start: Any, stop: Any) -> float:
    import cupy

    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop))


@cache
def _default_workspace(device: int) -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(device)["totalGlobalMem"]) // 4


def _encode_kernel(
    name: str, dtype: np.dtype[Any], setting: Setting, weighted: bool
) -> cuda.Kernel:
    crt = setting.scheme == "crt"
    defines = {
        "ELEMENT_BITS": 8 * dtype.itemsize,
        "SCHEME": int(crt),
        "PLANE_COUNT": setting.planes,
        ("USE_WEIGHTS" if crt else "USE_NEAREST"): int(weighted if crt else setting.nearest),
    }
    return cuda.kernel("emulation_encode.cu", name, defines)


def _recombine_kernel(dtype: np.dtype[Any], setting: Setting, grouped: bool) -> cuda.Kernel:
    defines = {
        "ELEMENT_BITS": 8 * dtype.itemsize,
        "SCHEME": int(setting.scheme == "crt"),
        "PLANE_COUNT": setting.planes,
        "USE_GROUPS": int(grouped),
    }
    return cuda.kernel("emulation_recombine.cu", "recombine", defines)


class Operand:
    """Rows of A or columns of B: where they lie, how they are encoded, and their exponents.

    `vectors` counts them, `step` and `k_step` are strides in elements.
    """

    def __init__(self, x: Any, vector_axis: int, setting: Setting) -> None:
        import cupy

        self.right = vector_axis == 1
        self.array = x
        self.vectors, self.length = int(x.shape[vector_axis]), int(x.shape[1 - vector_axis])
        self.step, self.k_step = (
            int(x.strides[axis]) // x.itemsize for axis in (vector_axis, 1 - vector_axis)
        )
        self.setting = setting
        self.along_k = self.k_step == 1 or self.length == 1
        if not self.along_k and self.step != 1 and self.vectors > 1:
            self.array = x = cupy.ascontiguousarray(x)
            self.step, self.k_step = (
                int(x.strides[axis]) // x.itemsize for axis in (vector_axis, 1 - vector_axis)
            )
            self.along_k = self.k_step == 1
        self.exponents = cupy.empty(self.vectors, i32)
        self.kernel = _encode_kernel(
            "encode_rows" if self.along_k else "encode_columns", x.dtype, setting, self.right
        )
        limit = scheme.residue_limit(setting.planes) if setting.scheme == "crt" else (0, 0)
        self.limit = (np.uint32(limit[0]), i32(limit[1]))

    def address(self, vector: int, k: int = 0) -> int:
        """Return the device address of one element."""
        offset: int = vector * self.step + k * self.k_step
        return int(self.array.data.ptr) + offset * int(self.array.itemsize)

    def encode(self, first: int, count: int, padded_k: int, block: int, out: int) -> None:
        """Encode `count` vectors from `first` to int8 planes at `out`, laid out for `block`."""
        planes = self.setting.planes
        if self.setting.scheme == "crt":
            vector_stride, plane_stride = padded_k, block * padded_k
        else:
            vector_stride, plane_stride = planes * padded_k, padded_k
            if self.right:  # B's slices lie in reverse: a diagonal is one range of both
                out, plane_stride = out + (planes - 1) * padded_k, -padded_k
        target = (u64(out), i64(vector_stride), i64(plane_stride))
        exponents = u64(int(self.exponents.data.ptr) + 4 * first)
        source = (
            u64(self.address(first)),
            i64(self.step if self.along_k else self.k_step),
            i32(self.length),
        )
        if self.along_k:
            threads = min(MAX_THREADS, max(32, -(-padded_k // 1024) * 32))
            self.kernel(
                (count,), (threads,), (*source, i32(padded_k), *target, exponents, *self.limit)
            )
        else:
            maxima, norms = self._column_passes(first, count, source)
            tile = 128 if planes <= 8 else 64
            self.kernel(
                (-(-count // 32), -(-padded_k // tile)),
                (256,),
                (
                    *source,
                    i32(padded_k),
                    i32(count),
                    *target,
                    maxima,
                    norms,
                    exponents,
                    *self.limit,
                ),
            )

    def _column_passes(self, first: int, count: int, source: tuple[Any, ...]) -> tuple[Any, Any]:
        """Find the largest magnitude, and for crt the norm, of columns of a row-major array."""
        import cupy

        unsigned = np.dtype(f"u{self.array.itemsize}")
        maxima, norms = cupy.zeros(count, unsigned), cupy.empty(1, u64)
        grid = (-(-count // 128), -(-self.length // COLUMN_ROWS))
        dtype = np.dtype(self.array.dtype)
        _encode_kernel("column_maxima", dtype, self.setting, self.right)(
            grid, (32, 8), (*source, i32(count), maxima)
        )
        if self.setting.scheme == "crt":
            norms = cupy.zeros(count, u64)
            kernel = _encode_kernel("column_norms", dtype, self.setting, self.right)
            kernel(grid, (32, 8), (*source, i32(count), maxima, norms))
        return maxima, norms


def multiply(
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: float,
    out: Any,
    setting: Setting,
    ranges: list[tuple[int, int]],
    workspace: int | None,
    record: Record,
) -> None:
    """Write `alpha * (sum over ranges of A @ B) + beta * C` to `out` (rows contiguous)."""
    import cupy

    if not out.size:
        return
    if not ranges:
        out[...] = scale(cupy.zeros_like(out), alpha, beta, c)
        return
    limit = _default_workspace(cupy.cuda.Device().id) if workspace is None else workspace
    for index, (first, last) in enumerate(ranges):
        part = Part(a[:, first:last], b[first:last], c, out, setting, limit, record)
        part.run(alpha, beta, add=index > 0, finish=index == len(ranges) - 1)
    record.k_ranges = len(ranges)
    record.runs += 1


class Part:
    """The product over one range of K."""

    def __init__(
        self, a: Any, b: Any, c: Any, out: Any, setting: Setting, limit: int, record: Record
    ) -> None:
        import cupy

        self.setting, self.c, self.out, self.record = setting, c, out, record
        (rows, k), columns = a.shape, b.shape[1]
        self.plan: Plan = device_plan.plan(int(rows), int(columns), int(k), setting, limit)
        self.a, self.b = Operand(a, 0, setting), Operand(b, 1, setting)
        self.memory = cupy.cuda.alloc(self.plan.workspace_bytes)
        self.base = int(self.memory.ptr)
        self.timer = Timer(record)
        self.kernel = _recombine_kernel(np.dtype(a.dtype), setting, self.plan.grouped)
        record.workspace_bytes = max(record.workspace_bytes, self.plan.workspace_bytes)
        record.blocks = (self.plan.row_block, self.plan.column_block)
        record.counts.append(_counter(self.a.exponents, self.b.exponents))

    def run(self, alpha: float, beta: float, add: bool, finish: bool) -> None:
        """Encode, multiply and recombine block by block."""
        plan = self.plan
        for column in range(0, plan.columns, plan.column_block):
            columns = min(plan.column_block, plan.columns - column)
            self.timer.begin()
            self.b.encode(
                column, columns, plan.padded_k, padded(columns), self.base + plan.b_offset
            )
            self.timer.end("encode B")
            for row in range(0, plan.rows, plan.row_block):
                rows = min(plan.row_block, plan.rows - row)
                self.timer.begin()
                self.a.encode(row, rows, plan.padded_k, padded(rows), self.base + plan.a_offset)
                self.timer.end("encode A")
                self.timer.begin()
                device_products.run(plan, self.setting, padded(rows), padded(columns), self.base)
                self.timer.end("products")
                self.timer.begin()
                self._recombine(row, rows, column, columns, alpha, beta, add, finish)
                self.timer.end("recombine")

    def _recombine(
        self,
        row: int,
        rows: int,
        column: int,
        columns: int,
        alpha: float,
        beta: float,
        add: bool,
        finish: bool,
    ) -> None:
        plan, out, c, real = self.plan, self.out, self.c, self.out.dtype.type
        itemsize = int(out.itemsize)
        plane_row = padded(columns)
        c_steps = (0, 0) if c is None else (c.strides[0] // itemsize, c.strides[1] // itemsize)
        c_address = (
            0
            if c is None
            else int(c.data.ptr) + (row * c_steps[0] + column * c_steps[1]) * itemsize
        )
        out_row = int(out.strides[0]) // itemsize
        width = 64 if self.setting.scheme == "crt" else 128
        self.kernel(
            (-(-columns // width), -(-rows // 32)),
            (32, 8),
            (
                u64(self.base + plan.sums_offset),
                i64(padded(rows) * plane_row),
                i64(plane_row),
                i32(rows),
                i32(columns),
                u64(int(self.a.exponents.data.ptr) + 4 * row),
                u64(int(self.b.exponents.data.ptr) + 4 * column),
                u64(self.a.address(row)),
                i64(self.a.step),
                i64(self.a.k_step),
                u64(self.b.address(column)),
                i64(self.b.k_step),
                i64(self.b.step),
                i32(plan.k),
                i32(plan.padded_k),
                u64(c_address),
                i64(c_steps[0]),
                i64(c_steps[1]),
                real(alpha),
                real(beta if c is not None else 0.0),
                u64(int(out.data.ptr) + (row * out_row + column) * itemsize),
                i64(out_row),
                i32(add),
                i32(finish),
            ),
        )


def _counter(a_exponents: Any, b_exponents: Any) -> Callable[[], tuple[int, int]]:
    return lambda: (int((a_exponents == NONFINITE).sum()), int((b_exponents == NONFINITE).sum()))


@cache
def _scale_kernels() -> tuple[Any, Any]:
    """Multiply and add as separate launches: no compiler can contract them."""
    import cupy

    return cupy.multiply, cupy.add


def scale(product: Any, alpha: float, beta: float, c: Any) -> Any:
    """Return `alpha * product + beta * c`, each operation rounded to the product's type."""
    real = product.dtype.type
    multiply_by, plus = _scale_kernels()
    scaled = multiply_by(product, real(alpha)) if alpha != 1.0 else product
    return scaled if c is None or beta == 0 else plus(scaled, multiply_by(c, real(beta)))


def exponent_span(a: Any, b: Any) -> int:
    """Return the span that dynamic control needs; waits for the device."""
    from . import device_span

    return device_span.exponent_span(a, b)
