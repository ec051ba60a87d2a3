"""A call of `emulated_matmul`, validated: one error that names the value, before anything is
touched.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import BadShape, BadType, BadValue
from . import scheme

CHOICES: dict[str, tuple[str | None, ...]] = {
    "scheme": ("slices", "crt", "auto"),
    "slice_rounding": ("truncate", "nearest"),
    "mantissa_control": ("fixed", "dynamic"),
    "split_k": (None, "auto"),
}
DEFAULT_BITS = {"float32": 23, "float64": 52}
MOST_BITS = {"slices": 63, "crt": 61, "auto": 63}  # of 8 slices, 16 moduli
_NAMES = {np.dtype(name): name for name in DEFAULT_BITS}  # NumPy's `name` costs microseconds


@dataclass(frozen=True)
class Options:
    """The choices of a call that do not depend on its data; `bits` None is the dtype's default."""

    bits: int | None
    scheme: str
    nearest: bool
    dynamic: bool
    split: bool
    workspace: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """A validated call: operands as given, scalars rounded to the dtype, extents M, N, K."""

    a: Any
    b: Any
    c: Any
    alpha: float
    beta: float
    dtype: np.dtype[Any]
    dtype_name: str
    bits: int
    options: Options
    shape: tuple[int, int, int]
    timing: bool


def options(
    bits: Any, scheme_name: Any, rounding: Any, control: Any, split: Any, workspace: Any
) -> Options:
    """Return validated options; equal ones are validated once."""
    try:
        return _options(bits, scheme_name, rounding, control, split, workspace)
    except TypeError as error:
        if isinstance(error, BadType):
            raise
        return _options.__wrapped__(bits, scheme_name, rounding, control, split, workspace)


@lru_cache(maxsize=256, typed=True)
def _options(
    bits: Any, scheme_name: Any, rounding: Any, control: Any, split: Any, workspace: Any
) -> Options:
    given = zip(CHOICES.items(), (scheme_name, rounding, control, split), strict=True)
    for (name, legal), value in given:
        if value not in legal:
            raise BadValue(f"{name}={value!r}; legal: {', '.join(map(repr, legal))}")
    if bits is not None:
        most = MOST_BITS[scheme_name]
        if not _is_integer(bits):
            raise BadType(f"mantissa_bits={bits!r}; legal: an integer from 1 to {most}")
        if not 1 <= bits <= most:
            raise BadValue(f"mantissa_bits={bits}; legal for {scheme_name!r}: 1 to {most}")
        bits = int(bits)
    if workspace is not None:
        if not _is_integer(workspace) or workspace <= 0:
            raise BadValue(f"workspace={workspace!r}; legal: a positive number of bytes, or None")
        workspace = int(workspace)
    nearest, dynamic = rounding == "nearest", control == "dynamic"
    return Options(bits, scheme_name, nearest, dynamic, split == "auto", workspace)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def validate(a: Any, b: Any, c: Any, alpha: Any, beta: Any, chosen: Options, timing: bool) -> Call:
    """Return the call, or raise for operands or scalars that do not fit together."""
    dtype = _common_dtype(a, b)
    if len(a.shape) == 2 and len(b.shape) == 2 and a.shape[1] == b.shape[0]:
        shape: tuple[int, ...] = (int(a.shape[0]), int(b.shape[1]))
    else:
        shape = result_shape(a, b)
    if c is not None or beta != 0:
        _check_addend(c, beta, dtype, shape)
    k = int(a.shape[-1])
    if not chosen.split:
        limit = scheme.SUM_LIMIT if chosen.scheme == "crt" else scheme.MAX_K
        if k > limit:
            raise BadValue(
                f"emulation_k_dimension_too_large: K={k} with scheme {chosen.scheme!r}; "
                f'legal: K <= {limit}, or split_k="auto", which sums partial products'
            )
    name = _NAMES[dtype]
    bits = DEFAULT_BITS[name] if chosen.bits is None else chosen.bits
    scalars = _scalar("alpha", alpha, dtype), _scalar("beta", beta, dtype)
    return Call(a, b, c, *scalars, dtype, name, bits, chosen, (shape[-2], shape[-1], k), timing)


def _scalar(name: str, value: Any, dtype: np.dtype[Any]) -> float:
    if not isinstance(value, numbers.Real):
        raise BadType(f"{name}={value!r}; legal: a real number")
    try:
        with np.errstate(over="ignore", under="ignore"):
            return float(dtype.type(float(value)))
    except OverflowError as error:
        raise BadValue(f"{name}={value!r}; legal: a number that float64 holds") from error


def _common_dtype(a: Any, b: Any) -> np.dtype[Any]:
    found = getattr(a, "dtype", None)
    if isinstance(found, np.dtype) and found is getattr(b, "dtype", None) and found in _NAMES:
        return found
    names = []
    for name, x in (("A", a), ("B", b)):
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            raise BadType(f"{name} is a {type(x).__name__}; legal: an array of float32 or float64")
        names.append(str(x.dtype).removeprefix("torch."))
    if names[0] != names[1] or names[0] not in DEFAULT_BITS:
        raise BadType(f"A is {names[0]} and B is {names[1]}; legal: both float32, or both float64")
    return np.dtype(names[0])


def result_shape(a: Any, b: Any) -> tuple[int, ...]:
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise BadShape(
            f"A has shape {tuple(a.shape)}, B {tuple(b.shape)}; legal: (..., M, K) and (..., K, N)"
        )
    if a.shape[-1] != b.shape[-2]:
        raise BadShape(
            f"A has K={a.shape[-1]}, B has K={b.shape[-2]}; legal: equal "
            "(incompatible_k_dimensions)"
        )
    try:
        batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError as error:
        raise BadShape(
            f"batch dimensions {tuple(a.shape[:-2])} and {tuple(b.shape[:-2])} do not broadcast"
        ) from error
    return (*batch, int(a.shape[-2]), int(b.shape[-1]))


def _check_addend(c: Any, beta: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if c is None:
        if beta != 0:
            raise BadValue(f"beta={beta!r} without C; legal: beta=0, or C of shape {shape}")
        return
    if not hasattr(c, "dtype") or not hasattr(c, "shape"):
        raise BadType(f"C is a {type(c).__name__}; legal: an array of {dtype.name}")
    if tuple(c.shape) != shape:
        raise BadShape(f"C has shape {tuple(c.shape)}; legal: {shape}, the shape of A @ B")
    if str(c.dtype).removeprefix("torch.") != dtype.name:
        raise BadType(f"C is {c.dtype}; legal: {dtype.name}, the dtype of A and B")
