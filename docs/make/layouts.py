"""Pictures of where elements lie, drawn from the tables by `gpuemu.draw`."""

from __future__ import annotations

from typing import Any

from style import PICTURES

import gpuemu
from gpuemu import draw

# Name of the picture, architecture, instruction, matrix, modifiers.
LAYOUTS: tuple[tuple[str, str, str, str, dict[str, int]], ...] = (
    ("layout-a", "gfx942", "v_mfma_f32_16x16x16_f16", "A", {}),
    ("layout-b", "gfx942", "v_mfma_f32_16x16x16_f16", "B", {}),
    ("layout-d", "gfx942", "v_mfma_f32_16x16x16_f16", "D", {}),
    ("layout-wide", "gfx942", "v_mfma_f32_32x32x8_f16", "D", {}),
    ("layout-blocks", "gfx942", "v_mfma_f32_4x4x4_16b_f16", "A", {}),
    ("layout-cbsz", "gfx942", "v_mfma_f32_4x4x4_16b_f16", "A", {"cbsz": 2, "abid": 1}),
    ("layout-blgp", "gfx942", "v_mfma_f32_16x16x16_f16", "B", {"blgp": 3}),
    ("layout-double", "gfx942", "v_mfma_f64_16x16x4_f64", "D", {}),
    ("layout-sparse", "gfx942", "v_smfmac_f32_16x16x32_f16", "A", {}),
)


def draw_all() -> None:
    """Write every layout as SVG."""
    for file, arch, name, matrix, modifiers in LAYOUTS:
        (PICTURES / f"{file}.svg").write_text(svg(arch, name, matrix, modifiers), encoding="utf-8")


def svg(arch: str, name: str, matrix: str, modifiers: dict[str, Any]) -> str:
    """Return one layout as SVG text."""
    i = gpuemu.instruction(name, arch)
    options = "".join(f" {key}:{value}" for key, value in modifiers.items())
    index = i.layout("K") if i.sparse and matrix == "A" else None
    title = f"{i.mnemonic} ({arch}){options}: {matrix}"
    return draw.svg(draw.picture(i.layout(matrix, **modifiers), title, index))
