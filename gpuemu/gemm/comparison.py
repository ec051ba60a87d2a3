"""One description on several targets: where their results part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import arrays
from ..errors import BadValue
from .execute import matmul
from .operators import SM, WithPipeline
from .target import Target

if TYPE_CHECKING:
    from .descriptor import Descriptor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """How the results of two targets differ.

    Attributes
    ----------
    left, right : str
        The targets.
    count, total : int
        Elements that differ in bits, and all.
    first : (row, column) or None
    bits : (str, str) or None
        Hex bits of both there.
    largest : float
        Largest absolute difference among finite elements.
    """

    left: str
    right: str
    count: int
    total: int
    first: tuple[int, int] | None
    bits: tuple[str, str] | None
    largest: float


@dataclass(frozen=True)
class Comparison:
    """Results by target, and the differences of every pair."""

    results: dict[str, Array]
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        """Whether all targets agree in every bit."""
        return all(d.count == 0 for d in self.differences)


def target_name(op: SM | Target) -> str:
    """Return what a table calls a target."""
    return (
        op.name
        if isinstance(op, SM)
        else op.arch + (f" {op.instruction}" if op.instruction else "")
    )


def compare(
    d: Descriptor, a: Any, b: Any, targets: Sequence[SM | Target], c: Any = None, **options: Any
) -> Comparison:
    """Run one description on several targets and return where the bits part.

    Parameters
    ----------
    d : Descriptor
        Its own SM or Target, if any, is replaced.
    a, b, c : arrays
        Whole matrices.
    targets : sequence of SM and Target
        Two or more.
    **options
        As for `matmul`: alpha, beta, ragged, backend.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuemu.gemm import Arrangement, Block, Function, Precision, Size, row_major
    >>> d = (Size(16, 8, 16) + Precision("f16", "f16", "f32") + Function("MM") + Block()
    ...      + Arrangement(row_major, row_major, row_major))
    >>> a, b = np.zeros((16, 16), "f2"), np.zeros((16, 8), "f2")
    >>> a[0, :4], b[:4, 0] = (1, 2**-12, 2**-12, -1), (1, 2**-13, 2**-13, 1)
    >>> compare(d, a, b, [SM(800), SM(900)], backend="numpy").differences[0].bits
    ('00000000', '33800000')
    """
    if len(targets) < 2:
        raise BadValue(f"{len(targets)} target(s): a comparison needs two and more")
    base = d.without(SM, Target, WithPipeline)
    results = {}
    for op in targets:
        name = target_name(op)
        if name in results:
            raise BadValue(f"{name} is given twice; legal: different targets")
        results[name] = arrays.to_numpy(matmul(base + op, a, b, c, **options))
    pairs = combinations(results, 2)
    return Comparison(results, tuple(difference(x, results[x], y, results[y]) for x, y in pairs))


def difference(left: str, x: Array, right: str, y: Array) -> Difference:
    """Compare two results bit by bit; any NaN equals any NaN."""
    parts = x.itemsize // (2 if x.dtype.kind == "c" else 1)
    real = np.dtype(f"{'f' if x.dtype.kind == 'c' else x.dtype.kind}{parts}")
    flat = [np.ascontiguousarray(side).view(real).reshape(x.shape[0], -1) for side in (x, y)]
    bits = [side.view(np.dtype(f"u{parts}")) for side in flat]
    differs = bits[0] != bits[1]
    if real.kind == "f":
        differs &= ~(np.isnan(flat[0]) & np.isnan(flat[1]))
    wide = [side.astype(np.float64) for side in flat]
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    gap = np.abs(np.subtract(wide[0], wide[1], where=finite, out=np.zeros(finite.shape)))
    first = bits_there = None
    if differs.any():
        i, j = (int(v) for v in np.argwhere(differs)[0])
        first = (i, j * x.shape[1] // flat[0].shape[1])
        bits_there = (f"{int(bits[0][i, j]):0{2 * parts}X}", f"{int(bits[1][i, j]):0{2 * parts}X}")
    return Difference(
        left,
        right,
        int(differs.sum()),
        differs.size,
        first,
        bits_there,
        float(gap.max(initial=0.0)),
    )
