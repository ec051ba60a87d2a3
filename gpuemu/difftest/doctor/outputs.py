"""Faults that turn the wanted D into the given one without looking at the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...mfma.instructions import Instruction
from .problem import Hypothesis, Problem, same_nan

Array = np.ndarray[Any, Any]


def hypotheses(p: Problem) -> Iterator[Hypothesis]:
    """Yield suspected faults of the output, the simplest first."""
    yield from _constants(p)
    yield from _transposed(p)
    yield from _registers(p)
    yield from _axes(p)
    yield from _bits(p)
    yield from _places(p)


def _constants(p: Problem) -> Iterator[Hypothesis]:
    for code in np.unique(p.got)[:1]:
        same = np.full_like(p.want, code)
        name = "zeros" if code == 0 else "constant"
        yield Hypothesis(name, f"Every element is {int(code):X}: nothing was written.", same, name)


def _transposed(p: Problem) -> Iterator[Hypothesis]:
    if p.instruction.M == p.instruction.N:
        turned = p.want.swapaxes(-1, -2)
        yield Hypothesis(
            "transposed", "D is transposed: rows and columns are swapped.", turned, "move"
        )


def image_of(i: Instruction, bits: Array, **modifiers: Any) -> Array:
    """Return D's register image (n, vgprs, 64)."""
    return np.asarray(i.pack("D", bits, **modifiers))


def matrix_of(i: Instruction, image: Array, **modifiers: Any) -> Array:
    """Return the bits of D that a register image holds."""
    D = i.unpack("D", image, **modifiers)
    return same_nan(i, D.view(i.operand_format("D").storage))


def _registers(p: Problem) -> Iterator[Hypothesis]:
    """Lanes or registers in another order."""
    i, m = p.instruction, p.modifiers
    layout = {"output_layout": m.output_layout}
    got, want = image_of(i, p.got, **layout), image_of(i, p.want, **layout)
    if i.formats["D"] == "f64" and i.blocks > 1:
        other = "formula" if m.output_layout == "calculator" else "calculator"
        yield Hypothesis(
            "f64_layout",
            f"D lies in the lanes of the other published layout (output_layout={other!r}).",
            matrix_of(i, image_of(i, p.want, output_layout=other), **layout),
            "move",
        )
    tried = [("lane", 2, 1), ("register", 1, 1)]
    if i.formats["D"] == "f64":
        tried.append(("register pair", 1, 2))  # two equal halves are found in pairs alone
    for noun, axis, step in tried:
        order = _order(_units(got, axis, step), _units(want, axis, step))
        if order is not None:
            places = np.concatenate([np.arange(step) + step * at for at in order])
            moved = matrix_of(i, want.take(places, axis), **layout)
            yield _moved(noun, order, moved)


def _units(image: Array, axis: int, step: int) -> Array:
    """Return the slices of an axis, `step` at a time, one a row."""
    moved = np.moveaxis(image, axis, 0)
    return np.ascontiguousarray(moved).reshape(moved.shape[0] // step, -1)


def _axes(p: Problem) -> Iterator[Hypothesis]:
    """Rows, columns or blocks in another order."""
    for noun, axis in (("row", 2), ("column", 3), ("block", 1)):
        order = _order(_units(p.got, axis, 1), _units(p.want, axis, 1))
        if order is not None:
            yield _moved(noun, order, p.want.take(order, axis))


def _order(got: Array, want: Array) -> list[int] | None:
    """Return, for each slice of `got`, the slice of `want` that it equals, nearly at least; None
    where one equals none.

    Slices that are right count as where they belong; nearly all must be distinct to say anything.
    """
    known: dict[bytes, int] = {}
    for n, row in enumerate(want):
        known.setdefault(row.tobytes(), n)
    if len(want) < 2 or len(known) < 0.75 * len(want):
        return None
    order = []
    for n, row in enumerate(got):
        key = row.tobytes()
        found = n if key == want[n].tobytes() else known.get(key)
        if found is None:  # words of a NaN are not what they were
            equal = (want == row).mean(axis=1)
            found = int(equal.argmax())
            if equal[found] < 0.9:
                return None
        order.append(found)
    if order == list(range(len(order))):
        return None
    # Slices of a few elements are found again in any shuffled D: there, only a rule says something.
    few = want.shape[1] < 4 and describe(order, "")[0] == "permuted"
    return None if few else order


def _moved(noun: str, order: list[int], predicted: Array) -> Hypothesis:
    kind, text = describe(order, noun)
    name = f"{noun}s_{kind}".replace(" ", "_")
    return Hypothesis(name, f"{noun.capitalize()}s of D: {text}.", predicted, "move")


def describe(order: list[int], noun: str) -> tuple[str, str]:
    """Return the kind of a rearrangement, and in words what each place holds.

    >>> describe([1, 0, 3, 2], "row")
    ('swapped', 'row n holds row n ^ 1')
    """
    size = len(order)
    places = range(size)
    if len(set(order)) == 1:
        return "broadcast", f"every {noun} holds {noun} {order[0]}"
    if all(order[n] == size - 1 - n for n in places):
        return "reversed", f"{noun} n holds {noun} {size - 1} - n"
    if all(order[n] == n ^ order[0] for n in places):
        return "swapped", f"{noun} n holds {noun} n ^ {order[0]}"
    if all(order[n] == (n + order[0]) % size for n in places):
        return "rotated", f"{noun} n holds {noun} (n + {order[0]}) % {size}"
    for inner in (2**k for k in range(1, size.bit_length())):
        if size % inner == 0 and all(
            order[n] == n % inner * (size // inner) + n // inner for n in places
        ):
            return (
                "interleaved",
                f"{noun} n holds {noun} n % {inner} * {size // inner} + n // {inner}",
            )
        if all(order[n] == n % inner for n in places):
            return "repeated", f"{noun} n holds {noun} n % {inner}: the first {inner} repeat"
        if size % inner == 0 and all(order[n] == n // inner * inner for n in places):
            return "repeated", f"{noun} n holds {noun} n // {inner} * {inner}"
    moves = [f"{n} holds {order[n]}" for n in places if order[n] != n]
    rest = f" and {len(moves) - 6} more" if len(moves) > 6 else ""
    return "permuted", f"{noun} {', '.join(moves[:6])}{rest}"


def _bits(p: Problem) -> Iterator[Hypothesis]:
    """The right numbers with other bits: byte order, sign, precision, subnormals."""
    i, want = p.instruction, p.want
    fmt = i.operand_format("D")
    yield Hypothesis(
        "byte_order", "The bytes of every element are reversed.", want.byteswap(), "bits"
    )
    half = fmt.bits // 2
    turned = want >> want.dtype.type(half) | want << want.dtype.type(half)
    yield Hypothesis(
        "halves_swapped", f"The {half}-bit halves of every element are swapped.", turned, "move"
    )
    if not fmt.is_float:
        signed = np.ascontiguousarray(want).view(np.int32)
        yield Hypothesis(
            "negated", "Every element has the other sign.", (-signed).view(want.dtype), "bits"
        )
        as_float = signed.astype(np.float32).view(np.uint32)
        yield Hypothesis(
            "integer_as_float", "The integers were converted to f32.", as_float, "bits"
        )
        return
    sign = want.dtype.type(1 << (fmt.bits - 1))
    yield Hypothesis(
        "negated", "Every element has the other sign.", same_nan(i, want ^ sign), "bits"
    )
    magnitude = want & ~sign
    tiny = (magnitude < 1 << fmt.mantissa_bits) & (magnitude != 0)
    yield Hypothesis(
        "output_subnormals_flushed",
        "Subnormal results are flushed to zero, with their sign.",
        np.where(tiny, want & sign, want),
        "flush",
    )
    yield Hypothesis(
        "output_subnormals_flushed",
        "Subnormal results are flushed to plus zero.",
        np.where(tiny, 0, want).astype(want.dtype),
        "flush",
    )
    if fmt.bits == 32:
        yield from _narrowed(i, want)


def _narrowed(i: Instruction, want: Array) -> Iterator[Hypothesis]:
    import ml_dtypes

    values = np.ascontiguousarray(want).view(np.float32)
    cut = want & np.uint32(0xFFFF0000)
    yield Hypothesis(
        "bf16_truncated",
        "D went through bf16 by cutting its low 16 bits.",
        same_nan(i, cut),
        "precision",
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for name, dtype in (("bf16", np.dtype(ml_dtypes.bfloat16)), ("f16", np.dtype(np.float16))):
            back = values.astype(dtype).astype(np.float32)
            sentence = f"D went through {name}: its values are rounded to that format."
            yield Hypothesis(
                f"{name}_rounded", sentence, same_nan(i, back.view(np.uint32)), "precision"
            )


def _places(p: Problem) -> Iterator[Hypothesis]:
    """Parts that were not written: zero where nothing else is wrong."""
    nothing = np.zeros_like(image_of(p.instruction, p.want))
    for name, sentence, predicted in unwritten(p, nothing, "are zero"):
        yield Hypothesis(name, sentence, predicted, "missing")


def unwritten(p: Problem, before: Array, text: str) -> Iterator[tuple[str, str, Array]]:
    """Yield lanes or registers of D that hold what an image (n, vgprs, 64) does, the rest being
    right.
    """
    i = p.instruction
    got, want = image_of(i, p.got), image_of(i, p.want)
    for noun, axis in (("lane", 2), ("register", 1)):
        others = tuple(n for n in range(3) if n != axis)
        bad = (got != want).any(axis=others)
        old = (got == before).all(axis=others)
        missing = np.flatnonzero(bad & old)
        if 0 < len(missing) < len(bad) and not (bad & ~old).any():
            places = (slice(None),) * axis + (missing,)
            left = want.copy()
            left[places] = before[places]
            sentence = f"{noun.capitalize()}s {_few(missing)} of D {text}: not written."
            yield f"{noun}s_missing", sentence, matrix_of(i, left)


def _few(numbers: Array) -> str:
    shown = ", ".join(str(int(n)) for n in numbers[:8])
    return shown + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")


def where_wrong(p: Problem) -> str:
    """Return in a sentence where the wrong elements are, and by how much they are off."""
    bad = p.differs
    parts = [f"{p.wrong} of {bad.size} elements differ"]
    for noun, axis in (("block", 1), ("row", 2), ("column", 3)):
        hit = np.flatnonzero(bad.any(axis=tuple(n for n in range(4) if n != axis)))
        if len(hit) < bad.shape[axis]:
            parts.append(
                f"all in {noun}s {_few(hit)}" if len(hit) > 1 else f"all in {noun} {hit[0]}"
            )
    fmt = p.instruction.operand_format("D")
    if fmt.is_float:
        nan = (1 << fmt.bits - 1) - 1
        numbers = bad & (p.got != nan) & (p.want != nan)
        if (bad & ~numbers).any():
            parts.append(f"{int((bad & ~numbers).sum())} of them by a NaN")
        got, want = (_ordered(x[numbers], fmt.bits) for x in (p.got, p.want))
        steps = np.maximum(got, want) - np.minimum(got, want)
    if fmt.is_float and steps.size:
        parts.append(f"by {int(steps.min())} to {int(steps.max())} units in the last place")
    return ", ".join(parts) + "; no known fault explains it."


def _ordered(bits: Array, width: int) -> Array:
    """Return float bits as unsigned integers in the order of their values, the zeros equal."""
    sign = bits.dtype.type(1 << (width - 1))
    size = bits & ~sign
    return np.asarray(np.where(bits & sign, sign - size, sign + size))
