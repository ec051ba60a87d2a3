"""Error and speed against mantissa bits on the user's own matrices."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import dispatch
from ...backends import arrays
from ...errors import BadShape, BadValue
from . import execute, request
from .report import emulation_report

#: Outputs that are graded: at most this many rows and columns, spread over the result.
SAMPLE_ROWS, SAMPLE_COLUMNS = 48, 256


@dataclass(frozen=True)
class Point:
    """One way to compute the product.

    `max_error` is the largest `|error| / (|A| |B|)` of an output, `rms_error` the error's RMS over
    the result's; `reached_bits` is `-log2(max_error)`. Times are medians in milliseconds.
    """

    scheme: str
    rounding: str
    bits: int
    planes: int
    products: int
    max_error: float
    rms_error: float
    ms: float
    tflops: float
    speedup: float

    @property
    def reached_bits(self) -> float:
        """Bits of the largest relative error."""
        return float(-np.log2(self.max_error)) if self.max_error > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Return every column, for JSON; None where an exact product reached endless bits."""
        columns = asdict(self) | {"reached_bits": self.reached_bits}
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in columns.items()
        }


def curve(
    A: Any,
    B: Any,
    bits: Sequence[int] = (7, 15, 23, 31, 39, 47, 55),
    schemes: Sequence[str] = ("slices", "crt"),
    slice_rounding: str = "truncate",
    backend: str = "auto",
    repeats: int = 3,
) -> list[Point]:
    """Return the native product and every emulated one, graded and timed.

    Parameters
    ----------
    A, B : float32 or float64 arrays (M, K), (K, N)
        Finite, and so their product natively; the reference, on sampled outputs, is float64 (for
        float32) or long double.
    bits : sequence of int
        Mantissa bits to try.
    schemes : sequence of str
        "slices", "crt".
    repeats : int
        Timed calls; the median counts.

    Raises
    ------
    BadShape, BadType, BadValue
        Before anything is computed, but for a product that overflows.
    """
    settings = [
        (scheme, x, request.options(x, scheme, slice_rounding, "fixed", "auto", None))
        for scheme in schemes
        for x in bits
    ]
    for name, x in (("A", A), ("B", B)):
        if getattr(x, "ndim", 2) != 2:
            raise BadShape(f"{name} has shape {tuple(x.shape)}; legal: a matrix")
    for _, _, options in settings:
        request.validate(A, B, None, 1.0, 0.0, options, timing=False)
    chosen = dispatch.resolve(backend, (A, B))
    convert = arrays.to_cupy if chosen == "cuda" else arrays.to_numpy
    a, b = convert(A), convert(B)
    for name, array in (("A", a), ("B", b)):
        if not (abs(array) < np.inf).all():
            raise BadValue(f"{name} holds a NaN or an infinity; legal: finite numbers")
    grade = Grader(a, b)
    points: list[Point] = []
    work = 2e-9 * a.shape[0] * b.shape[1] * a.shape[1]

    def add(scheme: str, rounding: str, x: int, call: Callable[[], Any]) -> None:
        result = call()
        planes, products = (0, 0) if scheme == "native" else _planes()
        ms = _median_ms(call, chosen, repeats)
        speedup = points[0].ms / ms if points else 1.0
        points.append(
            Point(scheme, rounding, x, planes, products, *grade(result), ms, work / ms, speedup)
        )

    with np.errstate(over="ignore", invalid="ignore"):
        add("native", "-", 24 if a.dtype == np.float32 else 53, lambda: a @ b)
    if not np.isfinite(points[0].rms_error):
        raise BadValue("A @ B overflows natively: it has no error to compare with; scale A or B")
    emulated = partial(
        execute.emulated_matmul,
        a,
        b,
        split_k="auto",
        slice_rounding=slice_rounding,
        backend=backend,
    )
    for scheme, x, _ in settings:
        rounding = slice_rounding if scheme == "slices" else "nearest"
        add(scheme, rounding, x, partial(emulated, scheme=scheme, mantissa_bits=x))
    return points


def _planes() -> tuple[int, int]:
    report = emulation_report()
    return report.planes, report.products


def _median_ms(call: Callable[[], Any], backend: str, repeats: int) -> float:
    if backend == "cuda":
        from .tuning import median_ms

        return median_ms(call, repeats, warm=1)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


class Grader:
    """Errors of a result on sampled outputs, against a product in a wider type."""

    def __init__(self, a: Any, b: Any) -> None:
        self.rows = _spread(a.shape[0], SAMPLE_ROWS)
        self.columns = _spread(b.shape[1], SAMPLE_COLUMNS)
        wide: Any = np.float64 if a.dtype == np.float32 else np.longdouble
        x = arrays.to_numpy(a[self.rows]).astype(wide)
        y = arrays.to_numpy(b[:, self.columns]).astype(wide)
        self.exact, self.magnitude = x @ y, np.abs(x) @ np.abs(y)

    def __call__(self, result: Any) -> tuple[float, float]:
        """Return (largest error over |A||B|, RMS error over RMS result)."""
        got = arrays.to_numpy(result[self.rows][:, self.columns]).astype(self.exact.dtype)
        error = np.abs(got - self.exact)
        relative = np.divide(
            error, self.magnitude, out=np.zeros_like(error), where=self.magnitude > 0
        )
        size = float(np.sqrt(np.mean(self.exact**2)))
        return float(relative.max(initial=0.0)), float(
            np.sqrt(np.mean(error**2))
        ) / size if size else 0.0


def _spread(extent: int, most: int) -> Any:
    return np.unique(np.linspace(0, max(extent - 1, 0), min(extent, most)).astype(int))


def plot(points: Sequence[Point], path: Path) -> None:
    """Draw error and speed against mantissa bits, beside native, to an image file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    native = points[0]
    for scheme in dict.fromkeys(p.scheme for p in points[1:]):
        own = [p for p in points if p.scheme == scheme]
        label = f"{scheme} ({own[0].rounding})"
        left.semilogy(
            [p.bits for p in own], [max(p.max_error, 1e-20) for p in own], "o-", label=label
        )
        right.plot([p.bits for p in own], [p.tflops for p in own], "o-", label=label)
    left.axhline(max(native.max_error, 1e-20), color="gray", linestyle="--", label="native")
    right.axhline(native.tflops, color="gray", linestyle="--", label="native")
    left.set(xlabel="mantissa bits", ylabel="largest error / (|A||B|)", title="error")
    right.set(xlabel="mantissa bits", ylabel="TFLOP/s", title="speed")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
