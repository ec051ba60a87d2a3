"""The door of the GEMM domain: validate, build the call, hand it to a backend, give back the
caller's kind of array."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue, Mismatch
from . import oracle
from .call import GemmCall, LoadOp, Matrix, make_call, matrix, overlaps
from .descriptor import Descriptor, finished
from .kernel_plan import Dim3
from .operators import RequiredMantissaBits, StaticBlockDim, WithPipeline, integer

Launch = tuple[int, ...]


def execute(
    d: Descriptor,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    out: Any = None,
    backend: str = "auto",
    launch: Launch | None = None,
    a_load_op: LoadOp | None = None,
    b_load_op: LoadOp | None = None,
) -> Any:
    """Return alpha A B + beta C for one tile, bit for bit as the descriptor's target computes it.

    Parameters
    ----------
    d : Descriptor
        Complete for execution, without WithPipeline (which runs through pipelines only).
    a, b : arrays (M, K) and (K, N)
        In the descriptor's precision and storage order. Complex precisions without a NumPy dtype
        have a last axis of 2.
    c : array (M, N), optional
        Read only if beta is not zero: beta = 0 overwrites, whatever C holds.
    alpha, beta : scalars
        Rounded to C's type.
    out : array (M, N), optional
        Where the result goes; nothing beyond its extents is touched.
    backend : {"auto", "cuda", "host", "numpy", "check"}
    launch : tuple of int, optional
        Threads that the surrounding kernel is launched with, where they are not BlockDim.
    a_load_op, b_load_op : callable, optional
        Applied to the operand, whose result is converted to the descriptor's precision.

    Returns
    -------
    array (M, N)
        Of the caller's kind, in C's storage order.

    Raises
    ------
    BadValue, BadType, BadShape
        For a descriptor that cannot run or operands that do not fit it.
    Mismatch
        From backend "check".

    Examples
    --------
    >>> import numpy as np
    >>> from gpuemu.gemm import SM, Arrangement, Block, Function, Precision, Size, row_major
    >>> d = (Size(16, 8, 8) + Precision("f16", "f16", "f32") + Function("MM") + SM(800) + Block()
    ...      + Arrangement(row_major, row_major, row_major))
    >>> a, b = np.full((16, 8), 0.1, "f2"), np.full((8, 8), 3, "f2")
    >>> f"{execute(d, a, b, backend='numpy').view(np.uint32)[0, 0]:08X}"
    '40199000'
    """
    d = finished(d)
    if WithPipeline in d:
        raise BadValue(
            "a descriptor with WithPipeline runs through suggest_pipeline or make_pipeline only"
        )
    threads = check_launch(d, launch)
    call = make_call(d, a, b, c, alpha, beta, a_load_op=a_load_op, b_load_op=b_load_op)
    if call.extents != d.size:
        raise BadShape(
            f"the operands are {call.extents} (M, N, K); execute takes one tile of {d.size}"
        )
    need = d.shared_memory_needed
    if need > d.shared_memory_available:
        raise BadValue(
            f"the tile needs {need} bytes of shared memory; {d.target_name} has "
            f"{d.shared_memory_available}"
        )
    return compute(call, backend, out, a, threads)


def check_launch(d: Descriptor, launch: Launch | None) -> Dim3 | None:
    """Return the threads of a launch along x, y and z, after checking the launch rule, which the
    original leaves unchecked.

    Lower dimensions equal BlockDim's, the last that BlockDim uses may be larger; higher ones are
    free (the caller predicates them). StaticBlockDim promises that both are equal.
    """
    if launch is None:
        return None
    given = _dim3(launch)
    own = d.block_dim
    if StaticBlockDim in d and given != own:
        raise BadValue(f"launched with {given} threads; StaticBlockDim promises exactly {own}")
    last = max((i for i in range(3) if own[i] > 1), default=0)
    lower = all(given[i] == own[i] for i in range(last))
    if not lower or given[last] < own[last]:
        raise BadValue(
            f"launched with {given} threads for BlockDim {own}; legal: equal below dimension "
            f"{last}, "
            f"at least {own[last]} in it"
        )
    if np.prod(given) > 1024:
        raise BadValue(f"launched with {np.prod(given)} threads; a block has at most 1024")
    return given


def _dim3(launch: Launch) -> Dim3:
    legal = "legal: a tuple of one to three integers"
    if not isinstance(launch, (tuple, list)):
        raise BadType(f"launch={launch!r} is a {type(launch).__name__}; {legal}")
    if not 1 <= len(launch) <= 3:
        raise BadValue(f"launch={launch!r}; {legal}")
    x, y, z = (
        integer(value, f"launch {name}")
        for value, name in zip((*launch, 1, 1), "xyz", strict=False)
    )
    if min(x, y, z) < 1:
        raise BadValue(f"launch={launch!r}; legal: 1 thread and more in every dimension")
    return x, y, z


def compute(
    call: GemmCall,
    backend: str,
    out: Any = None,
    template: Any = None,
    launch: Dim3 | None = None,
) -> Any:
    """Run a validated call; return the result as the kind of array that `template` is."""
    if call.how.kind == "mfma":
        from .target import run_target

        return finish(call, run_target(call, backend), out, template)
    target = where = output(call, out)
    if target is not None and overlaps(target.memory, call.a, call.b, call.c):
        where = None  # tiles, and the oracle of "check", read operands after others are stored
    result = dispatch.run(
        backend,
        {
            "cuda": lambda: _cuda(call, where, launch),
            "host": lambda: _host(call, where),
            "numpy": lambda: run_oracle(call),
        },
        lambda got, want, name: compare(got, want, name, call.descriptor),
        (call.a.memory, call.b.memory),
    )
    if target is None:
        return arrays.like(result.array, template if template is not None else call.a.memory)
    if result.memory is not target.memory:
        target.assign(result.array)
    return out


def finish(call: GemmCall, acc: Any, out: Any = None, template: Any = None) -> Any:
    """Return alpha acc + beta C for a product that another part of the project computed."""
    target = output(call, out)
    if arrays.on_cuda(acc) and (target is None or arrays.on_cuda(target.memory)):
        from . import device

        apart = target is not None and not overlaps(target.memory, call.c)
        done = device.finish_cuda(call, arrays.to_cupy(acc), target if apart else None)
        if target is None:
            return arrays.like(done.array, template if template is not None else call.a.memory)
        if not apart:
            target.assign(done.array)
        return out
    product = arrays.to_numpy(acc)
    old = call.c.planes() if call.c else None
    result = call.empty(np)
    result.planes()[0][...] = oracle.epilogue([product], old, call.alpha, call.beta, call.target)[0]
    if target is None:
        return arrays.like(result.array, template if template is not None else call.a.memory)
    target.assign(result.array)
    return out


def output(call: GemmCall, out: Any) -> Matrix | None:
    """Return the caller's output as a matrix, after checking it."""
    if out is None:
        return None
    target = matrix(out, "out", call.target, call.parts, call.order, streaming=True)
    m, n, _ = call.extents
    if target.shape != (m, n):
        raise BadShape(f"out is {target.shape}; the result is {(m, n)}")
    if isinstance(target.memory, np.ndarray) and not target.memory.flags.writeable:
        raise BadValue("out is read-only; legal: an array that can be written")
    return target


def _cuda(call: GemmCall, out: Matrix | None, launch: Dim3 | None) -> Matrix:
    from . import device

    return device.run_cuda(call, out, launch)


def _host(call: GemmCall, out: Matrix | None) -> Matrix:
    from . import device

    usable = out if out is not None and isinstance(out.memory, np.ndarray) else None
    return device.run_host(call, usable)


def run_oracle(call: GemmCall) -> Matrix:
    """Compute a call in NumPy."""
    types = call.descriptor.precision.a, call.descriptor.precision.b, call.target
    acc = oracle.product(call.a.planes(), call.b.planes(), types, call.how)
    old = call.c.planes() if call.c else None
    result = call.empty(np)
    for plane, value in zip(
        result.planes(), oracle.epilogue(acc, old, call.alpha, call.beta, call.target), strict=True
    ):
        plane[...] = value
    return result


def compare(got: Matrix, want: Matrix, backend: str, d: Descriptor) -> None:
    """Raise `Mismatch` where two results differ in bits; any NaN equals any NaN."""
    for name, left, right in zip(("", "imaginary "), got.planes(), want.planes(), strict=False):
        unsigned = np.dtype(f"u{left.itemsize}")
        x, y = (np.ascontiguousarray(side).view(unsigned) for side in (left, right))
        differs = x != y
        if left.dtype.kind == "f":
            differs &= ~(np.isnan(left) & np.isnan(right))
        if differs.any():
            m, n = (int(i) for i in np.argwhere(differs)[0])
            digits = 2 * left.itemsize
            raise Mismatch(
                f"{backend} and the oracle differ in {int(differs.sum())} of {differs.size} "
                "elements; first at "
                f"{name}C[{m}, {n}]: {int(x[m, n]):0{digits}X}, oracle {int(y[m, n]):0{digits}X}; "
                f"repeat with backend='check' and {d!r}"
            )


def matmul(
    d: Descriptor,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    out: Any = None,
    ragged: str = "auto",
    pad_inputs: bool = True,
    backend: str = "auto",
) -> Any:
    """Return alpha A B + beta C for whole matrices of any extents, tile by tile.

    Parameters
    ----------
    d : Descriptor
        Complete for execution; `Size` is the tile. With RequiredMantissaBits the product is
        emulated.
    a, b, c, alpha, beta, out, backend
        As in `execute`, with global extents.
    ragged : {"auto", "pad", "mask", "split"}
        What to do where the tile does not divide the extents; see `gpuemu.gemm.plan_ragged`.
    pad_inputs : bool
        Whether A and B may be copied into padded memory; it decides between the strategies.

    Returns
    -------
    array (M, N)
    """
    from .ragged import run_ragged

    d = finished(d)
    if RequiredMantissaBits in d:
        from .ragged import run_emulated

        return run_emulated(d, a, b, c, alpha=alpha, beta=beta, out=out, backend=backend)
    call = make_call(d, a, b, c, alpha, beta)
    return run_ragged(call, ragged, pad_inputs, backend, out, a)
