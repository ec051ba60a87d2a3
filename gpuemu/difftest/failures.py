"""What is wrong with one case."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Case


@dataclass(frozen=True)
class Failure:
    """One failing case: where its first wrong register is, or what the subject did instead of an
    answer.

    Attributes
    ----------
    case : Case
    registers : int
        How many registers differ; 0 where there is no answer.
    vgpr, lane : int
    element : tuple of int
        (block, row, column) of the matrix element in that register.
    got, want : str
        Hex bits of the element.
    message : str
        What went wrong, where there is no answer.
    """

    case: Case
    registers: int = 0
    vgpr: int = 0
    lane: int = 0
    element: tuple[int, ...] = ()
    got: str = ""
    want: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the failure in one line."""
        if self.message:
            return self.message
        place = ",".join(map(str, self.element))
        return (
            f"D[{place}] (VGPR {self.vgpr}, lane {self.lane}): got {self.got}, want {self.want}; "
            f"{self.registers} registers differ"
        )
