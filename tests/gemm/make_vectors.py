"""Write tests/vectors/gemm/tensor_core.npz from mmasim, the published bit-accurate model of the
tensor cores.

    pip install torch mmasim
    python tests/gemm/make_vectors.py

Every entry is one GEMM of 16 x 8 (wgmma: 64 x 8) outputs and four instructions along K, accumulator
from zero, stored as bits: `<unit>/<case>/A`, `/B`, `/D`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

# unit name: (mmasim class, its architecture, instruction, element of A, of B, of D)
UNITS = {
    f"{sm}-{'wgmma' if wgmma else 'mma'}-{a}-{b}-{d}": (
        "WGMMA" if wgmma else "MMA",
        arch,
        f"{shape}.{d}.{pa}.{pb}" + ("" if wgmma else f".{d}"),
        a,
        b,
        d,
    )
    for sm, arch, wgmma, shape, a, pa, b, pb, d in [
        *(
            (sm, arch, False, "m16n8k16", "f16", "f16", "f16", "f16", d)
            for sm, arch in (
                (800, "Ampere"),
                (890, "Ada Lovelace"),
                (900, "Hopper"),
                (1000, "Blackwell"),
                (1200, "RTX Blackwell"),
            )
            for d in ("f32", "f16")
        ),
        *(
            (sm, arch, False, shape, x, p, x, p, "f32")
            for sm, arch in (
                (800, "Ampere"),
                (890, "Ada Lovelace"),
                (900, "Hopper"),
                (1000, "Blackwell"),
            )
            for shape, x, p in (("m16n8k16", "bf16", "bf16"), ("m16n8k8", "tf32", "tf32"))
        ),
        *((750, "Turing", False, "m16n8k8", "f16", "f16", "f16", "f16", d) for d in ("f32", "f16")),
        *(
            (sm, arch, False, "m16n8k32", "f8e4m3fn", "e4m3", "f8e5m2", "e5m2", d)
            for sm, arch in ((890, "Ada Lovelace"), (1200, "RTX Blackwell"))
            for d in ("f32", "f16")
        ),
        *(
            (900, "Hopper", True, "m64n8k32", "f8e4m3fn", "e4m3", "f8e5m2", "e5m2", d)
            for d in ("f32", "f16")
        ),
        (900, "Hopper", True, "m64n8k16", "f16", "f16", "f16", "f16", "f32"),
    ]
}
DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
}


def fill(
    rng: np.random.Generator, case: str, shape: tuple[int, int], name: str, unit_result: str
) -> Any:
    """Return operands of one kind."""
    dtype = np.dtype(DTYPES[name])
    if case == "bits":
        found = (
            rng.integers(0, 256, shape[0] * shape[1] * dtype.itemsize, dtype=np.uint8)
            .view(dtype)
            .reshape(shape)
        )
    elif case == "wide":
        found = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 5, shape)).astype(dtype)
    elif case == "subnormal":
        least = float(ml_dtypes.finfo(dtype).tiny)
        found = (rng.standard_normal(shape) * least * 2.0 ** rng.integers(-3, 12, shape)).astype(
            dtype
        )
    elif case == "tiny":  # products near the least subnormal result: zeros' exponents matter
        middle = -12 if "f16" in unit_result else -75
        steps = rng.integers(-7, 5, shape)
        found = rng.choice([0.0, 1.0, -1.0, 1.5, 1.25], shape) * 2.0 ** (middle + steps)
        found = found.astype(dtype)
    else:  # "cancel": neighbours along k are nearly opposite
        found = rng.standard_normal(shape)
        axis = 1 if shape[1] > shape[0] else 0
        np.moveaxis(found, axis, 0)[1::2] = -np.moveaxis(found, axis, 0)[::2]
        found = (found * (1 + 2.0**-9 * (rng.random(shape) < 0.5))).astype(dtype)
    if name == "tf32":
        found = (found.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return found


def tensor(x: Any) -> Any:
    """Return a NumPy array as a torch tensor of the same dtype."""
    import torch

    named = {
        "bfloat16": torch.bfloat16,
        "float8_e4m3fn": torch.float8_e4m3fn,
        "float8_e5m2": torch.float8_e5m2,
    }
    if x.dtype.name in named:
        return torch.from_numpy(x.view(f"i{x.itemsize}").copy()).view(named[x.dtype.name])
    return torch.from_numpy(x.copy())


def main() -> None:
    """Run the model and write the file."""
    import torch
    from mmasim import nv_ptx

    rng = np.random.default_rng(20261130)
    saved = {}
    for unit, (kind, arch, instruction, a, b, d) in UNITS.items():
        mma = getattr(nv_ptx, kind)(arch, instruction)
        m, n, k = mma.m, mma.n, mma.k
        for case in ("bits", "wide", "subnormal", "cancel", "tiny"):
            left, right = fill(rng, case, (m, 4 * k), a, d), fill(rng, case, (4 * k, n), b, d)
            acc = torch.zeros((m, n), dtype=torch.float16 if d == "f16" else torch.float32)
            for at in range(0, 4 * k, k):
                acc = mma(tensor(left[:, at : at + k]), tensor(right[at : at + k]), acc)
            result = acc.numpy()
            for name, x in (("A", left), ("B", right), ("D", result)):
                saved[f"{unit}/{case}/{name}"] = x.view(f"u{x.itemsize}")
    path = Path(__file__).parent.parent / "vectors" / "gemm" / "tensor_core.npz"
    np.savez_compressed(path, **saved)
    print(f"{path}: {len(saved) // 3} GEMMs")


if __name__ == "__main__":
    main()
