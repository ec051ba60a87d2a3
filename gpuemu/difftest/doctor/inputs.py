"""Faults that are found by computing D again, with the fault in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...mfma.modifiers import Modifiers
from ..cases import sweep
from . import arithmetic, moves, outputs
from .computing import Candidates, compute, format_of, packed, unpacked
from .problem import Array, Hypothesis, Problem, same_nan

# To pair the columns of A with other rows of B is one fault, whatever it is blamed on; so is C in
# another order.
SAME = {
    "pairing": (
        *("k_permuted", "a_lanes", "b_lanes", "a_registers", "b_registers", "a_rows", "b_columns"),
        *("a_packing", "b_packing", "a_byte_order", "b_byte_order"),
    ),
    "c_moved": ("c_lanes", "c_registers", "c_rows", "c_columns", "c_transposed"),
}
FAMILIES = {name: family for family, names in SAME.items() for name in names}


def hypotheses(p: Problem) -> Iterator[Hypothesis]:
    """Yield suspected faults of the computation, the simplest first."""
    if not p.operands:
        return
    for source in (
        _accumulator,
        _operands,
        _left_out,
        moves.moved,
        _packing,
        _modifiers,
        arithmetic.reinterpreted,
        _sparse,
        _scales,
        arithmetic.arithmetic,
    ):
        for name, sentence, d in source(p):
            if d is not None:
                yield Hypothesis(name, sentence, d, FAMILIES.get(name, name.partition(":")[0]))


def _accumulator(p: Problem) -> Candidates:
    c = p.operands["c"]
    yield "c_ignored", "C is not added.", compute(p, {"c": np.zeros_like(c)})
    yield (
        "stale_accumulator",
        "The accumulator is stale: the result was accumulated once more (C was D).",
        compute(p, packed(p, "C", p.want)),
    )
    C = unpacked(p, "C")
    yield "product_missing", "D is C: no product was added.", same_nan(p.instruction, C)
    yield from outputs.unwritten(p, p.instruction.pack("D", C), "still hold C")
    for text, d in (
        ("C is doubled", compute(p, packed(p, "C", _sum(p, C, C)))),
        ("it is added to the result once more", _sum(p, p.want, C)),
    ):
        yield "c_added_twice", f"C is added twice: {text}.", d
    if len(c) > 1:
        before = np.concatenate([c[:1], p.instruction.pack("D", p.want)[:-1]])
        yield (
            "stale_accumulator",
            "The accumulator is stale: C is the D of the case before.",
            compute(p, {"c": before}),
        )
    fmt = format_of(p, "C")
    if p.instruction.M == p.instruction.N:
        yield "c_transposed", "C is transposed.", compute(p, packed(p, "C", C.swapaxes(-1, -2)))
    if fmt.is_float:
        sign = C.dtype.type(1 << (fmt.bits - 1))
        yield "c_negated", "C is subtracted.", compute(p, packed(p, "C", C ^ sign))
        flipped = {m: unpacked(p, m) for m in ("A",)}
        a = flipped["A"] ^ flipped["A"].dtype.type(1 << (format_of(p, "A").bits - 1))
        if format_of(p, "A").nan != "negative-zero":
            yield "product_negated", "The product is subtracted.", compute(p, packed(p, "A", a))


def _operands(p: Problem) -> Candidates:
    i = p.instruction
    A, B = unpacked(p, "A"), unpacked(p, "B")
    if A.shape[-2] == A.shape[-1]:
        yield "a_transposed", "A is transposed.", compute(p, packed(p, "A", A.swapaxes(-1, -2)))
    if B.shape[-2] == B.shape[-1]:
        yield "b_transposed", "B is transposed.", compute(p, packed(p, "B", B.swapaxes(-1, -2)))
    if i.M == i.N and not i.sparse and format_of(p, "A") == format_of(p, "B"):
        images = packed(p, "A", B.swapaxes(-1, -2)) | packed(p, "B", A.swapaxes(-1, -2))
        yield "operands_swapped", "A and B are swapped.", compute(p, images)
    if i.blocks > 1:
        for name, matrix, X in (("a", "A", A), ("b", "B", B)):
            for block in range(i.blocks):
                same = np.repeat(X[:, block : block + 1], i.blocks, axis=1)
                sentence = f"Every block uses {matrix} of block {block}."
                yield f"{name}_block_broadcast", sentence, compute(p, packed(p, matrix, same))


def _left_out(p: Problem) -> Candidates:
    """Products that are left out: a run of k, or every second or fourth."""
    A = unpacked(p, "A")
    K = A.shape[-1]
    sizes = [K >> n for n in range(1, K.bit_length())]
    runs = [(n, n + size) for size in sizes for n in range(0, K, size)]
    parts = {f"k={a}..{b - 1}" if b - a > 1 else f"k={a}": slice(a, b) for a, b in runs}
    parts |= {f"k % {n} = {a}": slice(a, K, n) for n in (2, 4) if n < K for a in range(n)}
    for text, part in parts.items():
        less = A.copy()
        less[..., part] = 0
        sentence = f"Products {text} are left out."
        yield "k_dropped", sentence, compute(p, packed(p, "A", less))


def _sum(p: Problem, X: Array, Y: Array) -> Array:
    """Return the bits of a sum of two matrices of D's format, rounded once or wrapped."""
    fmt = p.instruction.operand_format("D")
    with np.errstate(all="ignore"):
        total = np.ascontiguousarray(X).view(fmt.dtype) + np.ascontiguousarray(Y).view(fmt.dtype)
    return same_nan(p.instruction, total.view(fmt.storage))


def _packing(p: Problem) -> Candidates:
    """Items of a register in another order."""
    for name in ("a", "b"):
        image = np.ascontiguousarray(p.operands[name])
        bits = format_of(p, name.upper()).bits
        swapped = {
            8: (
                "Items of {} are packed high first: the bytes of every register are reversed.",
                image.byteswap(),
            ),
            16: (
                "Items of {} are packed high first: the halves of every register are swapped.",
                image >> 16 | image << 16,
            ),
            4: (
                "Items of {} are packed high first: the two of every byte are swapped.",
                image >> 4 & 0x0F0F0F0F | (image & 0x0F0F0F0F) << 4,
            ),
            64: (
                "The two registers of every item of {} are swapped: high word first.",
                image[:, np.arange(image.shape[1]) ^ 1] if image.shape[1] % 2 == 0 else image,
            ),
        }
        if bits in swapped:
            sentence, changed = swapped[bits]
            yield f"{name}_packing", sentence.format(name.upper()), compute(p, {name: changed})
        if bits != 8:
            yield (
                f"{name}_byte_order",
                f"The bytes of every register of {name.upper()} are reversed.",
                compute(p, {name: image.byteswap()}),
            )
    c = np.ascontiguousarray(p.operands["c"]).byteswap()
    yield "c_byte_order", "The bytes of every register of C are reversed.", compute(p, {"c": c})


def _modifiers(p: Problem) -> Candidates:
    i, m = p.instruction, p.modifiers
    other = "lane_block" if m.broadcast == "grouped" else "grouped"
    if m.cbsz and i.modifiers.cbsz == "broadcast":
        sentence = f"cbsz and abid are read the other way (broadcast={other!r})."
        yield "broadcast_reading", sentence, compute(p, broadcast=other)
    if i.modifiers.cbsz == "format":
        return
    for tried in sweep(i):
        if tried != m:
            changed = {k: v for k, v in vars(tried).items() if v != getattr(m, k)}
            text = ", ".join(f"{k}={v}" for k, v in changed.items())
            kind, what = ("index_set", "another index set, ") if i.sparse else ("modifiers", "")
            d = compute(p, **{k: getattr(tried, k) for k in MODIFIERS})
            yield kind, f"It was computed with {what}{text} instead of {_text(m, changed)}.", d


MODIFIERS = ("cbsz", "abid", "blgp", "neg", "op_sel")


def _text(m: Modifiers, changed: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(m, name)}" for name in changed)


def _sparse(p: Problem) -> Candidates:
    if not p.instruction.sparse:
        return
    idx = p.operands["idx"]
    swapped = (idx & 0x33333333) << 2 | idx >> 2 & 0x33333333
    yield (
        "index_swapped",
        "The two index fields of every group are swapped.",
        compute(p, {"idx": swapped}),
    )
    yield (
        "index_ignored",
        "The index is ignored: the first two columns of every group are used.",
        compute(p, {"idx": np.full_like(idx, 0x44444444)}),
    )
    for n in (16, 32):
        lanes = idx[..., np.arange(64) ^ n]
        yield "index_lanes", f"Lane l reads the index of lane l ^ {n}.", compute(p, {"idx": lanes})


def _scales(p: Problem) -> Candidates:
    if p.instruction.kind != "mfma_scale":
        return
    one = {name: np.full_like(p.operands[name], 0x7F7F7F7F) for name in ("scale_a", "scale_b")}
    yield "scales_ignored", "Both scales are ignored.", compute(p, one)
    for name in one:
        yield f"{name}_ignored", f"{name} is ignored.", compute(p, {name: one[name]})
    yield (
        "scales_swapped",
        "The two scale registers are swapped.",
        compute(p, {"scale_a": p.operands["scale_b"], "scale_b": p.operands["scale_a"]}),
    )
    for a in range(4):
        for b in range(4):
            if (a, b) != p.modifiers.op_sel:
                yield (
                    "scale_byte",
                    f"The scale bytes {a}, {b} are used instead of {p.modifiers.op_sel}.",
                    compute(p, op_sel=(a, b)),
                )
    for n in (16, 32, 48):
        lanes = {name: p.operands[name][..., np.arange(64) ^ n] for name in one}
        yield "scale_lanes", f"Lane l reads the scales of lane l ^ {n}.", compute(p, lanes)
