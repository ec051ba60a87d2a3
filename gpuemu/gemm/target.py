"""An AMD target in place of SM: the same descriptor, computed by the matrix cores of a CDNA
chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BadValue
from .operators import Operator

if TYPE_CHECKING:
    from .call import GemmCall

# Local data share of a workgroup in bytes.
LDS_BYTES = {"gfx908": 65536, "gfx90a": 65536, "gfx942": 65536, "gfx950": 163840}


@dataclass(frozen=True)
class Target(Operator):
    """A CDNA chip, and the matrix instruction that a kernel would issue along K.

    Parameters
    ----------
    arch : {"gfx908", "gfx90a", "gfx942", "gfx950"}
    instruction : str, optional
        A mnemonic; by default the dense instruction for the descriptor's precision with the longest
        K.

    Examples
    --------
    >>> from gpuemu.gemm import Function, Precision, Size
    >>> d = Size(32, 32, 8) + Precision("f16", "f16", "f32") + Function("MM") + Target("gfx942")
    >>> d.mma_class, d.is_complete
    ('mfma', True)
    """

    keyword: ClassVar[str] = "target"
    arch: str
    instruction: str | None = None

    def __post_init__(self) -> None:
        if self.arch not in LDS_BYTES:
            raise BadValue(f"Target({self.arch!r}) is no CDNA chip; legal: {', '.join(LDS_BYTES)}")

    @property
    def lds_bytes(self) -> int:
        """Local data share of a workgroup in bytes."""
        return LDS_BYTES[self.arch]


def select_instruction(target: Target, precision: tuple[str, str, str]) -> Any:
    """Return the instruction object that multiplies a precision on a target.

    Raises
    ------
    BadValue
        The named instruction takes other formats, or the chip has none for them.
    """
    from ..mfma.instructions import instruction, instructions

    if target.instruction is not None:
        chosen = instruction(target.instruction, arch=target.arch)
        got = _formats(chosen)
        if got != precision:
            raise BadValue(
                f"{chosen.mnemonic} multiplies {got} (A, B, C), the descriptor has {precision}"
            )
        return chosen
    fitting = [i for i in instructions(arch=target.arch, kind="mfma") if _formats(i) == precision]
    if not fitting:
        raise BadValue(
            f"{target.arch} has no dense matrix instruction for {precision} (A, B, C); "
            "legal: the formats that gpuemu.instructions(arch=...) lists"
        )
    return max(fitting, key=lambda i: (i.K, i.M, -i.blocks))


def _formats(instruction: Any) -> tuple[str, str, str]:
    """Return the element names of an instruction as a descriptor spells them; xf32 is tf32's
    counterpart."""
    names = [instruction.formats[x] for x in ("A", "B", "C")]
    a, b, c = ("tf32" if name == "xf32" else name for name in names)
    return a, b, c


def run_target(call: GemmCall, backend: str) -> Any:
    """Return A B as the target's instructions chain it along K."""
    from ..mfma.matmul import matmul

    if call.parts == 2:
        raise BadValue("Type is complex; an AMD target multiplies real matrices")
    target = call.descriptor.get(Target)
    assert target is not None
    chosen = select_instruction(target, call.descriptor.precision.names)
    return matmul(call.a.array, call.b.array, instruction=chosen, backend=backend)
