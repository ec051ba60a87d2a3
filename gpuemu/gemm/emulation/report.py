"""What the last emulated product of this thread did: `emulation_report()`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import BadValue
from .scheme import ENDLESS, Setting


@dataclass(frozen=True)
class EmulationReport:
    """Facts of one `emulated_matmul` call.

    `planes` counts slices or moduli, `products` int8 matrix products of the size of the problem
    (times the batch), `bits_reached` the bits kept below a vector's largest element (slices) or
    norm (crt), 0 where the product went native. `rows_native` and `columns_native` follow IEEE
    rules because they hold an infinity or NaN. `stage_ms` is empty unless the call had
    `timing=True` on CUDA.
    """

    shape: tuple[int, int, int]
    dtype: str
    backend: str
    scheme: str
    planes: int
    products: int
    bits_asked: int
    bits_reached: float
    exponent_span: int | None
    rows_native: int
    columns_native: int
    k_ranges: int
    workspace_bytes: int
    blocks: tuple[int, int]
    stage_ms: dict[str, float]
    note: str


@dataclass
class Record:
    """A report being written; what lies on the device is fetched when it is asked for."""

    shape: tuple[int, int, int]
    dtype: str
    backend: str
    setting: Setting
    bits: int
    timing: bool
    exponent_span: int | None = None
    runs: int = 0
    k_ranges: int = 1
    workspace_bytes: int = 0
    blocks: tuple[int, int] = (0, 0)
    stages: list[tuple[str, Callable[[], float]]] = field(default_factory=list)
    counts: list[Callable[[], tuple[int, int]]] = field(default_factory=list)
    note: str = ""

    def raise_to(self, setting: Setting, span: int) -> None:
        """Note what dynamic control chose."""
        self.exponent_span = span
        if setting.scheme == "native":
            limit = "8 slices" if self.setting.scheme == "slices" else "16 moduli"
            self.note = f"native: exponents spread over {span} bits, more than {limit} can keep"
            if span == ENDLESS:
                self.note = "native: of some output the estimate sees no product above zero"
        elif setting.planes > self.setting.planes:
            self.note = (
                f"dynamic control: exponents spread over {span} bits, "
                f"{self.setting.planes} planes became {setting.planes}"
            )
        self.setting = setting

    def count_nonfinite(self, rows: int, columns: int) -> None:
        """Add a matrix product whose counts are known."""
        self.runs += 1
        self.counts.append(lambda: (rows, columns))

    def finish(self) -> EmulationReport:
        """Fetch what is still on the device."""
        counted = [count() for count in self.counts]
        stages: dict[str, float] = {}
        for name, elapsed in self.stages:
            stages[name] = stages.get(name, 0.0) + elapsed()
        note = self.note
        if self.setting.scheme == "native" and not note:
            note = "native: measured faster on this device for this shape"
        return EmulationReport(
            self.shape,
            self.dtype,
            self.backend,
            self.setting.scheme,
            self.setting.planes,
            self.setting.products * self.runs,
            self.bits,
            self.setting.bits_reached,
            self.exponent_span,
            sum(rows for rows, _ in counted),
            sum(columns for _, columns in counted),
            self.k_ranges,
            self.workspace_bytes,
            self.blocks,
            stages,
            note,
        )


_last = threading.local()


def went_native() -> bool:
    """Tell whether this thread's last product was native."""
    record: Record = _last.record
    return record.setting.scheme == "native"


def publish(record: Record) -> None:
    """Make a record this thread's last."""
    _last.record = record


def emulation_report() -> EmulationReport:
    """Return what this thread's last `emulated_matmul` did; see `EmulationReport`."""
    record = getattr(_last, "record", None)
    if record is None:
        raise BadValue("emulation_report() before any emulated_matmul in this thread")
    report: EmulationReport = record.finish()
    return report
