"""Whole products on one GPU: bits against the plain kernel and the oracle, and Tera-MAC/s beside
the ceilings.

    python bench/matmul_report.py [--json FILE] [--quick]
    python bench/matmul_report.py --devices 0,1      # the speed-up of several GPUs alone
    python bench/matmul_report.py --one "cdna3 f16"  # one launch at 8192, for a profiler

Each class runs in a process of its own, so that a crash loses one row. Where mmasim and torch can
be imported, the published model's speed is measured in the same run. About four minutes on an H200.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from facts import facts
from matmul_beside import all_of_mmasim, cublas, seconds, spread
from matmul_cases import (
    CLASSES,
    KINDS,
    chain_of,
    device_operands,
    macs,
    on_device,
    operands,
)

from gpuemu.backends import cuda
from gpuemu.mfma import matmul_device, matmul_oracle, matmul_tuned
from gpuemu.mfma.matmul_device import Chain, Matrices

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
BATCHES = (4, 16, 64, 256)  # of 512 x 512 x 512
MMASIM, PART = 60, 90  # seconds that a process may take


def run(chain: Chain, x: Matrices, *, tuned: bool) -> Any:
    """Return the accumulators after a chain."""
    import cupy

    d = cupy.empty((x.a.shape[0], x.a.shape[1], x.b.shape[2]), chain.accumulator)
    matmul_device.run_cuda(chain, x, d, tuned=tuned)
    return d


def check(chain: Chain) -> dict[str, int]:
    """Count differing outputs: plain against oracle, tuned against plain, and repeats against each
    other.
    """
    found = {"oracle": 0, "plain": 0, "repeats": 0}
    i = chain.instruction
    for kind, layout in zip(KINDS, ("rr", "cr", "rc", "rr", "cc"), strict=True):
        k = 3 * i.K + (4 if i.sparse else 5)
        small = operands(chain, (2, 37, 45, k), kind, layout)
        plain = run(chain, on_device(small), tuned=False).get()
        want = matmul_oracle.chain(
            i, chain.model, chain.modifiers, small.a, small.b, small.c, small.chosen
        )
        found["oracle"] += int((plain != want).sum())
        x = on_device(operands(chain, (2, 333, 270, 612), kind, layout))
        found["plain"] += int((run(chain, x, tuned=True) != run(chain, x, tuned=False)).sum())
    x = on_device(operands(chain, (1, 1024, 1024, 2048), "normal"))
    first = run(chain, x, tuned=True)
    found["plain"] += int((first != run(chain, x, tuned=False)).sum())
    found["repeats"] = sum(int((first != run(chain, x, tuned=True)).sum()) for _ in range(9))
    return found


def rate(chain: Chain, batch: int, size: int, budget: float = 0.6) -> dict[str, Any]:
    """Return Tera-MAC/s of a batch of square products."""
    import cupy

    x = device_operands(chain, batch, size)
    d = cupy.empty((batch, size, size), chain.accumulator)
    times = seconds(lambda: matmul_device.run_cuda(chain, x, d), budget)
    return spread(times, batch * macs(chain, size, size, size))


def issue_bound(name: str) -> float | None:
    """Return the Tera-MAC/s at which the instructions fill every issue slot at the boost clock."""
    import cupy

    per_mac = CLASSES[name].issue
    if per_mac is None:
        return None
    facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return float(facts["multiProcessorCount"] * 128 * facts["clockRate"] * 1e3 / per_mac / 1e12)


def measure(name: str, quick: bool) -> dict[str, Any]:
    """Return one class's row."""
    chain, wanted = chain_of(name), CLASSES[name]
    i = chain.instruction
    tuned = matmul_tuned.plan(chain) is not None or chain.model.algorithm == "integer"
    row: dict[str, Any] = {
        "class": name,
        "instruction": i.mnemonic,
        "arch": i.arch,
        "kernel": "tuned" if tuned else "plain",
        "differing": check(chain),
        "counts": "stored products" if i.sparse else "products",
    }
    sizes = (1024, 4096) if quick else SIZES
    row["tera_mac_s"] = {str(n): rate(chain, 1, n, 0.6 if n < 16384 else 0) for n in sizes}
    row["batches_of_512"] = {} if quick else {str(n): rate(chain, n, 512, 0.2) for n in BATCHES}
    best = row["tera_mac_s"][str(sizes[-1] if quick else 8192)]["median"]
    row["at_8192"] = None if quick else best
    row["wanted"] = wanted.wanted or None
    row["cublas"] = None if quick else cublas(name, 8192)
    row["issue_bound"] = issue_bound(name)
    return row


def judge(row: dict[str, Any], mmasim: dict[str, Any]) -> None:
    """Add ratios, and by bar whether it is met."""
    wanted = CLASSES[row["class"]]
    best, met = row["at_8192"], {}
    row["mmasim"] = mmasim.get(row["class"])
    if best is None:
        return
    if wanted.wanted:
        met[f"at least {wanted.wanted} Tera-MAC/s"] = best >= wanted.wanted
    if row["cublas"]:
        row["of_cublas"] = best / row["cublas"]["median"]
        met[f"at least {wanted.of_ceiling} of cuBLAS"] = row["of_cublas"] >= wanted.of_ceiling
    if row["issue_bound"]:
        row["of_issue_bound"] = best / row["issue_bound"]
    if row["mmasim"]:
        row["over_mmasim"] = 1000 * best / row["mmasim"]["giga_mac_s"]
        if wanted.over_mmasim:
            bar = f"at least {wanted.over_mmasim}x mmasim"
            met[bar] = row["over_mmasim"] >= wanted.over_mmasim
    row["met"] = met


def table_line(row: dict[str, Any]) -> str:
    """Return a row as text."""
    if "error" in row:
        return f"{row['class']:15} failed: {row['error']}"
    speeds = " ".join(
        f"{row['tera_mac_s'][str(n)]['median']:7.3f}" if str(n) in row["tera_mac_s"] else 7 * " "
        for n in SIZES
    )
    notes = [f"wrong {row['differing']}" if any(row["differing"].values()) else "bits ok"]
    if row["kernel"] == "plain":
        notes.append("plain kernel")
    if row["batches_of_512"]:
        rates = "/".join(f"{x['median']:.2f}" for x in row["batches_of_512"].values())
        notes.append(f"batches of 512: {rates}")
    for key, text in (
        ("of_cublas", "{:.2f} of cuBLAS"),
        ("of_issue_bound", "{:.2f} of the issue bound"),
        ("over_mmasim", "{:.0f}x mmasim"),
    ):
        if key in row:
            notes.append(text.format(row[key]))
    notes += [f"{bar}: {'met' if yes else 'NOT met'}" for bar, yes in row.get("met", {}).items()]
    return f"{row['class']:15} {speeds} | {'; '.join(notes)}"


def own_process(arguments: list[str], limit: int) -> Any:
    """Return what this script prints as JSON on its last line in a process of its own, or its
    error.
    """
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {limit} s"}
    if done.returncode or not done.stdout.strip():
        return {"error": done.stderr.strip()[-400:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def compile_all() -> None:
    """Compile every kernel of the report at once, on all cores."""
    arch = cuda.device_arch()
    shared = ("matmul_bytes.cu", "matmul_epilogue.cu", "matmul_sparse.cu")
    jobs: list[tuple[str, dict[str, Any]]] = [(source, {}) for source in shared]
    for name in CLASSES:
        chain = chain_of(name)
        source, defines, _ = matmul_device.plain_source(chain)
        jobs.append((source, defines))
        tuned = matmul_tuned.plan(chain)
        if tuned is not None:
            jobs.append((tuned.source, tuned.defines))
    context = multiprocessing.get_context("spawn")
    workers = min(len(jobs), multiprocessing.cpu_count())
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for made in [pool.submit(cuda.cubin_path, *job, arch) for job in jobs]:
            made.result()


def report(options: argparse.Namespace) -> None:
    """Print the table, and write everything as JSON where wanted."""
    begun = time.perf_counter()
    compile_all()
    found: dict[str, Any] = {"facts": facts(), "rows": []}
    print(found["facts"], flush=True)
    print(f"compiled in {time.perf_counter() - begun:.0f} s", flush=True)
    beside = own_process(["--part", "mmasim"], MMASIM)
    found["mmasim"] = beside
    for key in ("reason", "error", "failed"):
        if beside.get(key):
            print(f"mmasim: {key}: {beside[key]}", flush=True)
    print(f"{'Tera-MAC/s':15} " + " ".join(f"{s:7}" for s in SIZES), flush=True)
    for name in CLASSES:
        quick = ["--quick"] if options.quick else []
        row = {"class": name, **own_process(["--part", name, *quick], PART)}
        if "error" not in row:
            judge(row, beside)
        found["rows"].append(row)
        print(table_line(row), flush=True)
        save(options.json, found)
    for part in () if options.quick else ("memory", "panels"):
        found[part] = own_process(["--part", part], PART)
        for line in (
            found[part] if part == "memory" and "error" not in found[part] else [found[part]]
        ):
            print(f"{part}: {line}", flush=True)
        save(options.json, found)
    print(f"{time.perf_counter() - begun:.0f} s in all", flush=True)


def save(path: Path | None, found: dict[str, Any]) -> None:
    """Write what there is so far."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def part(name: str, quick: bool) -> Any:
    """Return one part of the report, in this process."""
    if name == "mmasim":
        return all_of_mmasim()
    cuda.require()
    if name in CLASSES:
        return measure(name, quick)
    import matmul_memory

    return {"memory": matmul_memory.memory, "panels": matmul_memory.in_panels}[name]()


def one(name: str) -> None:
    """Launch one kernel once."""
    import cupy

    chain = chain_of(name)
    x = device_operands(chain, 1, 8192)
    run(chain, x, tuned=True)
    cupy.cuda.get_current_stream().synchronize()


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--quick", action="store_true", help="1024 and 4096 only, no ceilings")
    parser.add_argument("--devices", help="measure the speed-up of these alone, such as 0,1")
    parser.add_argument("--one", choices=CLASSES, help="launch this class's kernel once at 8192")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(part(options.part, options.quick)), flush=True)
        return
    cuda.require()
    if options.one:
        one(options.one)
    elif options.devices:
        import matmul_memory

        found = matmul_memory.scaling([int(n) for n in options.devices.split(",")])
        print(json.dumps(found, indent=1), flush=True)
        save(options.json, {"facts": facts(), "scaling": found})
    else:
        report(options)


if __name__ == "__main__":
    main()
