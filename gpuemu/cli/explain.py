"""`gpuemu explain`: the error of one output, and every step to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table

if TYPE_CHECKING:
    from ..difftest.explain import Explanation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def explain(
    file: Path = typer.Argument(None, help=".npz with A, B, perhaps C.", show_default=False),
    instruction: str = typer.Option(..., "--instruction", "-i", help="Mnemonic or alias."),
    arch: str = typer.Option(..., "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950."),
    row: int = typer.Option(0, help="Row of the output."),
    col: int = typer.Option(0, help="Column of the output."),
    model: str = typer.Option(None, help="An arithmetic model in place of the instruction's own."),
    json: bool = Json,
) -> None:
    """Split the error of one output into its causes, and show every step in exact hex.

    A (rows, K), B (K, columns) and C may be of any float dtype: what they lose in the instruction's
    formats is the input error. Without a file: the input of `gpuemu compare`.
    """
    from ..difftest.explain import explain as ask
    from ..errors import BadValue
    from ..mfma import instructions, models

    i = instructions.instruction(instruction, arch)
    if i.kind != "mfma" or not i.operand_format("D").is_float:
        raise BadValue(f"{i.mnemonic} ({i.arch}): only dense floating-point instructions")
    chosen = models.get(model or i.model)
    given = _vectors(file, row, col, i.K)
    stored = [_stored(x, i.operand_format(m), m) for x, m in zip(given, "ABC", strict=True)]
    a, b, c = map(_fractions, given)
    exact = sum((x * y for x, y in zip(a, b, strict=True)), c[0])
    formats = i.operand_format("A"), i.operand_format("B")
    found = ask(chosen, *formats, stored[0], stored[1], stored[2][0], exact)
    if json:
        print_json(_facts(found))
    else:
        _print(f"{i.mnemonic} ({i.arch}), model {chosen.name}: D[{row},{col}]", found)


def _vectors(file: Path | None, row: int, col: int, K: int) -> tuple[Any, Any, Any]:
    """Return a row of A and a column of B, filled up to a multiple of K, and one element of C."""
    import numpy as np

    from ..difftest.across import FIVE_ANSWERS
    from ..errors import BadFile, BadValue
    from ._values import load_arrays

    found: dict[str, Any] = dict(zip("ABC", FIVE_ANSWERS, strict=True))
    if file is not None:
        found = load_arrays(file)
        if not {"A", "B"} <= set(found) <= {"A", "B", "C"}:
            raise BadFile(
                f"{file} holds {', '.join(map(repr, found))}; legal: 'A', 'B', perhaps 'C'"
            )
    A, B, C = found["A"], found["B"], found.get("C")
    if A.ndim != 2 or B.ndim != 2 or A.shape[1] != B.shape[0]:
        raise BadValue(f"A {A.shape}, B {B.shape}; legal: A (rows, K), B (K, columns)")
    if not (0 <= row < A.shape[0] and 0 <= col < B.shape[1]):
        raise BadValue(f"row {row}, column {col}; legal: below {A.shape[0]} and {B.shape[1]}")
    c = np.zeros(1) if C is None else np.atleast_2d(C)[row : row + 1, col]
    rest = (0, -A.shape[1] % K)
    return np.pad(A[row], rest), np.pad(B[:, col], rest), c


def _fractions(values: Any) -> list[Any]:
    from fractions import Fraction

    import numpy as np

    from ..errors import BadValue

    wide = np.asarray(values).astype(np.float64)
    if not np.isfinite(wide).all():
        raise BadValue("an input is infinite or NaN; only finite numbers are explained")
    return [Fraction(float(x)) for x in wide]


def _stored(values: Any, fmt: Any, name: str) -> list[Any]:
    """Return the numbers that are left of values in a format, rounded to nearest even."""
    import numpy as np

    with np.errstate(over="ignore"):
        return _fractions(np.asarray(values).astype(fmt.dtype))


def _facts(found: Explanation) -> dict[str, Any]:
    from ..difftest.explain import hex_of

    return {
        "exact": hex_of(found.exact),
        "result": hex_of(found.result),
        "errors": {kind: hex_of(value) for kind, value in found.errors.items()},
        "steps": [
            {"products": s.products, "what": s.what, "value": hex_of(s.value)} for s in found.steps
        ],
    }


def _print(title: str, found: Explanation) -> None:
    from ..difftest.explain import hex_of

    out = console()
    out.print(title, style="bold")
    made = table("k", "Step", "Value", "Exactly")
    for step in found.steps:
        made.add_row(step.products, step.what, f"{float(step.value):.9g}", hex_of(step.value))
    out.print(made)
    errors = table("Error of", "Value", "Exactly", right=("Value",))
    for kind, value in found.errors.items():
        errors.add_row(kind, f"{float(value):.4g}", hex_of(value))
    total = found.result - found.exact
    errors.add_row("all together", f"{float(total):.4g}", hex_of(total))
    out.print(errors)
    out.print(f"result {float(found.result):.9g}, exact {float(found.exact):.9g}")
