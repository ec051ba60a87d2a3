"""Block-scaled matrices: quantise and dequantise along k, and the scale registers of mfma_scale.

Thirty-two neighbours along k share one E8M0 scale, 2**(code - 127). The scale of a block whose
largest finite magnitude is `amax` is 2**(floor(log2(amax)) - emax), where emax is the exponent of
the element format's largest number.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.3; CDNA4 guide 7.2.1 (scale registers).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import formats
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue
from . import layouts
from . import modifiers as mods
from .encode import encode, to_float64
from .instructions import F8F6F4, Instruction

Array = np.ndarray[Any, Any]

BLOCK = 32  # elements along k that share a scale
BIAS = 127
NAN_SCALE = 0xFF


def _element_format(name: str) -> formats.Format:
    if name not in F8F6F4:
        raise BadValue(f"fmt={name!r} is no element format of MX; legal: {', '.join(F8F6F4)}")
    return formats.get(name)


def _blocks(array: Array, axis: int, what: str) -> Array:
    """Return an array with `axis` last, split into (..., blocks, 32)."""
    if not -array.ndim <= axis < array.ndim:
        raise BadShape(f"axis={axis}; {what} has {array.ndim} dimension(s)")
    moved = np.moveaxis(array, axis, -1)
    if moved.shape[-1] % BLOCK:
        raise BadShape(
            f"{what} has {moved.shape[-1]} elements along axis {axis}; legal: a multiple of {BLOCK}"
        )
    return moved.reshape(*moved.shape[:-1], moved.shape[-1] // BLOCK, BLOCK)


def _merged(blocks: Array, axis: int) -> Array:
    """Return the array that `_blocks` has split."""
    flat = blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * BLOCK)
    return np.ascontiguousarray(np.moveaxis(flat, -1, axis))


def quantize(
    values: Any, fmt: str, *, axis: int = -1, rounding: str = "nearest", saturate: bool = True
) -> tuple[Any, Any]:
    """Return a matrix as elements of a narrow format and one scale for every 32 along an axis.

    Parameters
    ----------
    values : float16, bfloat16, float32 or float64 array
        Its length along `axis` is a multiple of 32.
    fmt : str
        "f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn" or "f4e2m1fn".
    axis : int
        The axis of k: -1 for A, -2 for B.
    rounding : "nearest" (ties to even) or "zero"
    saturate : bool
        Whether elements that round beyond the format's largest number, and infinities, become that
        number; otherwise an infinity or NaN. The 6- and 4-bit formats always saturate.

    Returns
    -------
    elements : array of the format's dtype, of the shape of `values`
    scales : float8_e8m0fnu array
        A 32nd of the length along `axis`, clamped to the range of E8M0. A block of zeros has the
        scale 2**-127. A NaN is a NaN element where the format has one, else the block's scale is
        NaN. Infinities do not count for a scale.

    >>> import ml_dtypes
    >>> elements, scales = quantize(np.arange(32.0), "f4e2m1fn")
    >>> int(scales.view(np.uint8)[0]), elements[[1, 5, 31]].astype(float).tolist()
    (129, [0.0, 1.0, 6.0])

    Source: OCP MX 1.0, section 6.3.
    """
    row = _element_format(fmt)
    wide = _blocks(to_float64(arrays.to_numpy(values, "values"), "values"), axis, "values")
    amax = np.max(np.abs(wide), axis=-1, where=np.isfinite(wide), initial=0.0)
    _, length = np.frexp(amax)
    codes = np.where(amax == 0, 0, np.clip(length - 1 - row.emax + BIAS, 0, 2 * BIAS))
    scaled = np.ldexp(wide, BIAS - codes[..., None])
    if row.nan == "none":
        missing = np.asarray(np.isnan(wide).any(axis=-1))
        codes = np.where(missing, NAN_SCALE, codes)
        scaled = np.where(missing[..., None], 0.0, scaled)
    elements = encode(scaled, fmt, rounding=rounding, saturate=saturate)
    elements = _merged(elements, axis).view(row.dtype)
    scales = np.ascontiguousarray(np.moveaxis(codes.astype(np.uint8), -1, axis))
    scales = scales.view(formats.get("f8e8m0fnu").dtype)
    return arrays.like(elements, values), arrays.like(scales, values)


def dequantize(elements: Any, scales: Any, *, fmt: str | None = None, axis: int = -1) -> Any:
    """Return the exact values of a block-scaled matrix.

    Parameters
    ----------
    elements : array
        Of an MX element format's dtype, or its codes as uint8 with `fmt`.
    scales : float8_e8m0fnu array, or uint8 with `fmt`
        A 32nd as long along `axis`.
    fmt : str, optional
        The format that uint8 elements are read as.
    axis : int

    Returns
    -------
    float64 array
        NaN throughout a block whose scale is NaN.

    >>> import ml_dtypes
    >>> e, s = quantize(np.full((1, 32), 3.0), "f6e2m3fn")
    >>> dequantize(e, s)[0, 0].item()
    3.0
    """
    codes = arrays.to_numpy(elements, "elements")
    row = _element_format(fmt) if fmt is not None else _format_of(codes)
    codes = formats.bits_of(codes, row, "elements", bits=fmt is not None)
    if codes.size and int(codes.max()) >> row.bits:
        raise BadValue(
            f"elements hold the code {int(codes.max()):#x}; {row.name} has {row.bits} bits"
        )
    scale_row = formats.get("f8e8m0fnu")
    scale = formats.bits_of(
        arrays.to_numpy(scales, "scales"), scale_row, "scales", bits=fmt is not None
    )
    wide = _blocks(codes.view(row.dtype).astype(np.float64), axis, "elements")
    scale = np.moveaxis(scale, axis, -1) if -scale.ndim <= axis < scale.ndim else scale
    if scale.shape != wide.shape[:-1]:
        raise BadShape(
            f"scales have shape {scales.shape}; elements of shape {codes.shape} want one for every "
            f"{BLOCK} along axis {axis}"
        )
    found = np.ldexp(wide, scale.astype(np.int32)[..., None] - BIAS)
    missing = np.asarray(scale == NAN_SCALE)
    found = np.where(missing[..., None], np.nan, found)
    return arrays.like(_merged(found, axis), elements)


def _format_of(elements: Array) -> formats.Format:
    for name in F8F6F4:
        if elements.dtype == formats.get(name).dtype:
            return formats.get(name)
    raise BadType(
        f"elements have dtype {elements.dtype}; legal: an ml_dtypes dtype of "
        f"{', '.join(F8F6F4)}, or uint8 with fmt="
    )


def scale_codes(instruction: Instruction, matrix: str, scales: Any, *, bits: bool = True) -> Array:
    """Return the codes of A's scales (..., 1, M, K/32) or B's (..., 1, K/32, N), checked."""
    if instruction.kind != "mfma_scale":
        raise BadValue(
            f"{instruction.mnemonic} ({instruction.arch}) reads no scales; legal: v_mfma_scale_*"
        )
    if matrix not in ("A", "B"):
        raise BadValue(f"matrix {matrix!r} has no scales; legal: A, B")
    array = arrays.to_numpy(scales, f"scales of {matrix}")
    name = f"scales of {matrix} of {instruction.mnemonic}"
    codes = formats.bits_of(array, formats.get("f8e8m0fnu"), name, bits=bits)
    blocks = instruction.K // BLOCK
    shape = (instruction.M, blocks) if matrix == "A" else (blocks, instruction.N)
    if codes.shape[-2:] != shape:
        raise BadShape(
            f"scales of {matrix} have shape {array.shape}; {instruction.mnemonic} wants "
            f"(..., {shape[0]}, {shape[1]}): one for every {BLOCK} along k"
        )
    return codes if codes.shape[-3:-2] == (1,) else codes[..., None, :, :]


def pack_scales(
    instruction: Instruction, matrix: str, scales: Any, *, op_sel: tuple[int, int] = (0, 0)
) -> Any:
    """Return the scale register of A or B.

    Parameters
    ----------
    instruction : Instruction
        Of kind "mfma_scale".
    matrix : "A" or "B"
    scales : float8_e8m0fnu array, or its codes as uint8
        (..., M, K/32) of A, (..., K/32, N) of B; a blocks dimension of 1 may stand before them.
    op_sel : (int, int)
        As in the call: the byte, 0..3, of A's and of B's register that is written. The other bytes
        are zero, so that images of several bytes can be ORed.

    Returns
    -------
    uint32 array (..., 1, 64)
        Of the caller's kind of array.

    >>> import gpuemu
    >>> i = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", arch="gfx950")
    >>> codes = np.arange(64, dtype=np.uint8).reshape(16, 4)
    >>> hex(pack_scales(i, "A", codes, op_sel=(1, 0))[0, 17])
    '0x500'

    Source: CDNA4 guide 7.2.1: lane i + M kb holds the scale of row i and of k from 32 kb on.
    """
    codes = scale_codes(instruction, matrix, scales)
    m = mods.check(instruction, op_sel=op_sel)
    return arrays.like(scale_image(instruction, matrix, codes, m), scales)


def scale_image(instruction: Instruction, matrix: str, codes: Array, m: mods.Modifiers) -> Array:
    """Return the scale register of checked codes as a NumPy array; see `pack_scales`."""
    where = layouts.layout(instruction, f"SCALE_{matrix}", op_sel=m.op_sel)
    image = np.zeros((*codes.shape[:-3], 1, layouts.LANES), np.uint32)
    image[..., 0, where[..., 1]] = codes.astype(np.uint32) << where[..., 2].astype(np.uint32)
    return image
