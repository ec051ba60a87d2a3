"""The fixed/free record: which decisions the application has fixed, which may be tried, and at what
price.

The six axes are those of the guide's chapter "Axes That Can Be Relaxed". The record is the search
space; `gpuemu.gemm.sweep` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BadValue
from .operators import (
    Block,
    BlockDim,
    Function,
    Operator,
    Precision,
    RequiredMantissaBits,
    Size,
    WithPipeline,
)

if TYPE_CHECKING:
    from .descriptor import Descriptor

NAMES = (
    "precision",
    "thread_count",
    "tile_shape",
    "emulation",
    "shared_memory_budget",
    "register_budget",
)


@dataclass(frozen=True)
class Axis:
    """One axis of the record.

    Attributes
    ----------
    name : str
        One of `NAMES`.
    state : {"fixed", "free"}
        Whether variants may move along it.
    value : object
        Where the descriptor stands; for a budget, its bytes or registers.
    options : tuple
        Values to try if free: for operator axes, the operators that would be put in.
    why : str
        What decided the state.
    cost : str
        What moving along the axis costs.
    """

    name: str
    state: str
    value: Any
    options: tuple[Any, ...]
    why: str
    cost: str


def fixed_free_record(
    d: Descriptor,
    fixed: Sequence[str] = (),
    free: Sequence[str] = (),
    shared_memory_budget: int | None = None,
    register_budget: int | None = None,
) -> tuple[Axis, ...]:
    """Return the record of a descriptor.

    An axis whose operator was given counts as fixed, any other as free; `fixed` and `free` overrule
    that by name.

    Parameters
    ----------
    d : Descriptor
        Complete: Size, Function and SM at least.
    fixed, free : sequence of str
        Axis names, see `NAMES`.
    shared_memory_budget, register_budget : int, optional
        Bytes a block, registers a thread that the surrounding kernel leaves; given budgets are
        fixed.

    Raises
    ------
    BadValue
        An unknown axis, or one that is called both fixed and free.

    Examples
    --------
    >>> from gpuemu.gemm import SM, Function, Precision, Size
    >>> d = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM") + SM(900)
    >>> [axis.name for axis in d.axes() if axis.state == "free"]
    ['thread_count', 'emulation', 'shared_memory_budget', 'register_budget']
    """
    _check_names(fixed, free)
    given = {
        "precision": Precision in d,
        "thread_count": BlockDim in d,
        "tile_shape": Size in d,
        "emulation": RequiredMantissaBits in d,
        "shared_memory_budget": shared_memory_budget is not None,
        "register_budget": register_budget is not None,
    }
    shared = d.shared_memory_available if shared_memory_budget is None else shared_memory_budget
    registers = 255 if register_budget is None else register_budget
    details = {
        "precision": (d.precision, precision_options(d), _precision_cost(d)),
        "thread_count": (
            d.block_size,
            thread_options(d),
            "none in accuracy; idle threads or spilled registers",
        ),
        "tile_shape": (d.size, tile_options(d, shared, registers), _tile_cost(d)),
        "emulation": (d.get(RequiredMantissaBits), emulation_options(d), _emulation_cost(d)),
        "shared_memory_budget": (
            shared,
            (),
            f"bytes a block; the tile needs {d.shared_memory_needed}",
        ),
        "register_budget": (
            registers,
            (),
            f"registers a thread; C takes {accumulator_registers(d)}",
        ),
    }
    return tuple(
        Axis(name, *_state(name, given[name], fixed, free, details[name])) for name in NAMES
    )


def _state(
    name: str,
    given: bool,
    fixed: Sequence[str],
    free: Sequence[str],
    detail: tuple[Any, tuple[Any, ...], str],
) -> tuple[str, Any, tuple[Any, ...], str, str]:
    value, options, cost = detail
    if name in fixed or name in free:
        state, why = ("fixed" if name in fixed else "free"), "the caller says so"
    else:
        state, why = ("fixed", "given") if given else ("free", "left to its default")
    return state, value, options if state == "free" else (), why, cost


def _check_names(fixed: Sequence[str], free: Sequence[str]) -> None:
    for name in (*fixed, *free):
        if name not in NAMES:
            raise BadValue(f"{name!r} is no axis; legal: {', '.join(NAMES)}")
    both = set(fixed) & set(free)
    if both:
        raise BadValue(f"{', '.join(sorted(both))}: called both fixed and free")


def accumulator_registers(d: Descriptor) -> int:
    """Return 32-bit registers a thread that hold C: M N elements over the threads of the block."""
    m, n, _ = d.size
    return -(-m * n * d.parts * max(d.precision.c.bits, 32) // 32 // d.block_size)


# Lower computation precisions for inputs in f32 or f64, highest first.
_LADDER = {
    "f64": (("f32",) * 3,),
    "f32": (("tf32", "tf32", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f32")),
    "tf32": (("bf16", "bf16", "f32"), ("f16", "f16", "f32")),
    "f16": (("f8e4m3fn", "f8e4m3fn", "f32"),),
    "bf16": (("f8e4m3fn", "f8e4m3fn", "f32"),),
}


def precision_options(d: Descriptor) -> tuple[Precision, ...]:
    """Return precisions below the descriptor's that the operands could be converted to."""
    if RequiredMantissaBits in d:
        return ()
    return tuple(Precision(*names) for names in _LADDER.get(d.precision.a.name, ()))


def thread_options(d: Descriptor) -> tuple[BlockDim, ...]:
    """Return block sizes to try: powers of two with at least one element of C a thread."""
    m, n, _ = d.size
    return tuple(
        BlockDim(threads) for threads in (64, 128, 256, 512, 1024) if threads <= max(m * n, 64)
    )


def tile_options(d: Descriptor, shared: int, registers: int) -> tuple[Size, ...]:
    """Return tiles that fit both budgets: 64 or 128 or 256 by as much, with the descriptor's K and
    half or twice it."""
    _, _, k = d.size
    options = []
    for m in (64, 128, 256):
        for n in (64, 128, 256):
            for depth in sorted({max(k // 2, 1), k, 2 * k}):
                tile = d.without(*_sized(d)).replace(Size(m, n, depth))
                if tile.shared_memory_needed <= shared and accumulator_registers(tile) <= registers:
                    options.append(Size(m, n, depth))
    return tuple(options)


def _sized(d: Descriptor) -> tuple[type[Operator], ...]:
    """Return the operators whose legality hangs on Size, which a variant of the tile drops."""
    from .operators import LeadingDimension

    return (LeadingDimension,) if LeadingDimension in d else ()


def emulation_options(d: Descriptor) -> tuple[RequiredMantissaBits, ...]:
    """Return mantissa bits that fill whole slices, where emulation is legal at all."""
    legal = d.precision.names in (("f32",) * 3, ("f64",) * 3) and d.parts == 1
    if not (legal and WithPipeline in d and Block in d and Function in d):
        return ()
    return tuple(
        RequiredMantissaBits(8 * s - 1)
        for s in ((2, 3, 4) if d.precision.a.name == "f32" else (4, 5, 6, 7))
    )


def _precision_cost(d: Descriptor) -> str:
    bits = d.precision.a.significand
    return (
        f"relative rounding of inputs grows from 2^-{bits}" if bits else "none below 8-bit integers"
    )


def _tile_cost(d: Descriptor) -> str:
    m, n, k = d.size
    flop = 2 * m * n // (m + n)
    return f"a smaller tile reads A and B more often; {m}x{n}x{k} does {flop} flop an element read"


def _emulation_cost(d: Descriptor) -> str:
    if not emulation_options(d):
        return "not available: needs f32 or f64 throughout, real, WithPipeline, Block and Function"
    return (
        "s slices cost s (s + 1) / 2 int8 products; accuracy is relative to row and column maxima"
    )
