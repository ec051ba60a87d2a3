"""Keeps the CPU side from getting slower: host build and oracle beside NumPy in the same process.

    python bench/guard.py             # compare with bench/guard.json; exit code 1 where slower
    python bench/guard.py --update    # write bench/guard.json

No time is compared with a time of another run. Each workload runs by turns with a reference that
never changes, plain loops of NumPy on one thread; the fastest of many turns is what the machine can
do when nobody disturbs it, and the ratio of the two is what is kept. It fails where a ratio is more
than 2.5 times the kept one: a lost compiler option, an accidental copy, a quadratic loop; not the
noise of a busy machine or another processor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuemu
from gpuemu.backends import host
from gpuemu.gemm import emulated_matmul

KEPT = Path(__file__).with_name("guard.json")
FACTOR = 2.5
TURNS = 15

# Instruction, architecture, wavefronts on the host build, wavefronts on the oracle.
INSTRUCTIONS = (
    ("v_mfma_f32_16x16x4_f32", "gfx942", 4096, 256),
    ("v_mfma_f32_16x16x16f16", "gfx908", 512, 32),
    ("v_mfma_f32_16x16x16f16", "gfx90a", 2048, 64),
    ("v_mfma_f32_16x16x16_f16", "gfx942", 1024, 32),
    ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942", 512, 16),
    ("v_mfma_i32_16x16x32_i8", "gfx942", 4096, 128),
    ("v_smfmac_f32_16x16x32_f16", "gfx942", 64, 32),
)

Work = Callable[[], object]


def reference() -> Work:
    """Return the workload that everything is measured against, about a millisecond.

    Running sums, gathers and rounding: loops that NumPy runs alike on every processor, where
    sorting, say, is several times quicker with wide vectors.
    """
    rng = np.random.default_rng(0)
    values, places = rng.standard_normal(1 << 15), rng.integers(0, 1 << 15, 1 << 15)

    def work() -> None:
        for _ in range(8):
            sums = np.cumsum(values[places])
            np.floor(np.sqrt(sums * sums + 1.0)).astype(np.int64)

    return work


def workloads() -> dict[str, Work]:
    """Return what is kept from getting slower, by name."""
    rng = np.random.default_rng(0)
    backends = ("numpy", "host") if host.available() else ("numpy",)
    found: dict[str, Work] = {}
    for name, arch, *counts in INSTRUCTIONS:
        i = gpuemu.instruction(name, arch)
        a = i.pack("A", rng.standard_normal((i.M, i.products)).astype(np.float32).astype(_dtype(i)))
        b = i.pack("B", rng.standard_normal((i.K, i.N)).astype(np.float32).astype(_dtype(i)))
        extra = {"idx": np.full((1, 64), 0x44444444, np.uint32)} if i.sparse else {}
        for backend, waves in zip(("host", "numpy"), counts, strict=True):
            if backend in backends:
                c = np.zeros((waves, i.vgprs["C"], 64), np.uint32)
                found[f"{backend} {arch} {name}"] = _call(i, a, b, c, backend, extra)
    bits = rng.integers(0, 1 << 16, 1 << 14, dtype=np.uint16)
    x, y = (rng.standard_normal((48, 48)) for _ in range(2))
    for backend in backends:
        found[f"{backend} TFMA FP16"] = lambda backend=backend: gpuemu.tile.fma(  # type: ignore[misc]
            bits, bits, bits, "FP16", backend=backend
        )
        found[f"{backend} emulated float64"] = lambda backend=backend: emulated_matmul(  # type: ignore[misc]
            x, y, mantissa_bits=52, scheme="crt", backend=backend
        )
    return found


def _dtype(i: gpuemu.Instruction) -> Any:
    return i.operand_format("A").dtype


def _call(i: Any, a: Any, b: Any, c: Any, backend: str, extra: dict[str, Any]) -> Work:
    return lambda: gpuemu.execute(i, a, b, c, **extra, backend=backend)


def seconds(work: Work) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ratio(work: Work, beside: Work, turns: int) -> float:
    """Return the fastest call of `work` over the fastest of `beside`, taken by turns."""
    work()
    pairs = [(seconds(work), seconds(beside)) for _ in range(turns)]
    return min(x for x, _ in pairs) / min(y for _, y in pairs)


def slower(found: dict[str, float], kept: dict[str, float], factor: float) -> list[str]:
    """Return the names whose ratio is more than `factor` times the kept one."""
    return [name for name, value in found.items() if value > factor * kept.get(name, value)]


def main() -> int:
    """Measure, print, compare; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="keep what is measured now")
    update = parser.parse_args().update
    beside, works = reference(), workloads()
    turns = 4 * TURNS if update else TURNS
    found = {name: ratio(work, beside, turns) for name, work in works.items()}
    if update:
        text = json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1)
        KEPT.write_text(text + "\n", encoding="utf-8")
        print(f"{len(found)} ratios kept in {KEPT.name}")
        return 0
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    # A suspect gets a second and a third chance before it counts: a disturbance passes.
    for _ in range(2):
        for name in slower(found, kept, FACTOR):
            found[name] = min(found[name], ratio(works[name], beside, 2 * TURNS))
    late = slower(found, kept, FACTOR)
    for name, value in found.items():
        mark = "  SLOWER" if name in late else ""
        print(f"{name:46} {value:8.2f} times NumPy, kept {kept.get(name, value):8.2f}{mark}")
    print(f"{len(late)} of {len(found)} more than {FACTOR:g} times slower than kept")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
