"""The open questions: an instruction that settles each, its registers, what readings predict.

Every prediction comes from the emulator: under one of its switches, with registers changed as a
reading has it, or with another arithmetic model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import gpuemu
from gpuemu.mfma.assembly import parse
from gpuemu.mfma.models import models
from gpuemu.mfma.program import Step, make_step

Array = np.ndarray[Any, Any]
Images = dict[str, Array]
Predict = Callable[[Step, Images], Array]


@dataclass(frozen=True)
class Probe:
    """One open question: what settles it, and what each reading predicts.

    Attributes
    ----------
    name, question : str
    lines : tuple of (arch, assembly line)
        The same question on each architecture.
    images : function of a Step
        Registers before, by operand.
    readings : mapping of name to a function (Step, images)
        D under that reading.
    """

    name: str
    question: str
    lines: tuple[tuple[str, str], ...]
    images: Callable[[Step], Images]
    readings: dict[str, Predict]


def step_of(arch: str, line: str, **switches: Any) -> Step:
    """Return the step of a probe's line."""
    return make_step(parse(line, arch, "llvm"), **switches)


def run(step: Step, images: Images, **options: Any) -> Array:
    """Return D of a step, with some of its modifiers or its model replaced."""
    call = step.call
    given = {name: getattr(call, name) for name in ("cbsz", "abid", "blgp", "neg", "op_sel")}
    given |= {"legality": "llvm", "backend": "numpy"} | options
    d: Array = gpuemu.execute(call.instruction, **images, **given)
    return d


def with_options(**options: Any) -> Predict:
    """Return the prediction of the emulator under some options."""
    return lambda step, images: run(step, images, **options)


def matrices(*builders: Callable[[gpuemu.Instruction], Array]) -> Callable[[Step], Images]:
    """Return register images of A, B, C that are packed from matrices, before any modifier."""

    def images(step: Step) -> Images:
        row = step.call.instruction
        packed = zip("ABC", builders, strict=True)
        return {name.lower(): row.pack(name, build(row)) for name, build in packed}

    return images


def filled(matrix: str, value: float) -> Callable[[gpuemu.Instruction], Array]:
    """Return a builder of a matrix of one value."""
    return lambda row: np.full(row.shape(matrix), value, row.operand_format(matrix).dtype)


def counted(matrix: str) -> Callable[[gpuemu.Instruction], Array]:
    """Return a builder of a matrix that counts its elements, 1 to 97 and again."""

    def build(row: gpuemu.Instruction) -> Array:
        shape = row.shape(matrix)
        count = np.arange(int(np.prod(shape))) % 97 + 1
        return count.reshape(shape).astype(row.operand_format(matrix).dtype)

    return build


def scattered(matrix: str, seed: int) -> Callable[[gpuemu.Instruction], Array]:
    """Return a builder of numbers over many binades, so that every way of summing them shows."""

    def build(row: gpuemu.Instruction) -> Array:
        r = np.random.default_rng(seed)
        shape = row.shape(matrix)
        numbers = r.standard_normal(shape) * 2.0 ** r.integers(-7, 7, shape)
        return numbers.astype(row.operand_format(matrix).dtype)

    return build


def lane_numbers(step: Step) -> Images:
    """A is the lane's number, B is 1, C is 0: D names the lane that A was read from."""
    lanes = np.arange(64, dtype=np.float32).view(np.uint32).reshape(1, 64)
    one = np.full((1, 64), 0x3F800000, np.uint32)
    return {"a": lanes, "b": one, "c": np.zeros((step.call.instruction.vgprs["D"], 64), np.uint32)}


def descending_index(step: Step) -> Images:
    """Sparse operands whose index pairs descend (3, 0) and (2, 2), in turn."""
    images = matrices(counted("A"), counted("B"), filled("C", 0))(step)
    return images | {"idx": np.full((1, 64), 0xA3A3A3A3, np.uint32)}


def sorted_index(step: Step, images: Images) -> Array:
    """Each pair of index fields is put in ascending order first."""
    idx = images["idx"]
    low, high = idx & np.uint32(0x33333333), idx >> np.uint32(2) & np.uint32(0x33333333)
    result = np.zeros_like(idx)
    for shift in range(0, 32, 4):
        pair = [x >> np.uint32(shift) & np.uint32(3) for x in (low, high)]
        ordered = np.minimum(*pair) | np.maximum(*pair) << np.uint32(2)
        result |= ordered << np.uint32(shift)
    return run(step, images | {"idx": result})


def index_sets(step: Step) -> Images:
    """A sparse A whose four index sets differ: (0,1), (0,2), (0,3), (1,2) in every group."""
    images = matrices(counted("A"), counted("B"), filled("C", 0))(step)
    word = sum(pair * 0x11 << 8 * n for n, pair in enumerate((0x4, 0x8, 0xC, 0x9)))
    return images | {"idx": np.full((1, 64), word, np.uint32)}


def nan_images(step: Step) -> Images:
    """One NaN with a payload in each row of A, the rest 1: every output is NaN."""
    row = step.call.instruction
    a = np.full(row.shape("A"), 0x3C00, np.uint16)
    a[..., 0] = 0x7D23  # signalling, payload 0x123
    images = matrices(filled("A", 1), filled("B", 1), filled("C", 0))(step)
    return images | {"a": row.pack("A", a.view(np.float16))}


def all_outputs(word: int) -> Predict:
    """Return the prediction that every register of D is one word."""
    return lambda step, images: np.full_like(images["c"], word)


def negative_zeros(step: Step) -> Images:
    """Every product and C are -0: IEEE's sum is -0."""
    return matrices(filled("A", -0.0), filled("B", 1), filled("C", -0.0))(step)


def saturated(step: Step, images: Images) -> Array:
    """The exact sums, limited to the range of int32."""
    row = step.call.instruction
    a, b, c = (row.unpack(m, images[m.lower()]).astype(np.int64) for m in "ABC")
    exact = np.clip(a @ b + c, -(2**31), 2**31 - 1).astype(np.int32)
    packed: Array = row.pack("C", exact)
    return packed


def grouped_by(group: int) -> Predict:
    """Return the prediction of the CDNA3 arithmetic with links of another length."""

    def predict(step: Step, images: Images) -> Array:
        model = replace(models()["cdna3_f16"], name=f"group-{group}", group=group, source="probe")
        return run(step, images, model=model)

    return predict


def negated_a(images: Images) -> Images:
    """The signs of A, an f64 matrix, turned round."""
    a = images["a"].copy()
    a[1::2] ^= np.uint32(1 << 31)
    return images | {"a": a}


SMALL = "v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3]"
HALF = "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]"
SPARSE = "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10"
BOTH = ("gfx942", "gfx950")


def on(line: str, *archs: str) -> tuple[tuple[str, str], ...]:
    """Return a line for several architectures."""
    return tuple((arch, line) for arch in archs)


PROBES = (
    Probe(
        "broadcast",
        "Do cbsz and abid choose a block in each group of blocks, or a span of lanes?",
        (
            ("gfx908", "v_mfma_f32_4x4x1f32 a[0:3], v4, v5, a[0:3] cbsz:2 abid:1"),
            ("gfx90a", "v_mfma_f32_4x4x1f32 v[0:3], v4, v5, v[0:3] cbsz:2 abid:1"),
            *on(SMALL + " cbsz:2 abid:1", *BOTH),
        ),
        lane_numbers,
        {
            "grouped": with_options(broadcast="grouped"),
            "lane_block": with_options(broadcast="lane_block"),
        },
    ),
    Probe(
        "f64_output_layout",
        "In which lane does f64 4x4x4 leave row i, column j of block b: 16i+4b+j or 4i+16b+j?",
        (
            ("gfx90a", "v_mfma_f64_4x4x4f64 v[0:1], v[2:3], v[4:5], v[0:1]"),
            *on("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[4:5], v[0:1]", *BOTH),
        ),
        matrices(counted("A"), counted("B"), filled("C", 0)),
        {
            "calculator": with_options(output_layout="calculator"),
            "formula": with_options(output_layout="formula"),
        },
    ),
    Probe(
        "blgp_single_block",
        "Does blgp move lanes of B on instructions of one block whose inputs are not f32?",
        on(HALF + " blgp:1", *BOTH),
        matrices(counted("A"), counted("B"), filled("C", 0)),
        {"moves lanes": with_options(), "ignored": with_options(blgp=0)},
    ),
    Probe(
        "blgp_f64_gfx90a",
        "What does blgp do on f64 of gfx90a?",
        (("gfx90a", "v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7] blgp:1"),),
        matrices(counted("A"), counted("B"), filled("C", 0)),
        {
            "moves lanes": with_options(),
            "ignored": with_options(blgp=0),
            "negates A": lambda step, images: run(step, negated_a(images), blgp=0),
        },
    ),
    Probe(
        "index_order",
        "What does a sparse instruction compute where a pair of indices does not ascend?",
        on(SPARSE, *BOTH),
        descending_index,
        {"multiplexer": with_options(), "sorted": sorted_index},
    ),
    Probe(
        "index_set_cbsz4",
        "Does cbsz 4 count as 0 on a sparse instruction, so that abid chooses the index set?",
        on(SPARSE + " cbsz:4 abid:1", *BOTH),
        index_sets,
        {"counts as 0": with_options(), "set 0": with_options(cbsz=1)},
    ),
    Probe(
        "index_set_high_bits",
        "Are the bits of abid above the number of index sets ignored?",
        on(SPARSE + " abid:6", *BOTH),
        index_sets,
        {"ignored": with_options(), "set 0": with_options(abid=0)},
    ),
    Probe(
        "nan_payload",
        "Which NaN comes out when a signalling NaN with a payload goes in?",
        on(HALF, *BOTH),
        nan_images,
        {
            "7FC00000": with_options(),
            "7FFFFFFF": all_outputs(0x7FFFFFFF),
            "payload kept, quieted": all_outputs(0x7FE46000),
        },
    ),
    Probe(
        "zero_sign",
        "Which zero comes out when all products and C are -0?",
        on(HALF, *BOTH),
        negative_zeros,
        {"+0": with_options(), "-0": with_options(model="fma_f32")},
    ),
    Probe(
        "i8_overflow",
        "Does an i8 sum wrap or saturate at the ends of int32?",
        (
            ("gfx908", "v_mfma_i32_16x16x16i8 a[0:3], v4, v5, a[0:3]"),
            ("gfx90a", "v_mfma_i32_16x16x16i8 v[0:3], v4, v5, v[0:3]"),
            *on("v_mfma_i32_16x16x32_i8 v[0:3], v[4:5], v[6:7], v[0:3]", *BOTH),
        ),
        matrices(filled("A", 127), filled("B", 127), filled("C", 2**31 - 1)),
        {"wraps": with_options(), "saturates": saturated},
    ),
    Probe(
        "gfx950_groups",
        "How many products does gfx950 sum before it adds the accumulator?",
        (("gfx950", "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]"),),
        matrices(scattered("A", 1), scattered("B", 2), scattered("C", 3)),
        {
            "the emulator's guess": with_options(),
            **{f"links of {n}": grouped_by(n) for n in (4, 8, 16, 32)},
            "exact, one rounding": with_options(model="cdna1_f16"),
            "fma": with_options(model="fma_f32"),
        },
    ),
)
