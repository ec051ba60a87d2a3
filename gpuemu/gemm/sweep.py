"""The search space, executed: every variant along the free axes on the caller's data."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import BadValue, GpuemuError
from . import oracle
from .axes import accumulator_registers, fixed_free_record
from .call import make_call
from .execute import matmul
from .operators import LeadingDimension, Operator, Precision, RequiredMantissaBits, col_major

if TYPE_CHECKING:
    from .descriptor import Descriptor

OPERATOR_AXES = ("precision", "thread_count", "tile_shape", "emulation")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SweepRow:
    """One variant.

    Attributes
    ----------
    variant : str
        What differs from the descriptor; "as given" for itself.
    mma_class : str
    seconds : float or None
        Median time of a run on the backend; None where the variant could not run.
    error : float or None
        Largest |C - reference| / (|A| |B|), componentwise, against a float64 product.
    shared_bytes : int
        Shared memory of the tile.
    registers : int
        A thread: the kernel's own on CUDA, else those that hold C.
    registers_source : {"kernel", "accumulator"}
    note : str
        Why it could not run.
    """

    variant: str
    mma_class: str
    seconds: float | None
    error: float | None
    shared_bytes: int
    registers: int
    registers_source: str
    note: str = ""


@dataclass(frozen=True)
class SweepTable:
    """The rows of a sweep, in the order in which they ran, and where they ran."""

    backend: str
    rows: tuple[SweepRow, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return rows as plain dictionaries: what `--json` prints."""
        return [asdict(row) for row in self.rows]

    def best(self, largest_error: float = float("inf")) -> SweepRow:
        """Return the fastest variant whose error is at most `largest_error`."""
        fitting = [row for row in self.rows if row.error is not None and row.error <= largest_error]
        if not fitting:
            raise BadValue(f"no variant has an error of at most {largest_error}")
        return min(fitting, key=lambda row: row.seconds or 0.0)


def variants(
    d: Descriptor, fixed: Sequence[str] = (), free: Sequence[str] = (), **budgets: int | None
) -> Iterator[tuple[str, Descriptor]]:
    """Yield the descriptor itself, then every legal combination of options along its free axes,
    named."""
    axes = [
        a
        for a in fixed_free_record(d, fixed, free, **budgets)
        if a.name in OPERATOR_AXES and a.options
    ]
    seen = set()
    for chosen in itertools.product(*((None, *axis.options) for axis in axes)):
        operators: list[Operator] = [op for op in chosen if op is not None]
        lower = any(isinstance(op, Precision) for op in operators)
        if lower and any(isinstance(op, RequiredMantissaBits) for op in operators):
            continue  # emulation is of the descriptor's own precision
        made = d.without(LeadingDimension).replace(*operators) if operators else d
        if made in seen:
            continue
        seen.add(made)
        yield " + ".join(map(repr, operators)) or "as given", made


def sweep(
    d: Descriptor,
    a: Any,
    b: Any,
    *,
    fixed: Sequence[str] = (),
    free: Sequence[str] = (),
    shared_memory_budget: int | None = None,
    register_budget: int | None = None,
    repeats: int = 3,
    backend: str = "auto",
    progress: bool = True,
    limit: int | None = None,
) -> SweepTable:
    """Run every variant of a descriptor along its free axes on given data.

    Parameters
    ----------
    d : Descriptor
        Complete for execution.
    a, b : arrays (M, K) and (K, N)
        In the descriptor's precision; variants convert them, which is part of what their error
        shows.
    fixed, free : sequence of str
        Axes by name, see `Descriptor.axes`.
    shared_memory_budget, register_budget : int, optional
        Bytes a block and registers a thread; variants beyond them are left out.
    repeats : int
        Timed runs a variant, after one that is not timed on CUDA; the median counts.
    backend : str
    progress : bool
        Show a progress bar on a terminal.
    limit : int, optional
        At most so many variants.

    Returns
    -------
    SweepTable

    Raises
    ------
    BadValue
        For repeats, a budget or a limit below 1.
    """
    budgets = {"shared_memory_budget": shared_memory_budget, "register_budget": register_budget}
    for name, value in {"repeats": repeats, "limit": limit, **budgets}.items():
        if value is not None and value < 1:
            raise BadValue(f"{name}={value}; legal: at least 1")
    d.finalize()
    call = make_call(d, a, b)
    chosen = list(itertools.islice(variants(d, fixed, free, **budgets), limit))
    where = dispatch.resolve(backend, (call.a.memory, call.b.memory))
    exact = oracle.reference(call.a.planes(), call.b.planes())
    size = oracle.reference(*(_magnitudes(x.planes()) for x in (call.a, call.b)))[0]
    rows = tuple(
        _measure(name, variant, a, b, exact, size, where, repeats)
        for name, variant in _bar(chosen, progress)
    )
    return SweepTable(where, rows)


def _magnitudes(planes: Sequence[Array]) -> list[Array]:
    wide = [np.abs(x.astype(np.float64)) for x in planes]
    return wide if len(wide) == 1 else [np.hypot(*wide)]


def _bar(chosen: list[tuple[str, Descriptor]], progress: bool) -> Iterator[tuple[str, Descriptor]]:
    if not progress:
        yield from chosen
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(chosen, "variants", console=Console(stderr=True), transient=True)


def _measure(
    name: str,
    d: Descriptor,
    a: Any,
    b: Any,
    exact: list[Array],
    size: Array,
    backend: str,
    repeats: int,
) -> SweepRow:
    shared, holding = d.shared_memory_needed, accumulator_registers(d)
    try:
        left, right = _operand(d, a, 0), _operand(d, b, 1)
        result, seconds = _time(d, left, right, backend, repeats)
        registers = _registers(d, left, right) if backend == "cuda" else None
    except GpuemuError as error:
        return SweepRow(name, d.mma_class, None, None, shared, holding, "accumulator", str(error))
    source = "accumulator" if registers is None else "kernel"
    worst = _error(result, exact, size)
    return SweepRow(name, d.mma_class, seconds, worst, shared, registers or holding, source)


def _operand(d: Descriptor, x: Any, index: int) -> Any:
    """Return an operand in a variant's precision and order: rounded to nearest by NumPy."""
    kind = (d.precision.a, d.precision.b)[index]
    host = arrays.to_numpy(x)
    if d.parts == 1 and host.dtype != kind.dtype and not _is_bits(host, kind.bits):
        host = host.astype(kind.dtype)
    host = (
        np.asfortranarray(host) if d.arrangement[index] == col_major else np.ascontiguousarray(host)
    )
    return arrays.to_cupy(host) if arrays.on_cuda(x) else host


def _is_bits(x: Array, bits: int) -> bool:
    return x.dtype.kind == "u" and x.itemsize * 8 == bits


def _time(d: Descriptor, a: Any, b: Any, backend: str, repeats: int) -> tuple[Array, float]:
    """Return the result and the median time; CUDA runs are warmed up and timed by events."""
    if backend == "cuda":
        return _time_cuda(d, a, b, repeats)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = matmul(d, a, b, backend=backend)
        times.append(time.perf_counter() - start)
    return arrays.to_numpy(result), float(np.median(times))


def _time_cuda(d: Descriptor, a: Any, b: Any, repeats: int) -> tuple[Array, float]:
    import cupy

    a, b = arrays.to_cupy(a), arrays.to_cupy(b)
    result = matmul(d, a, b, backend="cuda")
    times = []
    for _ in range(repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        result = matmul(d, a, b, backend="cuda")
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1000)
    return arrays.to_numpy(result), float(np.median(times))


def _registers(d: Descriptor, a: Any, b: Any) -> int | None:
    """Return registers a thread of the kernel; emulation runs several kernels and reports none."""
    if RequiredMantissaBits in d:
        return None
    from . import device

    return device.registers(make_call(d, a, b))


def _error(result: Array, exact: list[Array], size: Array) -> float:
    planes = [result] if len(exact) == 1 else [result.real, result.imag]
    worst = 0.0
    for got, want in zip(planes, exact, strict=True):
        gap = np.abs(got.astype(np.float64) - want)
        with np.errstate(invalid="ignore", divide="ignore"):
            worst = max(worst, float(np.max(np.where(gap == 0, 0.0, gap / size), initial=0.0)))
    return worst
