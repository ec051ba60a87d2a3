"""`gpuemu compare`: one input through many instructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json, table

if TYPE_CHECKING:
    from ..difftest.across import Answer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    file: Path = typer.Argument(
        None, help=".npz with A (rows, K), B (K, columns) and perhaps C.", show_default=False
    ),
    a: str = typer.Option(
        None, "--a", help="Or a row of A: numbers with commas between.", show_default=False
    ),
    b: str = typer.Option(None, "--b", help="The column of B.", show_default=False),
    c: str = typer.Option(None, "--c", help="The accumulator; default: 0.", show_default=False),
    instruction: str = typer.Option(
        None,
        "--instruction",
        "-i",
        help="Pattern; default: one of each arithmetic.",
        show_default=False,
    ),
    arch: str = typer.Option("*", "--arch", "-a", help="Pattern of the architecture."),
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
    json: bool = Json,
) -> None:
    """Run one input through many instructions: what each answers, and where they first part.

    Without an input: four products and an accumulator that have five answers. K is filled up
    with zeros; a longer K takes a chain of instructions. Instructions whose formats lack a value
    are left out.
    """
    from ..difftest import across
    from ..errors import BadShape, BadValue

    A, B, C = across.check_input(*_input(file, a, b, c))
    answers, left_out = [], []
    for row in _rows(instruction, arch):
        try:
            answers.append(across.answer(row, A, B, C, backend))
        except (BadShape, BadValue) as error:
            left_out.append((row, str(error)))
    if not answers:
        raise BadValue(
            f"no instruction takes this input: {left_out[0][0].mnemonic}: {left_out[0][1]}"
        )
    parting = across.first_parting(answers)
    if json:
        print_json(_facts(answers, left_out, parting))
    else:
        _print(A, B, C, answers, left_out, parting)


def _input(file: Path | None, a: str | None, b: str | None, c: str | None) -> tuple[Any, Any, Any]:
    import numpy as np

    from ..difftest.across import FIVE_ANSWERS
    from ..errors import BadFile, BadValue
    from ._files import typed
    from ._values import load_arrays, number_list

    if file is not None:
        if any(x is not None for x in (a, b, c)):
            raise BadValue("a file and --a, --b or --c; legal: one of them")
        found = load_arrays(file)
        if not {"A", "B"} <= set(found) <= {"A", "B", "C"}:
            raise BadFile(
                f"{file} holds {', '.join(map(repr, found))}; legal: 'A', 'B' and perhaps 'C'"
            )
        for name, array in found.items():
            found[name] = array = typed(array, name)
            if array.dtype.name != "bfloat16" and array.dtype.kind not in "biuf":
                raise BadFile(f"{file}: {name} has dtype {array.dtype}; legal: real numbers")
        return found["A"], found["B"], found.get("C")
    if all(x is None for x in (a, b, c)):
        return FIVE_ANSWERS
    if a is None or b is None:
        raise BadValue("one of --a, --b and --c alone; legal: --a and --b, and perhaps --c")
    left, right = number_list("--a", a), number_list("--b", b)
    if len(left) != len(right):
        raise BadValue(f"--a has {len(left)} numbers, --b {len(right)}; legal: as many")
    accumulator = number_list("--c", "0" if c is None else c)
    if len(accumulator) != 1:
        raise BadValue(f"--c has {len(accumulator)} numbers; legal: one")
    return np.array([left]), np.array([right]).T, np.array([accumulator])


def _rows(pattern: str | None, arch: str) -> Any:
    from ..difftest import across
    from ..difftest.cases import select

    if pattern is not None:
        return select(pattern, arch, ("mfma",))
    archs = {row.arch for row in select("*", arch)}
    return [row for row in across.representatives() if row.arch in archs]


def _facts(answers: list[Answer], left_out: Any, parting: Any) -> dict[str, Any]:
    def one(found: Answer) -> dict[str, Any]:
        i = found.instruction
        digits = found.bits.dtype.itemsize * 2
        return {
            "instruction": i.mnemonic,
            "arch": i.arch,
            "model": i.model,
            "fidelity": i.fidelity,
            "D": [[repr(float(v)) for v in row] for row in found.values],
            "bits": [[f"{int(v):0{digits}X}" for v in row] for row in found.bits],
        }

    names = ("row", "column", "product")
    return {
        "answers": [one(found) for found in answers],
        "parting": dict(zip(names, parting, strict=True)) if parting else None,
        "left_out": [
            {"instruction": i.mnemonic, "arch": i.arch, "reason": reason} for i, reason in left_out
        ],
    }


def _print(A: Any, B: Any, C: Any, answers: list[Answer], left_out: Any, parting: Any) -> None:
    row, column, k = parting or (0, 0, 0)
    out = console()
    if A.shape[1] <= 8:
        for name, numbers in (("a", A[row]), ("b", B[:, column]), ("c", C[row : row + 1, column])):
            out.print(f"{name} = {', '.join(f'{v:.10g}' for v in numbers)}")
    out.print(
        f"D[{row},{column}] = c + a b"
        + (", the first output that differs" if parting and A.shape[0] * B.shape[1] > 1 else "")
    )
    made = table("D", "Bits", "Arch", "Instruction", right=("D",))
    for found in sorted(answers, key=lambda x: _order(x.values[row, column])):
        i = found.instruction
        bits = f"{int(found.bits[row, column]):0{found.bits.dtype.itemsize * 2}X}"
        star = "*" if i.fidelity == "unverified" else ""
        made.add_row(_number(found, found.values[row, column]), bits, i.arch + star, i.mnemonic)
    out.print(made)
    if any(x.instruction.fidelity == "unverified" for x in answers):
        out.print("* arithmetic unverified: no public measurement of this chip")
    count = len({_order(x.values[row, column]) for x in answers})
    if parting is None:
        out.print("All answers are equal.")
    else:
        after = {
            _order(p): _number(x, p) for x in answers for p in [x.prefixes[k + 1, row, column]]
        }
        values = ", ".join(after[key] for key in sorted(after))
        where = (
            "with C alone"
            if k < 0
            else f"at product k={k}, a[k] b[k] = {A[row, k] * B[k, column]:.10g}"
        )
        out.print(f"{count} answers. They part {where}: {values} from there.")
    if left_out:
        out.print(
            f"{len(left_out)} instructions left out: their formats or shapes do not hold this "
            f"input (--json says why)."
        )


def _number(found: Answer, value: float) -> str:
    """Return a value of an answer's D in as many digits as tell its neighbours apart."""
    return f"{value:.{17 if found.bits.dtype.itemsize == 8 else 9}g}"


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, float(value))
