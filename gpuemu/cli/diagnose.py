"""`gpuemu diagnose`: the layout doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Json, console, print_json

if TYPE_CHECKING:
    from ..difftest.images import Images
    from ..mfma.instructions import Instruction


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(diagnose)


def diagnose(
    got: Path = typer.Argument(help="The D that you have, .npy."),
    want: Path = typer.Argument(help="The D that you want, .npy."),
    inputs: Path = typer.Argument(None, help=".npz with A, B, perhaps C.", show_default=False),
    instruction: str = typer.Option(..., "--instruction", "-i", help="Mnemonic or alias."),
    arch: str = typer.Option(..., "--arch", "-a", help="gfx908, gfx90a, gfx942 or gfx950."),
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    neg: str = typer.Option("0,0,0", help="Negate A, B, C (f64)."),
    op_sel: str = typer.Option("0,0", help="The scale bytes of A and B."),
    json: bool = Json,
) -> None:
    """Say what is wrong with a matrix D: transposed, lanes swapped, a k block dropped, another
    chip…

    Matrices are of the formats' dtypes, or bits as unsigned integers. With the inputs many more
    faults can be told. Exit code 0 where the two are equal, else 1.
    """
    from ..difftest.doctor import Problem
    from ..difftest.doctor import diagnose as ask
    from ..difftest.doctor.problem import bits_of_result
    from ..mfma import instructions, modifiers
    from ._values import load_array, pair, triple

    i = instructions.instruction(instruction, arch)
    m = modifiers.check(
        i,
        cbsz=cbsz,
        abid=abid,
        blgp=blgp,
        neg=triple("neg", neg),
        op_sel=pair("op_sel", op_sel),
    )
    has, wants = (bits_of_result(i, load_array(path), str(path)) for path in (got, want))
    _same_shape(has, wants)
    operands = _operands(i, m, inputs, len(has)) if inputs else {}
    answer = ask(Problem(i, m, has, wants, operands))
    if json:
        print_json(vars(answer) | {"also": list(answer.also)})
    else:
        out = console()
        out.print(answer.sentence, style="bold")
        if answer.name not in ("equal", "unknown"):
            out.print(
                f"{answer.name}, confidence {answer.confidence:.0%}; {answer.wrong} of "
                f"{answer.elements} elements differ"
            )
        if answer.also:
            out.print(f"The same bits would come of: {', '.join(answer.also)}")
        if answer.name == "unknown" and not inputs:
            out.print("With the inputs (A, B, C in a .npz file) more faults can be told.")
    if answer.name != "equal":
        raise typer.Exit(1)


def _same_shape(got: Any, want: Any) -> None:
    from ..errors import BadShape

    if got.shape != want.shape:
        raise BadShape(
            f"the two have shapes {got.shape} and {want.shape} (cases, blocks, M, N); legal: "
            f"the same"
        )


def _operands(i: Instruction, m: Any, path: Path, cases: int) -> Images:
    """Return the register images (cases, vgprs, 64) of the matrices in a file."""
    import numpy as np

    from ..difftest.images import formats_only
    from ..errors import BadFile, BadShape
    from ._values import load_arrays

    found = load_arrays(path)
    legal = {"A", "B", "C"} | ({"idx"} if i.sparse else set())
    legal |= {"scale_a", "scale_b"} if i.kind == "mfma_scale" else set()
    wrong = sorted(set(found) - legal) or sorted(legal - {"C", "idx"} - set(found))
    if wrong:
        raise BadFile(
            f"{path}: {wrong[0]!r} is foreign or missing; legal: {', '.join(sorted(legal))}"
        )
    chosen = formats_only(i, m)
    given = ("idx", "scale_a", "scale_b")
    images: Images = {key: found.pop(key) for key in given if key in found}
    if i.sparse and "idx" not in images:
        images["a"], images["idx"] = i.pack_sparse(
            _bits(found.pop("A")), bits=True, cbsz=m.cbsz, abid=m.abid
        )
    for name, matrix in found.items():
        images[name.lower()] = i.pack(name, _bits(matrix), **chosen)
    images.setdefault("c", np.zeros((i.vgprs["D"], 64), np.uint32))
    for name, image in images.items():
        count = int(np.prod(image.shape[:-2], dtype=np.int64))
        if image.dtype != np.uint32 or image.ndim < 2 or count not in (1, cases):
            raise BadShape(f"{path}: {name} has {count} cases of {image.dtype}; D has {cases}")
        flat = image.reshape(-1, *image.shape[-2:])
        images[name] = np.ascontiguousarray(np.broadcast_to(flat, (cases, *flat.shape[1:])))
    return images


def _bits(matrix: Any) -> Any:
    """Return arrays that NumPy has no dtype for (they are saved as raw bytes) as unsigned
    integers.
    """
    return matrix.view(f"u{matrix.dtype.itemsize}") if matrix.dtype.kind == "V" else matrix
