"""Operations over arrays: flat arrays of element bits, and batches of tiles.

A call is validated, then handed to a backend; `execute.Core` runs its bundles through here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue, Mismatch
from . import device, oracle
from .descriptor import FULL_MASK, PES, participates, whole_pair
from .machine import element_bits
from .numeric import NAN_CORNERS, DataType, PadValue, data_type, flag_names, pad_value
from .operations import DTYPE_SETS, Operation, operation

Array = np.ndarray[Any, Any]


def _operand(source: Any, dtype: DataType, name: str) -> Any:
    """Return one operand's element bits: CuPy where it lies on a device, else NumPy."""
    given = str(getattr(source, "dtype", "")).removeprefix("torch.")
    if "float" in given and given != dtype.dtype_name:
        raise BadType(
            f"{name} has dtype {given}; {dtype.name} wants {dtype.dtype_name}, or its bits as "
            f"{dtype.storage}"
        )
    if arrays.on_cuda(source):
        bits = arrays.to_cupy(source, name)
        if bits.dtype.itemsize != dtype.storage.itemsize:
            raise BadType(
                f"{name} has dtype {bits.dtype}; {dtype.name} wants its bits as {dtype.storage}"
            )
        bits = bits.view(dtype.storage)
    else:
        plain = source if _is_plain(source) else arrays.to_numpy(source, name)
        bits = element_bits(plain, dtype, name)
    unused = dtype.storage.type((1 << dtype.unused_bits) - 1)
    if dtype.unused_bits and bool((bits & unused).any()):
        raise BadValue(
            f"{name} holds a code that is no {dtype.name}: its low {dtype.unused_bits} bits must "
            f"be zero"
        )
    return bits


def _is_plain(source: Any) -> bool:
    """Tell whether an operand is a number or a nested sequence of them rather than an array."""
    return isinstance(source, (int, Sequence)) and not isinstance(source, (str, bytes))


def _template(source: Any, bits: Any) -> Any:
    """Return what results are to be like: the caller's array, or the bits of plain numbers."""
    return bits if _is_plain(source) else source


def _operands(row: Operation, dtype: DataType, sources: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(sources) != row.sources:
        raise BadValue(f"{row.name} with {len(sources)} operands; legal: {row.sources}")
    names = ("left", "right", "addend") if row.sources > 1 else ("source",)
    bits = tuple(
        _operand(source, dtype, name) for source, name in zip(sources, names, strict=False)
    )
    shapes = {array.shape for array in bits}
    if len(shapes) > 1:
        raise BadShape(
            f"{row.name} operands have shapes {', '.join(str(b.shape) for b in bits)}; legal: "
            f"one shape"
        )
    return bits


def _types(row: Operation, dtype: str, dtype_set: str, nan_corner: str) -> DataType:
    if dtype_set not in DTYPE_SETS:
        raise BadValue(f"dtype_set={dtype_set!r}; legal: {', '.join(DTYPE_SETS)}")
    if nan_corner not in NAN_CORNERS:
        raise BadValue(f"nan_corner={nan_corner!r}; legal: {', '.join(NAN_CORNERS)}")
    found = data_type(dtype)
    legal = row.types(dtype_set)
    if found.name not in legal:
        raise BadValue(
            f"{row.name} on {dtype}; legal: {', '.join(legal)} (dtype_set {dtype_set!r})"
        )
    return found


def _replay(row: Operation, dtype: DataType, codes: Iterable[int], nan_corner: str) -> str:
    operands = ", ".join(f"[{code:#x}]" for code in codes)
    return (
        f'gpuemu.tile.elements("{row.name}", ({operands},), "{dtype.name}", dtype_set="adr0080", '
        f'nan_corner="{nan_corner}", backend="check")'
    )


def _compare(
    row: Operation,
    dtype: DataType,
    sources: tuple[Any, ...],
    nan_corner: str,
    got: Any,
    want: Any,
    name: str,
) -> None:
    """Raise `Mismatch` at the first element whose bits differ, or where the flags do."""
    bits, flags = arrays.to_numpy(got[0]).reshape(-1), int(got[1])
    expected, expected_flags = want[0].reshape(-1), int(want[1])
    wrong = np.flatnonzero(bits != expected)
    if wrong.size:
        i = int(wrong[0])
        codes = [int(arrays.to_numpy(source).reshape(-1)[i]) for source in sources]
        digits = dtype.bits // 4
        raise Mismatch(
            f"{row.name} {dtype.name}: {wrong.size} of {bits.size} elements differ; element {i}: "
            f"{name} "
            f"{int(bits[i]):0{digits}X}, oracle {int(expected[i]):0{digits}X}; "
            f"{_replay(row, dtype, codes, nan_corner)}"
        )
    if flags != expected_flags:
        raise Mismatch(
            f"{row.name} {dtype.name}: bits agree, flags do not: {name} {flag_names(flags)}, "
            f"oracle {flag_names(expected_flags)}"
        )


def elements(
    name: str,
    sources: tuple[Any, ...],
    dtype: str,
    backend: str = "auto",
    *,
    dtype_set: str = "contract",
    nan_corner: str = "ieee",
) -> tuple[Any, int]:
    """Apply a tile operation element by element to arrays of bits, without a machine around it.

    Parameters
    ----------
    name : str
        TFMA, TADD, TSUB, TMUL, TMAX, TMIN, TABS or TNEG.
    sources : tuple of arrays of one shape
        As many as the operation reads; element bits, or values of the element type's dtype.
    dtype : str
        Element type.
    backend : str
        "auto", "cuda", "host", "numpy" or "check".
    dtype_set : str
        "contract", or "adr0080" for all sixteen element types.
    nan_corner : str
        "ieee" or "asl"; see `exact.fma`.

    Returns
    -------
    bits : array
        Unsigned, of the sources' shape and kind.
    flags : int
        The OR over all elements: NV 1, DZ 2, OF 4, UF 8, NX 16.

    Examples
    --------
    >>> bits, flags = elements("TMUL", ([0x3C01], [0x3C01]), "FP16", backend="numpy")
    >>> hex(bits[0]), flags
    ('0x3c02', 16)
    """
    row = operation(name)
    found = _types(row, dtype, dtype_set, nan_corner)
    given = _operands(row, found, tuple(sources))
    shape = given[0].shape
    flat = tuple(array.reshape(-1) for array in given)

    def on_oracle() -> tuple[Any, int]:
        bits, flags = oracle.elements(row, found, tuple(map(arrays.to_numpy, flat)), nan_corner)
        return bits, int(np.bitwise_or.reduce(flags, initial=0))

    bits, flags = dispatch.run(
        backend,
        {
            "cuda": lambda: device.elements_cuda(row, found, flat, nan_corner),
            "host": lambda: device.elements_host(row, found, flat, nan_corner),
            "numpy": on_oracle,
        },
        lambda got, want, where: _compare(row, found, flat, nan_corner, got, want, where),
        tuple(sources),
    )
    return arrays.like(bits.reshape(shape), _template(sources[0], given[0])), flags


def fma(
    left: Any,
    right: Any,
    addend: Any,
    dtype: str,
    backend: str = "auto",
    *,
    dtype_set: str = "contract",
    nan_corner: str = "ieee",
) -> tuple[Any, int]:
    """Multiply and add arrays of bits, element by element, with one rounding to nearest even.

    Parameters
    ----------
    left, right, addend : arrays of one shape
        Element bits (unsigned integers of the type's width), or values of its dtype.
    dtype : str
        "FP16", "BF16" or "FP32"; all sixteen types under `dtype_set="adr0080"`.
    backend, dtype_set, nan_corner : str
        See `elements`.

    Returns
    -------
    bits : array
        Unsigned, of the sources' shape and kind (NumPy, CuPy, …).
    flags : int
        The OR over all elements: NV 1, DZ 2, OF 4, UF 8, NX 16.

    Raises
    ------
    BadValue, BadType, BadShape
        For operands that do not fit, before anything runs.
    BackendUnavailable
        Where the backend cannot run here.
    Mismatch
        Under "check", with the element, both bit patterns and a line that repeats it.

    Examples
    --------
    Only a fused evaluation keeps the square of the last place:

    >>> bits, flags = fma([0x3C01], [0x3C01], [0xBC02], "FP16", backend="numpy")
    >>> hex(bits[0]), flags
    ('0x10', 0)

    Notes
    -----
    Source: contract of PTO-TILE-TFMA, state_effects 1; PTO's hardware numeric profile 0.58.3.
    """
    return elements(
        "TFMA", (left, right, addend), dtype, backend, dtype_set=dtype_set, nan_corner=nan_corner
    )


@dataclass(frozen=True)
class Batch:
    """The result of `tiles`: bits and definedness of the sources' shape, flags of each tile."""

    bits: Any
    defined: Any
    flags: Any


def tiles(
    name: str,
    sources: tuple[Any, ...],
    dtype: str,
    backend: str = "auto",
    *,
    valid: tuple[int, int] | None = None,
    pad: PadValue | str = "Null",
    mask: int = FULL_MASK,
    dtype_set: str = "contract",
    nan_corner: str = "ieee",
) -> Batch:
    """Apply an operation to a batch of tiles in one pass: values, definedness, padding and flags.

    Parameters
    ----------
    name, dtype, backend, dtype_set, nan_corner : str
        See `elements`.
    sources : tuple of arrays, shape (..., fragments, rows, columns)
        Element bits; 4 fragments (one a PE) or 1; rows and columns powers of two, 128 bytes a
        fragment at least. Only the valid region of selected fragments is read, and taken as
        defined.
    valid : (int, int)
        ValidRow and ValidCol; by default all.
    pad : str
        "Zero", "Max", "Min" or "Null".
    mask : int
        PE_MASK, the highest bit PE0; fragments of other PEs come out undefined. With 1 fragment it
        only says whether anything runs.

    Returns
    -------
    Batch
        `bits`, `defined` (bool), and `flags` (uint8, of the leading shape). Undefined elements read
        0.

    Examples
    --------
    >>> ones = np.full((1, 4, 16), 0x3C00, np.uint16)
    >>> batch = tiles("TADD", (ones, ones), "FP16", "numpy", valid=(1, 2), pad="Max")
    >>> [hex(code) for code in batch.bits[0, 0, :3]], bool(batch.defined[0, 0, 2]), int(batch.flags)
    (['0x4000', '0x4000', '0x7bff'], True, 0)
    """
    row = operation(name)
    found = _types(row, dtype, dtype_set, nan_corner)
    given = _operands(row, found, tuple(sources))
    shape = tile_shape(given[0].shape, found, valid, pad_value(pad), mask)
    batch = tuple(array.reshape(-1, *array.shape[-3:]) for array in given)
    bits, defined, flags = run_tiles(row, found, batch, shape, backend, nan_corner, tuple(sources))
    template, extent = _template(sources[0], given[0]), given[0].shape
    return Batch(
        arrays.like(bits.reshape(extent), template),
        arrays.like(defined.reshape(extent), template),
        arrays.like(flags.reshape(extent[:-3]), template),
    )


def tile_shape(
    extent: tuple[int, ...],
    dtype: DataType,
    valid: tuple[int, int] | None,
    pad: PadValue,
    mask: int,
) -> device.TileShape:
    if len(extent) < 3 or extent[-3] not in (1, PES):
        raise BadShape(f"tiles have shape {extent}; legal: (..., 4 or 1 fragments, rows, columns)")
    fragments, rows, columns = extent[-3:]
    if rows & (rows - 1) or columns & (columns - 1) or rows * columns * dtype.bits < 8 * 128:
        raise BadShape(
            f"tiles of {rows} x {columns} {dtype.name}; legal: powers of two, 128 bytes or more"
        )
    legal = f"(1, 1) to ({rows}, {columns})"
    valid = (rows, columns) if valid is None else whole_pair(valid, legal)
    if not (1 <= valid[0] <= rows and 1 <= valid[1] <= columns):
        raise BadShape(f"valid={valid}; legal: {legal}")
    if not isinstance(mask, int) or not 0 <= mask <= FULL_MASK:
        raise BadValue(f"mask={mask!r}; legal: 0b0000 to 0b1111, the highest bit PE0")
    selected = (
        tuple(participates(mask, pe) for pe in range(PES)) if fragments == PES else (mask != 0,)
    )
    return device.TileShape(fragments, rows, columns, valid, pad, selected)


def run_tiles(
    row: Operation,
    dtype: DataType,
    batch: tuple[Any, ...],
    shape: device.TileShape,
    backend: str,
    nan_corner: str,
    callers: tuple[Any, ...],
) -> tuple[Any, Any, Any]:
    def on_oracle() -> tuple[Any, Any, Any]:
        plain = tuple(map(arrays.to_numpy, batch))
        return oracle.tiles(row, dtype, plain, shape.valid, shape.pad, shape.selected, nan_corner)

    def compare(got: Any, want: Any, where: str) -> None:
        _compare(row, dtype, batch, nan_corner, (got[0], 0), (want[0], 0), where)
        for what, left, right in zip(("definedness", "flags"), got[1:], want[1:], strict=True):
            wrong = np.argwhere(arrays.to_numpy(left) != right)
            if len(wrong):
                raise Mismatch(
                    f"{row.name} {dtype.name}: {what} differs at {tuple(map(int, wrong[0]))} "
                    f"({where})"
                )

    result: tuple[Any, Any, Any] = dispatch.run(
        backend,
        {
            "cuda": lambda: device.tiles_cuda(row, dtype, batch, shape, nan_corner),
            "host": lambda: device.tiles_host(row, dtype, batch, shape, nan_corner),
            "numpy": on_oracle,
        },
        compare,
        callers,
    )
    return result
