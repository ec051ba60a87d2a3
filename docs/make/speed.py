"""Pictures of measured speed, from docs/measured: a roofline of every kernel, and throughput
against size. What was not measured is not drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot
from measured import Measured, median, read
from style import CHIPS, COLOURS, NATIVE, save
from tables import short

import gpuemu

COPY = 4.3e12  # bytes a second, read and written, that an H200 copies
LEVELS = {"register level": "o", "whole GEMM": "s"}


class Point(NamedTuple):
    """A kernel: its chip, level and format, and its multiply-adds a byte and a second."""

    arch: str
    level: str
    name: str
    intensity: float
    rate: float


def register_points(report: Measured) -> list[Point]:
    """Return every register-level row."""
    points = []
    for row in report.rows:
        if row.get("device") != "gpu" or "MAC/s" not in row:
            continue
        i = gpuemu.instruction(row["instruction"], row["arch"])
        moved = sum(i.vgprs[x] for x in "ABCD") * 64 * 4
        intensity = i.M * i.N * i.products * i.blocks / moved
        name = short(i)
        points.append(Point(row["arch"], "register level", name, intensity, median(row["MAC/s"])))
    return points


def gemm_points(report: Measured, size: str = "8192") -> list[Point]:
    """Return every whole product of one size."""
    points = []
    for row in report.rows:
        rate = row.get("tera_mac_s", {}).get(size)
        if rate is None:
            continue
        i = gpuemu.instruction(row["instruction"], row["arch"])
        n = int(size)
        bits = sum(i.operand_format(x).bits for x in "ABD")
        name = short(i)
        points.append(Point(row["arch"], "whole GEMM", name, 8 * n / bits, median(rate) * 1e12))
    return points


def roofline() -> None:
    """Draw MAC/s against MAC per byte, each operand moved once, below the copy bandwidth."""
    mfma, matmul = read("mfma"), read("matmul")
    points = [*(register_points(mfma) if mfma else ()), *(gemm_points(matmul) if matmul else ())]
    if not points:
        return
    figure, axes = pyplot.subplots(figsize=(7.2, 4.6))
    x = np.geomspace(0.05, 5000, 50)
    axes.loglog(x, COPY * x, color=NATIVE, linewidth=1.2)
    axes.text(0.11, COPY * 0.19, "4.3 TB/s", color=NATIVE, rotation=33, ha="left")
    axes.axhline(1495e12 / 2, color=NATIVE, linewidth=1.2, linestyle="--")
    axes.text(0.06, 1495e12 / 2 * 1.12, "int8 tensor cores (cuBLAS, 748 T MAC/s)", color=NATIVE)
    named: list[Point] = []
    for p in sorted(points):
        label = CHIPS[p.arch] if not any(q.arch == p.arch for q in named) else None
        axes.plot(p.intensity, p.rate, LEVELS[p.level], color=COLOURS[p.arch], label=label)
        named.append(p)
        if all(_apart(p, q) for q in named[:-1]):
            place = (p.intensity * 1.15, p.rate * 1.08)
            axes.annotate(p.name, place, fontsize=7, color=COLOURS[p.arch])
    for level, marker in LEVELS.items():
        axes.plot([], [], marker, color="white", markeredgecolor="black", label=level)
    axes.set(xlim=(0.05, 5000), ylim=(1e11, 3e15))
    axes.set_xlabel("multiply-adds a byte of A, B, C and D")
    axes.set_ylabel("multiply-adds a second")
    axes.legend(loc="lower right", fontsize=8, ncols=2)
    axes.set_title(str((mfma or matmul).caption), loc="left", fontsize=10)  # type: ignore[union-attr]
    save(figure, "roofline")


def _apart(p: Point, q: Point) -> bool:
    """Tell whether two points are far enough from each other for both to be named."""
    across, up = np.log10(p.intensity / q.intensity), np.log10(p.rate / q.rate)
    return bool(abs(across) > 0.25 or abs(up) > 0.1)


def matmul_sizes() -> None:
    """Draw Tera-MAC/s of whole products against their extent, one line a class."""
    report = read("matmul")
    if report is None:
        return
    figure, axes = pyplot.subplots(figsize=(7.2, 4.8))
    styles: dict[str, int] = {}
    for row in report.rows:
        speeds = row.get("tera_mac_s")
        if not speeds:
            continue
        count = styles[row["arch"]] = styles.get(row["arch"], 0) + 1
        line = ("-", "--", ":", "-.")[(count - 1) % 4]
        marker = "osd^vx+*"[(count - 1) % 8]
        sizes = sorted(map(int, speeds))
        rates = [median(speeds[str(n)]) for n in sizes]
        axes.loglog(
            sizes, rates, line, marker=marker, markersize=4, color=COLOURS[row["arch"]],
            label=row["class"], base=2,
        )  # fmt: skip
    _sizes(axes, report)
    axes.set_yscale("log", base=10)
    axes.set_ylabel("Tera multiply-adds a second")
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    save(figure, "throughput-matmul")


def emulation_sizes() -> None:
    """Draw TFLOP/s of emulated and native products against their extent."""
    report = read("emulation", "figures")
    if report is None:
        return
    figure, panels = pyplot.subplots(1, 2, figsize=(7.6, 4.6))
    for axes, dtype in zip(panels, ("float32", "float64"), strict=True):
        curves: dict[str, list[tuple[int, float]]] = {}
        for row in report.rows:
            if row["dtype"] == dtype:
                curves.setdefault(row["what"], []).append((row["n"], median(row["tflops"])))
        for what, points in curves.items():
            axes.semilogx(*zip(*sorted(points), strict=True), **_curve(what))
        _sizes(axes, None)
        axes.set_ylim(bottom=0)
        axes.set_title(dtype, loc="left", fontsize=10)
        axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    panels[0].set_ylabel("TFLOP/s")
    figure.suptitle(report.caption, fontsize=10)
    save(figure, "throughput-emulation")


def _curve(what: str) -> dict[str, Any]:
    """Return how a curve of emulated precision looks: colour by scheme, line by bits."""
    if what == "native":
        return {"label": "native (cuBLAS)", "color": NATIVE, "linewidth": 2, "marker": "x"}
    if "-" not in what or what.startswith("cublas"):
        return {"label": "cuBLAS emulated", "color": NATIVE, "linestyle": ":", "marker": "+"}
    scheme, bits, *rest = what.split("-")
    colour = {"slices": "#1f77b4", "crt": "#d62728"}[scheme]
    line = "-" if bits in ("23", "52") else "--"
    nearest = scheme == "slices" and rest == ["nearest"]
    return {
        "label": f"{scheme} {bits}" + (" nearest" if nearest else ""),
        "color": colour,
        "linestyle": ":" if nearest else line,
        "marker": "o",
        "markersize": 4,
    }


def register_batches() -> None:
    """Draw instructions a second at register level against the wavefronts of a call."""
    report = read("mfma")
    if report is None:
        return
    figure, axes = pyplot.subplots(figsize=(7.2, 4.4))
    seen = set()
    for row in sorted(report.rows, key=lambda row: row.get("arch", "")):
        points = [
            (int(key.rpartition(" ")[2]), median(rate))
            for key, rate in row.items()
            if key.startswith("instructions/s at ") and row.get("device") == "gpu"
        ]
        if points:
            label = CHIPS[row["arch"]] if row["arch"] not in seen else None
            seen.add(row["arch"])
            axes.loglog(
                *zip(*points, strict=True), "o-", color=COLOURS[row["arch"]], label=label,
                markersize=3, linewidth=1,
            )  # fmt: skip
    axes.set_xlabel("wavefronts a call")
    axes.set_ylabel("instructions a second")
    axes.set_title(report.caption, loc="left", fontsize=10)
    axes.legend(fontsize=8)
    save(figure, "throughput-registers")


def _sizes(axes: Any, report: Measured | None) -> None:
    sizes = (256, 512, 1024, 2048, 4096, 8192, 16384)
    axes.set_xscale("log", base=2)
    low, high = axes.get_xlim()
    axes.set_xticks([n for n in sizes if low <= n <= high])
    axes.set_xticklabels([str(n) for n in sizes if low <= n <= high], fontsize=8)
    axes.set_xlabel("extent n of an n x n x n product")
    if report:
        axes.set_title(report.caption, loc="left", fontsize=10)


def draw_all() -> None:
    """Write every picture whose figures exist."""
    roofline()
    matmul_sizes()
    emulation_sizes()
    register_batches()
