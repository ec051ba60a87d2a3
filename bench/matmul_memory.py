"""Memory of large products, panels from host arrays, and several GPUs: parts of the report."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from matmul_beside import seconds, spread
from matmul_cases import chain_of, device_operands, operands

import gpuemu
from gpuemu.mfma import panels

F16 = "cdna3 f16"


def _wall(work: Any, runs: int = 2) -> list[float]:
    """Return the seconds of some calls that end with their results on the host."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times[1:]


def _host_operand(size: int) -> np.ndarray[Any, Any]:
    block = operands(chain_of(F16), (1, 1024, 1024, 1024), "normal").a[0].view(np.float16)
    return np.tile(block, (size // 1024, size // 1024))


def memory(size: int = 16384) -> list[dict[str, Any]]:
    """Return the peak of CuPy's pool over operands and result, of products over 1 GiB."""
    import cupy

    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "f16": ("cdna3 f16", {}),
        "f16, split_k=4": ("cdna2 f16", {"split_k": 4}),
        "f16, bf16 out": ("cdna2 f16", {"output": "bf16"}),
        "smfmac f16": ("smfmac f16", {}),
        "i8": ("i8", {}),
        "i8, C": ("i8", {"C": True}),
    }
    found = []
    pool = cupy.get_default_memory_pool()
    for what, (name, options) in calls.items():
        chain = chain_of(name)
        pool.free_all_blocks()
        x = device_operands(chain, 1, size)
        a, b, c = x.a[0], x.b[0], None
        if chain.instruction.sparse:
            a = cupy.tile(cupy.asarray([[1, 0, 0, 2]], a.dtype), (size, size // 4))
        if options.pop("C", False):
            c = cupy.ones((size, size), cupy.int32)
        del x
        pool.free_all_blocks()
        before, free = pool.used_bytes(), cupy.cuda.runtime.memGetInfo()[0]
        made = gpuemu.matmul(a, b, c, instruction=chain.instruction, bits=True, **options)
        cupy.cuda.get_current_stream().synchronize()
        taken = free - cupy.cuda.runtime.memGetInfo()[0]
        total = before + made.nbytes
        found.append(
            {
                "product": f"{what}, {size}^3",
                "operands_and_result_gib": total / 2**30,
                "beside_percent": 100 * (taken - made.nbytes) / total,
            }
        )
        del a, b, c, made
    pool.free_all_blocks()
    return found


def _on_device(A: Any) -> tuple[dict[str, Any], Any]:
    """Return the rate of A @ A on the device, and the result."""
    import cupy

    i, a = chain_of(F16).instruction, cupy.asarray(A)
    times = seconds(lambda: gpuemu.matmul(a, a, instruction=i), 0)
    return spread(times, A.shape[0] ** 3), gpuemu.matmul(a, a, instruction=i).get()


def in_panels(size: int = 16384, share: int = 6) -> dict[str, Any]:
    """Return rates of a product on the device, and from host arrays in panels of 1/share of it."""
    i, A = chain_of(F16).instruction, _host_operand(size)
    inside, want = _on_device(A)
    budget = (2 * A.nbytes + want.nbytes) // share
    own, panels._budget = panels._budget, lambda number: budget
    try:
        got: list[Any] = []
        times = _wall(
            lambda: got.append(gpuemu.matmul(A, A, instruction=i, backend="cuda", devices=[0]))
        )
    finally:
        panels._budget = own
    outside = spread(times, size**3)
    return {
        "size": size,
        "on the device": inside,
        "from the host in panels": outside,
        "ratio": outside["median"] / inside["median"],
        "differing": int((got[0].view(np.uint32) != want.view(np.uint32)).sum()),
    }


def scaling(devices: list[int], size: int = 16384) -> dict[str, Any]:
    """Return rates from host arrays on one device and on several, and whether the bits agree."""
    i = chain_of(F16).instruction
    A = _host_operand(size)
    found: dict[str, Any] = {"size": size}
    results = []
    for numbers in (devices[:1], devices):
        call = lambda: results.append(  # noqa: E731
            gpuemu.matmul(A, A, instruction=i, backend="cuda", devices=numbers)  # noqa: B023
        )
        found[str(numbers)] = spread(_wall(call), size**3)
        del results[1:-1]
    found["differing"] = int((results[0].view(np.uint32) != results[-1].view(np.uint32)).sum())
    found["speed_up"] = found[str(devices)]["median"] / found[str(devices[:1])]["median"]
    return found
