"""TFMA's speed on a device: bytes read and written a second, beside the device's own copy.

`python bench/test_tile.py` prints the table; under pytest-benchmark each row is a benchmark.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuemu.tile import device, oracle
from gpuemu.tile.numeric import DataType, data_type
from gpuemu.tile.operations import OPERATIONS

ELEMENTS = 1 << 28
CASES = [(dtype, kind) for dtype in ("FP32", "FP16", "BF16") for kind in ("normal", "raw bits")]


def operand(dtype: DataType, kind: str, seed: int, count: int) -> Any:
    """Return device bits: normal numbers of mean 0 and deviation 1, or uniform codes."""
    import cupy

    rng = np.random.default_rng(seed)
    part = 1 << 20
    if kind == "normal":
        values = rng.standard_normal(part)
        codes = oracle.round_pack(dtype, values, np.zeros(part))[0]
    else:
        codes = rng.integers(0, 1 << dtype.bits, part).astype(dtype.storage)
    return cupy.resize(cupy.asarray(codes), count)


def launcher(dtype: DataType, kind: str, count: int) -> tuple[Callable[[], None], int]:
    """Return a launch of the flat kernel without allocation or synchronisation, and its bytes."""
    import cupy

    sources = tuple(operand(dtype, kind, seed, count) for seed in range(3))
    out, flags = cupy.empty_like(sources[0]), cupy.zeros(1, np.uint32)
    launch = device.elements_launch(OPERATIONS["TFMA"], dtype, sources, out, flags, "ieee")
    return launch, 4 * out.nbytes


def seconds(function: Callable[[], object], repeats: int = 20) -> float:
    """Return the median time on the device of one call, in seconds."""
    import cupy

    function()
    times = []
    for _ in range(repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        function()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return float(np.median(times))


def copy_rate(count: int = 1 << 30) -> float:
    """Return the device's own copy, bytes read and written a second."""
    import cupy

    source, target = cupy.zeros(count, cupy.uint8), cupy.empty(count, cupy.uint8)
    return 2 * count / seconds(lambda: target.data.copy_from_device_async(source.data, count))


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "kind"), CASES)
def test_tfma(benchmark: Any, dtype: str, kind: str) -> None:
    import cupy

    launch, total = launcher(data_type(dtype), kind, ELEMENTS)

    def once() -> None:
        launch()
        cupy.cuda.get_current_stream().synchronize()

    benchmark.extra_info["bytes"] = total
    benchmark(once)


def main() -> None:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    count = parser.parse_args().elements
    copy = copy_rate()
    print(f"copy {copy / 1e12:.3f} TB/s")
    for dtype, kind in CASES:
        launch, total = launcher(data_type(dtype), kind, count)
        rate = total / seconds(launch)
        print(f"TFMA {dtype} {kind:9} {rate / 1e12:.3f} TB/s {100 * rate / copy:.1f} % of copy")


if __name__ == "__main__":
    main()
