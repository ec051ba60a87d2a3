"""The preflight of a bundle at its commit point: every rule, in order, before any effect.

The commit point is the stop or the next start, and the fault belongs to that word. A rule that is
broken raises its fault with the clause of the instruction's contract; nothing has changed then.
Source: the contract of PTO-TILE-TFMA, and for the order, which it leaves open, PTO ISA 0.58.3's
bundle commit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import (
    ArchitecturalFault,
    BundleControlFault,
    TileAllocationFault,
    TileLegalityFault,
)
from .descriptor import PES, Descriptor, Tile, participates, register_name, size_bytes
from .header import (
    ALLOCATION,
    ATTRIBUTES,
    BINDINGS,
    EXTENT,
    MASKS,
    SOURCES,
    TYPES,
    Header,
    illegal,
    mask_of,
    source_count,
)
from .machine import Machine
from .numeric import DTYPE_NONE, NAN_CORNERS, DataType, PadValue
from .operations import DTYPE_SETS, Operation

EXTENTS = range(1, 65536)


@dataclass(frozen=True)
class Rules:
    """The readings to choose from where the sources disagree; the defaults are the contract's.

    Attributes
    ----------
    dtype_set : str
        "contract": the element types that the instruction's contract lists; "adr0080": all sixteen,
        as the decision record and the executable model have it.
    fault_map : str
        What malformed bindings raise: Fault_TileLegality ("contract") or Fault_BundleControl
        ("asl-0.58.3").
    nan_corner : str
        See `exact.fma`.
    names : str
        Source selectors are register numbers ("absolute"), or count a hand's published tiles from
        the newest ("relative").
    """

    dtype_set: str = "contract"
    fault_map: str = "contract"
    nan_corner: str = "ieee"
    names: str = "absolute"


CHOICES = {
    "dtype_set": DTYPE_SETS,
    "fault_map": ("contract", "asl-0.58.3"),
    "nan_corner": NAN_CORNERS,
    "names": ("absolute", "relative"),
}


@dataclass(frozen=True)
class Plan:
    """A bundle that passed: everything that its execution needs."""

    operation: Operation
    descriptor: Descriptor
    destination: int
    mask: int
    sources: tuple[Tile, ...]
    pad: PadValue


def _check_bindings(header: Header, rules: Rules) -> None:
    fault: type[ArchitecturalFault] = (
        TileLegalityFault if rules.fault_map == "contract" else BundleControlFault
    )
    operation, words = header.operation, header.bindings
    sources, destinations = len(header.sources()), sum(word["size"] > 0 for word in words)
    complaint = ""
    if destinations != 1 or sources != operation.sources:
        complaint = (
            f"{sources} sources and {destinations} destinations; legal: {operation.sources} and 1"
        )
    elif not words[-1]["last"]:
        complaint = "no binding is marked last; legal: the final one"
    elif header.scalars is not None and any(header.scalars.values):
        complaint = "B.IOR names scalar registers; legal: no B.IOR"
    if complaint:
        raise fault(f"{operation.name}: {complaint} [{BINDINGS}]")


def _check_attributes(header: Header) -> None:
    word = header.attributes
    if word is None:
        return
    for name in ("cmode", "sat", "canonicalize", "rmode", "layout"):
        if word[name]:
            illegal(
                header, f"B.DATR {name}={word[name]}; legal: 0, only PadValue applies", ATTRIBUTES
            )
    # Code 0 is FP64: the same type said twice for an FP64 operation, an override for any other.
    if word["dtype"] != DTYPE_NONE and not word["dtype"] == header.dtype.code == 0:
        legal = f"{DTYPE_NONE} (not specified)"
        illegal(header, f"B.DATR secondary DataType={word['dtype']}; legal: {legal}", ATTRIBUTES)


def _check_schema(header: Header, rules: Rules) -> None:
    operation = header.operation
    found = tuple((source_count(word), word["size"] > 0) for word in header.bindings)
    if found != operation.bindings:
        illegal(header, f"bindings {_shape(found)}; legal: {_shape(operation.bindings)}", BINDINGS)
    if header.scalars is not None:
        illegal(header, "B.IOR is present; legal: none", MASKS)
    if 0 not in header.extents:
        illegal(header, "LB0 is missing; it supplies ValidCol", EXTENT)
    for loop, value in sorted(header.extents.items()):
        if value not in EXTENTS:
            illegal(header, f"LB{loop}={value}; legal: 1 to {EXTENTS[-1]}", EXTENT)
    types = operation.types(rules.dtype_set)
    if header.dtype.name not in types:
        legal = f"{', '.join(types)} (dtype_set {rules.dtype_set!r})"
        illegal(header, f"DataType {header.dtype.name}; legal: {legal}", TYPES)


def _shape(bindings: tuple[tuple[int, bool], ...]) -> str:
    return ", then ".join(
        f"{count} sources{' and a destination' if to else ''}" for count, to in bindings
    )


def _allocate(header: Header, machine: Machine) -> tuple[int, Descriptor]:
    word = header.bindings[-1]
    columns = header.extents.get(2, header.extents[0])
    try:
        destination = machine.free_register(word["hand"])
        machine.check_capacity(header.mask, size_bytes(word["size"]))
        valid = header.extents.get(1, 1), header.extents[0]
        descriptor = Descriptor.derive(header.dtype, size_bytes(word["size"]), columns, valid)
    except TileAllocationFault as fault:
        message = str(fault).partition(": ")[2]
        raise TileAllocationFault(f"{header.operation.name}: {message} [{ALLOCATION}]") from None
    return destination, descriptor


def _source(machine: Machine, selector: int, rules: Rules) -> Tile | None:
    if rules.names == "absolute":
        return machine.registers.get(selector)
    hand, distance = divmod(selector, 16)
    queue = machine.published[hand]
    return machine.registers[queue[distance]] if distance < len(queue) else None


def check_source(operation: Operation, name: str, tile: Tile | None, mask: int) -> Tile:
    """Raise `TileLegalityFault` unless a source is allocated and all its valid elements defined."""
    if tile is None:
        raise TileLegalityFault(f"{operation.name}: source {name} is not allocated [{SOURCES}]")
    hole = tile.undefined(mask)
    if hole is not None:
        fragment, row, column = hole
        raise TileLegalityFault(
            f"{operation.name}: source {name} element ({row}, {column}) of PE{fragment} is "
            f"undefined [{SOURCES}]"
        )
    return tile


def check_match(operation: Operation, name: str, tile: Tile, want: Descriptor, mask: int) -> None:
    """Raise `TileLegalityFault` unless a source fits the destination and holds legal codes."""
    have = tile.descriptor
    for what in ("rows", "columns", "valid_rows", "valid_columns", "layout", "dtype"):
        left, right = getattr(have, what), getattr(want, what)
        if left != right:
            left, right = (
                side.name if isinstance(side, DataType) else side for side in (left, right)
            )
            raise TileLegalityFault(
                f"{operation.name}: source {name} has {what}={left}; the destination has {right} "
                f"[{SOURCES}]"
            )
    if want.layout != "RowMajor":
        raise TileLegalityFault(
            f"{operation.name}: layout {want.layout}; legal: RowMajor [{SOURCES}]"
        )
    unused = np.array((1 << have.dtype.unused_bits) - 1, have.dtype.storage)
    rows, columns = have.valid
    for fragment, bits in enumerate(tile.bits[:, rows, columns]):
        if (len(tile.bits) < PES or participates(mask, fragment)) and (bits & unused).any():
            code = int(bits[(bits & unused) != 0][0])
            raise TileLegalityFault(
                f"{operation.name}: source {name} holds {code:#x}, no {have.dtype.name} encoding: "
                f"its low "
                f"{have.dtype.unused_bits} bits are zero [{SOURCES}]"
            )


def preflight(header: Header, machine: Machine, rules: Rules) -> Plan | None:
    """Return what a complete bundle will do, None where no PE takes part; raise the first fault."""
    masks = [mask_of(word) for word in (*header.bindings, *header.shared)]
    if not any(masks) and (masks or header.zero_participation):
        return None
    if header.shared:
        illegal(
            header, f"B.IOS binds S{header.shared[0]['shared']}; legal: Local tiles only", MASKS
        )
    _check_bindings(header, rules)
    _check_attributes(header)
    _check_schema(header, rules)
    destination, descriptor = _allocate(header, machine)
    names = [register_name(selector) for selector in header.sources()]
    found = [_source(machine, selector, rules) for selector in header.sources()]
    tiles = [
        check_source(header.operation, name, tile, header.mask)
        for name, tile in zip(names, found, strict=True)
    ]
    for name, tile in zip(names, tiles, strict=True):
        check_match(header.operation, name, tile, descriptor, header.mask)
    return Plan(header.operation, descriptor, destination, header.mask, tuple(tiles), header.pad)
