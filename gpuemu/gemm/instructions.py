"""Which matrix instruction a descriptor gets, and how tensor cores add: two tables and their
lookup.

Shapes are those of `mma.sync` in the PTX ISA; an instruction serves a tile only if its shape
divides `Size`. The arithmetic rows are the published model of the NVIDIA tensor cores (mmasim
2.1.1, tested there against silicon): products and the addend are aligned to the largest exponent,
truncated to `fraction` bits, added exactly, and the sum is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FP8 = ("f8e4m3fn", "f8e5m2")


@dataclass(frozen=True)
class Instruction:
    """One `mma.sync` shape for a set of (A, B, C) element types, from one architecture on."""

    shape: tuple[int, int, int]
    precisions: frozenset[tuple[str, str, str]]
    least_sm: int

    @property
    def name(self) -> str:
        """The PTX spelling of the shape: "m16n8k16"."""
        return "m{}n{}k{}".format(*self.shape)


def _row(
    shape: tuple[int, int, int], least_sm: int, *precisions: tuple[str, str, str]
) -> Instruction:
    return Instruction(shape, frozenset(precisions), least_sm)


_HALF = (("f16", "f16", "f16"), ("f16", "f16", "f32"))
_BF16 = ("bf16", "bf16", "f32")
_TF32 = ("tf32", "tf32", "f32")
_F64 = ("f64", "f64", "f64")
_INT8 = tuple((a, b, "i32") for a in ("i8", "u8") for b in ("i8", "u8"))
_FP8 = tuple((a, b, c) for a in FP8 for b in FP8 for c in ("f16", "f32"))

# The first row that fits is taken: the longest K first, for it needs the fewest instructions.
INSTRUCTIONS: tuple[Instruction, ...] = (
    _row((16, 8, 32), 800, *_INT8),
    _row((16, 8, 16), 800, *_INT8),
    _row((8, 8, 16), 800, *_INT8),
    _row((16, 8, 32), 890, *_FP8),
    _row((16, 8, 16), 800, *_HALF, _BF16),
    _row((16, 8, 8), 750, *_HALF),
    _row((16, 8, 8), 800, _BF16, _TF32),
    _row((16, 8, 4), 800, _TF32),
    _row((16, 8, 16), 900, _F64),
    _row((16, 8, 8), 900, _F64),
    _row((16, 8, 4), 900, _F64),
    _row((8, 8, 4), 800, _F64),
)

# wgmma: precisions it has; its M is 64, its N a multiple of 8, its K 32 bytes of A.
WGMMA_PRECISIONS = frozenset((*_HALF, _BF16, _TF32, *_INT8, *_FP8))
WGMMA_THREADS = (128, 256, 512, 1024)


@dataclass(frozen=True)
class TensorCore:
    """How one generation adds a group of products.

    Attributes
    ----------
    fraction : int
        Bits kept below the largest exponent of the group.
    group_bytes : int
        Bytes of A that are summed at once: 32 are 16 half products.
    zero_exponent_f32, zero_exponent_f16 : int
        The exponent that a zero takes part with, by the type of C.
    output_fraction : int
        Fraction bits of an f32 result, which is truncated; f16 results round to nearest even.
    published : bool
        Whether the published model, or a measurement, covers this very architecture; else its
        nearest relative is assumed.
    through_f16 : bool
        Whether an instruction of 8-bit floats is two of f16: one starts from zero and takes the
        products of k modulo 4 below 2, the other goes on from there with the rest; the addend comes
        last, in f32, rounded to nearest.
    """

    fraction: int
    group_bytes: int
    zero_exponent_f32: int
    zero_exponent_f16: int
    output_fraction: int = 23
    published: bool = True
    through_f16: bool = False


_AMPERE = (24, 16, -132, -20)
_HOPPER = (25, 32, -133, -21)

TENSOR_CORES: dict[int, TensorCore] = {
    750: TensorCore(*_AMPERE),
    800: TensorCore(*_AMPERE),
    860: TensorCore(*_AMPERE, published=False),
    870: TensorCore(*_AMPERE, published=False),
    890: TensorCore(*_AMPERE),
    900: TensorCore(*_HOPPER),
    1000: TensorCore(*_HOPPER),
    1030: TensorCore(*_HOPPER, published=False),
    1070: TensorCore(*_HOPPER, published=False),
    1100: TensorCore(*_HOPPER, published=False),
    1200: TensorCore(*_HOPPER),
    1210: TensorCore(*_HOPPER, published=False),
}

# 8-bit floats where they differ from the rows above. On 9.0 to 11.0 the compiler makes two f16
# instructions of mma.sync: read off the machine code, and measured on an H200 with C of f32. How C
# of f16 is added there is unknown: the 16-bit row is assumed.
_FP8_MMA = {890: TensorCore(13, 16, -132, -20, output_fraction=13)} | {
    arch: TensorCore(*_HOPPER, published=arch == 900, through_f16=True)
    for arch in (900, 1000, 1030, 1070, 1100)
}
_FP8_WGMMA = TensorCore(13, 32, -133, -21, output_fraction=13)


def find_instruction(
    precision: tuple[str, str, str], size: tuple[int, int, int], arch: int
) -> Instruction | None:
    """Return the `mma.sync` instruction for a tile, or None where only FMA chains are left."""
    for row in INSTRUCTIONS:
        fits = all(extent % step == 0 for extent, step in zip(size, row.shape, strict=True))
        if fits and arch >= row.least_sm and precision in row.precisions:
            return row
    return None


def tensor_core(arch: int, precision: tuple[str, str, str], wgmma: bool = False) -> TensorCore:
    """Return how the tensor cores of an architecture add floats of a precision."""
    if precision[0] in FP8 and wgmma:
        return _FP8_WGMMA
    if precision[0] in FP8:
        row = _FP8_MMA.get(arch, TENSOR_CORES[arch])
        known = precision[2] != "f16" or not row.through_f16
        return row if known else replace(row, through_f16=False, published=False)
    return TENSOR_CORES[arch]
