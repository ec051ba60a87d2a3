"""The items that a lane's registers hold one after another, whatever their width: read, cleared,
made simpler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..formats import Format
from ..mfma.instructions import Instruction
from ..mfma.modifiers import Modifiers
from .images import Images

Array = np.ndarray[Any, Any]
Place = tuple[str, int, int, int]  # operand, lane, first bit in the lane's registers, bits

SCALE_BITS, SCALE_ONE = 8, 127
SCALE_WORD = 0x7F7F7F7F  # four scales of one
IDX_WORD = 0x44444444  # every pair of columns is 0, 1


def format_of(i: Instruction, name: str, m: Modifiers) -> Format | None:
    """Return the format of an operand's items; None of scales and index registers."""
    return i.operand_format(name.upper(), m.cbsz, m.blgp) if name in ("a", "b", "c") else None


def places(i: Instruction, operands: Images, m: Modifiers) -> list[Place]:
    """Return the items that are not neutral, of every operand; index registers have none.

    Neutral is zero, and one of scales. One register of all lanes comes after the other: halves of
    the list are halves of K in all rows. Lane by lane, shrinking ends with twice the words.
    """
    found: list[Place] = []
    for name, image in operands.items():
        if name == "idx":
            continue
        fmt = format_of(i, name, m)
        bits = fmt.bits if fmt else SCALE_BITS
        here: list[Place] = []
        for lane in np.flatnonzero((image[0] != neutral(name)).any(axis=0)):
            whole = _lane(image, int(lane)) ^ (0 if fmt else _lane(image * 0 + SCALE_WORD, 0))
            firsts = range(0, 32 * image.shape[1], bits)
            here += [(name, int(lane), at, bits) for at in firsts if whole >> at & mask(bits)]
        found += sorted(here, key=lambda place: (place[2] // 32, place[1], place[2]))
    return found


def neutral(name: str) -> np.uint32:
    """Return the word of an operand that says the least."""
    return np.uint32(SCALE_WORD if name.startswith("scale") else 0)


def mask(bits: int) -> int:
    """Return an integer with that many low bits set."""
    return (1 << bits) - 1


def _lane(image: Array, lane: int) -> int:
    """Return a lane's registers as one integer, the first register lowest."""
    return int.from_bytes(image[0, :, lane].astype("<u4").tobytes(), "little")


def read(operands: Images, place: Place) -> int:
    """Return the item at a place."""
    name, lane, first, bits = place
    return _lane(operands[name], lane) >> first & mask(bits)


def write(image: Array, place: Place, item: int) -> None:
    """Set the item at a place of an operand's image."""
    _, lane, first, bits = place
    whole = _lane(image, lane) & ~(mask(bits) << first) | item << first
    words = np.frombuffer(whole.to_bytes(4 * image.shape[1], "little"), "<u4")
    image[0, :, lane] = words


def without(operands: Images, cleared: list[Place]) -> Images:
    """Return operands in which some items are neutral."""
    found = {name: image.copy() for name, image in operands.items()}
    for place in cleared:
        write(found[place[0]], place, SCALE_ONE if place[0].startswith("scale") else 0)
    return found


def simpler(i: Instruction, operands: Images, m: Modifiers, place: Place) -> Iterator[Images]:
    """Yield operands in which one item is simpler: one, positive, of fewer bits."""
    name = place[0]
    fmt = format_of(i, name, m)
    if fmt is None:
        return  # scales are one, or stay
    for option in simpler_codes(fmt, read(operands, place)):
        changed = operands[name].copy()
        write(changed, place, option)
        yield operands | {name: changed}


def simpler_codes(fmt: Format, item: int) -> Iterator[int]:
    """Yield the codes of a format that are simpler than one: one, positive, of fewer bits."""
    one = _one(fmt)
    for option in dict.fromkeys(_options(fmt, item, fmt.bits)):
        less = (option.bit_count(), option) < (item.bit_count(), item)
        if option != item and option and (option == one or (less and item != one)):
            yield option


def _one(fmt: Format) -> int:
    return fmt.bias << fmt.mantissa_bits if fmt.is_float else 1


def _options(fmt: Format, item: int, bits: int) -> list[int]:
    low = fmt.mantissa_bits if fmt.is_float else bits - 1
    cleared = [item >> n << n for n in (low, low // 2, low // 4)]
    return [_one(fmt), item & mask(bits - 1), *cleared]
