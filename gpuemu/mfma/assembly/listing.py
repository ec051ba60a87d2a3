"""Assembly files and listings: which lines hold an instruction, and what stands around it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Comments, but not the character literal that could hide their start.
_COMMENT = re.compile(r"'(?:\\.|[^'\\\n])'|(?P<comment>(?:;|//)[^\n]*|/\*.*?\*/)", re.DOTALL)

# The encoding as compilers print it, and as disassemblers do after the address.
_BYTE = r"0x[0-9a-fA-F]{2}"
_ENCODING = re.compile(rf"encoding:\s*\[\s*({_BYTE}(?:[\s,]+{_BYTE})*)\s*\]")
_DUMP = re.compile(r"(?://|;)\s*[0-9a-fA-F]{6,16}:\s*((?:[0-9a-fA-F]{8}\s*)+)$")

# An address, and perhaps the bytes or words, before the instruction.
_ADDRESS = re.compile(
    r"\s*(?:0[xX])?[0-9a-fA-F]+:(?:\s+(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{2})(?=\s))*\s+(?=[A-Za-z_])"
)
_LABEL = re.compile(r"\s*(?:[A-Za-z_.$][\w.$@]*|[0-9]+|[0-9a-fA-F]+\s+<[^>]*>)\s*:\s*")


@dataclass(frozen=True)
class Statement:
    """One line of a listing that holds a statement.

    Attributes
    ----------
    number : int
        The line, from 1.
    text : str
        Without address and comments, but for a `/* */` between its words; columns are those of the
        line.
    source : str
        The line as it was.
    encoding : bytes or None
        The words that the listing gives for it.
    """

    number: int
    text: str
    source: str
    encoding: bytes | None

    @property
    def mnemonic(self) -> str:
        """Return the first word that is no label."""
        text = _COMMENT.sub(" ", self.text)
        while (label := _LABEL.match(text)) is not None:
            text = text[label.end() :]
        return (text.split() or [""])[0]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def blank_comments(text: str) -> str:
    """Return a text with spaces in place of its comments; columns stay."""
    return _COMMENT.sub(lambda m: m.group() if m["comment"] is None else _blank(m.group()), text)


def _without_comments(text: str) -> str:
    def shown(match: re.Match[str]) -> str:
        inline = match["comment"] is None or (
            match.group().startswith("/*") and "\n" not in match.group()
        )
        return match.group() if inline else _blank(match.group())

    return _COMMENT.sub(shown, text)


def _encoding(line: str) -> bytes | None:
    match = _ENCODING.search(line)
    if match is not None:
        return bytes.fromhex(re.sub(r"0x|[\s,]", "", match[1]))
    match = _DUMP.search(line.rstrip())
    if match is not None:
        return b"".join(bytes.fromhex(word)[::-1] for word in match[1].split())
    return None


def read_listing(text: str) -> list[Statement]:
    """Return the statements of an assembly file or listing: no comments, labels or directives.

    >>> text = "main: ; code\\n s_nop 1\\n .p2align 8\\n s_endpgm // 001900: BF810000"
    >>> [s.mnemonic for s in read_listing(text)]
    ['s_nop', 's_endpgm']
    """
    found = []
    lines = zip(_without_comments(text).split("\n"), text.split("\n"), strict=True)
    for number, (line, source) in enumerate(lines, 1):
        address = _ADDRESS.match(line)
        if address is not None and not line[: address.end()].strip().isidentifier():
            line = " " * address.end() + line[address.end() :]
        statement = Statement(number, line.rstrip(), source, _encoding(source))
        if statement.mnemonic and statement.mnemonic[0] not in ".#":
            found.append(statement)
    return found
