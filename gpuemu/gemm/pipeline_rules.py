"""The rules of pipelines: depth from shared memory, static rejections, error codes in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..errors import BadValue
from .operators import SM, RequiredMantissaBits, WithPipeline, integer
from .storage import round_up

if TYPE_CHECKING:
    from .descriptor import Descriptor

MAX_DEPTH = 16

MAX_EMULATED_K = 33025

BARRIER_BYTES = 16  # a full and an empty barrier a stage

RESERVED_BYTES = 32

Code = Literal[
    "none",
    "incompatible_k_dimensions",
    "tile_divisibility",
    "cluster_grid_divisibility",
    "insufficient_stages",
    "emulation_k_dimension_too_large",
    "allocation_failed",
    "unknown",
    "cuda",
]

CODES: tuple[Code, ...] = Code.__args__  # type: ignore[attr-defined]  # a Literal's own arguments

Storage = Literal["internal_accumulator", "reusable_accumulator", "external_accumulator"]

STORAGES = ("internal_accumulator", "reusable_accumulator", "external_accumulator")


@dataclass(frozen=True)
class PipelineError:
    """Why a pipeline could not be made.

    Attributes
    ----------
    code : str
        A name from `CODES`, in the order in which they are checked; "none" for a pipeline that was
        made.
    message : str
        The numbers and what would be legal.
    """

    code: Code
    message: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def stage_bytes(d: Descriptor, emulated: bool = False) -> int:
    """Return bytes of one stage: a slab of A and one of B, 128-byte aligned each, and its
    barriers."""
    widths = (1, 1) if emulated else (d.precision.a.bytes * d.parts, d.precision.b.bytes * d.parts)
    sizes = (d.a_size, d.b_size)
    return (
        sum(round_up(size * width, 128) for size, width in zip(sizes, widths, strict=True))
        + BARRIER_BYTES
    )


def suggested_depth(d: Descriptor, emulated: bool = False) -> int:
    """Return how many stages fit in the target's shared memory, at most 16.

    Examples
    --------
    >>> from gpuemu.gemm import SM, Function, Precision, Size
    >>> d = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM") + SM(900)
    >>> suggested_depth(d)
    14
    """
    m, n, _ = d.size
    reserved = RESERVED_BYTES + (15 + round_up(4 * m, 16) + 4 * n if emulated else 0)
    return min(MAX_DEPTH, max(d.shared_memory_available - reserved, 0) // stage_bytes(d, emulated))


def check_static(d: Descriptor, depth: int | None, storage: str, emulated: bool) -> None:
    if WithPipeline not in d:
        raise BadValue(f"a pipeline needs WithPipeline() in the descriptor: {d}")
    d.finalize()
    if storage not in STORAGES:
        raise BadValue(f"result_storage={storage!r}; legal: {', '.join(STORAGES)}")
    if depth is not None and not 1 <= integer(depth, "depth") <= MAX_DEPTH:
        raise BadValue(f"depth={depth}; legal: 1 to {MAX_DEPTH}")
    fits = suggested_depth(d, emulated)
    if fits < (depth or 1):
        raise BadValue(
            f"{depth or 1} stage(s) of {stage_bytes(d, emulated)} bytes do not fit in the "
            f"{d.shared_memory_available} bytes of shared memory of {d.target_name}; legal: a "
            "smaller tile" + (f", or depth up to {fits}" if fits else "")
        )


def first_error(
    d: Descriptor, extents: tuple[int, int, int], stages: int, emulated: bool
) -> PipelineError | None:
    """Return the first error in the original's order, or None."""
    checks: tuple[Callable[[], PipelineError | None], ...] = (
        lambda: _tiles(d, extents),
        lambda: _clusters(d, extents),
        lambda: _stages(d, extents[2], stages),
        lambda: _emulated_k(extents[2]) if emulated else None,
    )
    return next((error for check in checks if (error := check())), None)


def _tiles(d: Descriptor, extents: tuple[int, int, int]) -> PipelineError | None:
    wrong = [
        f"{name}={extent} is no multiple of {tile}"
        for name, extent, tile in zip("MNK", extents, d.size, strict=True)
        if extent % tile or extent == 0
    ]
    return PipelineError("tile_divisibility", "; ".join(wrong)) if wrong else None


def _clusters(d: Descriptor, extents: tuple[int, int, int]) -> PipelineError | None:
    tiles = extents[0] // d.size[0], extents[1] // d.size[1]
    cluster = d.blocks_per_cluster
    if tiles[0] % cluster[0] == 0 and tiles[1] % cluster[1] == 0:
        return None
    grid, shape = f"{tiles[0]}x{tiles[1]}", f"{cluster[0]}x{cluster[1]}"
    message = f"a grid of {grid} tiles is no whole number of {shape} clusters"
    return PipelineError("cluster_grid_divisibility", message)


def _stages(d: Descriptor, k: int, stages: int) -> PipelineError | None:
    steps = k // d.size[2]
    if steps >= stages:
        return None
    message = (
        f"K={k} gives {steps} steps of {d.size[2]}, the pipeline has {stages} stages "
        "(clamp_depth=True adapts a suggested depth)"
    )
    return PipelineError("insufficient_stages", message)


def _emulated_k(k: int) -> PipelineError | None:
    if k <= MAX_EMULATED_K:
        return None
    message = f"K={k} exceeds {MAX_EMULATED_K}; add the results of several pipelines along K"
    return PipelineError("emulation_k_dimension_too_large", message)


# Mantissa bits up to which emulation is predicted to beat the native type, by architecture: a model
# from published rates, not a measurement. 64 means always.
EMULATION_PAYS = {
    ("f64", 800): 39,
    ("f64", 900): 39,
    ("f64", 860): 64,
    ("f64", 890): 64,
    ("f64", 1200): 64,
    ("f64", 1210): 64,
    ("f32", 900): 31,
}


def emulates(d: Descriptor, emulation: str) -> bool:
    """Decide whether a pipeline emulates."""
    if emulation not in ("always", "auto", "never"):
        raise BadValue(f"emulation={emulation!r}; legal: 'always', 'auto', 'never'")
    request = d.get(RequiredMantissaBits)
    if request is None or emulation == "never":
        return False
    precision = d.precision.a
    arch = d.sm.arch if SM in d else 0
    beyond = request.bits > precision.significand
    return (
        emulation == "always"
        or beyond
        or request.bits <= EMULATION_PAYS.get((precision.name, arch), 64)
    )
