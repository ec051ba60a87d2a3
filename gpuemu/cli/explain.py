"""`gpuemu explain`: the error of one output, and every step to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table

if TYPE_CHECKING:
    from ..difftest.explain import Explanation
    from ..formats import Format


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

    For dense floating-point instructions. A (rows, K), B (K, columns) and C (rows, columns) may be
    of any float or integer dtype: what they lose in the instruction's formats is the input error.
    Without a file: the input of `gpuemu compare`.
    """
    from ..difftest.explain import explain as ask
    from ..difftest.explain import stored
    from ..errors import BadValue
    from ..mfma import instructions, models

    i = instructions.instruction(instruction, arch)
    if i.kind != "mfma" or not i.operand_format("D").is_float:
        raise BadValue(f"{i.mnemonic} ({i.arch}): only dense floating-point instructions")
    chosen = models.get(model or i.model)
    formats = {name: i.operand_format(name) for name in "ABC"}
    a, b, c = map(_fractions, _vectors(file, row, col, i.K, formats))
    exact = sum((x * y for x, y in zip(a, b, strict=True)), c[0])
    left, right, added = (
        [stored(x, formats[name]) for x in given]
        for name, given in zip("ABC", (a, b, c), strict=True)
    )
    found = ask(chosen, formats["A"], formats["B"], left, right, added[0], exact)
    if json:
        print_json(_facts(found))
    else:
        _print(f"{i.mnemonic} ({i.arch}), model {chosen.name}: D[{row},{col}]", found)


def _vectors(
    file: Path | None, row: int, col: int, K: int, formats: dict[str, Format]
) -> tuple[Any, Any, Any]:
    """Return a row of A and a column of B, filled up to a multiple of K, and one element of C."""
    import numpy as np

    from ..difftest import across
    from ..errors import BadFile, BadValue
    from ._values import load_arrays

    found: dict[str, Any] = dict(zip("ABC", across.FIVE_ANSWERS, strict=True))
    if file is not None:
        found = load_arrays(file)
        if not {"A", "B"} <= set(found) <= {"A", "B", "C"}:
            raise BadFile(
                f"{file} holds {', '.join(map(repr, found))}; legal: 'A', 'B', perhaps 'C'"
            )
        found = {name: _numbers(x, formats[name], name) for name, x in found.items()}
    A, B, C = across.check_input(found["A"], found["B"], found.get("C"))
    if not (0 <= row < A.shape[0] and 0 <= col < B.shape[1]):
        raise BadValue(f"row {row}, column {col}; legal: below {A.shape[0]} and {B.shape[1]}")
    rest = (0, -A.shape[1] % K)
    return np.pad(A[row], rest), np.pad(B[:, col], rest), C[row : row + 1, col]


def _numbers(array: Any, fmt: Format, name: str) -> Any:
    """Return an array of floats or integers; raw bytes of the format's size are numbers of it."""
    from ..errors import BadType
    from ._files import typed

    if array.dtype == "V1" and fmt.bits == 8:
        array = array.view(fmt.dtype)
    array = typed(array, name)
    if array.dtype.kind not in "iuf" and array.dtype not in (fmt.dtype, "bfloat16"):
        raise BadType(f"{name} has dtype {array.dtype}; legal: floats and integers")
    return array


def _fractions(values: Any) -> list[Any]:
    from fractions import Fraction

    import numpy as np

    from ..errors import BadValue

    if not np.isfinite(values).all():
        raise BadValue("an input is infinite or NaN; only finite numbers are explained")
    return [Fraction(float(x)) for x in values]


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
