"""Register-level speed of every arithmetic class: instructions and multiply-adds a second.

Beside each figure stand its bounds and a peer, measured in the same run:

- the bytes of A, B, C and D over the device's copy bandwidth;
- the instructions of a multiply-add, counted in the kernel's machine code, over the rate at which
  the device issues them, and those of the integer pipe over that pipe's rate;
- MMA-Sim (PyPI `mmasim`), batched, on the same GPU and on one CPU thread, where it is installed.

On the CPU the bars are MMA-Sim's own speed for the oracle and twenty times that for the host build;
beside them stands the bound of the bytes again: what a copy of as many of them takes, by turns with
the call. f32 32x32x1 and f64 4x4x4 move 8 bytes for every multiply-add: a copy of those is 6 and 14
times MMA-Sim on an idle core, so that their bars lie beyond it. The oracle has bounds of its own:
19 passes over arrays for a fused multiply-add of f64, some ten with the layout for one of f32
32x32x1, at a quarter of a nanosecond each; MMA-Sim's C++ takes 5 and 2.3 nanoseconds.

    python bench/mfma_report.py [--cpu] [--json FILE]

MMA-Sim wants PyTorch, which is large: an environment of its own does, with this checkout on its
path: `pip install mmasim torch ninja numpy ml_dtypes typer rich`, then
`PYTHONPATH=. python bench/mfma_report.py --cpu`. Its f32 and f64 are C++ that it compiles when
imported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from facts import facts

import gpuemu
from gpuemu.backends import cuda
from gpuemu.difftest import generators, images
from gpuemu.mfma import device, models
from gpuemu.mfma.modifiers import Modifiers

# One row of every class: (architecture, mnemonic, MMA-Sim's name for it).
CLASSES = (
    ("gfx942", "v_mfma_f32_32x32x1_2b_f32", ("CDNA3", "f32_32x32x1_2b_f32")),
    ("gfx942", "v_mfma_f32_16x16x4_f32", ("CDNA3", "f32_16x16x4_f32")),
    ("gfx942", "v_mfma_f64_16x16x4_f64", ("CDNA3", "f64_16x16x4_f64")),
    ("gfx942", "v_mfma_f64_4x4x4_4b_f64", ("CDNA3", "f64_4x4x4_4b_f64")),
    ("gfx908", "v_mfma_f32_16x16x16f16", ("CDNA1", "f32_16x16x16f16")),
    ("gfx908", "v_mfma_f32_16x16x8bf16", ("CDNA1", "f32_16x16x8bf16")),
    ("gfx90a", "v_mfma_f32_16x16x16f16", ("CDNA2", "f32_16x16x16f16")),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", ("CDNA2", "f32_16x16x8bf16")),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", ("CDNA2", "f32_16x16x16bf16_1k")),
    ("gfx942", "v_mfma_f32_16x16x16_f16", ("CDNA3", "f32_16x16x16_f16")),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", ("CDNA3", "f32_16x16x16_bf16")),
    ("gfx942", "v_mfma_f32_4x4x4_16b_f16", ("CDNA3", "f32_4x4x4_16b_f16")),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", ("CDNA3", "f32_16x16x8_xf32")),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", ("CDNA3", "f32_16x16x32_fp8_fp8")),
    ("gfx942", "v_mfma_i32_16x16x32_i8", None),
    ("gfx942", "v_mfma_i32_4x4x4_16b_i8", None),
    ("gfx950", "v_mfma_f32_16x16x32_f16", None),
    ("gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4", None),
    ("gfx942", "v_smfmac_f32_16x16x32_f16", None),
)
BATCHES = (1, 1 << 10, 1 << 14, 1 << 17)
ISSUE = 4 * 32  # thread instructions a clock and multiprocessor


def median(
    function: Callable[[], Any], repeats: int, clock: Callable[[], Callable[[], float]]
) -> float:
    """Return the median seconds of a function, after one call to warm up."""
    return statistics.median(seconds(function, repeats, clock))


def seconds(
    function: Callable[[], Any], repeats: int, clock: Callable[[], Callable[[], float]]
) -> list[float]:
    """Return the seconds of every call of a function, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        stop = clock()
        function()
        times.append(stop())
    return times


def cpu_clock() -> Callable[[], float]:
    """Return a stop watch of wall time."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


def thread_clock() -> Callable[[], float]:
    """Return a stop watch of processor time: what else runs on the machine counts less."""
    start = time.process_time()
    return lambda: time.process_time() - start


def gpu_clock() -> Callable[[], float]:
    """Return a stop watch of the current stream."""
    import cupy

    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    first.record()

    def stop() -> float:
        last.record()
        last.synchronize()
        return float(cupy.cuda.get_elapsed_time(first, last)) * 1e-3

    return stop


def inputs(i: gpuemu.Instruction, count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return normal data for `count` wavefronts: 64 different ones, repeated."""
    cls = next(c for c in generators.classes_for(i) if c.name == "normal")
    few = images.images(i, Modifiers(), cls, 1, np.arange(min(count, 64)))
    return {name: np.tile(x, (-(-count // len(x)), 1, 1))[:count] for name, x in few.items()}


# Not executed by the integer pipe, whose 16 lanes a scheduler are half of what it can issue.
OTHER_PIPES = re.compile(
    r"IMAD|FFMA|FMUL|FADD|D[A-Z]+|LD|ST|BRA|BS|NOP|I2F|F2F|MUFU|BAR|EXIT|WARPSYNC|CALL|BREAK|U"
)


def instructions_per_mac(i: gpuemu.Instruction) -> tuple[float, float] | None:
    """Return the instructions of a multiply-add in the kernel's quick path, from its machine code.

    All of them, and those of the integer pipe.
    """
    tool = shutil.which("nvdisasm")
    made = device.kernel_source(i, models.get(i.model), Modifiers())
    # Of other models most of the code is for rare values: its length says nothing.
    if tool is None or models.get(i.model).algorithm != "aligned":
        return None
    path = cuda.cubin_path(made.source, made.defines, cuda.device_arch())
    text = subprocess.run(
        [tool, "-c", str(path)], capture_output=True, text=True, check=True
    ).stdout
    body = text.split(".text.mfma:")[1].split("\n.L_x_")  # basic blocks
    names = [
        name
        for block in body
        if "CALL" not in block  # what leads to a rare path
        for name in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9]*)", block)
    ]
    config = device.config(i, models.get(i.model), Modifiers())
    fields = dict(zip(device.CONFIG_FIELDS, config, strict=True))
    unrolled = min(fields["products"], 2 * fields["group"]) * 4
    # Half of the machine code is the path where every value is tame, half where each is checked.
    integer = sum(not OTHER_PIPES.match(name) for name in names)
    return len(names) / 2 / unrolled, integer / 2 / unrolled


def peer(name: tuple[str, str] | None, i: gpuemu.Instruction, target: str) -> float | None:
    """Return MMA-Sim's multiply-adds a second, batched, the better of two batch sizes."""
    if name is None:
        return None
    try:
        import torch
        from mmasim.amd import sim
    except ImportError as error:
        print(f"  (mmasim is not measured: {error})")
        return None
    torch.set_num_threads(1)
    op, best = sim.MFMA(*name), 0.0
    for count in (1 << 16, 1 << 19) if target == "cuda" else (1 << 14, 1 << 16):
        a, b = (torch.randn(count, i.K, device=target).to(t) for t in (op.a_type, op.b_type))
        c = torch.randn(count, device=target).to(op.c_type)
        if target == "cuda":

            def call(a: Any = a, b: Any = b, c: Any = c) -> None:
                op.dpa(a, b, c)
                torch.cuda.synchronize()

            seconds = median(call, 5, cpu_clock)
        else:
            seconds = median(lambda a=a, b=b, c=c: op.dpa(a, b, c), 3, thread_clock)  # type: ignore[misc]
        best = max(best, count * i.K / seconds)
    return best


def copy_bandwidth() -> float:
    """Return the bytes a second, read and written, of a copy of 1 GiB on the device."""
    import cupy

    both = cupy.empty((2, 1 << 28), cupy.uint32)
    return float(both.nbytes / median(lambda: cupy.copyto(both[1], both[0]), 7, gpu_clock))


def on_gpu() -> list[dict[str, Any]]:
    """Measure every class on the current device."""
    import cupy

    copy = copy_bandwidth()
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    issue = properties["multiProcessorCount"] * ISSUE * properties["clockRate"] * 1e3
    print(
        f"{properties['name'].decode()}: copy {copy / 1e12:.2f} TB/s, "
        f"{issue / 1e12:.1f} T instructions/s"
    )
    rows = []
    for arch, mnemonic, name in CLASSES:
        i = gpuemu.instruction(mnemonic, arch)
        macs = i.M * i.N * i.products * i.blocks
        row: dict[str, Any] = {"arch": arch, "instruction": mnemonic, "device": "gpu"}
        for batch in BATCHES:
            x = {key: cupy.asarray(value) for key, value in inputs(i, batch).items()}
            d = gpuemu.execute(i, **x, legality="llvm")
            seconds = median(lambda x=x, i=i: gpuemu.execute(i, **x, legality="llvm"), 9, gpu_clock)  # type: ignore[misc]
            row[f"instructions/s at {batch}"] = batch / seconds
        size = sum(v.nbytes for v in x.values()) + d.nbytes
        rate = row[f"instructions/s at {BATCHES[-1]}"]
        bounds = {"bytes": copy * batch / size}
        counted = instructions_per_mac(i)
        if counted:
            bounds["issue"] = issue / counted[0] / macs
            bounds["int"] = issue / 2 / counted[1] / macs
        tighter = min(bounds, key=lambda key: bounds[key])
        theirs = peer(name, i, "cuda")
        row |= {
            "MAC/s": rate * macs,
            "instructions per MAC": counted,
            "bound": tighter,
            "of bound": rate / bounds[tighter],
        }
        row["mmasim MAC/s"] = theirs
        rows.append(row)
        curve = " ".join(f"{row[f'instructions/s at {b}'] / 1e6:9.3f}" for b in BATCHES)
        ratio = f"{rate * macs / theirs:8.0f}x mmasim" if theirs else ""
        issued = f"{counted[0]:5.1f} ({counted[1]:4.1f} int) instr/MAC" if counted else " " * 26
        print(
            f"{arch} {mnemonic:36s} {curve} M/s {rate * macs / 1e12:7.3f} TMAC/s {issued} "
            f"{rate / bounds[tighter]:5.2f} of {tighter:5s} {ratio}",
            flush=True,
        )
    rows.append(overhead())
    return rows


def overhead() -> dict[str, Any]:
    """Measure the host's time for one call on one wavefront, arrays on the device."""
    import cupy

    i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
    x = {key: cupy.asarray(value) for key, value in inputs(i, 1).items()}
    times = []
    for _ in range(20):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(100):
            gpuemu.execute(i, **x)
        times.append((time.perf_counter() - start) / 100)
    found = statistics.median(times)
    print(f"a call on one wavefront: {found * 1e6:.1f} us of the host, best {min(times) * 1e6:.1f}")
    return {"call seconds": found, "best": min(times), "device": "gpu"}


# What each backend has to reach on one thread, in multiples of MMA-Sim's speed.
BARS = {"numpy": 1.0, "host": 20.0}
REPEATS = 7


def on_cpu() -> list[dict[str, Any]]:
    """Measure oracle and host build on one thread, beside MMA-Sim on one thread."""
    print("MMAC/s of processor time on one thread: median, share of a copy, multiple of MMA-Sim's")
    rows = []
    for arch, mnemonic, name in CLASSES:
        i = gpuemu.instruction(mnemonic, arch)
        count = max(1, (1 << 19) // (i.M * i.N * i.blocks))
        macs = count * i.M * i.N * i.products * i.blocks
        x = inputs(i, count)
        theirs = peer(name, i, "cpu")
        row: dict[str, Any] = {
            "arch": arch,
            "instruction": mnemonic,
            "device": "cpu",
            "wavefronts": count,
            "mmasim": theirs,
        }
        text = ""
        size = sum(v.nbytes for v in x.values()) + count * i.vgprs["D"] * 64 * 4
        both = np.ones((2, size // 2), np.uint8)  # zeros would all lie in one page

        def copy(both: Any = both) -> None:
            np.copyto(both[1], both[0])

        for backend, bar in BARS.items():

            def call(x: Any = x, i: Any = i, backend: str = backend) -> None:
                gpuemu.execute(i, **x, legality="llvm", backend=backend)

            pairs = [
                (seconds(call, 1, thread_clock)[0], seconds(copy, 1, thread_clock)[0])
                for _ in range(REPEATS)
            ]
            rates = sorted(macs / t for t, _ in pairs)
            rate = statistics.median(rates)
            copied = size / statistics.median(t for _, t in pairs)  # bytes a second
            of_copy = rate * size / macs / copied
            row[backend] = {"median": rate, "least": rates[0], "most": rates[-1]}
            row[backend] |= {"bytes per MAC": size / macs, "copy": copied, "of copy": of_copy}
            text += f"  {backend} {rate / 1e6:7.1f} {of_copy:4.2f} of copy"
            if theirs:
                ratio = rate / theirs
                reach = copied / (size / macs) / theirs
                row[backend] |= {"of mmasim": ratio, "bar": bar, "met": ratio >= bar}
                row[backend]["copy of mmasim"] = reach
                verdict = "met" if ratio >= bar else f"below {bar:g}x, a copy {reach:.1f}x"
                text += f" {ratio:6.2f}x {verdict}"
        rows.append(row)
        print(f"{arch} {mnemonic:36s}{text}", flush=True)
    return rows


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cpu", action="store_true", help="oracle and host build on one thread, too"
    )
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = on_gpu() if cuda.available() else []
    if chosen.cpu or not rows:
        rows += on_cpu()
    if chosen.json:
        found = {"facts": facts(), "rows": rows}
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
