"""From a caller's arrays to a frozen, validated GEMM call."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import arrays
from ..errors import BadShape, BadType, BadValue
from .arithmetic import Arithmetic, arithmetic
from .elements import COMPLEX, Element
from .operators import EnableInputStreaming, Order, col_major

if TYPE_CHECKING:
    from .descriptor import Descriptor


@dataclass(frozen=True)
class Matrix:
    """A matrix as it lies in memory.

    Attributes
    ----------
    memory : array, NumPy or CuPy
        (outer, inner), inner contiguous: rows of a row-major matrix, columns of a column-major one.
        Complex numbers without a dtype have a last axis of 2.
    element : Element
    order : {"row_major", "col_major"}
    """

    memory: Any
    element: Element
    order: Order

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        outer, inner = self.memory.shape[:2]
        return (inner, outer) if self.order == col_major else (outer, inner)

    @property
    def parts(self) -> int:
        """2 for complex elements."""
        return 2 if self.memory.ndim == 3 or self.memory.dtype.kind == "c" else 1

    @property
    def leading(self) -> int:
        """Elements between the starts of consecutive rows or columns."""
        outer, inner = self.memory.shape[:2]
        width = self.element.bytes * self.parts
        return int(self.memory.strides[0]) // width if outer > 1 else max(inner, 1)

    @property
    def pointer(self) -> int:
        """Address of the first element."""
        return address(self.memory)

    @property
    def module(self) -> Any:
        """The library that its memory belongs to: numpy or cupy."""
        return array_module(self.memory)

    @property
    def array(self) -> Any:
        """The matrix as (rows, columns), a view."""
        return self.memory.swapaxes(0, 1) if self.order == col_major else self.memory

    def assign(self, array: Any) -> None:
        """Overwrite the matrix with an array (rows, columns) of either library."""
        own = isinstance(self.memory, np.ndarray)
        self.array[...] = arrays.to_numpy(array) if own else arrays.to_cupy(array)

    def planes(self) -> list[np.ndarray[Any, Any]]:
        """Return (rows, columns) NumPy arrays of the real and, for complex, the imaginary parts."""
        x = arrays.to_numpy(self.array)
        if x.dtype.kind == "c":
            return [x.real, x.imag]
        x = x.view(self.element.dtype)  # where the caller gave bits
        return [x[..., 0], x[..., 1]] if self.parts == 2 else [x]

    def on_host(self) -> Matrix:
        """Return the matrix in NumPy memory."""
        return replace(self, memory=arrays.to_numpy(self.memory))

    def on_device(self) -> Matrix:
        """Return the matrix in CuPy memory: itself where it is, else compact."""
        memory = self.memory
        if isinstance(memory, np.ndarray):
            memory = arrays.to_cupy(np.ascontiguousarray(memory))
        return replace(self, memory=memory)


@dataclass(frozen=True)
class GemmCall:
    """Everything that any backend needs to compute alpha A B + beta C."""

    a: Matrix
    b: Matrix
    c: Matrix | None
    alpha: tuple[Any, ...]
    beta: tuple[Any, ...]
    how: Arithmetic
    target: Element
    order: Order
    parts: int
    descriptor: Descriptor

    @property
    def extents(self) -> tuple[int, int, int]:
        """(M, N, K) of the whole call."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    def empty(self, make: Any) -> Matrix:
        """Return uninitialised memory for the result; `make` is the module: numpy or cupy."""
        m, n, _ = self.extents
        outer, inner = (n, m) if self.order == col_major else (m, n)
        dtype = self.target.dtype
        if self.parts == 1:
            return Matrix(make.empty((outer, inner), dtype), self.target, self.order)
        if dtype in COMPLEX:
            return Matrix(make.empty((outer, inner), COMPLEX[dtype]), self.target, self.order)
        return Matrix(make.empty((outer, inner, 2), dtype), self.target, self.order)


LoadOp = Callable[[Any], Any]


def native(array: Any, name: str) -> Any:
    """Return any accepted array as NumPy or, where it lies on a device, CuPy; no copy."""
    return arrays.to_cupy(array, name) if arrays.on_cuda(array) else arrays.to_numpy(array, name)


def array_module(memory: Any) -> Any:
    """Return numpy or cupy, whichever an array belongs to."""
    if isinstance(memory, np.ndarray):
        return np
    import cupy

    return cupy


def address(memory: Any) -> int:
    """Return where the first element of an array (NumPy or CuPy) lies."""
    return int(memory.ctypes.data if isinstance(memory, np.ndarray) else memory.data.ptr)


def _bounds(memory: Any) -> tuple[int, int]:
    """Return the addresses of the first byte and of the one after the last."""
    if 0 in memory.shape:
        return 0, 0
    first = address(memory)
    steps = [(n - 1) * stride for n, stride in zip(memory.shape, memory.strides, strict=True)]
    below, above = sum(min(x, 0) for x in steps), sum(max(x, 0) for x in steps)
    return first + below, first + above + memory.itemsize


def overlaps(memory: Any, *matrices: Matrix | None) -> bool:
    """Tell whether an array (NumPy or CuPy) may share memory with any matrix that is there.

    Bounds are compared: memory between the rows of a matrix counts as its own. They are addresses,
    for CuPy's own test knows views of one CuPy array only, not those of another library's.
    """
    start, stop = _bounds(memory)
    others = (_bounds(x.memory) for x in matrices if x)
    return any(start < above and below < stop for below, above in others)


def _accepted(element: Element, parts: int) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes that hold an element: its own, its complex one, bits where CuPy has no
    dtype."""
    if parts == 2 and element.dtype in COMPLEX:
        return (COMPLEX[element.dtype],)
    if element.name in ("bf16", "f8e4m3fn", "f8e5m2"):
        return element.dtype, np.dtype(f"u{element.bytes}")
    return (element.dtype,)


def _convert(
    array: Any, name: str, element: Element, parts: int, explicit: bool, streaming: bool
) -> Any:
    """Return the operand in an accepted dtype; a lossless conversion is made, any other needs a
    load operation."""
    accepted = _accepted(element, parts)
    if array.dtype in accepted:
        return array
    lossless = array.dtype.kind in "biuf" and bool(np.can_cast(array.dtype, accepted[0], "safe"))
    if not (lossless or explicit) or streaming:
        rule = (
            "EnableInputStreaming uses operands as they lie in memory"
            if streaming
            else "the conversion loses bits"
        )
        raise BadType(
            f"{name} has dtype {array.dtype}, the descriptor's {name} is {element}: {rule}; "
            f"legal: {' or '.join(map(str, accepted))}"
            + ("" if streaming else f", or {name.lower()}_load_op=")
        )
    if array.dtype.kind == "c" and accepted[0].kind != "c":
        raise BadType(
            f"{name} has dtype {array.dtype}, the descriptor's {name} is {element}: the conversion "
            f"drops the imaginary part; legal: {' or '.join(map(str, accepted))}"
        )
    return array.astype(accepted[0])


def matrix(
    array: Any,
    name: str,
    element: Element,
    parts: int,
    order: Order,
    *,
    load_op: LoadOp | None = None,
    streaming: bool = False,
) -> Matrix:
    """Return a validated matrix from a caller's array.

    Raises
    ------
    BadType
        For another dtype.
    BadShape
        For another rank.
    BadValue
        For a storage order that is not the descriptor's.
    """
    x = native(array, name)
    if load_op is not None:
        if streaming:
            raise BadValue(
                f"{name.lower()}_load_op with EnableInputStreaming, which promises that there "
                "is none"
            )
        x = native(load_op(x), f"the result of {name.lower()}_load_op")
    x = _convert(x, name, element, parts, load_op is not None, streaming)
    pairs = parts == 2 and x.dtype.kind != "c"
    if x.ndim != 2 + pairs or (pairs and x.shape[2] != 2):
        last = " with a last axis of 2 (real, imaginary)" if pairs else ""
        raise BadShape(f"{name} has shape {tuple(x.shape)}; legal: (rows, columns){last}")
    memory = x.swapaxes(0, 1) if order == col_major else x
    _check_order(memory, name, order, pairs)
    return Matrix(memory, element, order)


def _check_order(memory: Any, name: str, order: Order, pairs: bool) -> None:
    outer, inner = memory.shape[:2]
    if outer * inner == 0:
        return
    width = memory.itemsize * (2 if pairs else 1)
    contiguous = inner <= 1 or memory.strides[1] == width
    whole = outer <= 1 or (memory.strides[0] >= width * inner and memory.strides[0] % width == 0)
    if not (contiguous and whole and (not pairs or memory.strides[2] == memory.itemsize)):
        other = "numpy.asfortranarray" if order == col_major else "numpy.ascontiguousarray"
        raise BadValue(
            f"{name} does not lie in memory as the descriptor's Arrangement says ({order}): "
            "strides "
            f"{tuple(memory.swapaxes(0, 1).strides if order == col_major else memory.strides)} "
            "bytes; "
            f"pass {other}({name}) or change Arrangement"
        )


def check_alignment(x: Matrix, name: str, alignment: int) -> None:
    """Refuse a matrix whose first element is not aligned as the descriptor declares."""
    if x.pointer % alignment:
        raise BadValue(
            f"{name} starts at {x.pointer:#x}, which is not aligned to the {alignment} bytes "
            "that the "
            "descriptor declares; legal: another start, or a smaller Alignment"
        )


def factor(value: Any, name: str, element: Element, parts: int) -> tuple[Any, ...]:
    """Return alpha or beta as one or two scalars of C's dtype."""
    if not isinstance(value, numbers.Complex):
        raise BadType(f"{name}={value!r}; legal: a number")
    if value.imag and parts == 1:
        raise BadValue(f"{name}={value!r} is complex; the descriptor is real")
    pieces: tuple[Any, ...] = (value.real, value.imag)[:parts]
    if element.is_integer:
        low, high = np.iinfo(element.dtype).min, np.iinfo(element.dtype).max
        # Python's own numbers compare exactly; NumPy's would round the limits of 64 bits.
        pieces = tuple(x.item() if isinstance(x, np.generic) else x for x in pieces)
        if not all(low <= x <= high and x == int(x) for x in pieces):
            raise BadValue(
                f"{name}={value!r}: C is {element}; legal: an integer from {low} to {high}"
            )
        pieces = tuple(map(int, pieces))
    try:
        with np.errstate(over="ignore"):  # beyond C's range is infinity
            return tuple(element.dtype.type(x) for x in pieces)
    except OverflowError:
        raise BadValue(
            f"{name}={value!r} does not fit in binary64; legal: a float, infinity included, or a "
            "number in its range"
        ) from None


def is_zero(value: Sequence[Any]) -> bool:
    """Tell whether a factor is zero, in both parts."""
    return all(x == 0 for x in value)


def make_call(
    d: Descriptor,
    a: Any,
    b: Any,
    c: Any = None,
    alpha: Any = 1,
    beta: Any = 0,
    *,
    a_load_op: LoadOp | None = None,
    b_load_op: LoadOp | None = None,
) -> GemmCall:
    """Validate operands against a descriptor, their extents only against each other, and freeze the
    call."""
    types, parts, orders = d.precision, d.parts, d.arrangement
    streaming = EnableInputStreaming in d
    left = matrix(a, "A", types.a, parts, orders[0], load_op=a_load_op, streaming=streaming)
    right = matrix(b, "B", types.b, parts, orders[1], load_op=b_load_op, streaming=streaming)
    if left.shape[1] != right.shape[0]:
        raise BadShape(
            f"A is {left.shape}, B is {right.shape}: the K extents {left.shape[1]} and "
            f"{right.shape[0]} differ"
        )
    factors = factor(alpha, "alpha", types.c, parts), factor(beta, "beta", types.c, parts)
    old = None
    if not is_zero(factors[1]):
        if c is None:
            raise BadValue(f"beta={beta!r} but C is missing; legal: pass C, or beta=0")
        old = matrix(c, "C", types.c, parts, orders[2])
        if old.shape != (left.shape[0], right.shape[1]):
            raise BadShape(f"C is {old.shape}; A B is {(left.shape[0], right.shape[1])}")
    for x, name, bytes_ in (
        (left, "A", d.alignment.a),
        (right, "B", d.alignment.b),
        (old, "C", d.alignment.c),
    ):
        if x is not None:
            check_alignment(x, name, bytes_)
    return GemmCall(left, right, old, *factors, arithmetic(d), types.c, orders[2], parts, d)
