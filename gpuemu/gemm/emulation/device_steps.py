"""The launches of a product, worked out once: `program` depends on extents and strides alone.

Addresses and scalars come with each call, in the struct that `Running` holds; the structs are those
of emulation_launch.cuh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...backends import cuda
from . import device_plan, device_products, scheme
from .device_plan import Plan, padded
from .scheme import Setting

MAX_THREADS = 512
CHUNKS = {4: 8, 8: 4}  # by bytes an element, as in emulation_encode.cu
COLUMN_ROWS = 256  # as there

_CALL_FIELDS = ("a", "b", "c", "out", "workspace", "exponents")
_ENCODE_LONG = ("first", "stride", "out", "vector_stride", "plane_stride", "maxima", "norms")
_ENCODE_SHORT = ("right", "length", "padded", "vectors", "exponents")
_RECOMBINE_LONG = (
    "sums", "plane_stride", "plane_row", "a", "a_row", "a_column", "b", "b_row", "b_column",
    "c", "c_row", "c_column", "out", "out_row",
)  # fmt: skip
_RECOMBINE_SHORT = (
    "rows", "columns", "k", "padded_k", "a_exponents", "b_exponents", "add", "finish",
)  # fmt: skip


def _struct(*fields: tuple[tuple[str, ...], Any]) -> np.dtype[Any]:
    return np.dtype([(name, kind) for names, kind in fields for name in names], align=True)


CALL = {
    4: _struct((_CALL_FIELDS, np.uint64), (("alpha", "beta"), np.float32)),
    8: _struct((_CALL_FIELDS, np.uint64), (("alpha", "beta"), np.float64)),
}
ENCODE = _struct(
    (_ENCODE_LONG, np.int64),
    (_ENCODE_SHORT, np.int32),
    (("limit",), np.uint32),
    (("limit_exponent",), np.int32),
)
RECOMBINE = _struct((_RECOMBINE_LONG, np.int64), (_RECOMBINE_SHORT, np.int32))


class Running(NamedTuple):
    """What one call adds to a program: the `Call` struct, the workspace, the stream's handle."""

    call: Any
    memory: Any
    base: int
    stream: int


Run = Callable[[Running], None]


class View(NamedTuple):
    """Extents of a matrix, and its strides in elements."""

    rows: int
    columns: int
    row_step: int
    column_step: int


@dataclass(frozen=True)
class Program:
    """Stages in order, each a name and what it enqueues; `exponents` counts int32 words."""

    stages: tuple[tuple[str, tuple[Run, ...]], ...]
    workspace_bytes: int
    blocks: tuple[int, int]
    exponents: int


@dataclass(frozen=True)
class Shape:
    """What a program is made for: a key of `program`."""

    device: int
    itemsize: int
    a: View
    b: View
    c: View | None
    setting: Setting
    ranges: tuple[tuple[int, int], ...]
    workspace: int


@lru_cache(maxsize=256)
def program(shape: Shape) -> Program:
    """Return the launches of one product, in order."""
    stages: list[tuple[str, tuple[Run, ...]]] = []
    total, blocks, exponents = 0, (0, 0), 0
    for index, (first, last) in enumerate(shape.ranges):
        flags = (int(index > 0), int(index == len(shape.ranges) - 1))
        part = _Part(shape, first, last, exponents, flags)
        stages += part.stages()
        total, blocks = max(total, part.bytes), (part.plan.row_block, part.plan.column_block)
        exponents += part.plan.rows + part.plan.columns
    return Program(tuple(stages), total, blocks, exponents)


class _Part:
    """The launches over one range of K; exponents of its vectors begin at word `exponents`."""

    def __init__(
        self, shape: Shape, first: int, last: int, exponents: int, flags: tuple[int, int]
    ) -> None:
        self.shape, self.first, self.flags, self.exponents = shape, first, flags, exponents
        rows, columns = shape.a.rows, shape.b.columns
        self.plan: Plan = device_plan.plan(
            rows, columns, last - first, shape.setting, shape.workspace
        )
        self.bytes = self.plan.total
        self._prepared: dict[tuple[int, int], tuple[Run, ...]] = {}

    def stages(self) -> list[tuple[str, tuple[Run, ...]]]:
        """Return the stages of every block."""
        plan, found = self.plan, []
        for column in range(0, plan.columns, plan.column_block):
            columns = min(plan.column_block, plan.columns - column)
            found.append(("encode B", self._encode(True, column, columns)))
            for row in range(0, plan.rows, plan.row_block):
                rows = min(plan.row_block, plan.rows - row)
                found.append(("encode A", self._encode(False, row, rows)))
                found.append(("products", self._products(padded(rows), padded(columns))))
                found.append(("recombine", (self._recombine(row, rows, column, columns),)))
        return found

    def _kernel(self, source: str, name: str, **defines: int) -> cuda.Kernel:
        setting = self.shape.setting
        common = {
            "ELEMENT_BITS": 8 * self.shape.itemsize,
            "SCHEME": int(setting.scheme == "crt"),
            "PLANE_COUNT": setting.planes,
        }
        return cuda.kernel(source, name, common | defines)

    def _encode(self, right: bool, first: int, count: int) -> tuple[Run, ...]:
        """Return the launches that encode `count` vectors from `first`."""
        setting, plan, view = self.shape.setting, self.plan, self.shape.a
        step, k_step = view.row_step, view.column_step
        if right:
            step, k_step = self.shape.b.column_step, self.shape.b.row_step
        along_k = k_step == 1 or plan.k == 1
        crt = setting.scheme == "crt"
        limit = scheme.residue_limit(setting.planes) if crt else (0, 0)
        at = np.zeros((), ENCODE)
        at[()] = (
            first * step + self.first * k_step, step if along_k else k_step,
            *self._layout(right, padded(count)),
            plan.column_facts, plan.column_facts + 8 * padded(count),
            right, plan.k, plan.padded_k, count,
            self.exponents + (plan.rows if right else 0) + first, *limit,
        )  # fmt: skip
        weight = {"USE_WEIGHTS": int(right)} if crt else {"USE_NEAREST": int(setting.nearest)}
        return (self._encode_rows if along_k else self._encode_columns)(at, count, weight)

    def _encode_rows(self, at: Any, count: int, weight: dict[str, int]) -> tuple[Run, ...]:
        warp = 32 * 4 * CHUNKS[self.shape.itemsize]  # elements that a warp keeps
        threads = min(MAX_THREADS, max(32, -(-self.plan.padded_k // warp) * 32))
        kernel = self._kernel("emulation_encode.cu", "encode_rows", **weight)
        return (_launch(kernel, (count,), (threads,), at),)

    def _encode_columns(self, at: Any, count: int, weight: dict[str, int]) -> tuple[Run, ...]:
        plan, setting = self.plan, self.shape.setting
        facts = ("column_maxima", "column_norms")[: 2 if setting.scheme == "crt" else 1]
        grid = (-(-count // 128), -(-plan.k // COLUMN_ROWS))
        found = [_clear(plan.column_facts, 8 * padded(count) * len(facts))]
        for name in facts:
            kernel = self._kernel("emulation_encode.cu", name, **weight)
            found.append(_launch(kernel, grid, (32, 8), at))
        tile = 128 if setting.planes <= 8 else 64
        grid = (-(-count // 32), -(-plan.padded_k // tile))
        kernel = self._kernel("emulation_encode.cu", "encode_columns", **weight)
        return (*found, _launch(kernel, grid, (256,), at))

    def _layout(self, right: bool, block: int) -> tuple[int, int, int]:
        """Return where a block's planes begin, and the strides of vectors and planes."""
        k, planes = self.plan.padded_k, self.shape.setting.planes
        start = self.plan.b_offset if right else self.plan.a_offset
        if self.shape.setting.scheme == "crt":
            return start, k, block * k
        if right:  # B's slices lie in reverse: a diagonal is one range of both
            return start + (planes - 1) * k, planes * k, -k
        return start, planes * k, k

    def _products(self, rows: int, columns: int) -> tuple[Run, ...]:
        """Return the int8 products of a block of padded extents."""
        if (rows, columns) in self._prepared:
            return self._prepared[rows, columns]
        runs = []
        for product in device_products.products(self.plan, self.shape.setting, rows, columns):
            run, scratch = device_products.prepare(
                product, self.shape.device, self.plan.total, self.plan.spare
            )
            self.bytes = max(self.bytes, self.plan.total + scratch)
            runs.append(_multiply(run))
        self._prepared[rows, columns] = tuple(runs)
        return self._prepared[rows, columns]

    def _recombine(self, row: int, rows: int, column: int, columns: int) -> Run:
        shape, plan, crt = self.shape, self.plan, self.shape.setting.scheme == "crt"
        a, b, c = shape.a, shape.b, shape.c or View(0, 0, 0, 0)
        plane_row = padded(columns)
        a_first = row * a.row_step + self.first * a.column_step
        b_first = column * b.column_step + self.first * b.row_step
        at = np.zeros((), RECOMBINE)
        at[()] = (
            plan.sums_offset, padded(rows) * plane_row, plane_row,
            a_first, a.row_step, a.column_step, b_first, b.row_step, b.column_step,
            row * c.row_step + column * c.column_step, c.row_step, c.column_step,
            row * plan.columns + column, plan.columns,
            rows, columns, plan.k, plan.padded_k,
            self.exponents + row, self.exponents + plan.rows + column, *self.flags,
        )  # fmt: skip
        kernel = self._kernel("emulation_recombine.cu", "recombine", USE_GROUPS=int(plan.grouped))
        width = 64 if crt else 128
        return _launch(kernel, (-(-columns // width), -(-rows // 32)), (32, 8), at)


def _launch(kernel: cuda.Kernel, grid: tuple[int, ...], block: tuple[int, ...], at: Any) -> Run:
    return lambda running: kernel(grid, block, (running.call, at))


def _clear(offset: int, size: int) -> Run:
    def run(running: Running) -> None:
        (running.memory + offset).memset_async(0, size)

    return run


def _multiply(product: device_products.Run) -> Run:
    return lambda running: product(running.base, running.stream)
