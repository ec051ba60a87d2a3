"""One matrix product on CUDA: encode, int8 products through cuBLAS, recombine; and natively."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import device_beside, device_launch, device_native, device_steps
from .device_launch import Running
from .device_steps import Program, Shape, View
from .report import Record
from .scheme import Setting

NONFINITE = -(2**31)

native = device_native.product


def current_device() -> int:
    """Return the number of the caller's device."""
    import cupy

    return int(cupy.cuda.runtime.getDevice())


@cache
def _default_workspace(device: int) -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(device)["totalGlobalMem"]) // 4


def _view(x: Any) -> View:
    (rows, columns), (row_step, column_step), size = x.shape, x.strides, x.itemsize
    return View(rows, columns, row_step // size, column_step // size)


def encodable(x: Any, vector_axis: int) -> Any:
    """Return x, or a copy where neither its vectors nor its elements are neighbours."""
    import cupy

    size = x.itemsize
    apart = size not in x.strides and x.shape[vector_axis] > 1 and x.shape[1 - vector_axis] > 1
    return cupy.ascontiguousarray(x) if apart else x


def program(
    a: Any,
    b: Any,
    c: Any,
    setting: Setting,
    ranges: tuple[tuple[int, int], ...],
    workspace: int | None,
) -> Program:
    """Return the launches of a product of encodable matrices on the current device."""
    device = current_device()
    limit = _default_workspace(device) if workspace is None else workspace
    c_view = None if c is None else _view(c)
    return device_steps.program(
        Shape(device, a.itemsize, _view(a), _view(b), c_view, setting, ranges, limit)
    )


def multiply(
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: float,
    out: Any,
    setting: Setting,
    ranges: tuple[tuple[int, int], ...],
    workspace: int | None,
    record: Record,
) -> None:
    """Write `alpha * (sum over ranges of A @ B) + beta * C` to `out` (contiguous)."""
    import cupy

    if not out.size:
        return
    if not ranges:
        out[...] = scale(cupy.zeros_like(out), alpha, beta, c)
        return
    a, b = encodable(a, 0), encodable(b, 1)
    enqueue(program(a, b, c, setting, ranges, workspace), a, b, c, (alpha, beta), out, record)


def enqueue(
    program: Program, a: Any, b: Any, c: Any, scalars: tuple[float, float], out: Any, record: Record
) -> None:
    """Enqueue a program on the current stream, and write down what it does."""
    import cupy

    exponents = cupy.ndarray((program.exponents,), np.int32)
    memory = cupy.cuda.alloc(program.workspace_bytes)
    c_address, scalars = (0, (scalars[0], 0.0)) if c is None else (c.data.ptr, scalars)
    addresses = (a.data.ptr, b.data.ptr, c_address, out.data.ptr, exponents.data.ptr)
    stream = cupy.cuda.get_current_stream()
    running = device_launch.running(a.itemsize, stream.ptr, memory.ptr, addresses, scalars)
    _run(program, running, record)
    record.workspace_bytes = max(record.workspace_bytes, program.workspace_bytes)
    record.blocks = program.blocks
    record.counts.append(_counter(exponents, program.ranges, a.shape[0], stream))
    record.k_ranges = program.ranges
    record.runs += 1


def _run(program: Program, running: Running, record: Record) -> None:
    """Enqueue every stage; one after the other, between events, where the record asks for times."""
    if record.timing:
        for stage in program.stages:
            start = _mark()
            for step in stage.steps:
                step(running)
            record.stages.append((stage.name, _between(start, _mark())))
    elif program.beside:
        device_beside.run(program, running)
    else:
        for stage in program.stages:
            for step in stage.steps:
                step(running)


def _mark() -> Any:
    import cupy

    event = cupy.cuda.Event()
    event.record()
    return event


def _between(start: Any, stop: Any) -> Callable[[], float]:
    def elapsed() -> float:
        import cupy

        stop.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, stop))

    return elapsed


def _counter(exponents: Any, ranges: int, rows: int, stream: Any) -> Callable[[], tuple[int, int]]:
    """Count the rows and columns that are not finite in some range of K; wait for the stream."""

    def count() -> tuple[int, int]:
        stream.synchronize()
        bad = (exponents.reshape(ranges, -1) == NONFINITE).any(axis=0)
        return int(bad[:rows].sum()), int(bad[rows:].sum())

    return count


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
