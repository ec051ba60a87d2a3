"""Emulated precision: float32 and float64 products from int8 products, exact in int32.

`emulated_matmul` is the door; `emulation_report` says what the last call did.
"""

from .execute import emulated_matmul
from .report import EmulationReport, emulation_report

__all__ = ["EmulationReport", "emulated_matmul", "emulation_report"]
