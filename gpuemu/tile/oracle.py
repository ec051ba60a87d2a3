"""The arithmetic of whole arrays in NumPy, written to be read: every backend's reference.

The array twin of `exact`: a product of two significands of at most 24 bits is exact in binary64,
its sum with the addend is a binary64 number plus an exactly known error, and one `rint` on the
target's grid, with the error deciding ties, is the one rounding. FP64 does not fit and runs element
by element on `exact`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import exact
from .numeric import NV, NX, OF, UF, DataType, PadValue
from .operations import Operation

Array = np.ndarray[Any, Any]
Codes = tuple[Array, Array]  # element bits, and flags (uint8) of each element

CHUNK = 1 << 16  # elements whose temporaries stay in the cache


def is_nan(dtype: DataType, bits: Array) -> Array:
    """Tell which elements are NaN."""
    magnitude = bits & dtype.storage.type(dtype.sign_bit - 1)
    found: Array = magnitude > dtype.infinity if dtype.infinities else magnitude == dtype.infinity
    return found


def is_signaling(dtype: DataType, bits: Array) -> Array:
    """Tell which elements are signaling NaNs: the top bit of the fraction is clear."""
    quiet = dtype.storage.type(1 << (dtype.mantissa_bits - 1 + dtype.unused_bits))
    found: Array = is_nan(dtype, bits) & (bits & quiet == 0)
    return found


def values(dtype: DataType, bits: Array) -> Array:
    """Return the values of element bits as float64, exact."""
    return bits.view(dtype.dtype).astype(np.float64)


def two_sum(left: Array, right: Array) -> Codes:
    """Return the rounded sum of two float64 arrays and its exact error (Knuth)."""
    total = left + right
    other = total - left
    return total, (left - (total - other)) + (right - other)


def round_pack(dtype: DataType, total: Array, error: Array) -> Codes:
    """Round total + error, finite and |error| at most half an ulp of total, once to the type."""
    negative = np.signbit(total)
    magnitude = np.abs(total)
    error = np.where(negative, -error, error)
    smallest = dtype.emin - dtype.mantissa_bits
    quantum = np.maximum(np.frexp(magnitude)[1] - 1 - dtype.mantissa_bits, smallest)
    quantum = np.where(magnitude == 0, smallest, quantum)
    units = np.ldexp(magnitude, -quantum)
    floor = np.floor(units)
    tie = (units - floor == 0.5) & (error != 0)
    kept = np.where(tie, floor + (error > 0), np.rint(units))
    inexact = (kept != units) | (error != 0)
    # Rounded to full precision, |t| reaches the smallest normal number from this midpoint on.
    threshold = np.ldexp(1 - 2.0 ** -(dtype.mantissa_bits + 2), dtype.emin)
    tiny = (magnitude < threshold) | ((magnitude == threshold) & (error < 0))
    code = ((quantum - smallest).astype(np.int64) << dtype.mantissa_bits) + kept.astype(np.int64)
    code <<= dtype.unused_bits
    overflow = code >= dtype.infinity
    code = np.where(overflow, dtype.infinity, code) + np.where(negative, dtype.sign_bit, 0)
    if not dtype.infinities:
        code = np.where(overflow, dtype.canonical_nan, code)
    flags = inexact * NX + (inexact & tiny) * UF
    return code.astype(dtype.storage), np.where(overflow, OF | NX, flags).astype(np.uint8)


def rounded_sum(dtype: DataType, sources: tuple[Array, ...], left: Array, right: Array) -> Codes:
    """Add two exact float64 arrays with one rounding; NaN is made canonical."""
    total, error = two_sum(left, right)
    finite = np.isfinite(total)
    bits, flags = round_pack(dtype, np.where(finite, total, 0.0), np.where(finite, error, 0.0))
    infinity = np.where(total < 0, dtype.infinity | dtype.sign_bit, dtype.infinity)
    bits = np.where(np.isinf(total), infinity.astype(dtype.storage), bits)
    bits = np.where(np.isnan(total), dtype.storage.type(dtype.canonical_nan), bits)
    invalid = np.isnan(total) & ~np.isnan(left) & ~np.isnan(right)
    for source in sources:
        invalid |= is_signaling(dtype, source)
    return bits, np.where(invalid, flags | NV, flags).astype(np.uint8)


def _each(dtype: DataType, step: Callable[..., exact.Step], sources: tuple[Array, ...]) -> Codes:
    steps = [step(*(int(code) for code in codes)) for codes in zip(*sources, strict=True)]
    bits = np.array([s.bits for s in steps], dtype=dtype.storage)
    return bits, np.array([s.flags for s in steps], dtype=np.uint8)


def _modular(bits: Array) -> Codes:
    return bits, np.zeros(bits.shape, np.uint8)


def tfma(dtype: DataType, nan_corner: str, left: Array, right: Array, addend: Array) -> Codes:
    """Left times right plus addend; integers modulo the element width."""
    if dtype.kind != "float":
        return _modular(left * right + addend)
    if dtype.name == "FP64":
        return _each(
            dtype, lambda x, y, z: exact.fma(dtype, x, y, z, nan_corner), (left, right, addend)
        )
    x, y, z = (values(dtype, bits) for bits in (left, right, addend))
    bits, flags = rounded_sum(dtype, (left, right, addend), x * y, z)
    invalid = np.isnan(x * y) & ~np.isnan(x) & ~np.isnan(y)
    if nan_corner == "asl":
        some_infinity = (np.isinf(x) | np.isinf(y)) & np.isinf(z) & (np.isnan(x) | np.isnan(y))
        negative = (np.signbit(x) & ~np.isnan(x)) != (np.signbit(y) & ~np.isnan(y))
        invalid |= some_infinity & (negative != np.signbit(z))
    return bits, np.where(invalid, flags | NV, flags).astype(np.uint8)


def tadd(dtype: DataType, nan_corner: str, left: Array, right: Array) -> Codes:
    """Left plus right."""
    if dtype.kind != "float":
        return _modular(left + right)
    if dtype.name == "FP64":
        one = exact.round_pack(dtype, False, 1, 0).bits
        return _each(dtype, lambda x, y: exact.fma(dtype, x, one, y), (left, right))
    return rounded_sum(dtype, (left, right), values(dtype, left), values(dtype, right))


def tsub(dtype: DataType, nan_corner: str, left: Array, right: Array) -> Codes:
    """Left minus right."""
    if dtype.kind != "float":
        return _modular(left - right)
    return tadd(dtype, nan_corner, left, right ^ dtype.storage.type(dtype.sign_bit))


def tmul(dtype: DataType, nan_corner: str, left: Array, right: Array) -> Codes:
    """Left times right: a fused multiply-add of the zero that keeps the product's sign."""
    if dtype.kind != "float":
        return _modular(left * right)
    zero = (left ^ right) & dtype.storage.type(dtype.sign_bit)
    return tfma(dtype, "ieee", left, right, zero)


def _maximum(dtype: DataType, left: Array, right: Array, sign: int) -> Codes:
    if dtype.kind != "float":
        pick = np.maximum if sign > 0 else np.minimum
        return _modular(pick(left.view(dtype.dtype), right.view(dtype.dtype)).view(dtype.storage))
    magnitude = dtype.storage.type(dtype.sign_bit - 1)

    def rank(bits: Array) -> Array:  # orders the codes as their values, -0 below +0
        order = (bits & magnitude).astype(np.int64)
        key: Array = np.where(bits > magnitude, -1 - order, order) * sign
        return key

    bits = np.where(rank(left) > rank(right), left, right)
    bits = np.where(is_nan(dtype, left), right, np.where(is_nan(dtype, right), left, bits))
    bits = np.where(is_nan(dtype, bits), dtype.storage.type(dtype.canonical_nan), bits)
    invalid = is_signaling(dtype, left) | is_signaling(dtype, right)
    return bits, (invalid * NV).astype(np.uint8)


def tmax(dtype: DataType, nan_corner: str, left: Array, right: Array) -> Codes:
    """The greater: +0 over -0, a number over a NaN, of two NaNs the canonical one."""
    return _maximum(dtype, left, right, 1)


def tmin(dtype: DataType, nan_corner: str, left: Array, right: Array) -> Codes:
    """The smaller, by the rules of `tmax`."""
    return _maximum(dtype, left, right, -1)


def tabs(dtype: DataType, nan_corner: str, source: Array) -> Codes:
    """Clear a float's sign bit, NaN payloads kept; negate negative integers modulo the width."""
    if dtype.kind == "float":
        return _modular(source & dtype.storage.type(dtype.sign_bit - 1))
    negative = (source >= dtype.sign_bit) & (dtype.kind == "signed")
    return _modular(np.where(negative, np.negative(source), source))


def tneg(dtype: DataType, nan_corner: str, source: Array) -> Codes:
    """Toggle a float's sign bit, NaN payloads kept; negate integers modulo the width."""
    if dtype.kind == "float":
        return _modular(source ^ dtype.storage.type(dtype.sign_bit))
    return _modular(np.negative(source))


ELEMENTS: dict[str, Callable[..., Codes]] = {
    "TFMA": tfma,
    "TADD": tadd,
    "TSUB": tsub,
    "TMUL": tmul,
    "TMAX": tmax,
    "TMIN": tmin,
    "TABS": tabs,
    "TNEG": tneg,
}


def elements(
    operation: Operation,
    dtype: DataType,
    sources: tuple[Array, ...],
    nan_corner: str = "ieee",
) -> Codes:
    """Apply an operation to arrays of one shape; return bits and flags element by element.

    >>> from gpuemu.tile.numeric import data_type
    >>> from gpuemu.tile.operations import OPERATIONS
    >>> ones = np.array([0x3C00], np.uint16)
    >>> bits, flags = elements(OPERATIONS["TFMA"], data_type("FP16"), (ones, ones, ones))
    >>> hex(bits[0]), int(flags[0])
    ('0x4000', 0)
    """
    shape = sources[0].shape
    flat = [np.ascontiguousarray(source).reshape(-1) for source in sources]
    bits = np.empty(flat[0].size, dtype.storage)
    flags = np.empty(flat[0].size, np.uint8)
    with np.errstate(
        all="ignore"
    ):  # NaN and infinity are data here, and integers wrap by definition
        for start in range(0, bits.size, CHUNK):
            part = slice(start, start + CHUNK)
            element = ELEMENTS[operation.name]
            bits[part], flags[part] = element(dtype, nan_corner, *(source[part] for source in flat))
    return bits.reshape(shape), flags.reshape(shape)


def tiles(
    operation: Operation,
    dtype: DataType,
    sources: tuple[Array, ...],
    valid: tuple[int, int],
    pad: PadValue,
    selected: tuple[bool, ...],
    nan_corner: str = "ieee",
) -> tuple[Array, Array, Array]:
    """Apply an operation to (batch, fragments, rows, cols): bits, definedness, each tile's flags.

    A fragment that is not selected comes out undefined, as does the padding under Null; both read
    0.
    """
    shape = sources[0].shape
    bits = np.zeros(shape, dtype.storage)
    defined = np.zeros(shape, np.bool_)
    flags = np.zeros(shape[0], np.uint8)
    rows, cols = valid
    for fragment in np.flatnonzero(selected):
        bits[:, fragment] = dtype.pad_bits(pad)
        defined[:, fragment] = pad != PadValue.NULL
        parts = tuple(source[:, fragment, :rows, :cols] for source in sources)
        bits[:, fragment, :rows, :cols], raised = elements(operation, dtype, parts, nan_corner)
        defined[:, fragment, :rows, :cols] = True
        flags |= np.bitwise_or.reduce(raised, axis=(1, 2))
    return bits, defined, flags
