"""Calls on CuPy arrays that were validated before cost the host little more than their launches.

A call is remembered by its options, and by dtype, shape and strides of its operands; what its
results depend on besides (addresses, alpha, beta) comes with each call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...backends import arrays
from . import device_native, report
from .request import Call
from .scheme import Setting

#: (A, B, C, alpha, beta) to the result; publishes its report.
Again = Callable[[Any, Any, Any, float, float], Any]

_NUMBERS = tuple((x, y) for x in (float, int) for y in (float, int))
_LEAST_NORMAL = 2.0**-126  # of float32: a smaller beta may round to 0
MOST = 4096  # remembered calls; then all are forgotten
_known: dict[Any, Again] = {}


def find(key: Any) -> Again | None:
    """Return the repetition of a call that is known."""
    try:
        return _known.get(key)
    except TypeError:  # an option without a hash, which is refused later
        return None


def forget() -> None:
    """Forget every call: for measurements that change what programs depend on."""
    from . import device_steps

    _known.clear()
    device_steps.program.cache_clear()


def key(a: Any, b: Any, c: Any, alpha: Any, beta: Any, options: tuple[Any, ...]) -> Any:
    """Return what a call shares with its repetitions; None for a call that is never remembered.

    Types stand beside numbers, because True equals 1 and 1.0: a call that was refused is no
    repetition of one that ran. `options` has the types of its own. Whether C is read depends on
    beta as rounded to the dtype, so one that may round to 0 is never remembered.
    """
    kind = type(a)
    numbers = type(alpha), type(beta)
    if type(b) is not kind or numbers not in _NUMBERS or arrays.kind(a) != "cupy":
        return None
    if beta != 0 and abs(beta) < _LEAST_NORMAL:
        return None
    addend = None
    if c is not None:
        if type(c) is not kind:
            return None
        addend = (c.dtype, c.shape, c.strides, c.device.id)
    return (
        a.dtype, a.shape, a.strides, a.device.id, b.dtype, b.shape, b.strides, b.device.id,
        addend, beta != 0,
        sys.modules["cupy"].cuda.runtime.getDevice(), options,
    )  # fmt: skip


def remember(key: Any, call: Call, setting: Setting, ranges: tuple[tuple[int, int], ...]) -> None:
    """Keep a call that ran on the device as it was asked, and needs no copy of an operand again."""
    if (
        call.options.dynamic
        or len(call.a.shape) != 2
        or len(call.b.shape) != 2
        or not all(call.shape)
    ):
        return
    made = (
        _native(call, setting) if setting.scheme == "native" else _emulated(call, setting, ranges)
    )
    if made is not None:
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = made


def _native(call: Call, setting: Setting) -> Again | None:
    from . import device

    product = device_native.prepare(call.a, call.b)
    if product is None:
        return None
    record = report.Record(call.shape, call.dtype_name, "cuda", setting, call.bits, False)
    real, publish = call.dtype.type, report.publish

    def again(a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
        result = product(a, b)
        if alpha != 1 or beta != 0:
            result = device.scale(result, float(real(alpha)), float(real(beta)), c)
        publish(record)
        return result

    return again


def _emulated(call: Call, setting: Setting, ranges: tuple[tuple[int, int], ...]) -> Again | None:
    import cupy

    from . import device

    if device.encodable(call.a, 0) is not call.a or device.encodable(call.b, 1) is not call.b:
        return None
    used = call.c if call.beta != 0 else None
    program = device.program(call.a, call.b, used, setting, ranges, call.options.workspace)
    real, dtype, extents = call.dtype.type, call.dtype, call.shape[:2]
    facts = (call.shape, call.dtype_name, "cuda", setting, call.bits, False)

    def again(a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
        record = report.Record(*facts)
        out = cupy.ndarray(extents, dtype)
        scalars = float(real(alpha)), float(real(beta))
        device.enqueue(program, a, b, c if beta != 0 else None, scalars, out, record)
        report.publish(record)
        return out

    return again
