"""One matrix product through the host build: the code of the kernels, on the CPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ...backends import host
from . import oracle, scheme
from .report import Record
from .scheme import Setting

Array = np.ndarray[Any, Any]

exponent_span = oracle.exponent_span
scale = oracle.scale
native = oracle.native


def _pointer(x: Array | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if x is None else x.ctypes.data)


def _steps(x: Array) -> tuple[int, int]:
    return x.strides[0] // x.itemsize, x.strides[1] // x.itemsize


def encode(
    vectors: Array, setting: Setting, weighted: bool, out: Array, vector_step: int, plane_step: int
) -> Array:
    """Encode vectors (count, k) to int8 planes from the start of `out`; return exponents."""
    exponents = np.empty(len(vectors), np.int32)
    padded = -(-vectors.shape[1] // 16) * 16
    layout = np.array([*vectors.shape, padded, *_steps(vectors), vector_step, plane_step], np.int64)
    crt = setting.scheme == "crt"
    limit, limit_exponent = scheme.residue_limit(setting.planes) if crt else (0, 0)
    status = host.library("emulation").gpuemu_emulation_encode(
        8 * vectors.itemsize,
        int(crt),
        setting.planes,
        int(weighted if crt else setting.nearest),
        _pointer(vectors),
        _pointer(layout),
        _pointer(out),
        _pointer(exponents),
        ctypes.c_uint32(limit),
        limit_exponent,
    )
    assert status == 0, "the planes of a setting are within the range of the host build"
    return exponents


def _products(a: Array, b: Array, out: Array) -> None:
    host.library("emulation").gpuemu_emulation_products(
        _pointer(a),
        ctypes.c_int64(a.strides[0]),
        _pointer(b),
        ctypes.c_int64(b.strides[0]),
        ctypes.c_int64(len(a)),
        ctypes.c_int64(len(b)),
        ctypes.c_int64(a.shape[1]),
        _pointer(out),
        ctypes.c_int64(out.shape[1]),
    )


def _slice_planes(a: Array, b: Array, setting: Setting) -> tuple[Array, Array, Array]:
    """Return the int32 planes (diagonals, each in groups along k) and the exponents."""
    padded, count = -(-a.shape[1] // 16) * 16, setting.planes
    a_out = np.empty((len(a), count * padded), np.int8)
    b_out = np.empty((b.shape[1], count * padded), np.int8)
    a_exponents = encode(a, setting, False, a_out, count * padded, padded)
    last = b_out.reshape(-1)[(count - 1) * padded :]
    b_exponents = encode(b.T, setting, False, last, count * padded, -padded)
    planes = []
    for d in range(count):
        start, width = (count - 1 - d) * padded, (d + 1) * padded
        for first in range(0, width, scheme.SUM_LIMIT):
            stop = min(width, first + scheme.SUM_LIMIT)
            out = np.empty((len(a), b.shape[1]), np.int32)
            _products(a_out[:, first:stop], b_out[:, start + first : start + stop], out)
            planes.append(out)
    return np.stack(planes), a_exponents, b_exponents


def _residue_planes(a: Array, b: Array, setting: Setting) -> tuple[Array, Array, Array]:
    padded, count = -(-a.shape[1] // 16) * 16, setting.planes
    a_out = np.empty((count, len(a), padded), np.int8)
    b_out = np.empty((count, b.shape[1], padded), np.int8)
    a_exponents = encode(a, setting, False, a_out, padded, len(a) * padded)
    b_exponents = encode(b.T, setting, True, b_out, padded, b.shape[1] * padded)
    planes = np.empty((count, len(a), b.shape[1]), np.int32)
    for x, y, out in zip(a_out, b_out, planes, strict=True):
        _products(x, y, out)
    return planes, a_exponents, b_exponents


def multiply(
    a: Array,
    b: Array,
    c: Array | None,
    alpha: float,
    beta: float,
    out: Array,
    setting: Setting,
    ranges: tuple[tuple[int, int], ...],
    workspace: int | None,
    record: Record,
) -> None:
    """Write `alpha * (sum over ranges of A @ B) + beta * C` to `out` (rows contiguous)."""
    if not ranges:
        out[...] = scale(np.zeros_like(out), alpha, beta, c)
    scalars = (alpha, beta if c is not None else 0.0)
    encode_all = _residue_planes if setting.scheme == "crt" else _slice_planes
    for index, (first, last) in enumerate(ranges):
        x, y = a[:, first:last], b[first:last]
        planes = encode_all(x, y, setting)
        flags = (index > 0, index == len(ranges) - 1)
        _recombine(x, y, c, scalars, out, setting, planes, flags)
    record.k_ranges = max(1, len(ranges))
    record.count_nonfinite(
        int((~np.isfinite(a).all(axis=1)).sum()), int((~np.isfinite(b).all(axis=0)).sum())
    )


def _recombine(
    x: Array,
    y: Array,
    c: Array | None,
    scalars: tuple[float, float],
    out: Array,
    setting: Setting,
    encoded: tuple[Array, Array, Array],
    flags: tuple[bool, bool],
) -> None:
    """Add the product over one range of K to `out`; `flags`: not the first range, the last."""
    planes, a_exponents, b_exponents = encoded
    k, crt = x.shape[1], setting.scheme == "crt"
    at = np.array(
        [
            planes[0].size, planes.shape[2], *out.shape, k, -(-k // 16) * 16,
            *_steps(x), *_steps(y), *((0, 0) if c is None else _steps(c)),
            out.strides[0] // out.itemsize,
        ],
        np.int64,
    )  # fmt: skip
    grouped = not crt and len(planes) > setting.planes
    bits = np.array([crt, setting.planes, grouped, *flags], np.int32)
    short = out.dtype == np.float32
    real = ctypes.c_float if short else ctypes.c_double
    name = f"gpuemu_emulation_recombine_{'f32' if short else 'f64'}"
    arrays = (planes, at, bits, a_exponents, b_exponents, x, y, c)
    status = getattr(host.library("emulation"), name)(
        *map(_pointer, arrays), *map(real, scalars), _pointer(out)
    )
    assert status == 0, "the planes of a setting are within the range of the host build"
