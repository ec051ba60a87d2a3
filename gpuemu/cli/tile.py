"""`gpuemu tile`: run, assemble, disassemble and explain programs of the tile machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue
from ._files import read_bytes, read_text
from ._output import (
    Json,
    check_outputs,
    check_picture,
    console,
    print_json,
    table,
    write_whole,
)

Program = Annotated[Path, typer.Argument(help="Assembly; - reads standard input.")]


def register(app: typer.Typer) -> None:
    """Add the `tile` commands to the application."""
    tile = typer.Typer(no_args_is_help=True, help="The PTO tile machine and its TFMA.")
    tile.command("run")(run)
    tile.command("asm")(asm)
    tile.command("disasm")(disasm)
    tile.command("explain")(explain)
    app.add_typer(tile, name="tile")


def run(
    program: Program,
    tiles: Annotated[Path | None, typer.Option(help="Input tiles, .npz.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Tiles after, .npz.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of one tile.")] = None,
    show: Annotated[
        str | None, typer.Option(help="Register of the picture, as N#1; default: the last written.")
    ] = None,
    pe: Annotated[int | None, typer.Option(help="PE whose fragment the picture shows.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Element type of input arrays.")] = None,
    dtype_set: Annotated[str, typer.Option(help="contract or adr0080.")] = "contract",
    fault_map: Annotated[str, typer.Option(help="contract or asl-0.58.3.")] = "contract",
    nan_corner: Annotated[str, typer.Option(help="ieee or asl.")] = "ieee",
    names: Annotated[str, typer.Option(help="absolute or relative.")] = "absolute",
    fragments: Annotated[int, typer.Option(help="4 or 1.")] = 4,
    backend: Annotated[str, typer.Option(help="auto, cuda, host, numpy or check.")] = "auto",
    as_json: bool = Json,
) -> None:
    """Run a program of bundles on tiles from a file."""
    from ..tile import Core, flag_names
    from ..tile.descriptor import PES, participates, register_name
    from ..tile.files import load, register_index, save

    check_outputs(output)
    check_picture(png, "png")
    if png is None and (show is not None or pe is not None):
        raise BadValue("--show or --pe without --png; legal: with a picture to show it in")
    core = Core(dtype_set, fault_map, nan_corner, names, fragments, backend=backend)
    if tiles is not None:
        load(core, tiles, dtype)
    retired = core.execute(read_text(program))
    if output is not None:
        write_whole(output, lambda path: save(core, path))
    if png is not None:
        from ..tile.picture import draw

        written = [entry.destination for entry in retired if entry.destination is not None]
        if show is None and not written:
            raise BadValue("no bundle wrote a tile; --show names the register of the picture")
        index = register_index(show) if show is not None else written[-1]
        tile = core.tile(index)
        taking_part = [i for i in range(PES) if participates(tile.mask, i)]
        chosen = pe if pe is not None else taking_part[0] if fragments == PES else 0
        write_whole(png, lambda path: draw(tile, path, chosen, register_name(index)))
    rows = [
        {
            "operation": entry.operation,
            "destination": None if entry.destination is None else register_name(entry.destination),
            "flags": flag_names(entry.flags),
        }
        for entry in retired
    ]
    if as_json:
        print_json({"retired": rows, "flags": core.flags})
    else:
        shown = table("operation", "destination", "flags")
        for row in rows:
            shown.add_row(*(cell or "none: PE_MASK is zero" for cell in row.values()))
        console().print(shown)
        typer.echo(f"sticky flags: {flag_names(core.flags)}")


def asm(
    program: Program,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Little-endian byte stream.")
    ] = None,
    as_json: bool = Json,
) -> None:
    """Assemble a program into words."""
    from ..tile import assemble, join
    from ..tile.words import decode

    check_outputs(output)
    words = assemble(read_text(program))
    texts = [f"0x{word:0{decode(word).form.width // 4}X}" for word in words]
    if output is not None:
        write_whole(output, lambda path: _write_bytes(path, join(words)))
    _print_lines(texts, as_json)


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _print_lines(lines: list[str], as_json: bool) -> None:
    if as_json:
        print_json(lines)
    else:
        typer.echo("\n".join(lines))


def disasm(
    words: Annotated[
        list[str] | None, typer.Argument(help="Hexadecimal words, as 09C19181.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Little-endian byte stream.")] = None,
    as_json: bool = Json,
) -> None:
    """Disassemble words into canonical assembly."""
    from ..tile import disassemble

    if bool(words) == (file is not None):
        given = "words and --file" if words else "neither words nor --file"
        raise BadValue(f"{given}; legal: one of the two")
    program: Any = [_word(text) for text in words or []]
    if file is not None:
        program = read_bytes(file)
    _print_lines(disassemble(program).splitlines(), as_json)


def _word(text: str) -> int:
    """Return a word in hexadecimal, with or without 0x."""
    try:
        return int(text, 16)
    except ValueError:
        raise BadValue(f"{text!r} is no word; legal: hexadecimal, such as 09C19181") from None


def explain(
    dtype: Annotated[str, typer.Argument(help="FP16, BF16, FP32, …")],
    left: Annotated[str, typer.Argument(help="Element bits, as 0x3C00.")],
    right: Annotated[str, typer.Argument(help="Element bits.")],
    addend: Annotated[str, typer.Argument(help="Element bits.")],
    nan_corner: Annotated[str, typer.Option(help="ieee or asl.")] = "ieee",
    as_json: bool = Json,
) -> None:
    """Explain one fused multiply-add: exact product, sum, rounding, flags."""
    from ..tile.explain import explain as steps_of
    from ..tile.numeric import NAN_CORNERS, data_type

    row = data_type(dtype)
    if row.kind != "float":
        raise BadValue(f"{dtype} does not round; legal: a float type")
    if nan_corner not in NAN_CORNERS:
        raise BadValue(f"nan_corner={nan_corner!r}; legal: {', '.join(NAN_CORNERS)}")
    x, y, z = (_code(text, row.bits) for text in (left, right, addend))
    found = steps_of(row, x, y, z, nan_corner)
    if as_json:
        bits = f"0x{found.bits:0{row.bits // 4}X}"
        print_json({"steps": dict(found.steps), "bits": bits, "flags": found.flags})
    else:
        for name, text in found.steps:
            typer.echo(f"{name:8} {text}")


def _code(text: str, bits: int) -> int:
    try:
        code = int(text, 0)
    except ValueError:
        raise BadValue(f"{text!r}; legal: element bits such as 0x3C00") from None
    if not 0 <= code < 1 << bits:
        raise BadValue(f"{text}; legal: 0 to {(1 << bits) - 1:#x}")
    return code
