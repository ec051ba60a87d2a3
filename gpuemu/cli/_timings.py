"""Reads measured times: the JSON of `gpuemu bench`, or of pytest-benchmark."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadFile
from ._files import read_text


@dataclass(frozen=True)
class Timings:
    """One file.

    Attributes
    ----------
    facts : str
        Device, processor and versions, as far as the file says, on one line.
    medians : dict of name to seconds
    """

    facts: str
    medians: dict[str, float]


def read(path: Path) -> Timings:
    """Return the medians of a file.

    Raises
    ------
    BadFile
        Where it cannot be read, is no JSON, of another format, without a benchmark, or holds a
        time that is no positive number.
    """
    try:
        found = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BadFile(f"{path}: no JSON: {error}") from None
    try:
        made = _pytest_benchmark(found) if "benchmarks" in found else _gpuemu_bench(found)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(
            f"{path}: not of a known format ({type(error).__name__}: {error}); legal: the output "
            "of `gpuemu bench --json` or of pytest-benchmark, as `make bench` writes it"
        ) from None
    if not made.medians:
        raise BadFile(f"{path}: holds no benchmark")
    for name, value in made.medians.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise BadFile(f"{path}: the median of {name} is {value!r}; legal: seconds above 0")
    return made


def _pytest_benchmark(found: dict[str, Any]) -> Timings:
    machine = found.get("machine_info", {})
    device, gpuemu = machine.get("gpu", {}), machine.get("gpuemu", "")
    cpu = machine.get("cpu", {}).get("brand_raw", "")
    parts = (device.get("name"), cpu, gpuemu and f"gpuemu {gpuemu}", found.get("datetime"))
    medians = {row["fullname"]: row["stats"]["median"] for row in found["benchmarks"]}
    return Timings(", ".join(str(part) for part in parts if part), medians)


def _gpuemu_bench(found: dict[str, Any]) -> Timings:
    facts = found["facts"]
    devices = [device["name"] for device in facts["devices"]]
    parts = (*devices, facts["processor"], f"gpuemu {facts['gpuemu']}", facts["date"])
    medians = {
        f"{row['instruction']} ({row['arch']}), {row['backend']}, {row['waves']} waves": row[
            "median_s"
        ]
        for row in found["rows"]
    }
    return Timings(", ".join(parts), medians)
