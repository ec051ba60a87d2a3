"""What every picture shares: a white card, which is readable on dark and on light pages, colours
that mean a chip, and SVG files that are the same whenever they are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

PICTURES = Path(__file__).parents[1] / "pictures"

# One colour a chip, in every picture.
COLOURS = {
    "gfx908": "#8c564b",
    "gfx90a": "#d62728",
    "gfx942": "#1f77b4",
    "gfx950": "#17a2a2",
    "sm_80": "#6b8e23",
    "sm_90": "#2ca02c",
}
CHIPS = {
    "gfx908": "CDNA1",
    "gfx90a": "CDNA2",
    "gfx942": "CDNA3",
    "gfx950": "CDNA4",
    "sm_80": "Ampere",
    "sm_90": "Hopper",
}
NATIVE = "#555555"

pyplot.rcParams.update(
    {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "font.size": 10,
        "grid.color": "#dddddd",
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "gpuemu",
    }
)


def save(figure: Any, name: str) -> None:
    """Write a figure to docs/pictures/NAME.svg, without a date."""
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
