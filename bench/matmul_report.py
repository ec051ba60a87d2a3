"""Whole products on one GPU: bits against the plain kernel and the oracle, and Tera-MAC/s beside
the ceilings.

    python bench/matmul_report.py [--json FILE] [--only NAME] [--quick]

Each arithmetic class runs in a process of its own, so that a crash loses one row. Where mmasim and
torch can be imported, the Python model's speed is measured in the same run. About 80 s on an H200.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpuemu
from gpuemu.backends import cuda
from gpuemu.mfma import execute, matmul_device, matmul_oracle, matmul_tuned
from gpuemu.mfma.matmul_device import Chain, Matrices

# Row: instruction, architecture, (cbsz, blgp), what is to be reached in Tera-MAC/s, instructions a
# MAC counted in the SASS for sm_90a (cdna3: with the conversion of operands, else the inner loop).
CLASSES: dict[str, tuple[str, str, tuple[int, int], float, float | None]] = {
    "f32": ("v_mfma_f32_32x32x2_f32", "gfx942", (0, 0), 0.0, 1.07),
    "cdna2 f16": ("v_mfma_f32_32x32x8f16", "gfx90a", (0, 0), 6.0, 1.60),
    "cdna2 bf16": ("v_mfma_f32_32x32x4bf16", "gfx90a", (0, 0), 6.0, 1.60),
    "cdna2 bf16_1k": ("v_mfma_f32_32x32x8bf16_1k", "gfx90a", (0, 0), 6.0, 1.60),
    "cdna3 f16": ("v_mfma_f32_32x32x8_f16", "gfx942", (0, 0), 3.2, 6.1),
    "cdna3 bf16": ("v_mfma_f32_32x32x8_bf16", "gfx942", (0, 0), 3.2, 6.1),
    "cdna3 fp8": ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942", (0, 0), 2.5, None),
    "cdna3 bf8": ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942", (0, 0), 2.5, None),
    "cdna3 xf32": ("v_mfma_f32_16x16x8_xf32", "gfx942", (0, 0), 2.0, None),
    "cdna1 f16": ("v_mfma_f32_32x32x8f16", "gfx908", (0, 0), 1.5, 3.8),
    "cdna1 bf16": ("v_mfma_f32_32x32x4bf16", "gfx908", (0, 0), 1.5, 5.4),
    "f64": ("v_mfma_f64_16x16x4_f64", "gfx942", (0, 0), 0.0, None),
    "i8": ("v_mfma_i32_32x32x16_i8", "gfx942", (0, 0), 0.0, None),
    "cdna4 f8f6f4": ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", (0, 4), 1.5, None),
    "cdna4 f16 wide": ("v_mfma_f32_16x16x32_f16", "gfx950", (0, 0), 0.0, None),
    "smfmac f16": ("v_smfmac_f32_16x16x32_f16", "gfx942", (0, 0), 1.5, None),
}
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
SLOW = 5.0  # Tera-MAC/s at 8192 below which 16384 is left out
MMASIM_ARCH = {"gfx908": "CDNA1", "gfx90a": "CDNA2", "gfx942": "CDNA3"}
KINDS = ("normal", "zeros", "wide", "bits", "special")


def chain_of(name: str) -> Chain:
    mnemonic, arch, (cbsz, blgp), *_ = CLASSES[name]
    made = execute.call(gpuemu.instruction(mnemonic, arch), None, cbsz=cbsz, blgp=blgp)
    return Chain(made.instruction, made.model, made.modifiers)


def operand(
    fmt: Any, shape: tuple[int, ...], kind: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if kind == "bits" or not fmt.is_float:
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64, endpoint=False).astype(
            fmt.storage
        )
    x = rng.standard_normal(shape)
    if kind == "zeros":
        x *= rng.random(shape) < 0.2
    if kind == "wide":
        x *= 2.0 ** rng.integers(-12, 10, shape)
    bits = x.astype(np.float32).astype(fmt.dtype).view(fmt.storage)
    if kind == "special":
        bits[0, 0, 0] = (
            (1 << fmt.bits) - 1 if fmt.bits > 8 else 0x80 if fmt.nan == "negative-zero" else 0x7F
        )
    return bits


def operands(
    chain: Chain, shape: tuple[int, int, int, int], kind: str, layout: str = "rr"
) -> Matrices:
    """Random matrices (batch, m, n, k) on the host; layout says whether rows or columns are dense,
    of A and B.
    """
    i, m = chain.instruction, chain.modifiers
    batch, rows, columns, k = shape
    rng = np.random.default_rng(KINDS.index(kind))
    stored = k // 2 if i.sparse else k
    a = operand(i.operand_format("A", m.cbsz, m.blgp), (batch, rows, stored), kind, rng)
    b = operand(i.operand_format("B", m.cbsz, m.blgp), (batch, k, columns), kind, rng)
    c = (
        rng.standard_normal((batch, rows, columns))
        * 2.0 ** rng.integers(-30, 20, (batch, rows, columns))
    ).astype(i.operand_format("C").dtype if i.formats["C"] != "i32" else np.int32)
    c[rng.random(c.shape) < 0.1] = -0.0 if c.dtype.kind == "f" else 0
    if layout[0] == "c":
        a = np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1)
    if layout[1] == "c":
        b = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    chosen = None
    if i.sparse:
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], np.uint8)
        chosen = pairs[rng.integers(0, 6, (batch, rows, stored // 2))].reshape(a.shape)
    return Matrices(a, b, c.view(chain.accumulator), chosen)


def on_device(x: Matrices) -> Matrices:
    import cupy

    def move(array: Any) -> Any:
        if array is None or array.flags.c_contiguous:
            return None if array is None else cupy.asarray(array)
        return cupy.asarray(np.ascontiguousarray(array.transpose(0, 2, 1))).transpose(0, 2, 1)

    return Matrices(move(x.a), move(x.b), move(x.c), move(x.chosen))


def run(chain: Chain, x: Matrices, *, tuned: bool) -> Any:
    import cupy

    d = cupy.empty((x.a.shape[0], x.a.shape[1], x.b.shape[2]), chain.accumulator)
    matmul_device.run_cuda(chain, x, d, tuned=tuned)
    return d


def differing(chain: Chain, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> int:
    return int((got != want).sum())


def check(chain: Chain) -> dict[str, int]:
    """Count differing outputs: plain against oracle, tuned against plain, and repeats against each
    other.
    """
    found = {"oracle": 0, "plain": 0, "repeats": 0}
    for kind, layout in zip(KINDS, ("rr", "cr", "rc", "rr", "cc"), strict=True):
        k = 3 * chain.instruction.K + (4 if chain.instruction.sparse else 5)
        small = operands(chain, (2, 37, 45, k), kind, layout)
        plain = run(chain, on_device(small), tuned=False).get()
        want = matmul_oracle.chain(
            chain.instruction, chain.model, chain.modifiers, small.a, small.b, small.c, small.chosen
        )
        found["oracle"] += differing(chain, plain, want)
        x = on_device(operands(chain, (2, 333, 270, 612), kind, layout))
        found["plain"] += differing(
            chain, run(chain, x, tuned=True).get(), run(chain, x, tuned=False).get()
        )
    x = on_device(operands(chain, (1, 1024, 1024, 2048), "normal"))
    first = run(chain, x, tuned=True).get()
    found["plain"] += differing(chain, first, run(chain, x, tuned=False).get())
    found["repeats"] = sum(
        differing(chain, first, run(chain, x, tuned=True).get()) for _ in range(3)
    )
    return found


def seconds(work: Any, budget: float = 0.6) -> float:
    """Return the median seconds of some launches, warmed up, timed by events."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 2 or (len(times) < 12 and time.perf_counter() - begun < budget):
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return statistics.median(times[1:])


def device_operands(chain: Chain, batch: int, size: int) -> Matrices:
    """Random normal operands made on the device, by repeating a block of 1024 x 1024."""
    import cupy

    block = min(size, 1024)
    x = on_device(operands(chain, (1, block, block, block), "normal"))
    times = (batch, size // block, size // block)
    tiled = {
        name: cupy.tile(getattr(x, name), times)
        for name in ("a", "b")
        if getattr(x, name) is not None
    }
    chosen = None if x.chosen is None else cupy.tile(x.chosen, times)
    return Matrices(tiled["a"], tiled["b"], None, chosen)


def ceiling(name: str, size: int) -> float | None:
    """Return the Tera-MAC/s of cuBLAS's own product of the class's format, where it has one."""
    import cupy

    macs = size**3
    if name in ("f32", "f64"):
        dtype = {"f32": cupy.float32, "f64": cupy.float64}[name]
        a, b = (
            cupy.random.standard_normal((size, size)).astype(dtype),
            cupy.ones((size, size), dtype),
        )
        out = cupy.empty((size, size), dtype)
        return macs / seconds(lambda: cupy.matmul(a, b, out=out)) / 1e12
    if name == "i8":
        from cupy.cuda import device as cupy_device
        from cupy_backends.cuda.libs import cublas

        a8, d32 = (
            cupy.random.randint(-100, 100, (size, size)).astype(cupy.int8),
            cupy.empty((size, size), cupy.int32),
        )
        one, zero = np.array(1, np.int32), np.array(0, np.int32)
        handle = int(cupy_device.get_cublas_handle())
        return (
            macs
            / seconds(
                lambda: cublas.gemmEx(
                    handle,
                    1,
                    0,
                    size,
                    size,
                    size,
                    one.ctypes.data,
                    a8.data.ptr,
                    3,
                    size,
                    a8.data.ptr,
                    3,
                    size,
                    zero.ctypes.data,
                    d32.data.ptr,
                    10,
                    size,
                    72,
                    -1,
                )
            )
            / 1e12
        )
    return None


def issue_bound(name: str) -> float | None:
    """Return the Tera-MAC/s at which the inner loop would fill every issue slot at the boost
    clock.
    """
    import cupy

    per_mac = CLASSES[name][4]
    if per_mac is None:
        return None
    facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return float(facts["multiProcessorCount"] * 128 * facts["clockRate"] * 1e3 / per_mac / 1e12)


def measure(name: str, quick: bool) -> dict[str, Any]:
    import cupy

    chain = chain_of(name)
    row: dict[str, Any] = {
        "class": name,
        "instruction": chain.instruction.mnemonic,
        "arch": chain.instruction.arch,
    }
    tuned = matmul_tuned.plan(chain) is not None or name == "i8"
    row["kernel"] = "tuned" if tuned else "plain"
    row["differing"] = check(chain)
    speeds: dict[str, float] = {}
    for size in (1024, 4096) if quick else SIZES:
        if size > (16384 if tuned else 4096) or (size > 8192 and speeds["8192"] < SLOW):
            break
        x = device_operands(chain, 1, size)
        d = cupy.empty((1, size, size), chain.accumulator)
        speeds[str(size)] = size**3 / seconds(lambda: matmul_device.run_cuda(chain, x, d)) / 1e12  # noqa: B023
        del x, d
    row["tera_mac_s"] = speeds
    x = device_operands(chain, 64, 512)
    d = cupy.empty((64, 512, 512), chain.accumulator)
    row["batch_64_of_512"] = (
        64 * 512**3 / seconds(lambda: matmul_device.run_cuda(chain, x, d)) / 1e12
    )
    row["wanted"] = CLASSES[name][3]
    row["ceiling_cublas_8192"] = None if quick else ceiling(name, 8192)
    row["bound_issue"] = issue_bound(name)
    return row


def mmasim_speed(name: str) -> float | None:
    """Return Giga-MAC/s of mmasim's dot products on this GPU, the best of three batches; None for
    what it does not have.
    """
    import torch
    from mmasim.amd import isa_mfma, sim

    mnemonic, arch, *_ = CLASSES[name]
    family, suffix = MMASIM_ARCH.get(arch), mnemonic.removeprefix("v_mfma_")
    if family is None or suffix not in isa_mfma.arch_mfma_suffix[family]:
        return None
    model, k = sim.MFMA(family, suffix), chain_of(name).instruction.K
    wide = torch.float64 if suffix.startswith("f64") else torch.float32
    best = 0.0
    for batch in (1 << 16, 1 << 18, 1 << 20):
        a, b = (torch.randn(batch, k, device="cuda").to(model.a_type) for _ in "ab")
        c = torch.randn(batch, device="cuda", dtype=wide)
        best = max(best, batch * k / seconds(lambda: model.dpa(a, b, c), 0.1) / 1e9)  # noqa: B023
    return best


def mmasim_speeds() -> dict[str, Any]:
    """Return mmasim's Giga-MAC/s by class, or why there is none under "reason"."""
    try:
        import mmasim  # noqa: F401
        import torch
    except ImportError as error:
        return {"reason": f"mmasim is not measured: {error}"}
    if not torch.cuda.is_available():
        return {"reason": "mmasim is not measured: this torch has no CUDA device"}
    found: dict[str, Any] = {}
    for name in CLASSES:
        try:
            found[name] = mmasim_speed(name)
        except Exception as error:
            print(f"mmasim, {name}: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def own_process(arguments: list[str], mark: str, limit: int) -> Any:
    """Return what this script prints behind a mark in a process of its own, or its error."""
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {limit} s"}
    found = [line for line in done.stdout.splitlines() if line.startswith(mark)]
    if done.stderr.strip():
        print(done.stderr.strip()[-400:], file=sys.stderr, flush=True)
    return json.loads(found[0][len(mark) :]) if found else {"error": done.stderr.strip()[-400:]}


def compile_all(names: list[str]) -> None:
    """Compile every kernel of the report at once, on all cores."""
    arch = cuda.device_arch()
    jobs: list[tuple[str, dict[str, Any]]] = [("matmul_bytes.cu", {}), ("matmul_epilogue.cu", {})]
    for name in names:
        chain = chain_of(name)
        source, defines, _ = matmul_device.plain_source(chain)
        jobs.append((source, defines))
        tuned = matmul_tuned.plan(chain)
        if tuned is not None:
            jobs.append((tuned.source, tuned.defines))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(len(jobs), multiprocessing.cpu_count()), mp_context=context
    ) as pool:
        for future in [
            pool.submit(cuda.cubin_path, source, defines, arch) for source, defines in jobs
        ]:
            try:
                future.result()
            except Exception as error:
                print(f"compile: {error}", flush=True)


def table_line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['class']:15} failed: {row['error']}"
    speeds = " ".join(f"{row['tera_mac_s'].get(str(s), float('nan')):7.3f}" for s in SIZES)
    best = row["tera_mac_s"].get("8192") or max(row["tera_mac_s"].values())
    notes = [
        f"wrong {row['differing']}" if any(row["differing"].values()) else "bits ok",
        row["kernel"],
    ]
    if row["wanted"]:
        notes.append(f"wanted {row['wanted']}: {'met' if best >= row['wanted'] else 'NOT met'}")
    if row["ceiling_cublas_8192"]:
        notes.append(
            f"cuBLAS {row['ceiling_cublas_8192']:.2f}, "
            f"ratio {best / row['ceiling_cublas_8192']:.2f}"
        )
    if row["bound_issue"]:
        notes.append(
            f"issue bound {row['bound_issue']:.2f}, {100 * best / row['bound_issue']:.0f} %"
        )
    if row["mmasim_giga_mac_s"]:
        beside = row["mmasim_giga_mac_s"]
        notes.append(f"mmasim {beside:.1f} Giga-MAC/s, {1000 * best / beside:.0f}x")
    return (
        f"{row['class']:15} {speeds} | 64x512: {row['batch_64_of_512']:6.3f} | {'; '.join(notes)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument(
        "--only", default=None, help="one class, in this process: " + ", ".join(CLASSES)
    )
    parser.add_argument("--quick", action="store_true", help="1024 and 4096 only, no ceilings")
    parser.add_argument("--mmasim", action="store_true", help="mmasim alone, in this process")
    options = parser.parse_args()
    cuda.require()
    if options.mmasim:
        print("MMASIM " + json.dumps(mmasim_speeds()), flush=True)
        return
    if options.only:
        print("ROW " + json.dumps(measure(options.only, options.quick)), flush=True)
        return
    begun = time.perf_counter()
    compile_all(list(CLASSES))
    print(f"compiled in {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"{'Tera-MAC/s':15} " + " ".join(f"{s:7}" for s in SIZES), flush=True)
    beside = own_process(["--mmasim"], "MMASIM ", 40)
    for reason in ("reason", "error"):
        if reason in beside:
            print(beside[reason], flush=True)
    rows = []
    for name in CLASSES:
        quick = ["--quick"] if options.quick else []
        row = {"class": name, **own_process(["--only", name, *quick], "ROW ", 60)}
        row["mmasim_giga_mac_s"] = beside.get(name)
        rows.append(row)
        print(table_line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - begun:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
