"""Pictures of rounding errors, computed here: one product on five chips, and emulated precision
against the number of mantissa bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot
from style import CHIPS, COLOURS, NATIVE, save

import gpuemu
from gpuemu import gemm
from gpuemu.backends import host
from gpuemu.gemm import emulated_matmul

Array = np.ndarray[Any, Any]

BACKEND = "host" if host.available() else "numpy"  # the same bits
M, N, K = 128, 128, 1024
AMD = {
    "gfx908": "v_mfma_f32_32x32x8f16",
    "gfx90a": "v_mfma_f32_32x32x8f16",
    "gfx942": "v_mfma_f32_32x32x8_f16",
}
NVIDIA = {"sm_80": gemm.SM(800), "sm_90": gemm.SM(900)}


def products() -> tuple[dict[str, Array], Array]:
    """Return one f16 product as each chip computes it, and its exact value in binary64.

    Every product of two f16 numbers has 22 bits and lies within 2^22 of its neighbours here, so
    that binary64 sums a thousand of them to far below an ulp of binary32.
    """
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = np.asfortranarray(rng.standard_normal((K, N)).astype(np.float16))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    found = {
        arch: gpuemu.matmul(a, b, instruction=gpuemu.instruction(name, arch), backend=BACKEND)
        for arch, name in AMD.items()
    }
    problem = (
        gemm.Size(64, 64, 32)
        + gemm.Precision("f16", "f16", "f32")
        + gemm.Function("MM")
        + gemm.Arrangement("row_major", "col_major", "col_major")
        + gemm.Block()
    )
    for chip, sm in NVIDIA.items():
        found[chip] = gemm.matmul(problem + sm, a, b, backend=BACKEND)
    return found, exact


def histograms() -> None:
    """Draw the error of every output, away from zero positive, one row a chip."""
    found, exact = products()
    unit = 2.0 ** (np.floor(np.log2(np.sqrt(np.mean(exact**2)))) - 23)
    edges = np.arange(-80, 40.5, 1)
    figure, rows = pyplot.subplots(len(found), sharex=True, figsize=(7.2, 6.4))
    for axes, (chip, result) in zip(rows, found.items(), strict=True):
        error = ((result.astype(np.float64) - exact) * np.sign(exact) / unit).ravel()
        axes.hist(np.clip(error, edges[0], edges[-1]), edges, color=COLOURS[chip])
        axes.axvline(error.mean(), color="black", linewidth=1)
        text = f"mean {error.mean():+.2f}, rms {np.sqrt(np.mean(error**2)):.2f}"
        axes.set_title(f"{CHIPS[chip]} ({chip}): {text}", loc="left", fontsize=10)
        axes.set_yticks([])
    rows[0].set_xlim(edges[0], edges[-1])
    rows[-1].set_xlabel(
        "towards zero  <  error of an output, in ulps (binary32) of a typical result  >  away"
    )
    figure.suptitle(f"One f16 product, {M} x {N} x {K}, normal data: {M * N} outputs a chip")
    save(figure, "errors-five-chips")


def mantissa_bits() -> None:
    """Draw the largest error of emulated products against the bits asked for."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((32, 256)), rng.standard_normal((256, 32))
    wide = np.longdouble
    exact = a.astype(wide) @ b.astype(wide)
    size = np.abs(a) @ np.abs(b)

    def error(c: Array) -> float:
        return float((np.abs(c - exact) / size).max())

    bits = list(range(7, 61, 2))
    figure, axes = pyplot.subplots(figsize=(7.2, 4.2))
    for scheme, colour, marker in (("slices", "#1f77b4", "o"), ("crt", "#d62728", "s")):
        errors = [
            error(emulated_matmul(a, b, mantissa_bits=x, scheme=scheme, backend=BACKEND))
            for x in bits
        ]
        label = {"slices": "slices", "crt": "residues (crt)"}[scheme]
        axes.semilogy(bits, errors, marker=marker, color=colour, label=label, markersize=4)
    for dtype, name in ((np.float32, "native float32"), (np.float64, "native float64")):
        if dtype is np.float32:
            # The inputs are rounded first: that error is part of what float32 costs.
            native = error((a.astype(dtype) @ b.astype(dtype)).astype(np.float64))
        else:
            native = error(a @ b)
        axes.axhline(native, color=NATIVE, linestyle="--", linewidth=1)
        axes.text(60, native * 1.3, name, ha="right", color=NATIVE)
    axes.set_xlabel("mantissa bits asked for")
    axes.set_ylabel("largest error / (|A| |B|)")
    axes.set_title("Emulated float64 product, K = 256, normal data", loc="left", fontsize=10)
    axes.legend()
    save(figure, "errors-mantissa-bits")


def draw_all() -> None:
    """Write both pictures."""
    histograms()
    mantissa_bits()
