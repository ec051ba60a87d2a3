"""Values as the bits of a number format, and the codes at which formats behave differently."""

from __future__ import annotations

import numpy as np

from ..formats import Format
from . import device_cases
from .streams import Array, bits_of, exponent_of, namespace, power


def encode(fmt: Format, values: Array) -> Array:
    """Return values as bits of a format, rounded toward zero and held to the finite range.

    Parameters
    ----------
    fmt : Format
    values : float64 array, or unsigned bits, which are returned as they are
        Infinities stay infinities where the format has them; no NaN.

    Returns
    -------
    array of `fmt.storage`

    >>> from gpuemu import formats
    >>> hex(int(encode(formats.get("f16"), np.array(-1.5))))
    '0xbe00'
    """
    xp = namespace(values)
    if values.dtype.kind == "u":
        return values.astype(fmt.storage)
    if fmt.bits == 64:
        return values.view(np.uint64)
    if xp is not np:
        top = infinity(fmt) if fmt.infinities else None
        return device_cases.encode(fmt, values, max_finite(fmt), top)
    if not fmt.is_float:
        half = 1 << (fmt.bits - 1)
        whole = xp.clip(xp.trunc(values), -half, half - 1).astype(np.int64)
        return (whole & ((1 << fmt.bits) - 1)).astype(fmt.storage)
    size = xp.minimum(xp.abs(values), 2.0 ** (fmt.emax + 1))
    exponent = xp.maximum(exponent_of(size), fmt.emin)
    steps = xp.floor(size * power(fmt.mantissa_bits - exponent)).astype(np.int64)
    code = xp.minimum((exponent - fmt.emin << fmt.mantissa_bits) + steps, max_finite(fmt))
    if fmt.infinities:
        code = xp.where(xp.isinf(values), infinity(fmt), code)
    negative = bits_of(values) < 0
    if fmt.nan == "negative-zero":
        negative &= code != 0
    return (code | negative.astype(np.int64) << (fmt.bits - 1)).astype(fmt.storage)


def infinity(fmt: Format) -> int:
    """Return the code of plus infinity of a format that has it."""
    return ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits


def max_finite(fmt: Format) -> int:
    """Return the code of the largest finite number."""
    if not fmt.is_float:
        return (1 << (fmt.bits - 1)) - 1
    if fmt.infinities:
        return infinity(fmt) - 1
    top = (1 << (fmt.bits - 1)) - 1
    return top - 1 if fmt.nan == "all-ones" else top


def min_normal(fmt: Format) -> int:
    """Return the code of the smallest normal number."""
    return 1 << fmt.mantissa_bits


def special_codes(fmt: Format) -> Array:
    """Return the codes of both signs at which something changes: zeros, subnormals, one, largest,
    infinities, NaNs.
    """
    sign = 1 << (fmt.bits - 1)
    if not fmt.is_float:
        return np.array([0, 1, 2, sign - 1, sign, sign + 1, 2 * sign - 1], np.uint64)
    one = fmt.bias << fmt.mantissa_bits
    normal = min_normal(fmt)
    codes = {
        0,
        1,
        normal - 1,
        normal,
        normal + 1,
        one,
        one + 1,
        max_finite(fmt) - 1,
        max_finite(fmt),
    }
    if fmt.infinities:
        top, quiet = infinity(fmt), 1 << (fmt.mantissa_bits - 1)
        codes |= {top, top + 1, top + quiet, top + 2 * quiet - 1}
    elif fmt.nan == "all-ones":
        codes.add(sign - 1)
    return np.array(sorted(codes | {code | sign for code in codes}), np.uint64)
