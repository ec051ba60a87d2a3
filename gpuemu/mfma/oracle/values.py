"""decode and round_pack: bits to values and back, through the dtypes of NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Format
from ..models import Model

Array = np.ndarray[Any, Any]

NAN32 = np.uint32(0x7FC00000)
NAN64 = np.uint64(0x7FF8000000000000)

# The exponent of a zero: below that of every product.
NOTHING = -10000


def used_mantissa(model: Model, fmt: Format) -> int:
    """Return how many mantissa bits of a format the model's multiplier reads."""
    return (
        fmt.mantissa_bits if model.input_bits is None else min(model.input_bits, fmt.mantissa_bits)
    )


def decode(bits: Array, fmt: Format, model: Model) -> Array:
    """Return items as exact float64, cut to the model's input bits, flushed if it flushes."""
    cut = fmt.mantissa_bits - used_mantissa(model, fmt)
    kept = ((1 << fmt.bits) - 1) >> cut << cut
    if cut == 0:
        values = _values(bits, fmt)
    elif fmt.nan in ("negative-zero", "all-ones"):
        # NaN is a code or two there: cutting could lose them, or arrive at them.
        whole = _values(bits, fmt)
        magnitude = _values(bits & bits.dtype.type(kept ^ 1 << fmt.bits - 1), fmt)
        values = np.where(np.isnan(whole), whole, np.copysign(magnitude, whole))
    else:
        values = _values(bits & bits.dtype.type(kept), fmt)
    return flush_to_plus_zero(values, fmt.emin) if model.flush_inputs else values


def _values(bits: Array, fmt: Format) -> Array:
    """Return items as exact float64."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return np.asarray(bits.view(fmt.dtype).astype(np.float64))


def decode_accumulator(bits: Array, model: Model) -> Array:
    """Return binary32 bits as float64, flushed if the model flushes its inputs."""
    with np.errstate(invalid="ignore"):
        values = bits.view(np.float32).astype(np.float64)
    return flush_to_plus_zero(values, -126) if model.flush_inputs else values


def accumulator32(bits: Array, model: Model) -> Array:
    """Return binary32 bits as float32, flushed if the model flushes its inputs."""
    values = bits.view(np.float32)
    return flush_to_plus_zero(values, -126) if model.flush_inputs else values


def flush_to_plus_zero(values: Array, emin: int) -> Array:
    """Return values with subnormals and zeros of either sign as +0."""
    return np.where(np.abs(values) < 2.0**emin, values.dtype.type(0), values)


def flush_subnormal(values: Array) -> Array:
    """Return binary32 values with subnormals as zeros of their sign."""
    tiny = values.dtype.type(2.0**-126)
    return np.where(np.abs(values) < tiny, np.copysign(values.dtype.type(0), values), values)


def exponent(values: Array, emin: int) -> Array:
    """Return floor(log2 |x|), at least emin; `NOTHING` for 0, anything for infinity and NaN."""
    _, e = np.frexp(values)
    return np.where(values == 0, NOTHING, np.maximum(e - 1, emin)).astype(np.int64)


def to_binary32(values: Array, rounding: str = "nearest") -> Array:
    """Return float64 values rounded to float32, in the given direction."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = values.astype(np.float32)
    if rounding == "nearest":
        return near
    wide = near.astype(np.float64)
    down = np.nextafter(near, np.float32(-np.inf))
    up = np.nextafter(near, np.float32(np.inf))
    too_high, too_low = wide > values, wide < values
    if rounding == "down":
        return np.where(too_high, down, near)
    if rounding == "up":
        return np.where(too_low, up, near)
    return np.where(too_high & (values > 0), down, np.where(too_low & (values < 0), up, near))


def bits32(values: Array) -> Array:
    """Return float32 values as bits, every NaN as the project's one."""
    return _bits(values, NAN32)


def bits64(values: Array) -> Array:
    """Return float64 values as bits, every NaN as the project's one."""
    return _bits(values, NAN64)


def _bits(values: Array, nan: np.unsignedinteger[Any]) -> Array:
    bits = (values if values.flags.forc else values.copy()).view(nan.dtype)
    missing = np.isnan(values)
    return np.where(missing, nan, bits) if missing.any() else bits
