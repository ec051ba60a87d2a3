"""The doors: text of any form, or machine words, become a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import AssemblyError, BadType, BadValue
from ..instructions import check_arch
from ..modifiers import LEGALITIES
from .builtins import is_builtin_call, parse_builtin
from .call import AssemblyCall
from .decoding import decode as decode_bytes
from .line import LineParser
from .listing import Statement, blank_comments, read_listing

_WORD = re.compile(r"(?:0[xX])?[0-9a-fA-F]{2,32}")
_BETWEEN_WORDS = re.compile(r"[\s\[\],]+")


def parse(text: str, arch: str, legality: str = "strict") -> AssemblyCall:
    """Read one matrix instruction in any of the forms that its users have it in.

    Parameters
    ----------
    text : str
        An assembly line (comments, labels, and the addresses and encodings of a disassembly
        listing may stand around it), a call of a `__builtin_amdgcn_` builtin, or machine words in
        hexadecimal. Words of two digits, or one run of 16 or 32 digits, are bytes, low address
        first; words of eight digits are 32-bit words, low address first.
    arch : str
        "gfx908", "gfx90a", "gfx942" or "gfx950".
    legality : "strict", "llvm" or "truncate"
        "strict" refuses what no manual defines, "llvm" takes what the assembler takes, "truncate"
        keeps the low bits of a builtin's constants, as the compiler does.

    Returns
    -------
    AssemblyCall
        With `instruction`, `operands`, `cbsz`, `abid`, `blgp`, `neg` and `op_sel`; `str()` of it
        is the assembly line, `encode()` the words, `to_builtin()` the builtin call.

    Raises
    ------
    AssemblyError, IllegalModifier, UnknownInstruction
        With the column.

    >>> c = parse("v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:1", arch="gfx942")
    >>> str(c), c.encode().hex()
    ('v_mfma_f32_32x32x1_2b_f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:1', '0089c0d300030204')
    """
    if not isinstance(text, str):
        raise BadType(
            f"text is a {type(text).__name__}; legal: a string (gpuemu.decode reads words)"
        )
    check_mode(arch, legality)
    code = blank_comments(text)
    if is_builtin_call(code):
        return parse_builtin(code, arch, legality)
    words = _split_words(text)
    if words and all(_WORD.fullmatch(word) for word in words):
        return decode(text, arch, legality)
    statements = read_listing(text)
    if len(statements) != 1:
        raise AssemblyError(
            f"the text holds {len(statements)} instructions; legal: one "
            "(a file of `gpuemu asm`, or gpuemu.mfma.program.Program.read, takes several)"
            if statements
            else "the text holds no instruction; legal: one"
        )
    return parse_statement(statements[0], arch, legality)


def parse_statement(statement: Statement, arch: str, legality: str) -> AssemblyCall:
    """Return the call of one instruction of a listing; an encoding beside it has to agree."""
    call = LineParser(statement.text, arch, legality).parse()
    if (
        statement.encoding is not None
        and legality != "llvm"
        and statement.encoding != call.encode()
    ):
        raise AssemblyError(
            f"the listing gives the words {statement.encoding.hex(' ', 4)}, but {call} on {arch} "
            f"is {call.encode().hex(' ', 4)}; is it a listing of another architecture?"
        )
    return call


def check_mode(arch: str, legality: str) -> None:
    """Raise `BadValue` for an unknown architecture or mode of legality."""
    if check_arch(arch) is None:
        raise BadValue("arch=None; legal: one of gfx908, gfx90a, gfx942, gfx950")
    if legality not in LEGALITIES:
        raise BadValue(f"legality={legality!r}; legal: {', '.join(LEGALITIES)}")


def decode(
    words: bytes | str | Sequence[int] | Any, arch: str, legality: str = "strict"
) -> AssemblyCall:
    """Return the call that machine words encode.

    Parameters
    ----------
    words : bytes, str or sequence of int
        8 bytes, or 16 of a scaled instruction, low address first; or hexadecimal text (see
        `parse`); or 2 or 4 32-bit words, low address first.
    arch : str
    legality : "strict", "llvm" or "truncate"

    Raises
    ------
    AssemblyError, IllegalModifier
        Where they are no matrix instruction, or an illegal one.

    >>> str(decode([0xD3C08900, 0x64020300], arch="gfx942"))
    'v_mfma_f32_32x32x1_2b_f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:1 blgp:3'
    """
    check_mode(arch, legality)
    return decode_bytes(_bytes(words), arch, legality)


def _bytes(words: Any) -> bytes:
    if isinstance(words, (bytes, bytearray, memoryview)):
        return bytes(words)
    if isinstance(words, str):
        return hexadecimal(words)
    if isinstance(words, np.ndarray):
        words = words.tolist()
    if isinstance(words, int) or not isinstance(words, Sequence):
        raise BadType(
            f"words are a {type(words).__name__}; legal: bytes, hexadecimal text, or 32-bit words"
        )
    for word in words:
        if not isinstance(word, (int, np.integer)) or not 0 <= int(word) < 1 << 32:
            raise AssemblyError(f"word {word!r}; legal: integers 0..0xffffffff")
    return b"".join(int(word).to_bytes(4, "little") for word in words)


def _split_words(text: str) -> list[str]:
    return [word for word in _BETWEEN_WORDS.split(text) if word]


def hexadecimal(text: str) -> bytes:
    """Return the bytes of hexadecimal text: bytes or 32-bit words, low address first.

    >>> hexadecimal("D3C08900 64020300") == hexadecimal("[0x00,0x89,0xc0,0xd3,0x00,0x03,0x02,0x64]")
    True
    """
    digits = [word[2:] if word[:2] in ("0x", "0X") else word for word in _split_words(text)]
    lengths = {len(part) for part in digits}
    if not digits or any(not re.fullmatch(r"[0-9a-fA-F]+", part) for part in digits):
        raise AssemblyError(f"{text[:60]!r} is no hexadecimal text")
    if lengths == {8}:
        return b"".join(bytes.fromhex(part)[::-1] for part in digits)
    if lengths == {2} or (len(digits) == 1 and lengths <= {16, 32}):
        return bytes.fromhex("".join(digits))
    raise AssemblyError(
        f"{text[:60]!r}; legal: bytes of two digits, words of eight, or one run of 16 or 32, "
        "low address first"
    )
