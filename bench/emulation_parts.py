"""References and sweeps of emulated precision: parts of `emulation_report.py`."""

from __future__ import annotations

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

Results = dict[str, Any]


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


def overhead() -> Results:
    """Time what one call costs the CPU: many small products, enqueued without waiting."""
    import cupy

    from gpuemu.gemm.emulation import cublaslt, device_products, emulated_matmul, repeats

    a = cupy.random.standard_normal((256, 256)).astype(np.float32)
    calls = {
        "slices 23": lambda: emulated_matmul(a, a, mantissa_bits=23),
        "crt 23": lambda: emulated_matmul(a, a, mantissa_bits=23, scheme="crt"),
        "auto (native)": lambda: emulated_matmul(a, a, mantissa_bits=23, scheme="auto"),
        "a @ b": lambda: a @ a,
    }
    result = {f"{name}, us": _enqueue_us(call) for name, call in calls.items()}
    saved, cublaslt.library = cublaslt.library, _no_library
    repeats.forget()
    result["slices 23 through gemmEx, us"] = _enqueue_us(calls["slices 23"])
    cublaslt.library = saved
    repeats.forget()
    product = cublaslt.Product(256, 256, 256, 0, 1 << 20, 2 << 20, 256, 256)
    memory = cupy.cuda.alloc(8 << 20)
    stream = cupy.cuda.get_current_stream().ptr
    run, _ = device_products.prepare(product, 0, 4 << 20, 1 << 20, 3)
    result["one int8 product, us"] = _enqueue_us(lambda: run(memory.ptr, stream))
    other = device_products._through_gemm_ex(product)
    result["one int8 product through gemmEx, us"] = _enqueue_us(lambda: other(memory.ptr, stream))
    for name, value in result.items():
        print(f"overhead at 256: {name} {value:.1f}")
    return result


def _no_library(_device: int) -> None:
    """Stand for cublasLt where it is not found: products go through cublasGemmEx."""


def _enqueue_us(call: Callable[[], Any]) -> float:
    import cupy

    for _ in range(20):
        call()
    samples = []
    for _ in range(5):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(50):
            call()
        samples.append((time.perf_counter() - start) / 50 * 1e6)
    return float(np.median(samples))


def engines() -> list[Results]:
    """Time products in one kernel, and with int8 products by cublasLt's fastest algorithm of those
    tried, by its first in another raster, and through cublasGemmEx.
    """
    import cupy

    from gpuemu.gemm.emulation import (
        cublaslt,
        device_fused,
        device_products,
        emulated_matmul,
        repeats,
        tuning,
    )

    rows = []
    saved = device_fused.LIMIT, device_products.DIRECT_LIMIT, cublaslt.library
    every, none = 1 << 60, 0
    for size in (1024, 2048, 3000, 4096, 8192):
        for dtype, scheme, bits in ((np.float32, "slices", 23), (np.float64, "crt", 52)):
            a, b = (cupy.random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            row: Results = {"n": size, "dtype": np.dtype(dtype).name, "scheme": scheme}
            named = {
                "tried": (none, every, saved[2]),
                "raster": (none, none, saved[2]),
                "gemmEx": (none, none, _no_library),
            }
            if scheme == "slices":
                named["one kernel"] = (every, none, saved[2])
            calls = {}
            for name, limits in named.items():
                device_fused.LIMIT, device_products.DIRECT_LIMIT, cublaslt.library = limits
                repeats.forget()
                emulated_matmul(a, b, mantissa_bits=bits, scheme=scheme)
                calls[name] = partial(next(iter(repeats._known.values())), a, b, None, 1.0, 0.0)
            samples = [
                {name: tuning.median_ms(call, 5) for name, call in calls.items()} for _ in range(3)
            ]
            for name in named:
                row[f"{name}, ms"] = float(np.median([s[name] for s in samples]))
            rows.append(row)
            times = ", ".join(f"{name} {row[f'{name}, ms']:.3f} ms" for name in named)
            print(f"engines {row['dtype']:8} {size:6} {scheme:6}: {times}")
    device_fused.LIMIT, device_products.DIRECT_LIMIT, cublaslt.library = saved
    repeats.forget()
    return rows


def sweep(size: int) -> list[Results]:
    """Time row blocks and batched residue products, to see what pays on this device."""
    import cupy

    from gpuemu.gemm.emulation import (
        device_plan,
        device_products,
        emulated_matmul,
        repeats,
        tuning,
    )

    rows = []
    saved = device_plan.ROW_BLOCK, device_plan.SMALLEST_ROW_BLOCK, device_products.BATCHED_LIMIT
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
                device_plan.ROW_BLOCK = device_plan.SMALLEST_ROW_BLOCK = block
                device_products.BATCHED_LIMIT = 1 << 60 if batched else 0
                repeats.forget()
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
    device_plan.ROW_BLOCK, device_plan.SMALLEST_ROW_BLOCK, device_products.BATCHED_LIMIT = saved
    repeats.forget()
    return rows


def cublas_emulation(sizes: list[int]) -> dict[str, float]:
    """Time cuBLAS's own emulated DGEMM in its own process: the environment switches it on."""
    environment = os.environ | {
        "CUBLAS_EMULATE_DOUBLE_PRECISION": "1",
        "CUBLAS_EMULATION_STRATEGY": "eager",
        "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT": "55",
    }
    report = Path(__file__).with_name("emulation_report.py")
    command = [sys.executable, str(report), "--only-cublas", "--sizes", ",".join(map(str, sizes))]
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
            ms = tuning.median_ms(partial(operator.matmul, a, b), 3 if size < 16384 else 1, 1)
            times[str(size)] = min(ms, times.get(str(size), ms))
    print(json.dumps(times))
