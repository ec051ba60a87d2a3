"""`gpuemu gemm emulate`: error and speed against mantissa bits on your own matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..gemm.emulation.analysis import Point


def register(gemm_app: typer.Typer) -> None:
    """Add `emulate` to the `gemm` commands."""
    gemm_app.command(name="emulate")(emulate)


def emulate(
    a: Annotated[Path | None, typer.Argument(help="A.npy, float32 or float64 (M, K).")] = None,
    b: Annotated[Path | None, typer.Argument(help="B.npy (K, N).")] = None,
    normal: Annotated[
        str, typer.Option(help="Without files: normal data of these extents, M,N,K.")
    ] = "512,512,512",
    dtype: Annotated[str, typer.Option(help="Without files: float32 or float64.")] = "float64",
    bits: Annotated[str, typer.Option(help="Mantissa bits to try.")] = "7,15,23,31,39,47,55",
    schemes: Annotated[str, typer.Option(help="slices, crt, or both.")] = "slices,crt",
    slice_rounding: Annotated[str, typer.Option(help="truncate or nearest.")] = "truncate",
    backend: Annotated[str, typer.Option(help="auto, cuda, host or numpy.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls; the median counts.")] = 3,
    plot: Annotated[
        Path | None, typer.Option(help="Write the two curves to this image (needs matplotlib).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure what each number of mantissa bits costs and reaches, beside native."""
    from ..gemm.emulation import analysis
    from ._output import check_picture, write_whole

    if plot is not None:
        check_picture(plot)
    left, right = _operands(a, b, normal, dtype)
    points = analysis.curve(
        left, right, _integers("bits", bits), schemes.split(","), slice_rounding, backend, repeats
    )
    if plot is not None:
        write_whole(plot, lambda path: analysis.plot(points, path))
    if as_json:
        print(json.dumps([point.to_dict() for point in points], indent=2, allow_nan=False))
    else:
        _table(points)


def _integers(name: str, text: str) -> list[int]:
    from ..errors import BadValue

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadValue(f"{name}={text!r}; legal: integers separated by commas") from None


def _operands(a: Path | None, b: Path | None, normal: str, dtype: str) -> tuple[Any, Any]:
    import numpy as np

    from ..errors import BadValue
    from ._values import load_array

    if (a is None) != (b is None):
        raise BadValue(f"A={a}, B={b}; legal: both files, or neither")
    if a is not None and b is not None:
        return load_array(a), load_array(b)
    extents = _integers("normal", normal)
    if len(extents) != 3 or min(extents) < 1:
        raise BadValue(f"normal={normal!r}; legal: M,N,K, each at least 1")
    if dtype not in ("float32", "float64"):
        raise BadValue(f"dtype={dtype!r}; legal: float32, float64")
    random = np.random.default_rng(0)
    m, n, k = extents
    return random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(
        dtype
    )


def _table(points: Sequence[Point]) -> None:
    from ._output import console, table

    numbers = ("bits", "products", "max error", "reached", "rms error", "ms", "TFLOP/s")
    shown = table("scheme", *numbers, "speed-up", right=(*numbers, "speed-up"))
    for p in points:
        counts = (str(p.bits), str(p.products))
        errors = (f"{p.max_error:.1e}", f"{p.reached_bits:.1f}", f"{p.rms_error:.1e}")
        speed = (f"{p.ms:.3f}", f"{p.tflops:.2f}", f"{p.speedup:.2f}")
        shown.add_row(p.scheme, *counts, *errors, *speed)
    console().print(shown)
