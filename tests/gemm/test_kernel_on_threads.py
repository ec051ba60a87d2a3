"""The CUDA kernel itself on CPU threads under the sanitizers, against the oracle: no GPU needed.

Operands are exact-size buffers, so a read or write outside of a matrix, or of shared memory, ends
the program; a missing barrier is a data race.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.backends import host, sources
from gpuemu.errors import BadValue
from gpuemu.gemm import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    Function,
    Precision,
    Size,
    Type,
    kernel_plan,
)
from gpuemu.gemm.call import GemmCall, make_call
from gpuemu.gemm.execute import run_oracle

from .problems import bits, operands, random_bits

pytestmark = pytest.mark.skipif(not host.available(), reason=host.why_unavailable())

HERE = Path(__file__).parent
SHARED = 64 * 1024


def build(defines: dict[str, Any], sanitizer: str) -> Path:
    """Return the program for one set of constants, cached like every other build."""
    text = sources.digest() + "".join(p.read_text() for p in sorted(HERE.glob("gemm_on_threads.*")))
    key = hashlib.sha256((text + repr(sorted(defines.items())) + sanitizer).encode()).hexdigest()
    path = sources.cache_directory() / f"gemm-threads-{key[:32]}"
    if not path.is_file():
        options = [f"-D{name}={value}" for name, value in defines.items()]
        flags = [
            "-std=c++20",
            "-O0",
            "-g1",
            "-ffp-contract=off",
            "-pthread",
            f"-fsanitize={sanitizer}",
        ]
        flags += ["-fno-sanitize-recover=all", f"-I{sources.directory()}", "-o", str(path)]
        command = [str(host.compiler()), *options, *flags, str(HERE / "gemm_on_threads.cpp")]
        subprocess.run(command, check=True)
    return path


def launch(
    call: GemmCall,
    sm: int,
    folder: Path,
    launched: Any = None,
    shared: int = SHARED,
    sanitizer: str = "address,undefined",
) -> Any:
    """Run the kernel on CPU threads as `run_cuda` runs it on a device, and return the result."""
    plan = kernel_plan.plan(call, sm, shared, launched)
    m, n, k = call.extents
    tiles = -(-m // plan.tile[0]) * -(-n // plan.tile[1])
    result = call.empty(np)
    result.memory.view(np.uint8)[...] = 0xA5
    old = call.c or result
    numbers = [tiles, *plan.block, plan.shared_bytes, m, n, k]
    numbers += [x.leading for x in (call.a, call.b, old, result)]
    factors = np.array(kernel_plan.factors(call), np.uint64)
    (folder / "numbers").write_bytes(np.array(numbers, np.int64).tobytes() + factors.tobytes())
    names = []
    for name, matrix in zip("abcd", (call.a, call.b, old, result), strict=True):
        (folder / name).write_bytes(raw(matrix.memory))
        names.append(str(folder / name))
    program = build(dict(plan.defines), sanitizer)
    subprocess.run([str(program), str(folder / "numbers"), *names], check=True)
    flat = np.frombuffer((folder / "d").read_bytes(), result.memory.dtype)
    result.memory[...] = flat.reshape(result.memory.shape)
    return result, plan


def extent(memory: Any) -> int:
    """Return bytes from the first element to the end of the last."""
    return int(
        sum((s - 1) * t for s, t in zip(memory.shape, memory.strides, strict=True))
        + memory.itemsize
    )


def raw(memory: Any) -> bytes:
    """Return the bytes of a matrix in place, gaps included, its end cut exactly."""
    import ctypes

    return ctypes.string_at(memory.ctypes.data, extent(memory))


def check(
    d: gemm.Descriptor, folder: Path, extents: Any = None, sm: int = 900, **options: Any
) -> kernel_plan.Plan:
    """Compare one product with the oracle."""
    for fill in ("moderate", "raw"):
        a, b, c = operands(
            d, 1, extents=extents, **({"fill": random_bits} if fill == "raw" else {})
        )
        call = make_call(d, a, b, c, alpha=2, beta=1)
        got, plan = launch(call, sm, folder, **options)
        want = run_oracle(call)
        for x, y in zip(got.planes(), want.planes(), strict=True):
            assert np.array_equal(bits(x), bits(y))
    return plan


def describe(names: Any, size: Any, threads: Any = (64,), sm: int = 900) -> gemm.Descriptor:
    base = Size(*size) + Precision(*names) + Function("MM") + SM(sm) + Block()
    return base + BlockDim(*threads)


# Every fragment layout: one and two row halves, one and two word groups along k, and f64.
LAYOUTS = [
    (("f16", "f16", "f32"), (32, 16, 16), "m16n8k16"),
    (("f16", "f16", "f32"), (16, 8, 8), "m16n8k8"),
    (("f16", "f16", "f16"), (32, 16, 16), "m16n8k16"),
    (("f16", "f16", "f16"), (16, 8, 8), "m16n8k8"),
    (("bf16", "bf16", "f32"), (32, 16, 16), "m16n8k16"),
    (("tf32", "tf32", "f32"), (16, 16, 8), "m16n8k8"),
    (("tf32", "tf32", "f32"), (16, 16, 4), "m16n8k4"),
    (("i8", "u8", "i32"), (32, 16, 32), "m16n8k32"),
    (("i8", "u8", "i32"), (16, 8, 16), "m16n8k16"),
    (("i8", "i8", "i32"), (8, 16, 16), "m8n8k16"),
    (("f64", "f64", "f64"), (16, 16, 16), "m8n8k4"),
    (("f8e4m3fn", "f8e5m2", "f32"), (16, 8, 32), "m16n8k32"),
]


@pytest.mark.parametrize(("names", "size", "shape"), LAYOUTS)
def test_tensor_core_kernels(names: Any, size: Any, shape: str, tmp_path: Path) -> None:
    m, n, k = size
    plan = check(describe(names, size), tmp_path, (m + 3, n + 5, 5 * k))
    assert plan.engine == "mma"
    assert plan.defines["MMA_SHAPE"] == shape


@pytest.mark.parametrize(
    "names", [("f32",) * 3, ("f16", "f16", "f16"), ("f64", "f64", "f32"), ("u8", "u8", "u32")]
)
def test_plain_kernels(names: Any, tmp_path: Path) -> None:
    plan = check(describe(names, (13, 11, 7), (40,)), tmp_path, (17, 25, 50))
    assert plan.engine == "plain"


def test_another_generation_in_software(tmp_path: Path) -> None:
    plan = check(describe(("f16", "f16", "f32"), (16, 8, 16), sm=800), tmp_path, (20, 9, 48))
    assert plan.engine == "plain"


@pytest.mark.parametrize(
    "orders", [("row_major", "col_major", "row_major"), ("col_major", "row_major", "col_major")]
)
@pytest.mark.parametrize("parts", ["real", "complex"])
def test_orders_and_complex(orders: Any, parts: str, tmp_path: Path) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        d = describe(names, (16, 8, 16)) + Arrangement(*orders) + Type(parts)
        check(d, tmp_path, (19, 11, 32))


def test_sixteen_byte_copies(tmp_path: Path) -> None:
    d = describe(("f16", "f16", "f32"), (32, 16, 32)) + Alignment(16, 16, 16)
    plan = check(d, tmp_path, (45, 19, 160))
    assert plan.defines["VECTOR"] == 1


@pytest.mark.parametrize(
    ("names", "shared", "stages"),
    [
        (("f16", "f16", "f32"), 3 * 48 * 48, 3),
        (("f16", "f16", "f32"), 2 * 48 * 48, 2),
        (("f16", "f16", "f32"), 48 * 48, 1),
        (("f32",) * 3, 48 * 8, 1),
    ],
)
def test_less_shared_memory_means_fewer_stages(
    names: Any, shared: int, stages: int, tmp_path: Path
) -> None:
    d = describe(names, (32, 16, 16))
    plan = check(d, tmp_path, (37, 17, 80), shared=shared)
    assert plan.defines["STAGES"] == stages
    assert plan.shared_bytes <= shared
    a, b, _ = operands(d)
    least = 48 * 48 if stages > 1 or names[0] == "f16" else 48 * 8
    with pytest.raises(
        BadValue, match=rf"needs {least} bytes of shared memory here; the device has {least - 1}"
    ):
        kernel_plan.plan(make_call(d, a, b), 900, least - 1)


def test_more_threads_than_block_dim(tmp_path: Path) -> None:
    for names in (("f16", "f16", "f32"), ("f32",) * 3):
        check(describe(names, (16, 16, 16), (8, 4, 2)), tmp_path, launched=(8, 4, 3))
        check(describe(names, (16, 16, 16), (32,)), tmp_path, launched=(50, 1, 1))


@pytest.mark.parametrize("names", [("f16", "f16", "f32"), ("f32",) * 3], ids="-".join)
@pytest.mark.parametrize("shared", [SHARED, 2048], ids=["ring", "one stage"])
def test_no_data_race(names: Any, shared: int, tmp_path: Path) -> None:
    d = describe(names, (16, 16, 16), (32,))
    check(d, tmp_path, (16, 16, 160), shared=shared, sanitizer="thread")
