"""Every figure of emulated precision in one run: bits, stages, speed, error, blocks, auto.

    python bench/emulation_report.py [--json FILE] [--sizes 2048,4096,8192,16384] [--quick]

Needs one CUDA device; about two minutes on an H200. Times are medians from CUDA events, data are
normal. Floors: a stage's bytes at the copy bandwidth, its int8 operations at cuBLAS's int8 rate.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

COPY_BYTES_PER_MS = 4.3e9
INT8_OPERATIONS_PER_MS = 1.495e12
REPEATS = 7

Results = dict[str, Any]


def check_bits() -> Results:
    """Compare CUDA with the oracle, bit for bit: shapes, orientations, specials, split K."""
    from gpuemu.errors import GpuemuError
    from gpuemu.gemm.emulation import emulated_matmul

    random = np.random.default_rng(5)
    failures: list[str] = []
    count = 0
    for dtype in (np.float32, np.float64):
        for m, n, k in ((1, 1, 1), (5, 7, 3), (33, 65, 129), (64, 140, 2100)):
            for case in ("rows", "columns", "special", "strided", "spread"):
                a, b, c = _case(random, case, dtype, m, n, k)
                for scheme, bits in (
                    ("slices", 23),
                    ("slices", 52),
                    ("slices", 61),
                    ("crt", 23),
                    ("crt", 52),
                ):
                    for rounding in ("truncate", "nearest") if scheme == "slices" else ("nearest",):
                        label = (
                            f"{np.dtype(dtype).name} {m}x{n}x{k} {case} {scheme}-{bits} {rounding}"
                        )
                        count += 1
                        try:
                            emulated_matmul(
                                a, b, c, -1.5, 0.75, mantissa_bits=bits, scheme=scheme,
                                slice_rounding=rounding, backend="check",
                            )  # fmt: skip
                        except GpuemuError as error:
                            failures.append(f"{label}: {error}")
    count += _check_long_k(failures)
    print(f"bits: {count} products compared with the oracle, {len(failures)} differ")
    for line in failures[:20]:
        print("  DIFFERS", line)
    return {"compared": count, "differ": failures}


def _case(random: Any, case: str, dtype: Any, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    a, b, c = (random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    if case == "columns":
        a, b, c = np.asfortranarray(a), np.asfortranarray(b), np.asfortranarray(c)
    if case == "strided":
        a, b = (
            np.repeat(a, 2, axis=1)[:, ::2],
            np.repeat(np.repeat(b, 2, axis=0), 2, axis=1)[::2, ::2],
        )
    if case == "spread":
        a = (a * np.exp2(random.integers(-30, 30, a.shape))).astype(dtype)
        a[0] *= dtype(2.0) ** (-120 if dtype == np.float32 else -1000)
    if case == "special":
        a[m // 2, k // 2], b[k // 3, n // 2] = np.inf, np.nan
        a[m - 1] = 0
    return a, b, c


def _check_long_k(failures: list[str]) -> int:
    """K with several int32 sums a diagonal (worst-case digits), and split K."""
    from gpuemu.errors import GpuemuError
    from gpuemu.gemm.emulation import emulated_matmul

    for bits, k, options in ((55, 33024, {}), (55, 18816, {}), (23, 70000, {"split_k": "auto"})):
        worst = -(126.0 + sum(128 * 256.0**-i for i in range(1, (bits + 8) // 8)))
        a = np.full((4, k), worst)
        a[1] = np.random.default_rng(1).standard_normal(k)
        try:
            emulated_matmul(
                a, np.ascontiguousarray(a.T), mantissa_bits=bits, backend="check", **options
            )
        except GpuemuError as error:
            failures.append(f"K={k} {bits} bits: {error}")
    return 3


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
    variants = (
        [
            ("slices", 23, "truncate"),
            ("slices", 23, "nearest"),
            ("slices", 31, "truncate"),
            ("crt", 23, "nearest"),
        ]
        if name == "float32"
        else [
            ("slices", 52, "truncate"),
            ("slices", 39, "truncate"),
            ("crt", 52, "nearest"),
            ("crt", 39, "nearest"),
        ]
    )
    for scheme, bits, rounding in variants:
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


class Reference:
    """Errors on sampled outputs: float32 against float64, float64 against 80-bit long double."""

    def __init__(self, a: Any, b: Any) -> None:
        count = min(len(a), 128 if a.dtype == np.float32 else 4)
        self.rows = np.linspace(0, len(a) - 1, count).astype(int)
        self.columns = slice(None) if a.dtype == np.float32 else slice(0, 256)
        wide = np.float64 if a.dtype == np.float32 else np.longdouble
        if wide is np.float64:
            x, y = a[self.rows].astype(wide), b.astype(wide)
            self.exact, self.size = (x @ y).get(), (abs(x) @ abs(y)).get()
        else:
            x, y = a[self.rows].get().astype(wide), b[:, self.columns].get().astype(wide)
            self.exact, self.size = x @ y, abs(x) @ abs(y)

    def error(self, result: Any) -> Results:
        """Return the largest error over |A||B| and the RMS error over the RMS result."""
        got = result[self.rows][:, self.columns].get().astype(self.exact.dtype)
        difference = abs(got - self.exact)
        rms = float(np.sqrt(np.mean(difference**2) / np.mean(self.exact**2)))
        return {"max_error": float((difference / self.size).max()), "rms_error": rms}


def stages(sizes: list[int]) -> list[Results]:
    """Time every stage beside its floor, for B in both orientations."""
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul, emulation_report

    rows: list[Results] = []
    for size in sizes:
        for dtype, scheme, bits in (
            (np.float32, "slices", 23),
            (np.float64, "slices", 52),
            (np.float64, "crt", 52),
        ):
            a, b = (
                cupy.random.RandomState(2).standard_normal((size, size)).astype(dtype)
                for _ in range(2)
            )
            for orientation, right in (("B rows", b), ("B columns", cupy.asfortranarray(b))):
                samples = []
                for _ in range(7):
                    emulated_matmul(a, right, mantissa_bits=bits, scheme=scheme, timing=True)
                    samples.append(emulation_report().stage_ms)
                report = emulation_report()
                times = {
                    name: float(np.median([s[name] for s in samples[2:]])) for name in samples[0]
                }
                floors = _floors(size, np.dtype(dtype).itemsize, report)
                row = {
                    "dtype": np.dtype(dtype).name,
                    "n": size,
                    "scheme": scheme,
                    "bits": bits,
                    "B": orientation,
                }
                row |= {
                    "ms": times,
                    "floor": floors,
                    "workspace": report.workspace_bytes,
                    "blocks": report.blocks,
                }
                rows.append(row)
                text = "  ".join(f"{s} {times[s]:.3f} (floor {floors[s]:.3f})" for s in times)
                print(
                    f"{row['dtype']:8} {size:6} {scheme:6} {bits} {orientation:9} "
                    f"total {sum(times.values()):.3f}: {text}"
                )
    return rows


def _floors(size: int, itemsize: int, report: Any) -> dict[str, float]:
    encode = size * size * (itemsize + report.planes) / COPY_BYTES_PER_MS
    recombine = size * size * (itemsize + 4 * report.planes) / COPY_BYTES_PER_MS
    products = 2.0 * size**3 * report.products / INT8_OPERATIONS_PER_MS
    return {"encode A": encode, "encode B": encode, "products": products, "recombine": recombine}


def sweep(size: int) -> list[Results]:
    """Time row blocks and batched residue products, to see what pays on this device."""
    import cupy

    from gpuemu.gemm.emulation import device_plan, device_products, emulated_matmul, tuning

    rows = []
    saved = device_plan.ROW_BLOCK, device_products.BATCHED_LIMIT
    for dtype, scheme, bits in (
        (np.float32, "slices", 23),
        (np.float64, "slices", 52),
        (np.float64, "crt", 52),
    ):
        a, b = (
            cupy.random.RandomState(3).standard_normal((size, size)).astype(dtype) for _ in range(2)
        )
        for block in (1024, 2048, 4096, 8192, 16384):
            for batched in (False, True) if scheme == "crt" else (False,):
                if block > size:
                    continue
                device_plan.ROW_BLOCK = block
                device_products.BATCHED_LIMIT = 1 << 60 if batched else 0
                device_plan.plan.cache_clear()
                ms = tuning.median_ms(
                    partial(emulated_matmul, a, b, mantissa_bits=bits, scheme=scheme), 5
                )
                row = {
                    "n": size,
                    "scheme": scheme,
                    "bits": bits,
                    "row_block": block,
                    "batched": batched,
                    "ms": ms,
                }
                row["tflops"] = 2e-9 * size**3 / ms
                rows.append(row)
                print(
                    f"sweep {size:6} {scheme:6} {bits} row block {block:6} "
                    f"batched {batched!s:5} {row['tflops']:7.1f} TFLOP/s"
                )
        cupy.get_default_memory_pool().free_all_blocks()
    device_plan.ROW_BLOCK, device_products.BATCHED_LIMIT = saved
    device_plan.plan.cache_clear()
    return rows


def overhead() -> Results:
    """Time what one call costs the CPU: many small products, enqueued without waiting."""
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul

    a = cupy.random.standard_normal((256, 256)).astype(np.float32)
    for _ in range(20):
        emulated_matmul(a, a, mantissa_bits=23)
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(200):
        emulated_matmul(a, a, mantissa_bits=23)
    enqueued = time.perf_counter() - start
    cupy.cuda.Device().synchronize()
    total = time.perf_counter() - start
    result = {"cpu_us": enqueued / 200 * 1e6, "total_us": total / 200 * 1e6}
    print(
        f"overhead at 256: {result['cpu_us']:.0f} us to enqueue a call, "
        f"{result['total_us']:.0f} us a call"
    )
    return result


def automatic() -> list[Results]:
    """Compare scheme="auto" with native over shapes that the table does not hold."""
    import cupy

    from gpuemu.gemm.emulation import emulated_matmul, emulation_report, tuning

    start = time.perf_counter()
    tuning.table(tuning._device_name())
    print(f"auto: table measured or read in {time.perf_counter() - start:.1f} s")
    rows = []
    shapes = [
        (256,) * 3,
        (1000,) * 3,
        (1500,) * 3,
        (3000,) * 3,
        (6000,) * 3,
        (8192, 8192, 512),
        (256, 8192, 8192),
        (8192, 1024, 8192),
    ]
    for dtype, bits in ((np.float32, 23), (np.float64, 52)):
        for m, n, k in shapes:
            a = cupy.random.standard_normal((m, k)).astype(dtype)
            b = cupy.random.standard_normal((k, n)).astype(dtype)
            native = tuning.median_ms(partial(operator.matmul, a, b))
            auto = tuning.median_ms(
                partial(emulated_matmul, a, b, mantissa_bits=bits, scheme="auto")
            )
            report = emulation_report()
            row = {
                "dtype": np.dtype(dtype).name,
                "shape": (m, n, k),
                "native_ms": native,
                "auto_ms": auto,
            }
            row["took"] = report.scheme
            rows.append(row)
            print(
                f"auto {row['dtype']:8} {m}x{n}x{k}: {report.scheme}, {native / auto:.2f}x native"
            )
    return rows


def bars(rows: list[Results]) -> None:
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


def cublas_emulation(sizes: list[int]) -> dict[str, float]:
    """Time cuBLAS's own emulated DGEMM in its own process: the environment switches it on."""
    environment = os.environ | {
        "CUBLAS_EMULATE_DOUBLE_PRECISION": "1",
        "CUBLAS_EMULATION_STRATEGY": "eager",
        "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT": "55",
    }
    command = [sys.executable, __file__, "--only-cublas", "--sizes", ",".join(map(str, sizes))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"cuBLAS's own emulation did not run:\n{done.stderr[-800:]}")
        return {}
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def only_cublas(sizes: list[int]) -> None:
    """Print the times of `a @ b` as JSON: the child of `cublas_emulation`.

    The faster of two: with cuBLAS's own workspace, and with one that holds all slices.
    """
    import ctypes

    import cupy

    from gpuemu.gemm.emulation import tuning

    times: dict[str, float] = {}
    for own_workspace in (True, False):
        if not own_workspace:
            memory = cupy.cuda.alloc(6 << 30)
            library = ctypes.CDLL(f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")
            handle = ctypes.c_void_p(cupy.cuda.device.get_cublas_handle())
            library.cublasSetWorkspace_v2(
                handle, ctypes.c_void_p(memory.ptr), ctypes.c_size_t(6 << 30)
            )
        for size in sizes:
            a, b = (cupy.random.RandomState(size).standard_normal((size, size)) for _ in range(2))
            ms = tuning.median_ms(partial(operator.matmul, a, b), 3)
            times[str(size)] = min(ms, times.get(str(size), ms))
    print(json.dumps(times))


def main() -> None:
    """Run every part and print it as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", default="2048,4096,8192,16384")
    parser.add_argument("--quick", action="store_true", help="bits, stages and figures only")
    parser.add_argument("--only-cublas", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.only_cublas:
        only_cublas(sizes)
        return
    results: Results = {}
    parts: dict[str, Callable[[], Any]] = {
        "bits": check_bits,
        "stages": lambda: stages([size for size in sizes if size <= 8192]),
        "overhead": overhead,
        "figures": lambda: figures(sizes, cublas_emulation(sizes)),
    }
    if not options.quick:
        parts |= {"sweep": lambda: [*sweep(8192), *sweep(16384)], "auto": automatic}
    for name, part in parts.items():
        start = time.perf_counter()
        results[name] = part()
        print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)
    bars(results["figures"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=float))


if __name__ == "__main__":
    main()
