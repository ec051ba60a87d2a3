"""The operations of the tile machine: one row each.

A row says how an operation is selected, which bindings its bundle has, and which element types it
takes. What it computes is one function of the oracle (`oracle.ELEMENTS`) and one struct of the
device code (`cuda_src/tile_operations.cuh`), both under its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnknownInstruction
from .numeric import ELEMENT_TYPES


@dataclass(frozen=True)
class Operation:
    """One elementwise operation of the TEPL family, executed by the VEC engine.

    Attributes
    ----------
    name : str
        The mnemonic.
    selector : int
        Mode (two bits) and Function (five bits) of BSTART.TEPL.
    bindings : tuple of (int, bool)
        Sources and destination of each B.IOT, in order.
    contract_types : tuple of str
        Element types that the instruction's contract lists.
    """

    name: str
    selector: int
    bindings: tuple[tuple[int, bool], ...]
    contract_types: tuple[str, ...]
    engine: str = "VEC"

    @property
    def sources(self) -> int:
        """Return how many source tiles the operation reads."""
        return sum(count for count, _ in self.bindings)

    def types(self, dtype_set: str) -> tuple[str, ...]:
        """Return the element types of a `dtype_set`: "contract", or "adr0080" (all sixteen)."""
        return self.contract_types if dtype_set == "contract" else ELEMENT_TYPES


DTYPE_SETS = ("contract", "adr0080")

_FLOATS = ("FP16", "FP32", "BF16")
_NINE = ("S32", "U32", "FP32", "S16", "U16", "FP16", "BF16", "S8", "U8")
_SEVEN = ("S32", "U32", "FP32", "S16", "U16", "FP16", "BF16")
_TERNARY = ((2, False), (1, True))
_BINARY = ((2, True),)
_UNARY = ((1, True),)

_ROWS = (
    Operation("TFMA", 0x01C, _TERNARY, _FLOATS),
    Operation("TADD", 0x000, _BINARY, _NINE),
    Operation("TSUB", 0x001, _BINARY, _NINE),
    Operation("TMUL", 0x002, _BINARY, _SEVEN),
    Operation("TMAX", 0x00B, _BINARY, _NINE),
    Operation("TMIN", 0x00C, _BINARY, _NINE),
    Operation("TABS", 0x00F, _UNARY, _FLOATS),
    Operation("TNEG", 0x011, _UNARY, ("S32", "S16", "S8", *_FLOATS)),
)

OPERATIONS = {row.name: row for row in _ROWS}
SELECTORS = {row.selector: row for row in _ROWS}

# Assigned by the architecture, not emulated: a bundle that selects one is refused by name, where an
# unassigned selector is the architecture's own illegal instruction.
NOT_EMULATED = {
    0x003: "TDIV", 0x004: "TREM", 0x006: "TAND", 0x007: "TOR", 0x008: "TXOR", 0x009: "TSHL",
    0x00A: "TSHR",
    0x00D: "TCMP", 0x010: "TNOT", 0x012: "TEXP", 0x013: "TLOG", 0x014: "TRECIP", 0x015: "TSQRT",
    0x016: "TRSQRT", 0x017: "TRELU", 0x01A: "TSEL", 0x01B: "TCVT", 0x020: "TADDS", 0x021: "TSUBS",
    0x022: "TMULS", 0x023: "TDIVS", 0x024: "TREMS", 0x026: "TANDS", 0x027: "TORS", 0x028: "TXORS",
    0x029: "TSHLS", 0x02A: "TSHRS", 0x02B: "TMAXS", 0x02C: "TMINS", 0x02D: "TCMPS", 0x03A: "TSELS",
    0x03B: "TEXPANDS",
}  # fmt: skip


def operation(name: str) -> Operation:
    """Return an operation by its mnemonic; raise `UnknownInstruction` with the known ones."""
    try:
        return OPERATIONS[name]
    except (KeyError, TypeError):
        raise UnknownInstruction(
            f"tile operation {name!r}; legal: {', '.join(OPERATIONS)}"
        ) from None
