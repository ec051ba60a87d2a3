"""The launches of a product, worked out once: `program` depends on extents and strides alone.

Addresses and scalars come with each call, in the struct that `Running` points to; the structs are
those of emulation_launch.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...backends import cuda
from . import device_encode, device_fused, device_plan, device_products, scheme
from .device_launch import Run, launch
from .device_plan import Plan, padded
from .scheme import Setting

_ENCODE_LONG = ("first", "stride", "out", "vector_stride", "plane_stride")
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


ENCODE = _struct(
    (_ENCODE_LONG, np.int64),
    (_ENCODE_SHORT, np.int32),
    (("limit",), np.uint32),
    (("limit_exponent", "held"), np.int32),
)
RECOMBINE = _struct((_RECOMBINE_LONG, np.int64), (_RECOMBINE_SHORT, np.int32))


class View(NamedTuple):
    """Extents of a matrix, and its strides in elements."""

    rows: int
    columns: int
    row_step: int
    column_step: int


@dataclass(frozen=True, eq=False)
class Stage:
    """What is enqueued in order, on the caller's stream or beside it, after stages of the other
    stream.
    """

    name: str
    steps: tuple[Run, ...]
    beside: bool = False
    after: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Program:
    """Stages in an order that is right on one stream too; `exponents` counts int32 words, `ranges`
    those of K.
    """

    stages: tuple[Stage, ...]
    workspace_bytes: int
    blocks: tuple[int, int]
    exponents: int
    ranges: int

    @cached_property
    def beside(self) -> bool:
        """Whether some stage goes beside the caller's stream."""
        return any(stage.beside for stage in self.stages)


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
    stages: list[Stage] = []
    total, blocks, exponents = 0, (0, 0), 0
    for index, (first, last) in enumerate(shape.ranges):
        flags = (int(index > 0), int(index == len(shape.ranges) - 1))
        part = _Part(shape, first, last, exponents, flags)
        stages += part.stages()
        total, blocks = max(total, part.bytes), (part.plan.row_block, part.plan.column_block)
        exponents += part.plan.rows + part.plan.columns
    return Program(tuple(stages), total, blocks, exponents, len(shape.ranges))


class _Part:
    """The launches over one range of K; exponents of its vectors begin at word `exponents`."""

    def __init__(
        self, shape: Shape, first: int, last: int, exponents: int, flags: tuple[int, int]
    ) -> None:
        self.shape, self.first, self.flags, self.exponents = shape, first, flags, exponents
        rows, columns = shape.a.rows, shape.b.columns
        setting, k = shape.setting, last - first
        self.fused = device_fused.wanted(
            shape.itemsize, setting.scheme == "crt", setting.planes, rows, columns, k
        )
        whole = self.fused or len(shape.ranges) > 1
        self.plan: Plan = device_plan.plan(
            rows,
            columns,
            k,
            setting,
            shape.workspace,
            self.fused,
            1 if whole else device_plan.BUFFERS,
        )
        self.bytes = self.plan.total
        self._prepared: dict[tuple[int, int, int], tuple[Run, ...]] = {}

    def stages(self) -> list[Stage]:
        """Return the stages of every block.

        With two buffers, encoding A and recombination go beside the products of another block.
        """
        plan, found = self.plan, []
        beside = plan.buffers > 1
        products: list[Stage] = []
        recombinations: list[Stage] = []
        for column in range(0, plan.columns, plan.column_block):
            columns = min(plan.column_block, plan.columns - column)
            found.append(Stage("encode B", self._encode(True, column, columns)))
            for row in range(0, plan.rows, plan.row_block):
                rows, buffer = min(plan.row_block, plan.rows - row), len(products) % plan.buffers
                encoded = self._encode(False, row, rows, buffer)
                encode = Stage("encode A", encoded, beside, tuple(products[-2:-1]))
                found.append(encode)
                step = self._recombination((row, rows), (column, columns), buffer)
                if self.fused:
                    planes = self.shape.setting.planes
                    fused = device_fused.launch(plan, planes, rows, columns, step)
                    found.append(Stage("products and recombine", (fused,)))
                    continue
                runs = self._products(padded(rows), padded(columns), buffer)
                products.append(Stage("products", runs, False, (encode, *recombinations[-2:-1])))
                found.append(products[-1])
                recombine = self._recombine(rows, columns, step)
                recombinations.append(Stage("recombine", recombine, beside, (products[-1],)))
                # Beside the next products: enqueued after them, and after what they wait for.
                found += recombinations[-2:-1] if beside else recombinations[-1:]
        return found + (recombinations[-1:] if beside else [])

    def _kernel(self, source: str, name: str, **defines: int) -> cuda.Kernel:
        setting = self.shape.setting
        common = {
            "ELEMENT_BITS": 8 * self.shape.itemsize,
            "SCHEME": int(setting.scheme == "crt"),
            "PLANE_COUNT": setting.planes,
        }
        return cuda.kernel(source, name, common | defines)

    def _encode(self, right: bool, first: int, count: int, buffer: int = 0) -> tuple[Run, ...]:
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
            *self._layout(right, padded(count), buffer),
            right, plan.k, plan.padded_k, count,
            self.exponents + (plan.rows if right else 0) + first, *limit, 0,
        )  # fmt: skip
        weight = {"USE_WEIGHTS": int(right)} if crt else {"USE_NEAREST": int(setting.nearest)}
        return (self._encode_rows if along_k else self._encode_columns)(at, count, weight)

    def _encode_rows(self, at: Any, count: int, weight: dict[str, int]) -> tuple[Run, ...]:
        threads = device_encode.row_threads(self.shape.itemsize, self.plan.padded_k)
        kernel = self._kernel("emulation_encode_rows.cu", "encode_rows", **weight)
        return (launch(kernel, (count,), (threads,), at),)

    def _encode_columns(self, at: Any, count: int, weight: dict[str, int]) -> tuple[Run, ...]:
        shape = self.shape
        how = device_encode.columns(
            shape.itemsize, self.plan.padded_k, device_encode.clusters(shape.device)
        )
        at["held"] = how.held
        defines = weight | {"CLUSTER": how.cluster}
        kernel = self._kernel("emulation_encode_columns.cu", "encode_columns", **defines)
        grid = (-(-count // how.vectors) * how.cluster,)
        return (launch(kernel, grid, (how.threads,), at, how.shared),)

    def _layout(self, right: bool, block: int, buffer: int) -> tuple[int, int, int]:
        """Return where a block's planes begin, and the strides of vectors and planes."""
        k, planes = self.plan.padded_k, self.shape.setting.planes
        a_offset = self.plan.a_offset + buffer * self.plan.a_bytes
        start = self.plan.b_offset if right else a_offset
        if self.shape.setting.scheme == "crt":
            return start, k, block * k
        if right:  # B's slices lie in reverse: a diagonal is one range of both
            return start + (planes - 1) * k, planes * k, -k
        return start, planes * k, k

    def _products(self, rows: int, columns: int, buffer: int) -> tuple[Run, ...]:
        """Return the int8 products of a block of padded extents."""
        if (rows, columns, buffer) in self._prepared:
            return self._prepared[rows, columns, buffer]
        runs = []
        setting = self.shape.setting
        for product in device_products.products(self.plan, setting, rows, columns, buffer):
            run, scratch = device_products.prepare(
                product, self.shape.device, self.plan.total, self.plan.spare, setting.planes
            )
            self.bytes = max(self.bytes, self.plan.total + scratch)
            runs.append(_multiply(run))
        self._prepared[rows, columns, buffer] = tuple(runs)
        return self._prepared[rows, columns, buffer]

    def _recombination(
        self, row_span: tuple[int, int], column_span: tuple[int, int], buffer: int
    ) -> Any:
        """Return the `RecombineStep` of a block: first row or column, and how many."""
        shape, plan, (row, rows), (column, columns) = self.shape, self.plan, row_span, column_span
        a, b, c = shape.a, shape.b, shape.c or View(0, 0, 0, 0)
        plane_row = padded(columns)
        a_first = row * a.row_step + self.first * a.column_step
        b_first = column * b.column_step + self.first * b.row_step
        at = np.zeros((), RECOMBINE)
        at[()] = (
            plan.sums_offset + buffer * plan.sums_bytes, padded(rows) * plane_row, plane_row,
            a_first, a.row_step, a.column_step, b_first, b.row_step, b.column_step,
            row * c.row_step + column * c.column_step, c.row_step, c.column_step,
            row * plan.columns + column, plan.columns,
            rows, columns, plan.k, plan.padded_k,
            self.exponents + row, self.exponents + plan.rows + column, *self.flags,
        )  # fmt: skip
        return at

    def _recombine(self, rows: int, columns: int, at: Any) -> tuple[Run, ...]:
        groups = {"USE_GROUPS": int(self.plan.grouped)}
        kernel = self._kernel("emulation_recombine.cu", "recombine", **groups)
        width = 64 if self.shape.setting.scheme == "crt" else 128
        return (launch(kernel, (-(-columns // width), -(-rows // 32)), (32, 8), at),)


def _multiply(product: device_products.Run) -> Run:
    return lambda running: product(running.base, running.stream)
