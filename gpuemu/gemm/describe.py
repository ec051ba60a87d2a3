"""What a descriptor says, what it inherits and what follows: one row an operator or trait, with
warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .call import native
from .descriptor import OPERATORS
from .elements import COMPLEX
from .instructions import FP8
from .operators import (
    SM,
    Alignment,
    Arrangement,
    BlockDim,
    BlocksPerCluster,
    LeadingDimension,
    Operator,
    Precision,
    RequiredMantissaBits,
    Size,
    TransposeMode,
    Type,
    WithPipeline,
)
from .pipeline_rules import suggested_depth
from .target import Target

if TYPE_CHECKING:
    from .descriptor import Descriptor


@dataclass(frozen=True)
class Line:
    """One row: a name, its value, where it came from ("given", "defaulted", "derived", "missing",
    "off")."""

    name: str
    value: str
    source: str
    warning: str = ""


def describe(d: Descriptor, a: Any = None, b: Any = None) -> list[Line]:
    """Return every operator and trait of a descriptor, with a warning for each silent default that
    does not suit.

    Parameters
    ----------
    d : Descriptor
    a, b : arrays, optional
        The operands that the descriptor is meant for.
    """
    return [*_operators(d, a, b), *(_traits(d) if d.is_complete else ())]


def _operators(d: Descriptor, a: Any, b: Any) -> Iterator[Line]:
    defaults: dict[type[Operator], Callable[[], str]] = {
        Precision: lambda: repr(d.precision),
        Type: lambda: repr(d.data_type),
        Arrangement: lambda: ", ".join(d.arrangement),
        Alignment: lambda: ", ".join(map(str, d.alignment)) + " bytes",
        BlockDim: lambda: repr(d.block_dim) if d.is_complete else "",
        BlocksPerCluster: lambda: "1 x 1 x 1: no cluster",
        LeadingDimension: lambda: ", ".join(map(str, d.leading_dimension)) if Size in d else "",
    }
    needed = {"Size", "Function", "Block", "Target" if Target in d else "SM"}
    for kind in OPERATORS:
        if (kind is Target and SM in d) or (kind is SM and Target in d):
            continue
        given = d.get(kind)
        warning = _warning(d, kind, a, b)
        if given is not None:
            yield Line(kind.__name__, repr(given), "given", warning)
        elif kind in defaults and not (kind is Arrangement and TransposeMode in d):
            yield Line(kind.__name__, defaults[kind](), "defaulted", warning)
        elif kind.__name__ in needed:
            yield Line(kind.__name__, "", "missing", "needed to run")
        else:
            yield Line(kind.__name__, "", "off")


def _warning(d: Descriptor, kind: type[Operator], a: Any, b: Any) -> str:
    operands = [(name, native(x, name)) for name, x in (("A", a), ("B", b)) if x is not None]
    if kind is Size and Size in d and d.size[2] == 1:
        return "K is 1: its default, from the original's triangular solves"
    if kind is Precision:
        return _precision_warning(d, operands)
    if kind is Type and any(x.dtype.kind == "c" for _, x in operands) and d.data_type == "real":
        return "the operands are complex, the descriptor is real" + (
            "" if Type in d else " by default"
        )
    if kind is Arrangement:
        return _order_warning(d, operands)
    if kind is LeadingDimension and LeadingDimension in d:
        return "turns the suggested layouts and the suggested accumulator off"
    if kind is BlocksPerCluster and BlocksPerCluster in d:
        if WithPipeline not in d:
            return "has no effect without WithPipeline"
        return (
            "more than 8 blocks: needs the non-portable cluster attribute"
            if d.needs_nonportable_cluster
            else ""
        )
    return ""


def _precision_warning(d: Descriptor, operands: list[tuple[str, Any]]) -> str:
    source = "" if Precision in d else " by default"
    for (name, x), kind in zip(operands, (d.precision.a, d.precision.b), strict=False):
        width = COMPLEX.get(kind.dtype, kind.dtype)
        if x.dtype not in (kind.dtype, width):
            return f"{name} is {x.dtype}, the descriptor computes in {kind}{source}"
    p = d.precision
    if not p.a.is_integer and p.c.significand < p.b.significand:
        return f"C accumulates in {p.c}, narrower than B ({p.b})"
    if p.names == ("f16",) * 3 and Precision in d:
        return "C accumulates in f16: it defaults to A's type"
    return ""


def _order_warning(d: Descriptor, operands: list[tuple[str, Any]]) -> str:
    source = "" if Arrangement in d or TransposeMode in d else " by default"
    for index, (name, x) in enumerate(operands):
        order = d.arrangement[index]
        wanted = x.swapaxes(0, 1) if order == "col_major" else x
        if min(x.shape[:2]) > 1 and wanted.strides[0] < wanted.strides[1]:
            return f"{name} does not lie in memory as {order}, which the descriptor has{source}"
    return ""


def _traits(d: Descriptor) -> Iterator[Line]:
    yield Line("can run", str(d.is_complete_execution), "derived")
    why = "; ".join(d.why_not_wgmma) if SM in d and d.sm.arch == 900 else ""
    near = len(d.why_not_wgmma) <= 3
    yield Line(
        "instruction class", d.mma_class, "derived", f"no wgmma: {why}" if why and near else ""
    )
    if d.instruction:
        yield Line("instruction", f"mma.sync {d.instruction.name}", "derived", _published(d))
    if why and not near:
        yield Line("why not wgmma", why, "derived")
    yield Line("block size", f"{d.block_size} threads", d.block_dim_source)
    fits = d.shared_memory_needed <= d.shared_memory_available
    shared = f"{d.shared_memory_needed} of {d.shared_memory_available} bytes"
    yield Line("shared memory", shared, "derived", "" if fits else "the tile does not fit")
    if not d.suggested_layouts_enabled:
        padded = ", ".join(map(str, d.suggested_leading_dimension))
        yield Line(
            "suggested layouts",
            "off",
            "derived",
            f"LeadingDimension is given; {padded} would be suggested",
        )
    if WithPipeline in d and SM in d:
        emulated = RequiredMantissaBits in d
        depth = suggested_depth(d, emulated)
        yield Line(
            "pipeline depth",
            str(depth),
            "derived",
            "" if depth else "no stage fits in shared memory",
        )
    if RequiredMantissaBits in d:
        slices = d.emulation_slices
        yield Line("int8 slices", f"{slices}, {slices * (slices + 1) // 2} products", "derived")


def _published(d: Descriptor) -> str:
    core = d.tensor_core
    if core is None or core.published:
        return ""
    kind = "8-bit floats" if d.precision.a.name in FP8 else "these floats"
    return f"no published model says how {d.sm.name} adds {kind}; the nearest relative's is used"
