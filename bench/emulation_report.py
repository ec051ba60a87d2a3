"""Every figure of emulated precision in one run: bits, stages, speed, error, blocks, auto.

    python bench/emulation_report.py [--json FILE] [--sizes 2048,8192] [--figures-only] [--sweep]

Needs one CUDA device; about two minutes on an H200. Times are medians from CUDA events, data are
normal. Floors: a stage's bytes at the copy bandwidth, its int8 operations at cuBLAS's int8 rate.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from emulation_auto import automatic
from emulation_bits import check_bits
from emulation_parts import (
    Reference,
    cublas_emulation,
    engines,
    only_cublas,
    overhead,
    sweep,
)
from emulation_sustained import sustained
from facts import facts

COPY_BYTES_PER_MS = 4.3e9
INT8_OPERATIONS_PER_MS = 1.495e12
REPEATS = 7

Results = dict[str, Any]


VARIANTS = {
    "float32": (
        ("slices", 23, "truncate"),
        ("slices", 23, "nearest"),
        ("slices", 31, "truncate"),
        ("crt", 23, "nearest"),
    ),
    "float64": (
        ("slices", 52, "truncate"),
        ("slices", 39, "truncate"),
        ("crt", 52, "nearest"),
        ("crt", 39, "nearest"),
    ),
}


def figures(sizes: list[int], emulated: dict[str, float]) -> list[Results]:
    """Time and grade native and emulated products of squares."""
    import cupy

    rows: list[Results] = []
    for size in sizes:
        random = cupy.random.RandomState(size)
        for dtype in (np.float32, np.float64):
            a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            rows += _figures_of(a, b, size, emulated)
            del a, b
            cupy.get_default_memory_pool().free_all_blocks()
    return rows


def _figures_of(a: Any, b: Any, size: int, emulated: dict[str, float]) -> list[Results]:
    from gpuemu.gemm.emulation import emulated_matmul, tuning

    name = a.dtype.name
    calls: dict[str, Callable[[], Any]] = {"native": lambda: a @ b}
    for scheme, bits, rounding in VARIANTS[name]:
        calls[f"{scheme}-{bits}-{rounding}"] = lambda s=scheme, x=bits, r=rounding: emulated_matmul(  # type: ignore[misc]
            a, b, mantissa_bits=x, scheme=s, slice_rounding=r
        )
    reference = Reference(a, b)
    rows = []
    native_ms = 0.0
    for label, call in calls.items():
        repeats = 3 if size >= 16384 else REPEATS
        ms = tuning.median_ms(call, repeats)
        native_ms = ms if label == "native" else native_ms
        row = {"dtype": name, "n": size, "what": label, "ms": ms, "tflops": 2e-9 * size**3 / ms}
        row |= {"speedup": native_ms / ms, **reference.error(call())}
        rows.append(row)
        print(_line(row))
    if name == "float64" and str(size) in emulated:
        ms = emulated[str(size)]
        row = {
            "dtype": name,
            "n": size,
            "what": "cublas-emulated",
            "ms": ms,
            "tflops": 2e-9 * size**3 / ms,
        }
        row |= {"speedup": native_ms / ms}
        rows.append(row)
        print(_line(row))
    return rows


def _line(row: Results) -> str:
    text = f"{row['dtype']:8} {row['n']:6} {row['what']:22} {row['ms']:9.3f} ms"
    text += f" {row['tflops']:7.1f} TFLOP/s"
    text += f" {row['speedup']:6.2f}x"
    if "max_error" in row:
        text += f"  max err/(|A||B|) {row['max_error']:.2e}  rms err/rms C {row['rms_error']:.2e}"
    return text


def stages(sizes: list[int]) -> list[Results]:
    """Time every stage beside its floor, for B in both orientations."""
    import cupy

    rows: list[Results] = []
    for size in sizes:
        for dtype, scheme, bits in (
            (np.float32, "slices", 23),
            (np.float64, "slices", 52),
            (np.float64, "crt", 52),
        ):
            random = cupy.random.RandomState(2)
            a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            for orientation, right in (("B rows", b), ("B columns", cupy.asfortranarray(b))):
                rows.append(_stages_of(a, right, scheme, bits) | {"B": orientation})
                row = rows[-1]
                times, floors = row["ms"], row["floor"]
                text = "  ".join(f"{s} {times[s]:.3f} (floor {floors[s]:.3f})" for s in times)
                print(
                    f"{row['dtype']:8} {size:6} {scheme:6} {bits} {orientation:9} "
                    f"total {sum(times.values()):.3f}: {text}"
                )
    return rows


def _stages_of(a: Any, b: Any, scheme: str, bits: int) -> Results:
    from gpuemu.gemm.emulation import emulated_matmul, emulation_report

    samples = []
    for _ in range(9):
        # The device stays behind the CPU, so that no stage waits for a launch.
        for _ in range(3 if len(a) < 4096 else 1):
            a @ b
        emulated_matmul(a, b, mantissa_bits=bits, scheme=scheme, timing=True)
        samples.append(emulation_report().stage_ms)
    report = emulation_report()
    return {
        "dtype": a.dtype.name,
        "n": len(a),
        "scheme": scheme,
        "bits": bits,
        "ms": {name: float(np.median([s[name] for s in samples[2:]])) for name in samples[0]},
        "floor": _floors(len(a), a.itemsize, report),
        "workspace": report.workspace_bytes,
        "blocks": report.blocks,
    }


def _floors(size: int, itemsize: int, report: Any) -> dict[str, float]:
    encode = size * size * (itemsize + report.planes) / COPY_BYTES_PER_MS
    recombine = size * size * (itemsize + 4 * report.planes) / COPY_BYTES_PER_MS
    products = 2.0 * size**3 * report.products / INT8_OPERATIONS_PER_MS
    return {
        "encode A": encode,
        "encode B": encode,
        "products": products,
        "recombine": recombine,
        "products and recombine": products,
    }


def bars(rows: list[Results], auto: list[Results]) -> None:
    """Print the figures that were promised, and whether they are met."""
    found = {(r["dtype"], r["n"], r["what"]): r for r in rows}
    for dtype, size, what, tflops, speedup in (
        ("float32", 2048, "slices-23-truncate", 0.0, 2.0),
        ("float32", 4096, "slices-23-truncate", 170.0, 3.4),
        ("float32", 8192, "slices-23-truncate", 210.0, 4.2),
        ("float64", 8192, "slices-52-truncate", 47.0, 0.0),
        ("float64", 8192, "crt-52-nearest", 80.0, 1.4),
    ):
        row, native = found.get((dtype, size, what)), found.get((dtype, size, "native"))
        if row is None or native is None:
            continue
        met = row["tflops"] >= tflops and row["speedup"] >= speedup
        rms, most = (row[e] / native[e] for e in ("rms_error", "max_error"))
        errors = f"rms error {rms:.2f}, max {most:.2f} of native's"
        print(
            f"{'MET   ' if met else 'MISSED'} {dtype} {size} {what}: "
            f"{row['tflops']:.1f} of {tflops:.0f} TFLOP/s, "
            f"{row['speedup']:.2f}x of {speedup}x; {errors}"
        )
    slowest = min(auto, key=lambda row: row["native_ms"] / row["auto_ms"])
    ratio = slowest["native_ms"] / slowest["auto_ms"]
    print(
        f"{'MET   ' if ratio >= 0.98 else 'MISSED'} auto: {ratio:.3f} of A @ B at worst "
        f"({slowest['dtype']} {slowest['shape']}, {slowest['took']})"
    )


def main() -> None:
    """Run every part and print it as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", default="2048,4096,8192,16384")
    parser.add_argument("--figures-only", action="store_true", help="no comparison of bits")
    parser.add_argument("--sweep", action="store_true", help="blocks and batches, 20 s more")
    parser.add_argument("--only-cublas", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.only_cublas:
        only_cublas(sizes)
        return
    results: Results = {"facts": facts()}
    parts: dict[str, Callable[[], Any]] = {} if options.figures_only else {"bits": check_bits}
    parts |= {
        "overhead": overhead,
        "engines": engines,
        "stages": lambda: stages([size for size in sizes if size <= 8192]),
        "figures": lambda: figures(sizes, cublas_emulation(sizes)),
        "sustained": sustained,
        "auto": automatic,
    }
    if options.sweep:
        parts["sweep"] = lambda: [*sweep(8192), *sweep(16384)]
    for name, part in parts.items():
        start = time.perf_counter()
        results[name] = part()
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1, default=float))
    bars(results["figures"], results["auto"])


if __name__ == "__main__":
    main()
