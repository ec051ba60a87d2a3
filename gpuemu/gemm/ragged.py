"""Extents that the tile does not divide: pad, mask the store, or split into bulk and remainder.

The rule: pad if you can; mask the store where the extent of the output is contractual; split only
if the inputs cannot be padded and every remainder is legal for the bulk's class of instruction; a
remainder that is not falls back to padding, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import arrays
from ..errors import BadValue
from .arithmetic import arithmetic
from .call import GemmCall, Matrix, check_alignment, factor, make_call, overlaps
from .execute import compute, finish, output
from .operators import LeadingDimension, RequiredMantissaBits, Size, col_major
from .storage import round_up

if TYPE_CHECKING:
    from .descriptor import Descriptor

STRATEGIES = ("auto", "pad", "mask", "split")
Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Piece:
    """One divisible problem of a plan: half-open ranges of M, N and K, and the descriptor that runs
    it."""

    m: tuple[int, int]
    n: tuple[int, int]
    k: tuple[int, int]
    descriptor: Descriptor

    @property
    def accumulates(self) -> bool:
        """Whether the piece adds to what an earlier one stored: every one along K but the first."""
        return self.k[0] > 0


@dataclass(frozen=True)
class RaggedPlan:
    """How extents are covered.

    Attributes
    ----------
    strategy : {"exact", "pad", "mask", "split"}
    extents : (M, N, K)
        The logical problem.
    executed : (M, N, K)
        Its extents with padding.
    pieces : tuple of Piece
    wasted : float
        Share of the multiply-adds that padding adds, 0 to 1.
    reason : str
        Which rule chose the strategy.
    """

    strategy: str
    extents: Extents
    executed: Extents
    pieces: tuple[Piece, ...]
    reason: str

    @property
    def wasted(self) -> float:
        """Share of the executed multiply-adds that are padding."""
        return 1 - float(np.prod(self.extents, dtype=float) / np.prod(self.executed, dtype=float))

    @property
    def kernels(self) -> int:
        """Distinct tile sizes: one kernel instantiation each."""
        return len({piece.descriptor.size for piece in self.pieces})


def plan_ragged(
    d: Descriptor,
    extents: Extents,
    strategy: str = "auto",
    *,
    pad_inputs: bool = True,
    output_fixed: bool = False,
) -> RaggedPlan:
    """Return how a descriptor covers global extents.

    Parameters
    ----------
    d : Descriptor
        Complete; `Size` is the tile.
    extents : (M, N, K)
    strategy : {"auto", "pad", "mask", "split"}
    pad_inputs : bool
        Whether A and B may be copied into padded memory.
    output_fixed : bool
        Whether no row or column of C beyond M and N may be written.

    Raises
    ------
    BadValue
        A strategy was asked for that the facts forbid: "pad" or "mask" without `pad_inputs`,
        "split" with a remainder that the instruction does not take.

    Examples
    --------
    >>> from gpuemu.gemm import SM, Function, Precision, Size
    >>> d = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM") + SM(900)
    >>> plan = plan_ragged(d, (192, 128, 64))
    >>> plan.strategy, plan.executed, plan.wasted
    ('pad', (256, 128, 64), 0.25)
    >>> [piece.descriptor.size for piece in plan_ragged(d, (192, 128, 64), pad_inputs=False).pieces]
    [(128, 128, 32), (64, 128, 32)]
    """
    if strategy not in STRATEGIES:
        raise BadValue(f"ragged={strategy!r}; legal: {', '.join(STRATEGIES)}")
    if len(extents) != 3:
        raise BadValue(f"extents {extents}; legal: three, M, N and K")
    if min(extents) < 1:
        raise BadValue(f"extents {extents}: an empty product; legal: M, N and K of 1 and more")
    padded = tuple(round_up(extent, tile) for extent, tile in zip(extents, d.size, strict=True))
    executed = (padded[0], padded[1], padded[2])
    if executed == extents:
        return _whole("exact", d, extents, executed, "the tile divides the extents")
    if strategy == "auto":
        return _choose(d, extents, executed, pad_inputs, output_fixed)
    if strategy in ("pad", "mask"):
        if not pad_inputs:
            raise BadValue(
                f"ragged={strategy!r} pads A and B, which pad_inputs=False forbids; legal: "
                "'split', 'auto'"
            )
        return _whole(strategy, d, extents, executed, "the caller says so")
    pieces, obstacle = _split(d, extents)
    if obstacle:
        raise BadValue(f"ragged='split': {obstacle}; legal: 'pad', 'mask', 'auto'")
    return RaggedPlan("split", extents, extents, pieces, "the caller says so")


def _choose(
    d: Descriptor, extents: Extents, executed: Extents, pad_inputs: bool, output_fixed: bool
) -> RaggedPlan:
    if pad_inputs:
        if output_fixed:
            return _whole(
                "mask",
                d,
                extents,
                executed,
                "the output's extents are fixed, the inputs may be padded",
            )
        return _whole("pad", d, extents, executed, "inputs and output may be padded")
    pieces, obstacle = _split(d, extents)
    if not obstacle:
        return RaggedPlan(
            "split",
            extents,
            extents,
            pieces,
            "the inputs cannot be padded, every remainder is legal",
        )
    fallback = "mask" if output_fixed else "pad"
    return _whole(
        fallback, d, extents, executed, f"the inputs should not be padded, but {obstacle}"
    )


def _whole(
    strategy: str, d: Descriptor, extents: Extents, executed: Extents, reason: str
) -> RaggedPlan:
    m, n, k = executed
    return RaggedPlan(strategy, extents, executed, (Piece((0, m), (0, n), (0, k), d),), reason)


def _ranges(extent: int, tile: int) -> list[tuple[int, int]]:
    """Return the bulk and the remainder of one extent, each where it is not empty."""
    bulk = extent - extent % tile
    return [span for span in ((0, bulk), (bulk, extent)) if span[0] < span[1]]


def _split(d: Descriptor, extents: Extents) -> tuple[tuple[Piece, ...], str]:
    """Return bulk and remainder pieces, K innermost, or the first obstacle."""
    pieces = []
    rows, columns, depths = (
        _ranges(extent, tile) for extent, tile in zip(extents, d.size, strict=True)
    )
    for m in rows:
        for n in columns:
            for k in depths:
                part = _remainder(d, (m, n, k))
                if part.mma_class != d.mma_class:
                    return (
                        (),
                        f"a remainder of {part.size} runs as {part.mma_class}, the tile "
                        f"{d.size} as {d.mma_class}",
                    )
                pieces.append(Piece(m, n, k, part))
    return tuple(pieces), ""


def _remainder(d: Descriptor, spans: tuple[tuple[int, int], ...]) -> Descriptor:
    """Return the descriptor for one piece: the tile, or the whole span where that is a
    remainder."""
    sizes = []
    for (start, stop), tile in zip(spans, d.size, strict=True):
        sizes.append(tile if (stop - start) % tile == 0 else stop - start)
    if tuple(sizes) == d.size:
        return d
    return d.without(LeadingDimension).replace(Size(*sizes))


# --------------------------------------------------------------------------- execution


def _cut(x: Matrix, rows: tuple[int, int], columns: tuple[int, int]) -> Matrix:
    """Return a sub-matrix, a view."""
    outer, inner = (columns, rows) if x.order == col_major else (rows, columns)
    return replace(x, memory=x.memory[outer[0] : outer[1], inner[0] : inner[1]])


def _padded(x: Matrix, rows: int, columns: int) -> Matrix:
    """Return a copy with zeros up to the extents."""
    outer, inner = (columns, rows) if x.order == col_major else (rows, columns)
    have = x.memory.shape
    if have[:2] == (outer, inner):
        return x
    memory = x.module.zeros((outer, inner, *have[2:]), x.memory.dtype)
    memory[: have[0], : have[1]] = x.memory
    return replace(x, memory=memory)


def run_ragged(
    call: GemmCall, strategy: str, pad_inputs: bool, backend: str, out: Any, template: Any
) -> Any:
    """Run a call whose extents may not be multiples of the tile."""
    plan = plan_ragged(
        call.descriptor, call.extents, strategy, pad_inputs=pad_inputs, output_fixed=out is not None
    )
    if plan.strategy == "exact":
        return compute(call, backend, out, template)
    if plan.strategy == "split":
        return _run_split(call, plan, strategy, backend, out, template)
    return _run_padded(call, plan, backend, out, template)


def _run_padded(call: GemmCall, plan: RaggedPlan, backend: str, out: Any, template: Any) -> Any:
    """Pad K, and for "pad" M and N too; under "mask" the kernel reads rows beyond the extents as
    zeros."""
    target = output(call, out)
    m, n, k = plan.executed
    rows, columns, _ = (m, n, k) if plan.strategy == "pad" else call.extents
    old = _padded(call.c, rows, columns) if call.c else None
    padded = replace(call, a=_padded(call.a, rows, k), b=_padded(call.b, k, columns), c=old)
    if plan.strategy == "mask":
        return compute(padded, backend, out, template)
    kind = template if target is None else target.memory
    result = compute(padded, backend, None, kind)[: call.extents[0], : call.extents[1]]
    if target is None:
        return result
    target.assign(result)
    return out


def _run_split(
    call: GemmCall, plan: RaggedPlan, strategy: str, backend: str, out: Any, template: Any
) -> Any:
    try:
        calls = list(_pieces(call, plan))
    except BadValue as misaligned:
        if strategy == "split":
            raise
        reason = f"the inputs should not be padded, but {misaligned}"
        m, n, k = (
            round_up(x, tile) for x, tile in zip(call.extents, call.descriptor.size, strict=True)
        )
        return _run_padded(
            call,
            _whole("mask", call.descriptor, call.extents, (m, n, k), reason),
            backend,
            out,
            template,
        )
    target = output(call, out)
    if target is None or overlaps(target.memory, call.a, call.b, call.c):
        result = call.empty(call.a.module)  # no piece overwrites what a later one reads
    else:
        result = target
    one = factor(1, "beta", call.target, call.parts)
    for piece, part in calls:
        store = _cut(result, piece.m, piece.n)
        if piece.accumulates:
            part = replace(part, c=store, beta=one)
        compute(part, backend, store.array)
    if target is None:
        return arrays.like(result.array, template)
    if result is not target:
        target.assign(result.array)
    return out


def _pieces(call: GemmCall, plan: RaggedPlan) -> Iterator[tuple[Piece, GemmCall]]:
    """Yield every piece with its call; refuse sub-matrices whose start is not aligned as
    declared."""
    for piece in plan.pieces:
        a, b = _cut(call.a, piece.m, piece.k), _cut(call.b, piece.k, piece.n)
        c = _cut(call.c, piece.m, piece.n) if call.c else None
        align = call.descriptor.alignment
        for x, name, bytes_ in (
            (a, "the remainder of A", align.a),
            (b, "the remainder of B", align.b),
        ):
            check_alignment(x, name, bytes_)
        how = arithmetic(piece.descriptor)
        yield piece, replace(call, a=a, b=b, c=c, how=how, descriptor=piece.descriptor)


# --------------------------------------------------------------------------- emulated products


def run_emulated(
    d: Descriptor, a: Any, b: Any, c: Any, *, alpha: Any, beta: Any, out: Any, backend: str
) -> Any:
    """Run a descriptor with RequiredMantissaBits on whole matrices of any extents."""
    return emulate(make_call(d, a, b, c, alpha, beta), backend, out, a)


def emulate(call: GemmCall, backend: str, out: Any = None, template: Any = None) -> Any:
    """Compute a call through int8 slices; the epilogue rounds in C's type as everywhere."""
    from .emulation import emulated_matmul
    from .emulation.scheme import MAX_K

    request = call.descriptor.get(RequiredMantissaBits)
    assert request is not None
    k = call.a.array.shape[-1]
    if k > MAX_K:
        raise BadValue(
            f"emulation_k_dimension_too_large: K={k} with RequiredMantissaBits; "
            f"legal: K <= {MAX_K} "
            '(emulated_matmul(..., split_k="auto") adds products over ranges of K)'
        )
    acc = emulated_matmul(call.a.array, call.b.array, mantissa_bits=request.bits, backend=backend)
    return finish(call, acc, out, template)
