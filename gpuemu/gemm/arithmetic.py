"""Which arithmetic a descriptor stands for: the facts that oracle, host build and kernels all
follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BadType
from .operators import Operator
from .target import Target

if TYPE_CHECKING:
    from .traits import Traits


@dataclass(frozen=True)
class Arithmetic:
    """How one element of the accumulator comes about.

    Attributes
    ----------
    kind : {"integer", "chain", "fused", "mfma"}
        Exact modulo 2^n; one FMA after the other along k, rounded to C's type each; groups of
        products added at once as a tensor core does; or whatever the AMD target's instruction does.
    step : int
        K of one instruction: complex products alternate (ar br, -ai bi) in such steps.
    group : int
        Products of a fused sum; 1 for a chain.
    fraction, zero_exponent, output_fraction : int
        As in `TensorCore`; 0 where not fused.
    through_f16 : bool
        As in `TensorCore`.
    published : bool
        Whether bits are known to be those of the target: integers, FMA chains and published models.
    """

    kind: str
    step: int = 1
    group: int = 1
    fraction: int = 0
    zero_exponent: int = 0
    output_fraction: int = 0
    through_f16: bool = False
    published: bool = True


def arithmetic(d: Traits) -> Arithmetic:
    """Return the arithmetic of a complete descriptor.

    Examples
    --------
    >>> from gpuemu.gemm import SM, Function, Precision, Size
    >>> d = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM") + SM(900)
    >>> arithmetic(d).kind, arithmetic(d).group, arithmetic(d).fraction
    ('fused', 16, 25)
    """
    if isinstance(d, Operator):
        raise BadType(f"{d!r} is a {type(d).__name__}; legal: a descriptor, operators joined by +")
    if Target in d:
        return Arithmetic("mfma")
    instruction = d.instruction
    step = instruction.shape[2] if instruction else 1
    core = d.tensor_core
    if d.precision.c.is_integer:
        return Arithmetic("integer", step)
    if core is None:
        return Arithmetic("chain", step)
    if d.mma_class == "wgmma":
        step = 32 // d.precision.a.bytes
    group = min(step, core.group_bytes // d.precision.a.bytes)
    half = d.precision.c.name == "f16"
    zero = core.zero_exponent_f16 if half else core.zero_exponent_f32
    return Arithmetic(
        "fused",
        step,
        group,
        core.fraction,
        zero,
        10 if half else core.output_fraction,
        core.through_f16,
        core.published,
    )
