"""`gpuemu run`: one instruction on arrays from files, or on generated ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import Arch, Json, check_outputs, console, print_json, save_array, write_whole

if TYPE_CHECKING:
    from ..mfma.instructions import Instruction


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    name: str = typer.Argument(help="Mnemonic, alias or builtin name."),
    file: Path = typer.Argument(
        None, help=".npz with A, B and perhaps C, idx, scale_a, scale_b.", show_default=False
    ),
    arch: str = Arch,
    a: Path = typer.Option(None, "--a", help="A from a .npy file.", show_default=False),
    b: Path = typer.Option(None, "--b", help="B from a .npy file.", show_default=False),
    c: Path = typer.Option(
        None, "--c", help="C from a .npy file; zeros where left out.", show_default=False
    ),
    registers: bool = typer.Option(
        False, help="The arrays are register images, uint32 (..., vgprs, 64)."
    ),
    bits: bool = typer.Option(False, help="Unsigned integers are the bits of the formats."),
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    neg: str = typer.Option("0,0,0", help="Negate A, B, C (f64)."),
    op_sel: str = typer.Option("0,0", help="The scale bytes of A and B."),
    legality: str = "strict",
    broadcast: str = "grouped",
    model: str = typer.Option(
        None, help="An arithmetic model in place of the instruction's own.", show_default=False
    ),
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
    input_class: str = typer.Option(
        None, "--class", help="Input class where no arrays are given; default: normal."
    ),
    seed: int = typer.Option(
        None, "--seed", "-s", help="Where no arrays are given; default: 0.", show_default=False
    ),
    output: Path = typer.Option(
        None, "--output", "-o", help="Write D to this .npy file.", show_default=False
    ),
    json: bool = Json,
) -> None:
    """Run one instruction on matrices, or on register images with --registers.

    Without arrays it runs on generated ones: an input class (normal, raw, ties, …) and a seed.
    """
    import numpy as np

    from .. import execute
    from ..errors import BadValue
    from ..mfma.instructions import instruction
    from ._files import typed
    from ._values import pair, triple

    check_outputs(output)
    i = instruction(name, arch)
    options: dict[str, Any] = {
        "cbsz": cbsz,
        "abid": abid,
        "blgp": blgp,
        "legality": legality,
        "broadcast": broadcast,
    }
    options |= {
        "neg": triple("neg", neg),
        "op_sel": pair("op_sel", op_sel),
        "model": model,
        "backend": backend,
    }
    given = _given(file, a, b, c)
    if given and (input_class is not None or seed is not None):
        raise BadValue("arrays and --class or --seed; legal: those only for generated arrays")
    if bits and (registers or not given):
        raise BadValue("--bits without matrices; legal: only where matrices are given")
    if not given:
        images = _generated(i, options, input_class or "normal", seed or 0)
        d = execute(i, **(images | options))
        D = i.unpack("D", d)
    elif registers:
        d = execute(i, **_registers(given), **options)
        D = i.unpack("D", d)
    else:
        A, B, C = (typed(given.pop(key), key, bits) if key in given else None for key in "ABC")
        D = i(A, B, C, **given, **options, bits=bits)
    result = np.asarray(d if registers else D)
    if output:
        write_whole(output, lambda path: save_array(path, result))
    if json:
        print_json(_facts(i, np.asarray(D)), indent=None)
    else:
        _print(i, np.asarray(D), output)


def _given(file: Path | None, a: Path | None, b: Path | None, c: Path | None) -> dict[str, Any]:
    """Return the arrays that the user named, by operand."""
    from ..errors import BadFile, BadValue
    from ._values import load_array, load_arrays

    found = load_arrays(file) if file is not None else {}
    legal = ("A", "B", "C", "idx", "scale_a", "scale_b")
    unknown = [name for name in found if name not in legal]
    if unknown == [""]:
        raise BadFile(f"{file} holds one array without a name; legal: a .npz file, or --a and --b")
    if unknown:
        raise BadFile(f"{file} holds an array {unknown[0]!r}; legal: {', '.join(legal)}")
    for name, path in (("A", a), ("B", b), ("C", c)):
        if path is not None:
            if name in found:
                raise BadValue(f"{name} is in {file} and in {path}; legal: one of them")
            found[name] = load_array(path)
    missing = [name for name in ("A", "B") if name not in found]
    if found and missing:
        raise BadValue(
            f"no array {missing[0]}; A and B are needed, or no array at all for generated ones"
        )
    return found


def _registers(given: dict[str, Any]) -> dict[str, Any]:
    """Return register images under the names that `execute` has for them."""
    from ..errors import BadValue

    if "C" not in given:
        raise BadValue("no array C; register images need A, B and C")
    return {name.lower(): image for name, image in given.items()}


def _generated(i: Instruction, options: dict[str, Any], input_class: str, seed: int) -> Any:
    import numpy as np

    from ..difftest.generators import CLASSES
    from ..difftest.images import images
    from ..errors import BadValue
    from ..mfma import modifiers

    if input_class not in CLASSES:
        raise BadValue(f"input class {input_class!r}; legal: {', '.join(CLASSES)}")
    fields = {key: value for key, value in options.items() if key not in ("model", "backend")}
    made = images(i, modifiers.check(i, **fields), CLASSES[input_class], seed, np.array([0]))
    return {key: image[0] for key, image in made.items()}


def _facts(i: Instruction, D: Any) -> dict[str, Any]:
    digits = D.dtype.itemsize * 2
    bits = D.view(f"u{D.dtype.itemsize}")
    return {
        "instruction": i.mnemonic,
        "arch": i.arch,
        "fidelity": i.fidelity,
        "shape": list(D.shape),
        "format": i.formats["D"],
        "bits": [f"{int(word):0{digits}X}" for word in bits.ravel()],
    }


SHOWN = 4  # rows and columns of D in the terminal


def _print(i: Instruction, D: Any, output: Path | None) -> None:
    import hashlib

    import numpy as np

    from ._output import table

    out = console()
    shape = "x".join(map(str, D.shape))
    out.print(f"{i.mnemonic} ({i.arch}), {i.fidelity}: D {shape} {i.formats['D']}", style="bold")
    corner = D.reshape(-1, *D.shape[-2:])[0, :SHOWN, :SHOWN]
    digits = D.dtype.itemsize * 2
    made = table("", *(f"column {n}" for n in range(corner.shape[1])))
    for n, row in enumerate(corner):
        words = np.ascontiguousarray(row).view(f"u{D.dtype.itemsize}")
        cells = (
            f"{value:.9g}\n{int(word):0{digits}X}"
            for value, word in zip(row.astype(np.float64), words, strict=True)
        )
        made.add_row(f"row {n}", *cells)
    out.print(made)
    digest = hashlib.sha256(np.ascontiguousarray(D).tobytes()).hexdigest()[:16]
    where = (
        f", written to {output}" if output else "; -o FILE.npy keeps all of it, --json prints it"
    )
    out.print(f"its corner; SHA-256 of all bits {digest}{where}")
