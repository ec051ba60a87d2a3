"""The rules of the house: who imports whom, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gpuemu"

# Floors, from the ground: a module imports its own floor's folder and lower floors.
FLOORS = {
    "errors": 0,
    "dispatch": 1,
    "formats": 1,
    "backends": 1,
    "mfma": 2,
    "tile": 2,
    "gemm": 3,
    "difftest": 4,
    "torch": 4,
    "machine": 4,
    "draw": 4,
    "cli": 5,
}


def imports(path: Path) -> set[str]:
    """Return the top-level parts of gpuemu that a file imports, anywhere in it."""
    found = set()
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level]) if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{stem}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gpuemu" and len(parts) > 1:
                found.add(parts[1])
    return found


FILES = sorted(
    p
    for p in PACKAGE.rglob("*.py")
    if p.name not in ("__init__.py", "__main__.py") or p.parent != PACKAGE
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for other in imports(path) - {part}:
        if other not in FLOORS:
            continue  # a public name of the package itself
        side_by_side = FLOORS[other] == FLOORS[part] == 1
        assert FLOORS[other] < FLOORS[part] or side_by_side, f"{path} imports {other}"


def test_import_needs_neither_gpu_nor_compiler_nor_plots() -> None:
    heavy = ("cupy", "torch", "matplotlib", "typer", "hypothesis", "dask")
    code = f"import sys, gpuemu; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_no_module_hides_a_public_name() -> None:
    import gpuemu

    modules = {path.stem for path in PACKAGE.iterdir() if path.stem[0] != "_"}
    assert modules & set(gpuemu.__all__) == {"errors", "gemm", "tile"}


def test_public_names_exist() -> None:
    import gpuemu

    for name in gpuemu.__all__:
        assert getattr(gpuemu, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gpuemu.nothing
