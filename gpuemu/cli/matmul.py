"""`gpuemu matmul`: a whole product from files, its error, and how far apart two chips are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._output import (
    Json,
    check_outputs,
    check_picture,
    console,
    print_json,
    save_array,
    table,
    write_whole,
)

if TYPE_CHECKING:
    import numpy as np

    from ..mfma.instructions import Instruction

    Array = np.ndarray[Any, Any]


# The dtypes of a safetensors file that are formats of an operand.
_DTYPES = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "F8_E4M3": "f8e4m3fn",
    "F8_E5M2": "f8e5m2",
    "I8": "i8",
    "I32": "i32",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(matmul)


def matmul(
    name: str = typer.Argument(help="Mnemonic, alias or builtin name."),
    a: Path = typer.Argument(help="A, (..., M, K): .npy, .npz or .safetensors."),
    b: Path = typer.Argument(help="B, (..., K, N)."),
    c: Path = typer.Option(None, "--c", help="C, (..., M, N).", show_default=False),
    arch: str = typer.Option(None, "--arch", "-a", help="gfx908 to gfx950.", show_default=False),
    key_a: str = typer.Option(None, help="A's name in its file; default: A."),
    key_b: str = typer.Option(None, help="B's name in its file; default: B."),
    cast: bool = typer.Option(False, help="Round A and B to the instruction's formats first."),
    bits: bool = typer.Option(False, help="Unsigned integers are the bits of the formats."),
    split_k: int = typer.Option(1, help="Parts of K, each with an accumulator."),
    backend: str = typer.Option("auto", help="auto, cuda, host, numpy or check."),
    errors: bool = typer.Option(False, help="Compare with the exact product, in ulp."),
    compare: str = typer.Option(
        None, help="Architectures to compare with, by commas.", show_default=False
    ),
    plot: Path = typer.Option(None, help="Histogram of the errors as a picture."),
    output: Path = typer.Option(None, "--output", "-o", help="Write D to this .npy file."),
    json: bool = Json,
) -> None:
    """Multiply two matrices as a chip's matrix instructions do, bit for bit."""
    import numpy as np

    from ..errors import BadValue, GpuemuError
    from ..mfma import matmul_statistics as statistics
    from ..mfma.instructions import instruction
    from ..mfma.matmul import matmul as product

    check_outputs(output)
    check_picture(plot)
    if cast and bits:
        raise BadValue("--cast and --bits; legal: one of them (numbers are rounded, bits are not)")
    i = instruction(name, arch)
    if errors or plot:
        statistics.check_measurable(i.operand_format("D").dtype)
    others = statistics.counterparts(i, compare.split(",")) if compare else []
    A, B = _operand(a, "A", key_a, bits), _operand(b, "B", key_b, bits)
    C = None if c is None else _operand(c, "C", None, bits)
    if cast:
        A, B = (statistics.cast(x, i, m) for x, m in ((A, "A"), (B, "B")))
    options: dict[str, Any] = {"bits": bits, "split_k": split_k, "backend": backend}
    D = np.asarray(product(A, B, C, instruction=i, **options))
    if output:
        write_whole(output, lambda path: save_array(path, D))
    facts: dict[str, Any] = {"instruction": i.mnemonic, "arch": i.arch, "shape": list(D.shape)}
    if errors or plot:
        found = statistics.ulp_errors(D, statistics.exact(i, *_numbers(i, A, B, C)))
        facts["errors"] = None
        try:
            facts["errors"] = statistics.summary(found)
        except GpuemuError as nothing:
            typer.echo(f"note: {nothing}", err=True)
        if plot and facts["errors"]:
            write_whole(plot, lambda path: statistics.histogram(found, path, str(i)))
    facts["compare"] = []
    for other in others:
        E = np.asarray(product(A, B, C, instruction=other, **options))
        facts["compare"].append(statistics.distance(D, E, other))
    if json:
        print_json(facts)
    else:
        _print(facts, output)


def _operand(path: Path, matrix: str, key: str | None, bits: bool) -> Array:
    """Return one array of a file; without a key its only one, or that of the matrix's name."""
    from ..errors import BadFile
    from ._files import typed
    from ._values import load_arrays

    arrays = _safetensors(path) if path.suffix == ".safetensors" else load_arrays(path)
    if key is None:
        key = next(iter(arrays)) if len(arrays) == 1 else matrix
    if key not in arrays:
        names = ", ".join(name or "one without a name" for name in arrays) or "none"
        raise BadFile(f"{path} has no array {key!r}; it has: {names}")
    return typed(arrays[key], matrix, bits)


def _numbers(i: Instruction, *operands: Array | None) -> list[Any]:
    """Return A, B and C with bits as the numbers that they are."""
    found: list[Any] = []
    for matrix, x in zip("ABC", operands, strict=True):
        fmt = i.operand_format(matrix)
        found.append(x.view(fmt.dtype) if x is not None and x.dtype == fmt.storage else x)
    return found


def _safetensors(path: Path) -> dict[str, Array]:
    import numpy as np

    from ..errors import BadFile
    from ..formats import get
    from ._files import unreadable

    try:
        import safetensors
    except ImportError as error:
        raise BadFile(f"{path}: pip install safetensors to read it ({error})") from None
    try:
        deserialize: Any = safetensors.deserialize
        found = deserialize(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except safetensors.SafetensorError as error:
        raise BadFile(f"{path}: not a safetensors file: {error}") from None
    arrays = {}
    for name, facts in found:
        if facts["dtype"] not in _DTYPES:
            raise BadFile(
                f"{path}: array {name!r} is {facts['dtype']}; legal: {', '.join(_DTYPES)}"
            )
        dtype = get(_DTYPES[facts["dtype"]]).dtype
        arrays[name] = np.frombuffer(facts["data"], dtype).reshape(facts["shape"])
    return arrays


def _print(facts: dict[str, Any], output: Path | None) -> None:
    out = console()
    shape = " x ".join(map(str, facts["shape"]))
    written = f", written to {output}" if output else ""
    out.print(f"{facts['instruction']} ({facts['arch']}): {shape}{written}")
    if facts.get("errors"):
        e = facts["errors"]
        out.print(
            f"against the exact product: {e['exactly rounded']} of {e['outputs']} exactly rounded; "
            f"error in ulp: mean {e['mean']:.4g}, largest {e['max']:.4g}, bias {e['bias']:+.4g}"
        )
    if facts["compare"]:
        made = table("against", "differing", "largest (ulp)", "at", "first at")
        for row in facts["compare"]:
            made.add_row(
                f"{row['arch']} {row['instruction']}",
                f"{row['differing']} of {row['outputs']}",
                f"{row['max ulp']:.4g}",
                _place(row["max at"]),
                _place(row["first"]),
            )
        out.print(made)


def _place(index: list[int] | None) -> str:
    return "-" if index is None else ", ".join(map(str, index))
