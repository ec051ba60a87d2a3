"""How wrong a product is against the exact one, and how far apart two chips are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadType, BadValue, GpuemuError
from ..formats import FORMATS
from .encode import encode
from .instructions import Instruction, check_arch, instructions

Array = np.ndarray[Any, Any]


def counterparts(instruction: Instruction, architectures: list[str]) -> list[Instruction]:
    """Return one instruction of each architecture with the same formats: the nearest in shape.

    >>> from gpuemu.mfma.instructions import instruction
    >>> counterparts(instruction("v_mfma_f32_32x32x8_f16", "gfx942"), ["gfx908"])
    [<v_mfma_f32_32x32x8f16 (gfx908)>]
    """
    found = []
    for arch in architectures:
        check_arch(arch)
        rows = [
            row
            for row in instructions(arch, instruction.kind)
            if row.formats == instruction.formats and row.blocks == instruction.blocks
        ]
        if not rows:
            formats = f"{instruction.formats['A']} x {instruction.formats['B']}"
            raise BadValue(f"{arch} has no {instruction.kind} of {formats} to compare with")
        found.append(
            min(rows, key=lambda row: (row.M != instruction.M, abs(row.K - instruction.K)))
        )
    return found


def cast(x: Array, instruction: Instruction, matrix: str) -> Array:
    """Return a matrix rounded once, to nearest even, in the instruction's format.

    Parameters
    ----------
    x : array
        Of any dtype of numbers whose values float64 holds.
    instruction : Instruction
    matrix : "A" or "B"

    Raises
    ------
    BadType
        For other dtypes, and an instruction that takes several formats.
    BadValue
        For numbers that round beyond an integer format; beyond a float's they become its infinity,
        or NaN where it has none.
    """
    if instruction.formats[matrix] == "f8f6f4":
        raise BadType(f"{instruction.mnemonic} takes several formats: round {matrix} to one first")
    fmt = instruction.operand_format(matrix)
    wide = _float64(x, matrix)
    if not fmt.is_float:
        limits = np.iinfo(fmt.dtype)
        whole = np.rint(wide)
        bad = wide[~((whole >= limits.min) & (whole <= limits.max))]
        if bad.size:
            raise BadValue(
                f"{matrix} holds {bad[0]}; {fmt.name} has {limits.min} to {limits.max}: "
                "legal is what rounds to one of them"
            )
        return whole.astype(fmt.dtype)
    if fmt.bits <= 16:
        return encode(wide, fmt.name, saturate=False).view(fmt.dtype)
    with np.errstate(over="ignore"):
        return wide.astype(fmt.dtype)


def _float64(x: Array, matrix: str) -> Array:
    known = x.dtype.kind in "iu" or x.dtype in {fmt.dtype for fmt in FORMATS.values()}
    if not known:
        raise BadType(f"{matrix} has dtype {x.dtype}, which is not rounded; legal: real numbers")
    wide = x.astype(np.float64)
    if x.dtype.kind in "iu" and (np.abs(wide) > 2.0**53).any():
        raise BadValue(f"{matrix} holds integers beyond 2**53; legal: what float64 holds")
    return wide


def exact(instruction: Instruction, A: Array, B: Array, C: Array | None) -> Array:
    """Return A @ B + C in float64, every product exact and every sum compensated.

    The sums are Neumaier's: wrong by some units of 2**-53 of the result and 2**-106 of the sum of
    magnitudes, far below a binary32 ulp. f64 products are compared in extended precision.
    """
    wide = np.longdouble if instruction.formats["D"] == "f64" else np.float64
    A, B = A.astype(wide), B.astype(wide)
    shape = (*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1])
    total: Any = (
        np.zeros(shape, wide) if C is None else np.broadcast_to(C.astype(wide), shape).copy()
    )
    lost: Any = np.zeros(shape, wide)
    for k in range(A.shape[-1]):
        term = A[..., :, k, None] * B[..., None, k, :]
        new = total + term
        bigger = np.abs(total) >= np.abs(term)
        lost += np.where(bigger, (total - new) + term, (term - new) + total)
        total = new
    return np.asarray(total + lost)


def check_measurable(dtype: np.dtype[Any]) -> None:
    """Raise `BadType` for a result of a dtype whose errors are not measured in ulp."""
    if dtype not in (np.float32, np.float64):
        raise BadType(f"errors of {dtype} results are not measured; legal: f32 and f64 results")


def ulp_errors(D: Array, want: Array) -> Array:
    """Return (D - exact) in units in the last place of the exact result in D's format."""
    check_measurable(D.dtype)
    smallest, mantissa = (-126, 23) if D.dtype == np.float32 else (-1022, 52)
    _, e = np.frexp(want)
    unit = np.ldexp(np.ones_like(want), np.maximum(e - 1, smallest) - mantissa)
    with np.errstate(invalid="ignore"):
        return np.asarray((D.astype(want.dtype) - want) / unit)


def summary(errors: Array) -> dict[str, Any]:
    """Return count, mean and largest magnitude, and bias of errors in ulp; specials left out."""
    finite = errors[np.isfinite(errors)].astype(np.float64)
    if finite.size == 0:
        raise GpuemuError("no output is finite: there is no error to measure")
    size = np.abs(finite)
    return {
        "outputs": int(errors.size),
        "finite": int(finite.size),
        "exactly rounded": int((size <= 0.5).sum()),
        "mean": float(size.mean()),
        "max": float(size.max()),
        "bias": float(finite.mean()),
    }


def distance(D: Array, E: Array, other: Instruction) -> dict[str, Any]:
    """Return in how many outputs two results differ, by how many representable numbers at most, and
    where first and most.
    """
    both_nan = np.zeros(D.shape, bool) if D.dtype.kind == "i" else np.isnan(D) & np.isnan(E)
    integer = np.dtype(f"i{D.dtype.itemsize}")
    differing = (D.view(integer) != E.view(integer)) & ~both_nan
    steps = np.abs(_ordered(D) - _ordered(E))
    steps = np.where(differing & np.isfinite(D) & np.isfinite(E), steps, 0)
    first = np.argwhere(differing)
    most = np.unravel_index(int(np.argmax(steps)), steps.shape) if steps.any() else None
    return {
        "instruction": other.mnemonic,
        "arch": other.arch,
        "outputs": int(D.size),
        "differing": int(differing.sum()),
        "max ulp": float(steps.max(initial=0)),
        "first": [int(n) for n in first[0]] if first.size else None,
        "max at": None if most is None else [int(n) for n in most],
    }


def _ordered(x: Array) -> Array:
    """Return the place of every number in the order of representable ones, as float64."""
    if x.dtype.kind == "i":
        return x.astype(np.float64)
    bits = x.view(f"u{x.dtype.itemsize}")
    top = np.array(1, bits.dtype) << np.array(8 * x.dtype.itemsize - 1, bits.dtype)
    magnitude = (bits & ~top).astype(np.float64)
    return np.asarray(np.where(bits & top, -magnitude, magnitude))


def histogram_range(errors: Array) -> tuple[float, float]:
    """Return the ends of a histogram's axis for finite errors: all of them, unless a few are far
    out, as cancelled sums are; then thrice what 95 in 100 stay within.
    """
    size = np.abs(errors)
    most = 3 * float(np.percentile(size, 95)) or float(size.max())
    return max(float(errors.min()), -most), min(float(errors.max()), most)


def histogram(errors: Array, path: Path, title: str) -> None:
    """Write a histogram of errors in ulp as a picture; its outermost bars hold what is beyond."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise GpuemuError(
            f"--plot needs matplotlib ({error}); pip install 'gpuemu[plot]'"
        ) from None
    finite = errors[np.isfinite(errors)].astype(np.float64)
    low, high = histogram_range(finite)
    figure = Figure(figsize=(7, 4), layout="tight")
    axes = figure.subplots()
    axes.hist(np.clip(finite, low, high), bins=101, range=(low, high))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("error (ulp)")
    axes.set_ylabel("outputs")
    axes.set_title(title.strip("<>"))
    for beyond, end, side in ((finite < low, low, "left"), (finite > high, high, "right")):
        if beyond.any():
            text = f"{beyond.sum()} beyond {end:.3g}\nin the last bar"
            axes.text(0.02 if side == "left" else 0.98, 0.97, text, ha=side, va="top",
                      transform=axes.transAxes)  # fmt: skip
    figure.savefig(path)
