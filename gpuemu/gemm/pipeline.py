"""Pipelines over whole matrices: what is refused statically, what is refused with an error code,
and the run.

Static rejections raise; the rest comes back as a `Refusal`, which is false and carries `.error`,
or is raised as `PipelineRefused` with `raises=True`. Codes are compared by name: their numbers
differ between versions of the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import BadShape, BadType, BadValue, PipelineRefused
from .call import (
    GemmCall,
    Matrix,
    check_alignment,
    factor,
    is_zero,
    make_call,
    matrix,
    native,
    overlaps,
)
from .operators import EnableInputStreaming
from .pipeline_rules import (
    PipelineError,
    Storage,
    check_static,
    emulates,
    first_error,
    stage_bytes,
    suggested_depth,
)

if TYPE_CHECKING:
    from .descriptor import Descriptor


class Refusal:
    """A pipeline that was not made: false, with the reason in `.error`."""

    def __init__(self, error: PipelineError) -> None:
        self.error = error

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Refusal({self.error})"

    @property
    def value(self) -> Pipeline:
        """There is none: raises what the refusal says."""
        raise PipelineRefused(self.error)


class Pipeline:
    """A pipeline ready to run: true, `.error.code` is "none".

    Attributes
    ----------
    stages : int
        Depth: slabs of A and B in shared memory at once.
    buffer_size : int
        Shared memory in bytes.
    emulation_slices : int
        int8 slices an element, 0 where the product is native.
    """

    error = PipelineError("none")
    buffer_alignment = 128

    def __init__(
        self, calls: list[GemmCall], batched: bool, stages: int, emulated: bool, storage: Storage
    ) -> None:
        self._calls = calls
        self._batched = batched
        self.descriptor = calls[0].descriptor
        self.stages = stages
        self.result_storage = storage
        self.buffer_size = stages * stage_bytes(self.descriptor, emulated)
        self.emulation_slices = self.descriptor.emulation_slices if emulated else 0

    def __bool__(self) -> bool:
        return True

    @property
    def value(self) -> Pipeline:
        """The pipeline itself, for code written against a result object."""
        return self

    @property
    def block_dim(self) -> tuple[int, int, int]:
        """Threads to launch with; the kernels here need no producer warps beside the descriptor's
        own."""
        return self.descriptor.block_dim

    def get_block_dim(self) -> tuple[int, int, int]:
        """Return `block_dim`: the original's spelling."""
        return self.block_dim

    @property
    def max_threads_per_block(self) -> int:
        """Threads to launch with, in all."""
        x, y, z = self.block_dim
        return x * y * z

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along M and N."""
        m, n, _ = self._calls[0].extents
        return m // self.descriptor.size[0], n // self.descriptor.size[1]

    def tiles(self) -> Iterator[tuple[int, int]]:
        """Yield the coordinates of every tile."""
        rows, columns = self.grid
        return ((i, j) for i in range(rows) for j in range(columns))

    def execute(
        self,
        c: Any = None,
        *,
        alpha: Any = 1,
        beta: Any = 0,
        out: Any = None,
        backend: str = "auto",
    ) -> Any:
        """Return alpha A B + beta C over the whole grid.

        Parameters
        ----------
        c : array (M, N), or (batch, M, N), optional
            Needed if beta is not zero; beta = 0 overwrites.
        alpha, beta : scalars
        out : array like C, optional
        backend : str

        Notes
        -----
        A native pipeline reads A and B now; an emulated one has them from its creation.
        """
        from .execute import output

        first = self._calls[0]
        read = not is_zero(factor(beta, "beta", first.target, first.parts))
        old = self._entries(c if read else None, "C")
        calls = [with_epilogue(x, y, alpha, beta) for x, y in zip(self._calls, old, strict=True)]
        stores = self._entries(out, "out")
        pairs = zip(calls, stores, strict=True)
        targets = [x for call, store in pairs if (x := output(call, store)) is not None]
        operands = (x for call in calls for x in (call.a, call.b, call.c))
        if targets and overlaps(native(out, "out"), *operands):
            # Every entry is computed before the first is stored: it may be another's operand.
            results = [self._one(call, None, backend) for call in calls]
            for target, result in zip(targets, results, strict=True):
                target.assign(result)
        else:
            results = [self._one(call, x, backend) for call, x in zip(calls, stores, strict=True)]
        if out is not None:
            return out
        if not self._batched:
            return results[0]
        from ..backends import arrays

        if arrays.kind(results[0]) == "cupy":
            import cupy

            return cupy.stack(results)
        import numpy

        return numpy.stack(results)

    def _entries(self, array: Any, name: str) -> list[Any]:
        """Return what belongs to every batch entry: a matrix, or None where there is no array."""
        count = len(self._calls)
        if array is None or not self._batched:
            return [array] * count
        whole = native(array, name)
        if whole.shape[:1] != (count,):
            raise BadShape(f"{name} has shape {tuple(whole.shape)}; legal: {count} batch entries")
        return list(whole)

    def _one(self, call: GemmCall, out: Any, backend: str) -> Any:
        from .execute import compute
        from .ragged import emulate

        if not self.emulation_slices:
            return compute(call, backend, out)

        return emulate(call, backend, out)


def with_epilogue(call: GemmCall, c: Any, alpha: Any, beta: Any) -> GemmCall:
    """Return a call with other factors and another C."""
    factors = (
        factor(alpha, "alpha", call.target, call.parts),
        factor(beta, "beta", call.target, call.parts),
    )
    old: Matrix | None = None
    if not is_zero(factors[1]):
        if c is None:
            raise BadValue(f"beta={beta!r} but C is missing; legal: pass C, or beta=0")
        old = matrix(c, "C", call.target, call.parts, call.order)
        if old.shape != call.extents[:2]:
            raise BadShape(f"C is {old.shape}; A B is {call.extents[:2]}")
        check_alignment(old, "C", call.descriptor.alignment.c)
    return replace(call, alpha=factors[0], beta=factors[1], c=old)


def suggest_pipeline(
    d: Descriptor,
    a: Any,
    b: Any,
    depth: int | None = None,
    *,
    result_storage: Storage = "internal_accumulator",
    clamp_depth: bool = False,
    emulation: str = "always",
    raises: bool = False,
) -> Pipeline | Refusal:
    """Return a pipeline for a descriptor and two global matrices, or the reason why there is none.

    Parameters
    ----------
    d : Descriptor
        Complete for execution, with WithPipeline.
    a, b : arrays (M, K) and (K, N), or (batch, M, K) and (batch, K, N)
        In the descriptor's precision and Arrangement.
    depth : int, optional
        Stages, 1 to 16; by default as many as fit in shared memory.
    result_storage : {"internal_accumulator", "reusable_accumulator", "external_accumulator"}
        Recorded; results do not depend on it.
    clamp_depth : bool
        Reduce a suggested depth to what K provides, instead of refusing with insufficient_stages.
    emulation : {"always", "auto", "never"}
        With RequiredMantissaBits: emulate; or only where the native type has too few bits or is
        predicted to be slower; or not at all.
    raises : bool
        Raise `PipelineRefused` instead of returning a `Refusal`.

    Returns
    -------
    Pipeline or Refusal
        True or false; a refusal's `.error.code` is one of `CODES`.

    Raises
    ------
    BadValue, BadType, BadShape
        What the original rejects at compile time: no WithPipeline, depth out of range, ranks other
        than 2 or 3, another storage order than Arrangement's, no stage that fits.

    Notes
    -----
    An emulated pipeline captures A and B: later changes to the arrays are not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuemu.gemm import SM, Block, Function, Precision, Size, WithPipeline
    >>> d = Size(64, 64, 32) + Precision("f16", "f16", "f32") + Function("MM") + SM(900)
    >>> d = d + Block() + WithPipeline()
    >>> p = suggest_pipeline(d, np.zeros((64, 40), "f2"), np.zeros((40, 64), "f2", order="F"))
    >>> bool(p), p.error.code
    (False, 'tile_divisibility')
    """
    emulated = emulates(d, emulation)
    check_static(d, depth, result_storage, emulated)
    calls, batched, error = _operands(d, a, b, emulated)
    if error is None:
        stages = depth if depth is not None else suggested_depth(d, emulated)
        if clamp_depth and depth is None:
            stages = max(min(stages, calls[0].extents[2] // d.size[2]), 1)
        error = first_error(d, calls[0].extents, stages, emulated)
    if error is None and emulated:
        error = _capture(calls)
    if error is not None:
        if raises:
            raise PipelineRefused(error)
        return Refusal(error)
    return Pipeline(calls, batched, stages, emulated, result_storage)


def make_pipeline(d: Descriptor, a: Any, b: Any, depth: int, **options: Any) -> Pipeline | Refusal:
    """Return a pipeline of a given depth; see `suggest_pipeline`."""
    return suggest_pipeline(d, a, b, depth, **options)


def _operands(
    d: Descriptor, a: Any, b: Any, emulated: bool
) -> tuple[list[GemmCall], bool, PipelineError | None]:
    """Return one call a batch entry, whether there is a batch axis, and a K mismatch where there is
    one."""
    left, right = native(a, "A"), native(b, "B")
    pairs = d.parts == 2 and left.dtype.kind != "c"
    ranks = left.ndim - pairs, right.ndim - pairs
    if ranks[0] != ranks[1] or ranks[0] not in (2, 3):
        raise BadShape(
            f"A and B have ranks {ranks[0]} and {ranks[1]}; legal: both 2, or both 3 (batch first)"
        )
    if emulated and ranks[0] != 2:
        raise BadShape(
            "an emulated pipeline takes matrices of rank 2; legal: one pipeline a batch entry"
        )
    batched = ranks[0] == 3
    if batched and left.shape[0] != right.shape[0]:
        raise BadShape(f"A has {left.shape[0]} batch entries, B {right.shape[0]}; legal: as many")
    if batched and left.shape[0] == 0:
        raise BadShape("A and B have no batch entries; legal: one and more")
    if emulated and not left.dtype == right.dtype == d.precision.a.dtype:
        raise BadType(
            f"A is {left.dtype}, B {right.dtype}; an emulated pipeline takes {d.precision.a} as "
            "it is"
        )
    entries = list(zip(left, right, strict=True)) if batched else [(left, right)]
    first_a, first_b = entries[0]
    if first_a.shape[1] != first_b.shape[0]:
        _matrices(d, first_a, first_b)
        message = f"A has K={first_a.shape[1]}, B has K={first_b.shape[0]}"
        return [], batched, PipelineError("incompatible_k_dimensions", message)
    return [make_call(d, x, y) for x, y in entries], batched, None


def _matrices(d: Descriptor, a: Any, b: Any) -> None:
    """Apply the static rules to operands whose K differ, for they come before any error code."""
    streaming = EnableInputStreaming in d
    matrix(a, "A", d.precision.a, d.parts, d.arrangement[0], streaming=streaming)
    matrix(b, "B", d.precision.b, d.parts, d.arrangement[1], streaming=streaming)


def _capture(calls: list[GemmCall]) -> PipelineError | None:
    """Put copies in the place of A and B; tell where memory ran out."""
    try:
        calls[0] = replace(
            calls[0],
            a=replace(calls[0].a, memory=_copy(calls[0].a.memory)),
            b=replace(calls[0].b, memory=_copy(calls[0].b.memory)),
        )
    except MemoryError as error:
        return PipelineError("allocation_failed", str(error) or "out of memory")
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":
            return PipelineError("allocation_failed", str(error))
        if type(error).__name__ == "CUDARuntimeError":
            return PipelineError("cuda", str(error))
        raise
    return None


def _copy(memory: Any) -> Any:
    return memory.copy()
