"""TFMA on tiles as operations of a campaign: every element type, shape, mask, padding and alias.

The input classes are those of the matrix instructions, with one product an element, and three of
its own. Half of the cases have one element that is not zero: flags are the OR over a tile, and one
that is missing or too many shows there alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tile
from ..backends import arrays
from ..formats import Format, Nan
from ..tile.descriptor import PES
from ..tile.numeric import DATA_TYPES, ELEMENT_TYPES, DataType, flag_names
from ..tile.operations import OPERATIONS
from . import items
from .generators import CLASSES, InputClass
from .operation import ArrayOperation, Arrays, Configuration
from .spec import Extents, Matrices, Spec, window
from .streams import Array, Stream, key_of, power

ARCH, ALL_TYPES = "pto", "pto-adr0080"
SOURCES = ("left", "right", "addend")
FRAGMENT_BITS = 8 * 128  # of the smallest tile
MASKS = ("1111", "1000", "0100", "0010", "0001", "1100", "1110", "0000")
ALIASES = ("none", "left=right", "left=addend", "right=addend", "all")


def edges(spec: Spec, s: Stream) -> Matrices:
    """Codes of both signs at which something changes, in all three operands."""
    shape = (*spec.outputs[:1], 1, 1)
    codes = items.special_codes(spec.c).astype(spec.c.storage)
    return s.choose(codes, *shape), s.choose(codes, *shape), s.choose(codes, *shape)


def nonfinite(spec: Spec, s: Stream) -> Matrices:
    """An infinity times a quiet NaN, plus an infinity: is it invalid? In every fourth case any of
    infinities, NaNs of both kinds, zeros and finite numbers.
    """
    xp, shape = s.xp, (*spec.outputs[:1], 1, 1)
    sign, quiet = 1 << (spec.c.bits - 1), 1 << (spec.c.mantissa_bits - 1)
    top = items.infinity(spec.c) if spec.c.infinities else sign - 1 - quiet
    one, last = spec.c.bias << spec.c.mantissa_bits, items.max_finite(spec.c)
    codes = np.array([top, top | sign, top | quiet, top | 1, 0, sign, one, last], np.uint64)
    asked, swapped = s.below(4, 1, 1, 1) > 0, s.below(2, *shape) == 0

    def made(wanted: Array) -> Array:
        code = xp.where(asked, wanted, s.choose(codes, *shape))
        return code.astype(spec.c.storage)

    infinity, nan = s.choose(codes[:2], *shape), codes[2]
    a, b = xp.where(swapped, nan, infinity), xp.where(swapped, infinity, nan)
    return made(a), made(b), made(s.choose(codes[:2], *shape))


def near_ties(spec: Spec, s: Stream) -> Matrices:
    """Products that are half or a quarter of the addend's last place, exactly or nearly; addends
    at the smallest normal number, where tininess is decided, and at the largest.
    """
    xp, shape = s.xp, (*spec.outputs[:1], 1, 1)
    width, bias, last = spec.c.mantissa_bits, spec.c.bias, items.max_finite(spec.c)
    unit, top = 1 << width, items.max_finite(spec.c) >> width
    which = s.below(3, *shape)
    addend = xp.where(which == 0, s.between(unit, last, *shape), xp.where(which == 1, unit, last))
    left = s.between(unit + 1, 2 * unit - 1, *shape)
    right = (2 * unit * unit + left // 2) // left + s.between(-1, 1, *shape)
    exact = s.below(5, *shape) == 0
    left = xp.where(exact, unit, left)
    right = xp.where(exact, unit, xp.clip(right, unit, 2 * unit - 1))
    # left * right is nearly 2 * unit^2, or exactly unit^2.
    under = width + s.between(1, 2, *shape) + xp.where(exact, 0, 1)
    weight = (addend >> width) - under + bias  # the sum of the two exponent fields
    first = xp.clip(weight // 2 + s.between(-2, 2, *shape), 1, top)
    fields = first, xp.clip(weight - first, 0, top)
    codes = [
        field << width | part - unit for field, part in zip(fields, (left, right), strict=True)
    ]
    a, b, c = (
        (code | s.below(2, *shape) << (spec.c.bits - 1)).astype(spec.c.storage)
        for code in (*codes, addend)
    )
    return a, b, c


def fused(spec: Spec, s: Stream) -> Matrices:
    """The addend cancels the rounded product, or is a neighbour of it: what is left tells a fused
    evaluation from two roundings.
    """
    shape = (*spec.outputs[:1], 1, 1)
    a, b = (
        s.sign(*shape)
        * s.significand(spec.c.mantissa_bits, *shape)
        * power(s.between(*window(spec.c, spec.c.emax // 2), *shape))
        for _ in range(2)
    )
    c = items.encode(spec.c, -a * b)
    magnitude = c & spec.c.storage.type((1 << (spec.c.bits - 1)) - 1)
    inside = (magnitude > 2) & (magnitude < items.max_finite(spec.c) - 2)
    steps = s.xp.where(inside, s.between(-2, 2, *shape), 0)
    near = (c.astype(np.uint64) + steps.astype(np.uint64)).astype(spec.c.storage)
    return items.encode(spec.c, a), items.encode(spec.c, b), near


EDGES = InputClass("edges", edges, True)
_FLOATS = tuple(InputClass(f.__name__, f) for f in (nonfinite, near_ties, fused))


def format_of(dtype: DataType) -> Format:
    """Return an element type as a number format; TF32 and HF32 without their unused bits."""
    if dtype.kind == "float":
        bias = (1 << (dtype.exponent_bits - 1)) - 1
        widths = dtype.bits - dtype.unused_bits, dtype.exponent_bits, dtype.mantissa_bits, bias
        nan: Nan = "ieee" if dtype.infinities else "all-ones"
        return Format(dtype.name, *widths, dtype.infinities, nan, dtype.dtype_name)
    widths = dtype.bits, 0, 0, 0
    if dtype.kind == "signed":
        return Format(dtype.name, *widths, False, "none", dtype.dtype_name, "signed")
    return Format(dtype.name, *widths, False, "none", dtype.dtype_name, "unsigned")


def _classes(dtype: DataType) -> tuple[InputClass, ...]:
    if dtype.kind == "float":
        own = _FLOATS if dtype.bits < 64 else _FLOATS[::2]  # products of near ties take 63 bits
        return (*CLASSES.values(), EDGES, *own)
    if dtype.bits == 64:
        return CLASSES["raw"], EDGES  # float64, in which values are made, has no 64-bit integers
    return (*(cls for cls in CLASSES.values() if cls.integers), EDGES)


class Tfma(ArrayOperation):
    """TFMA on tiles of one element type, as `gpuemu.tile.tiles` computes it.

    Operands `left`, `right`, `addend` and the result `bits` are element bits (n, fragments, rows,
    columns); `defined` is 0 or 1 an element, `flags` (n,) the sticky flags that a tile raises.
    Bits of undefined elements do not count.
    """

    def __init__(self, dtype: DataType) -> None:
        self.dtype, self.format = dtype, format_of(dtype)
        self.mnemonic = f"tfma_{dtype.name.lower()}"
        self.arch = ARCH if dtype.name in OPERATIONS["TFMA"].contract_types else ALL_TYPES
        self.classes = _classes(dtype)
        elements = FRAGMENT_BITS // dtype.bits
        shapes = (
            (4, elements // 4),
            (1, elements),
            (elements, 1),
            (2, elements // 2),
            (8, elements // 4),
        )
        self.factors = {
            "shape": shapes,
            "valid": ("whole", "one", "rows", "columns", "both"),
            "pad": ("Null", "Zero", "Max", "Min"),
            "mask": MASKS,
            "alias": ALIASES,
            "fragments": (PES, 1),
            "nan_corner": ("ieee", "asl") if dtype.kind == "float" else ("ieee",),
        }

    def valid(self, m: Configuration) -> tuple[int, int]:
        """Return ValidRow and ValidCol: all, (1, 1), or one fewer of rows, of columns, of both."""
        rows, columns = m["shape"]
        if m["valid"] == "one":
            return 1, 1
        fewer = {"rows": (1, 0), "columns": (0, 1), "both": (1, 1)}.get(m["valid"], (0, 0))
        return max(rows - fewer[0], 1), max(columns - fewer[1], 1)

    def _tile(self, m: Configuration) -> tuple[int, ...]:
        return (m["fragments"], *m["shape"])

    def empty(self, m: Configuration) -> Arrays:
        """Return the operands of zeros."""
        return {name: np.zeros((1, *self._tile(m)), self.dtype.storage) for name in SOURCES}

    def results(self, m: Configuration) -> Arrays:
        """Return the results of zeros."""
        return {
            "bits": np.zeros((1, *self._tile(m)), self.dtype.storage),
            "defined": np.zeros((1, *self._tile(m)), np.uint8),
            "flags": np.zeros(1, np.uint8),
        }

    def operands(self, m: Configuration, cls: InputClass, seed: int, numbers: Array) -> Arrays:
        """Return element bits of a class, everywhere or in one element that is computed."""
        shape = self._tile(m)
        count = int(np.prod(shape))
        s = Stream(key_of(seed, self.arch, self.mnemonic, cls.name), numbers)
        spec = Spec(Extents(count, 1, 1, 1), self.format, self.format, self.format)
        one = s.choose(self._computed(m), 1)
        lonely = (s.below(2, 1) == 0) & (s.xp.arange(count) != one)
        found = {}
        for name, values in zip(SOURCES, cls.generate(spec, s), strict=True):
            bits = items.encode(self.format, values).reshape(-1, count)
            bits = s.xp.where(lonely, 0, bits).astype(self.dtype.storage)
            found[name] = (bits << self.dtype.storage.type(self.dtype.unused_bits)).reshape(
                -1, *shape
            )
        return found

    def _computed(self, m: Configuration) -> Array:
        """Return the positions of the elements that are computed; all where there are none."""
        used = np.zeros(self._tile(m), bool)
        rows, columns = self.valid(m)
        for fragment in range(len(used)):
            on = m["mask"][fragment] == "1" if len(used) == PES else m["mask"] != "0000"
            used[fragment, :rows, :columns] = on
        return np.flatnonzero(used) if used.any() else np.arange(used.size)

    def elements(self) -> int:
        """Return the elements of the largest tile, four times."""
        return 4 * PES * 2 * FRAGMENT_BITS // self.dtype.bits

    def outputs(self, m: Configuration) -> int:
        """Return the elements of a tile."""
        return int(np.prod(self._tile(m)))

    def sources(self, operands: Arrays, m: Configuration) -> tuple[Array, ...]:
        """Return left, right and addend: the same array where the configuration says so."""
        left, right, addend = (operands[name] for name in SOURCES)
        right = left if m["alias"] in ("left=right", "all") else right
        addend = left if m["alias"] in ("left=addend", "all") else addend
        return left, right, right if m["alias"] == "right=addend" else addend

    def given(self, operands: Arrays, m: Configuration) -> Arrays:
        """Return left, right and addend, with aliased ones written out alike."""
        return dict(zip(SOURCES, self.sources(operands, m), strict=True))

    def compute(self, backend: str, operands: Arrays, m: Configuration) -> Arrays:
        """Return what `tile.tiles` computes on a backend."""
        given = self.sources(operands, m)
        if backend == "cuda":
            import cupy

            on_device = {id(x): cupy.asarray(x) for x in given}
            given = tuple(on_device[id(x)] for x in given)
        found = tile.tiles(
            "TFMA",
            given,
            self.dtype.name,
            backend,
            valid=self.valid(m),
            pad=m["pad"],
            mask=int(m["mask"], 2),
            dtype_set="adr0080",
            nan_corner=m["nan_corner"],
        )
        return {
            "bits": arrays.to_numpy(found.bits),
            "defined": arrays.to_numpy(found.defined).astype(np.uint8),
            "flags": arrays.to_numpy(found.flags).astype(np.uint8),
        }

    def ask(self, function: Callable[..., Any], operands: Arrays, m: Configuration) -> Any:
        """Call `f(operation, left, right, addend, dtype, valid, pad, mask, nan_corner)`."""
        return function(
            self,
            *self.sources(operands, m),
            dtype=self.dtype.name,
            valid=self.valid(m),
            pad=m["pad"],
            mask=int(m["mask"], 2),
            nan_corner=m["nan_corner"],
        )

    def ignored(self, name: str, got: Arrays, want: Arrays, nan: str) -> Array | None:
        """Return where elements are undefined: their bits mean nothing."""
        return want["defined"] == 0 if name == "bits" else None

    def show(self, name: str, value: Any) -> str:
        """Return flags by name, bits in hex."""
        return flag_names(int(value)) if name == "flags" else super().show(name, value)

    def item_format(self, name: str) -> Format | None:
        """Return the number format of an operand's items; None where some bits are unused."""
        return None if self.dtype.unused_bits else self.format


_CONTRACT = OPERATIONS["TFMA"].contract_types
ROWS = tuple(
    Tfma(DATA_TYPES[name])
    for name in (*_CONTRACT, *(name for name in ELEMENT_TYPES if name not in _CONTRACT))
)

__all__ = ["ROWS", "Tfma", "format_of"]
