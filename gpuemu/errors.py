"""Every exception and architectural fault of the project.

All errors derive from `GpuemuError`. A message names the offending value, the rule, the
instruction, and what would be legal. The Python base classes (`ValueError`, `TypeError`, …) are
kept, so that callers may catch either.
"""

from __future__ import annotations


class GpuemuError(Exception):
    """Base of every error that the project raises on purpose."""


class BadValue(GpuemuError, ValueError):
    """A value that the rules do not allow."""


class BadType(GpuemuError, TypeError):
    """A Python type or dtype that the rules do not allow."""


class BadShape(BadValue):
    """An array whose shape does not fit."""


class BadFile(BadValue):
    """A file that is missing, corrupt, or of another format."""


class UnknownInstruction(GpuemuError, LookupError):
    """A mnemonic, alias or builtin name that no table row has."""


class UnknownFormat(GpuemuError, LookupError):
    """A number format name that no table row has."""


class UnknownModel(GpuemuError, LookupError):
    """An arithmetic model name that no table row has."""


class AssemblyError(BadValue):
    """Assembly text, a builtin call or machine words that are no legal instruction.

    Attributes
    ----------
    column : int or None
        Where in the text, counted from 1; None for machine words.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        super().__init__(message)
        self.column = column


class IllegalModifier(BadValue):
    """A modifier value that the instruction does not allow in the chosen legality mode."""


class BackendUnavailable(GpuemuError, RuntimeError):
    """A backend that this machine cannot run, with the reason."""


class CompileError(GpuemuError, RuntimeError):
    """A kernel or host build that its compiler rejected; the message holds the compiler's log."""


class Mismatch(GpuemuError, AssertionError):
    """Two implementations disagree: where, both bit patterns, and a line that repeats the case."""


class ArchitecturalFault(GpuemuError):
    """A fault that an emulated machine takes instead of an effect.

    Attributes
    ----------
    fault : str
        The architecture's own name.
    trap : int
        The number it is delivered as.
    address : int or None
        Byte offset, in the program that was given, of the word that was executing.
    """

    fault = ""
    trap = 0

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.fault}: {message}")
        self.address: int | None = None


class TileLegalityFault(ArchitecturalFault):
    """Fault_TileLegality: a bundle that the instruction's contract does not allow."""

    fault = "Fault_TileLegality"
    trap = 5


class TileAllocationFault(ArchitecturalFault):
    """Fault_TileAllocation: no register, no capacity or no shape for a destination tile."""

    fault = "Fault_TileAllocation"
    trap = 5


class BundleControlFault(ArchitecturalFault):
    """Fault_BundleControl: a bundle word where it may not stand."""

    fault = "Fault_BundleControl"
    trap = 5


class IllegalInstructionFault(ArchitecturalFault):
    """Fault_IllegalInstruction: an unassigned or reserved encoding."""

    fault = "Fault_IllegalInstruction"
    trap = 4


class PipelineRefused(BadValue):
    """A GEMM pipeline that was not made; `.error` has the code and the reason."""

    def __init__(self, error: object) -> None:
        super().__init__(str(error))
        self.error = error
