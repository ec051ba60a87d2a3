"""Bundles as text: the canonical assembly of the contract, to words and back without loss.

::

    BSTART.VEC TFMA, FP32
    B.DATR PadValue=Zero
    B.DIM LB0=5
    B.DIM LB2=8
    B.IOT T#1, T#2, mask=1111
    B.IOT T#3, mask=1111, last, ->N<128B>
    BSTOP

A line holds one word, or several with `;` between them; `//` starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..errors import BadType, BadValue
from .descriptor import HAND_SIZE, HANDS, register_name, size_bytes
from .numeric import DATA_TYPE_CODES, DATA_TYPES, DTYPE_NONE, PadValue
from .operations import NOT_EMULATED, SELECTORS
from .words import PE_MODES, STOPS, Word, decode, encode, words_of

SELECTOR_NAMES = NOT_EMULATED | {selector: row.name for selector, row in SELECTORS.items()}
_SELECTORS = {name: selector for selector, name in SELECTOR_NAMES.items()}
_TYPE_CODES = {name.upper(): row.code for name, row in DATA_TYPES.items()} | {"NONE": DTYPE_NONE}
_PADS = {pad.name: pad for pad in PadValue}
_SIZE_CODES = range(1, 13)  # 128 B to 256 KB; the other codes are written <code=N>


def _number(text: str, what: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise BadValue(f"{what} {text!r}; legal: an integer") from None


def _size_text(code: int) -> str:
    if code == 0:
        return "0B"
    if code not in _SIZE_CODES:
        return f"code={code}"
    size = size_bytes(code)
    return f"{size}B" if size < 1024 else f"{size // 1024}KB"


_SIZES = {_size_text(code): code for code in range(16)} | {
    f"CODE={code}": code for code in range(16)
}


def _size(text: str) -> int:
    code = _SIZES.get(text.upper().replace("KIB", "KB").replace(" ", ""))
    if code is None:
        raise BadValue(
            f"size <{text}>; legal: <{'>, <'.join(map(_size_text, _SIZE_CODES))}>, or <code=0> to "
            f"<code=15>"
        )
    return code


def _type_text(code: int) -> str:
    row = DATA_TYPE_CODES.get(code)
    return row.name if row else f"type={code}"


def _type(text: str) -> int:
    if text.lower().startswith("type="):
        return _number(text[5:], "DataType code")
    if text.upper() not in _TYPE_CODES:
        raise BadValue(f"DataType {text!r}; legal: {', '.join(DATA_TYPES)}, or type=N")
    return _TYPE_CODES[text.upper()]


def _tile(text: str) -> int:
    match = re.fullmatch(r"([TUMN])#(\d+)", text.upper())
    if not match or not 1 <= int(match[2]) <= HAND_SIZE:
        raise BadValue(f"tile {text!r}; legal: T#1 to T#16, U#…, M#…, N#…")
    return HANDS.index(match[1]) * HAND_SIZE + int(match[2]) - 1


def _register(text: str) -> int:
    match = re.fullmatch(r"[rR](\d+)", text)
    if not match:
        raise BadValue(f"register {text!r}; legal: r0 to r31")
    return int(match[1])


def _mask_mode(text: str) -> int:
    if not re.fullmatch(r"[01]{4}", text) or int(text, 2) not in PE_MODES:
        raise BadValue(f"mask={text}; encodable: {', '.join(f'{mask:04b}' for mask in PE_MODES)}")
    return PE_MODES.index(int(text, 2))


def _keyed(operands: list[str]) -> dict[str, str]:
    pairs = [operand.partition("=") for operand in operands]
    for key, equals, _ in pairs:
        if not equals:
            raise BadValue(f"operand {key!r}; legal: name=value")
    keys = [key.strip().lower() for key, _, _ in pairs]
    if len(set(keys)) < len(keys):
        raise BadValue(f"an operand is given twice: {', '.join(keys)}")
    return {key: value.strip() for key, (_, _, value) in zip(keys, pairs, strict=True)}


def _assemble_start(operands: list[str]) -> Word:
    if len(operands) == 2:
        if operands[0].upper() not in _SELECTORS:
            raise BadValue(
                f"operation {operands[0]!r}; legal: {', '.join(_SELECTORS)}, or mode=N, function=N"
            )
        mode, function = divmod(_SELECTORS[operands[0].upper()], 32)
    else:
        fields = _keyed(operands[:-1])
        if set(fields) != {"mode", "function"}:
            raise BadValue("operands; legal: OPERATION, DataType or mode=N, function=N, DataType")
        mode, function = _number(fields["mode"], "mode"), _number(fields["function"], "function")
    return encode("BSTART.TEPL", dtype=_type(operands[-1]), mode=mode, function=function)


def _print_start(word: Word) -> str:
    selector = word["mode"] * 32 + word["function"]
    name = SELECTOR_NAMES.get(selector, f"mode={word['mode']}, function={word['function']}")
    return f"BSTART.VEC {name}, {_type_text(word['dtype'])}"


_ATTRIBUTES = ("cmode", "sat", "canonicalize", "rmode", "layout")


def _assemble_attributes(operands: list[str]) -> Word:
    if operands and operands[0].upper() in _PADS:
        operands = [f"PadValue={operands[0]}", *operands[1:]]
    given = _keyed(operands)
    pad = given.pop("padvalue", "NULL").upper()
    if pad not in _PADS:
        raise BadValue(f"PadValue={pad}; legal: Zero, Max, Min, Null")
    fields = {"dtype": _type(given.pop("datatype", "NONE")), "pad": int(_PADS[pad])}
    unknown = sorted(set(given) - set(_ATTRIBUTES))
    if unknown:
        raise BadValue(
            f"attribute {unknown[0]!r}; legal: PadValue, DataType, {', '.join(_ATTRIBUTES)}"
        )
    fields |= {name: _number(given.get(name, "0"), name) for name in _ATTRIBUTES}
    return encode("B.DATR", **fields)


def _print_attributes(word: Word) -> str:
    parts = [f"PadValue={PadValue(word['pad']).name.capitalize()}"]
    if word["dtype"] != DTYPE_NONE:
        parts.append(f"DataType={_type_text(word['dtype'])}")
    parts += [f"{name}={word[name]}" for name in _ATTRIBUTES if word[name]]
    return "B.DATR " + ", ".join(parts)


def _loop(text: str) -> int:
    match = re.fullmatch(r"LB(\d)", text.strip().upper())
    if not match:
        raise BadValue(f"dimension {text!r}; legal: LB0, LB1, LB2")
    return int(match[1])


def _one(operands: list[str]) -> str:
    if len(operands) != 1 or "=" not in operands[0]:
        raise BadValue(f"operands {', '.join(operands)!r}; legal: LBn=value")
    return operands[0]


def _assemble_dim(operands: list[str]) -> Word:
    loop, _, value = _one(operands).partition("=")
    base, plus, offset = value.strip().partition("+")
    if base.strip()[:1] in ("r", "R"):
        register, immediate = (
            _register(base.strip()),
            _number(offset.strip(), "offset") if plus else 0,
        )
    else:
        register, immediate = 0, _number(value.strip(), "dimension")
    return encode("B.DIM", loop=_loop(loop), register=register, immediate=immediate)


def _print_dim(word: Word) -> str:
    base = f"r{word['register']}+" if word["register"] else ""
    return f"B.DIM LB{word['loop']}={base}{word['immediate']}"


def _assemble_short_dim(operands: list[str]) -> Word:
    if len(operands) == 2 and operands[1].startswith("->"):
        operands = [f"{operands[1][2:]}={operands[0]}"]
    loop, _, value = _one(operands).partition("=")
    return encode("C.B.DIMI", loop=_loop(loop), immediate=_number(value.strip(), "dimension"))


def _print_short_dim(word: Word) -> str:
    return f"C.B.DIMI LB{word['loop']}={word['immediate']}"


def _assemble_binding(operands: list[str]) -> Word:
    sources, fields = [], {"last": 0, "size": 0, "pe_mode": -1, "hand": 0}
    for operand in operands:
        target = re.fullmatch(r"->\s*([TUMNtumn])\s*<(.+)>", operand)
        if target:
            fields["hand"], fields["size"] = HANDS.index(target[1].upper()), _size(target[2])
        elif operand.lower() in ("last", "<last>"):
            fields["last"] = 1
        elif operand.lower().startswith("mask="):
            fields["pe_mode"] = _mask_mode(operand[5:])
        else:
            sources.append(_tile(operand))
    if fields["pe_mode"] < 0:
        raise BadValue("B.IOT without mask=; legal: mask=0000 to mask=1111")
    if len(sources) > 2:
        raise BadValue(f"B.IOT with {len(sources)} sources; legal: at most 2")
    return encode(
        f"B.IOT{len(sources)}", **{f"source{i}": s for i, s in enumerate(sources)}, **fields
    )


def _print_binding(word: Word) -> str:
    parts = [register_name(word[f"source{i}"]) for i in range(int(word.form.name[-1]))]
    parts.append(f"mask={PE_MODES[word['pe_mode']]:04b}")
    parts += ["last"] if word["last"] else []
    if word["size"] or word["hand"]:
        parts.append(f"->{HANDS[word['hand']]}<{_size_text(word['size'])}>")
    return "B.IOT " + ", ".join(parts)


def _assemble_scalars(operands: list[str]) -> Word:
    if len(operands) != 4 or not operands[3].startswith("->"):
        raise BadValue(f"operands {', '.join(operands)!r}; legal: rN, rN, rN, ->rN")
    sources = {f"source{i}": _register(operands[i]) for i in range(3)}
    return encode("B.IOR", destination=_register(operands[3][2:].strip()), **sources)


def _print_scalars(word: Word) -> str:
    sources = ", ".join(f"r{word[f'source{i}']}" for i in range(3))
    return f"B.IOR {sources}, ->r{word['destination']}"


def _assemble_shared(operands: list[str]) -> Word:
    match = re.fullmatch(r"[sS](\d+)\s*<(.+)>", operands[0]) if len(operands) == 2 else None
    if not match or not operands[1].lower().startswith("mask="):
        raise BadValue(f"operands {', '.join(operands)!r}; legal: Sn<size>, mask=XXXX")
    return encode(
        "B.IOS", shared=int(match[1]), size=_size(match[2]), pe_mode=_mask_mode(operands[1][5:])
    )


def _print_shared(word: Word) -> str:
    return (
        f"B.IOS S{word['shared']}<{_size_text(word['size'])}>, mask={PE_MODES[word['pe_mode']]:04b}"
    )


_ASSEMBLERS: dict[str, Callable[[list[str]], Word]] = {
    "BSTART.VEC": _assemble_start,
    "BSTART.TEPL": _assemble_start,
    "B.DATR": _assemble_attributes,
    "B.DIM": _assemble_dim,
    "C.B.DIMI": _assemble_short_dim,
    "B.IOT": _assemble_binding,
    "B.IOR": _assemble_scalars,
    "B.IOS": _assemble_shared,
}
_PRINTERS: dict[str, Callable[[Word], str]] = {
    "BSTART.TEPL": _print_start,
    "B.DATR": _print_attributes,
    "B.DIM": _print_dim,
    "C.B.DIMI": _print_short_dim,
    "B.IOT0": _print_binding,
    "B.IOT1": _print_binding,
    "B.IOT2": _print_binding,
    "B.IOR": _print_scalars,
    "B.IOS": _print_shared,
}


def _assemble_line(text: str) -> Word:
    name, _, rest = text.partition(" ")
    name, operands = name.upper(), [part.strip() for part in rest.split(",") if part.strip()]
    if name in STOPS:
        if operands:
            raise BadValue(f"{name} takes no operands")
        return encode(name)
    if name not in _ASSEMBLERS:
        raise BadValue(
            f"{name} is no bundle word; legal: {', '.join((*_ASSEMBLERS, *sorted(STOPS)))}"
        )
    return _ASSEMBLERS[name](operands)


def assemble(text: str) -> list[int]:
    """Assemble a program into its words of 16, 32 or 64 bits.

    Parameters
    ----------
    text : str
        Words in canonical assembly, separated by line ends or `;`.

    Returns
    -------
    list of int

    Raises
    ------
    BadValue
        With the line, what is wrong with it, and what would be legal. Whether the bundle is legal
        is the machine's question: the assembler encodes illegal bundles too.

    Examples
    --------
    >>> program = assemble("BSTART.VEC TFMA, FP16; B.DIM LB0=8; BSTOP")
    >>> [hex(word) for word in program]
    ['0x21c19181', '0x800043', '0x1']
    """
    if not isinstance(text, str):
        raise BadType(f"assembly is a {type(text).__name__}; legal: str")
    words = []
    for number, line in enumerate(text.splitlines(), 1):
        for part in line.partition("//")[0].split(";"):
            if part.strip():
                try:
                    words.append(_assemble_line(" ".join(part.split())).bits)
                except BadValue as error:
                    raise BadValue(f"line {number}: {part.strip()}: {error}") from None
    return words


def disassemble(words: Iterable[int] | bytes) -> str:
    """Return the canonical assembly of a program, one word a line; `assemble` takes it back.

    Parameters
    ----------
    words : iterable of int, or bytes
        Words, or their little-endian stream.

    Raises
    ------
    IllegalInstructionFault
        For a word that is none of a tile bundle's.

    Examples
    --------
    >>> print(disassemble([0x0028DF93]))
    B.IOT T#3, mask=1111, last, ->N<128B>
    """
    return "\n".join(describe(decode(bits)) for bits in words_of(words))


def describe(word: Word) -> str:
    """Return the canonical assembly of one word."""
    printer = _PRINTERS.get(word.form.name)
    return printer(word) if printer else word.form.name
