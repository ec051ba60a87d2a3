"""What stands beside a whole product in the report: cuBLAS's own, and the published model's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from matmul_cases import CLASSES, chain_of

FAMILIES = {"gfx908": "CDNA1", "gfx90a": "CDNA2", "gfx942": "CDNA3"}
BATCHES = tuple(1 << n for n in (14, 16, 18, 20, 22))  # dot products of one call


def spread(times: list[float], work: float) -> dict[str, Any]:
    """Return the median rate of some runs, in 1e12 a second, and the slowest and fastest."""
    return {
        "median": work / statistics.median(times) / 1e12,
        "slowest": work / max(times) / 1e12,
        "fastest": work / min(times) / 1e12,
        "runs": len(times),
    }


def seconds(work: Callable[[], Any], budget: float = 0.6) -> list[float]:
    """Return the seconds of some launches after a first one, timed by events."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or (len(times) < 12 and time.perf_counter() - begun < budget):
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return times[1:]


def cublas(name: str, size: int) -> dict[str, Any] | None:
    """Return Tera-MAC/s of cuBLAS's own product of the class's format, where it has one."""
    import cupy

    if name in ("f32", "f64"):
        dtype = {"f32": cupy.float32, "f64": cupy.float64}[name]
        a, b = cupy.random.standard_normal((2, size, size)).astype(dtype)
        out = cupy.empty((size, size), dtype)
        return spread(seconds(lambda: cupy.matmul(a, b, out=out)), size**3)
    if name == "i8":
        return spread(seconds(_int8_product(size)), size**3)
    return None


def _int8_product(size: int) -> Callable[[], Any]:
    """Return cuBLAS's int8 product in its one fast orientation."""
    import cupy
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    a = cupy.random.randint(-100, 100, (size, size)).astype(cupy.int8)
    d = cupy.empty((size, size), cupy.int32)
    one, zero = np.array(1, np.int32), np.array(0, np.int32)
    handle = int(device.get_cublas_handle())
    int8, int32, compute_32i, default = 3, 10, 72, -1
    return lambda: cublas.gemmEx(
        handle, 1, 0, size, size, size, one.ctypes.data, a.data.ptr, int8, size,
        a.data.ptr, int8, size, zero.ctypes.data, d.data.ptr, int32, size, compute_32i, default,
    )  # fmt: skip


def mmasim(name: str, device: str = "cuda", batches: tuple[int, ...] = BATCHES) -> Any:
    """Return mmasim's Giga-MAC/s on a device at its best batch, and that batch; None for what it
    does not have.
    """
    import torch
    from mmasim.amd import isa_mfma, sim

    row = CLASSES[name]
    family, suffix = FAMILIES.get(row.arch), row.mnemonic.removeprefix("v_mfma_")
    if family is None or suffix not in isa_mfma.arch_mfma_suffix[family]:
        return None
    model, k = sim.MFMA(family, suffix), chain_of(name).instruction.K
    wide = torch.float64 if suffix.startswith("f64") else torch.float32
    best: dict[str, Any] = {"giga_mac_s": 0.0}
    for batch in batches:
        try:
            a, b = (torch.randn(batch, k, device=device).to(model.a_type) for _ in "ab")
            c = torch.randn(batch, device=device, dtype=wide)
            took = statistics.median(_torch_seconds(model.dpa, (a, b, c), device))
        except torch.OutOfMemoryError:
            break
        rate = batch * k / took / 1e9
        if rate > best["giga_mac_s"]:
            best = {"giga_mac_s": rate, "batch": batch}
    return best


def _torch_seconds(work: Any, args: tuple[Any, ...], device: str) -> list[float]:
    import torch

    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or (len(times) < 12 and time.perf_counter() - begun < 0.15):
        start = time.perf_counter()
        work(*args)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times[1:]


def all_of_mmasim(device: str = "cuda", batches: tuple[int, ...] = BATCHES) -> dict[str, Any]:
    """Return what mmasim reaches by class, or why there is none under "reason"."""
    try:
        import mmasim as package  # noqa: F401
        import torch
    except ImportError as error:
        return {"reason": f"mmasim is not measured: {error}"}
    if device == "cuda" and not torch.cuda.is_available():
        return {"reason": "mmasim is not measured: this torch has no CUDA device"}
    found: dict[str, Any] = {"torch": torch.__version__, "failed": {}}
    for name in CLASSES:
        try:
            found[name] = mmasim(name, device, batches)
        except Exception as error:
            found["failed"][name] = f"{type(error).__name__}: {error}"
    return found
