"""Programs of TFMA bundles, made at random: legal ones, and ones with one or two broken rules.

A legal bundle is a few named lines of assembly. A mutation replaces some of them, or spoils a
source tile; the class says which group of rules it breaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from ..tile import assemble
from ..tile.descriptor import HAND_SIZE, HANDS, PES, register_name
from ..tile.numeric import DATA_TYPES
from ..tile.operations import OPERATIONS
from ..tile.words import FORMS, decode, encode
from .bundle_mutations import MASKS, MUTATIONS, Made, Mutation, Source
from .items import special_codes
from .streams import Array, key_of
from .tile_cases import format_of

TILES, TILE_ELEMENTS = 5, 32  # of a case, and valid elements of a fragment
PADS = ("Null", "Zero", "Max", "Min")
STOPS = ("C.BSTOP", "BSTOP", "L.BSTOP")


CLASSES = (*MUTATIONS, "sequence", "two_rules", "noise")


def _assembled(case: Made) -> list[int]:
    return assemble("\n".join(case.lines.values()))


def made(cls: str, options: Mapping[str, Any], seed: int, number: int) -> Made:
    """Return one case of a class.

    Parameters
    ----------
    cls : str
        Of `CLASSES`.
    options : mapping
        Of `Core`: "names" and "dtype_set" matter here.
    seed, number : int
    """
    random = Random(key_of("bundle", cls, seed, number))
    types = OPERATIONS["TFMA"].types(options["dtype_set"])
    case = Made(random, DATA_TYPES[random.choice(types)], options)
    case.sticky = random.choice((0, random.randrange(32)))
    _write_tiles(case)
    _write_lines(case)
    if cls == "noise":
        words = _assembled(case)
        for _ in range(random.randrange(1, 4)):
            words = _noisy(random, words)
    else:
        for mutation in _chosen(case, cls):
            mutation(case)
        words = _assembled(case)
        if cls == "sequence":
            words = _again(case, words)
    case.program = b"".join(_bytes(word) for word in words)
    return case


def _chosen(case: Made, cls: str) -> list[Mutation]:
    if cls == "sequence":
        return []
    if cls == "two_rules":
        groups = case.random.sample([x for x in MUTATIONS if x != "legal"], 2)
        return [case.random.choice(MUTATIONS[group]) for group in groups]
    return [case.random.choice(MUTATIONS[cls])]


def _again(case: Made, words: list[int]) -> list[int]:
    """Return the bundle twice: the first one is committed by the start of the second, or stops."""
    second = Made(case.random, case.dtype, case.options, dict(case.lines), case.tiles)
    if case.random.randrange(3) == 0:
        case.random.choice(MUTATIONS[case.random.choice(("bindings", "extents", "types"))])(second)
    first = words[:-1] if case.random.randrange(2) else words
    return first + _assembled(second)


def _bytes(word: int) -> bytes:
    """Return the bytes of a word, little-endian."""
    return word.to_bytes(decode(word).form.width // 8, "little")


def _noisy(random: Random, words: list[int]) -> list[int]:
    """Return words of which one is dropped, doubled, or replaced by a random one."""
    at = random.randrange(len(words))
    # A start of another operation might be of one that nobody emulates.
    form = random.choice([f for name, f in FORMS.items() if name != "BSTART.TEPL"])
    fields = {name: random.randrange(form.limit(name)) for name in form.fields}
    new = random.choice(([], [words[at]] * 2, [encode(form.name, **fields).bits]))
    return words[:at] + new + words[at + 1 :] or [1]


def _write_tiles(case: Made) -> None:
    random, dtype = case.random, case.dtype
    capacity = random.choice((128, 128, 256))
    elements = 8 * capacity // dtype.bits
    columns = random.choice([n for n in (4, 8, 16, 32) if n <= elements])
    valid = random.randint(1, min(elements // columns, 4)), random.randint(1, min(columns, 8))
    registers = random.sample(range(64), TILES)
    for register in registers:
        fields = {
            "register": register + 1,
            "dtype": dtype.code,
            "capacity": capacity,
            "columns": columns,
            "valid_rows": valid[0],
            "valid_columns": valid[1],
            "mask": 0b1111,
            "layout": 0,
        }
        shape = (PES, valid[0] * valid[1])
        case.tiles.append(Source(fields, _codes(case, shape), np.zeros(shape, np.uint8)))


def _codes(case: Made, shape: tuple[int, int]) -> Array:
    """Return element bits: raw, or codes at which something changes; mostly zeros in some tiles,
    so that flags show.
    """
    random, dtype = case.random, case.dtype
    special = special_codes(format_of(dtype)).tolist()
    width = dtype.bits - dtype.unused_bits
    few = random.choice((1.0, 0.1))
    codes = [
        (random.choice(special) if random.randrange(2) else random.getrandbits(width))
        if random.random() < few
        else 0
        for _ in range(shape[0] * shape[1])
    ]
    return np.array(codes, np.uint64).reshape(shape) << np.uint64(dtype.unused_bits)


def _name(case: Made, at: int) -> str:
    """Return how a program names a tile: by its register, or by its age in its hand."""
    register = case.tiles[at].fields["register"] - 1
    if case.options["names"] == "absolute":
        return register_name(register)
    hand = register // HAND_SIZE
    later = [t.fields["register"] - 1 for t in case.tiles[at + 1 :]]
    return register_name(hand * HAND_SIZE + sum(x // HAND_SIZE == hand for x in later))


def _write_lines(case: Made) -> None:
    random = case.random
    rows, valid, columns = case.extents
    sources = [_name(case, random.choice((n, n, n, 0))) for n in range(3)]  # some are the same
    mask, pad = random.choice(MASKS), random.choice((*PADS, ""))
    case.scalars[5], case.scalars[7] = valid, random.getrandbits(32)

    def extent(loop: int, value: int) -> str:
        base = (value - case.scalars[7]) & 0xFFFF
        return str(
            case.one_of(
                f"B.DIM LB{loop}={value}", f"C.B.DIMI LB{loop}={value}", f"B.DIM LB{loop}=r7+{base}"
            )
        )

    size = case.tiles[0].fields["capacity"]
    case.lines = {
        "start": f"BSTART.VEC TFMA, {case.dtype.name}",
        "datr": f"B.DATR PadValue={pad}" if pad else "",
        "lb0": extent(0, valid),
        "lb1": extent(1, rows) if rows > 1 or random.randrange(2) else "",
        "lb2": extent(2, columns) if columns != valid or random.randrange(2) else "",
        "pair": f"B.IOT {sources[0]}, {sources[1]}, mask={mask}",
        "final": f"B.IOT {sources[2]}, mask={mask}, last, ->{random.choice(HANDS)}<{size}B>",
        "stop": random.choice(STOPS),
    }


__all__ = ["CLASSES", "TILES", "TILE_ELEMENTS", "made"]
