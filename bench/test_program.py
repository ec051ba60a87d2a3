"""Programs on resident registers: their time beside that of their instructions' kernels alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.backends import cuda
from gpuemu.mfma.program import Program
from gpuemu.mfma.wavefront import Wavefront

pytestmark = pytest.mark.skipif(not cuda.available(), reason=f"no device: {cuda.why_unavailable()}")

WAVES = 4096
STEPS = 1000
# Chains of five formats, each on its own registers, as the inner loops of kernels have them.
LOOP = """
v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
v_mfma_f32_16x16x16_bf16 a[16:19], v[4:5], v[6:7], a[16:19]
v_mfma_f32_16x16x32_fp8_fp8 a[20:23], v[0:1], v[6:7], a[20:23]
v_mfma_f64_16x16x4_f64 a[24:31], v[2:3], v[4:5], a[24:31]
v_mfma_i32_32x32x16_i8 a[32:47], v[0:1], v[2:3], a[32:47]
"""


def wavefront() -> Wavefront:
    """Return 4,096 wavefronts with small numbers in their registers, on the device."""
    r = np.random.default_rng(0)
    files = [r.integers(0, 2**32, (WAVES, n, 64), np.uint32) & 0x3C3F3C3F for n in (8, 48)]
    return Wavefront("gfx942", vgprs=files[0], accvgprs=files[1], backend="cuda")


def seconds(run: Any, repeats: int = 3) -> float:
    """Return the shortest time of a call, as the device measures it."""
    import cupy

    run()
    times = []
    for _ in range(repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return min(times)


def kernel_seconds(w: Wavefront, line: str) -> float:
    """Return the time of one instruction's own kernel, from 50 launches."""
    program = Program.read(line, "gfx942")
    schedule = w.schedule(program)
    launch = schedule.launches[0]  # the rest is the copy back

    def run() -> None:
        for _ in range(50):
            launch()

    return seconds(run) / 50


def test_program_costs_what_its_kernels_cost(benchmark: Any) -> None:
    """1,000 instructions over 4,096 wavefronts, within 1.3 of the kernels' own time summed."""
    w = wavefront()
    lines = LOOP.strip().split("\n")
    alone = {line: kernel_seconds(w, line) for line in lines}
    summed = sum(alone.values()) * STEPS / len(lines)
    schedule = w.schedule(Program.read("\n".join(lines * (STEPS // len(lines))), "gfx942"))
    took = seconds(schedule.run)
    benchmark.extra_info.update(
        instructions=STEPS,
        wavefronts=WAVES,
        seconds=took,
        kernels_summed=summed,
        ratio=took / summed,
        kernels={line.split()[0]: time for line, time in alone.items()},
    )
    benchmark.pedantic(lambda: seconds(schedule.run, repeats=1), rounds=1)
    assert took <= 1.3 * summed
