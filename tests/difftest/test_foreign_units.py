"""Units that no model describes: what probing finds out, and what it says that it cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest.probe import Features, probe
from gpuemu.difftest.subjects import Subject
from gpuemu.errors import BadValue

Array = np.ndarray[Any, Any]
F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
ROUND: dict[str, Callable[[Array], Array]] = {"zero": np.trunc, "nearest": np.rint, "up": np.ceil}


def matrices(i: gpuemu.Instruction, given: Any) -> list[Array]:
    with np.errstate(invalid="ignore"):  # NaN may signal
        return [i.unpack(x, given[x.lower()])[:, 0].astype(np.float64) for x in "ABC"]


def narrowed(x: Array, rule: str) -> Array:
    """Round to f32, to nearest or toward zero."""
    near = x.astype(np.float32)
    if rule == "zero":
        over = np.abs(near.astype(np.float64)) > np.abs(x)
        near = np.where(over, np.nextafter(near, np.float32(0)), near)
    return near.astype(np.float64)


def chain(A: Array, B: Array, C: Array, links: list[list[int]], bits: int, how: Any) -> Array:
    """Return C + A B of one matrix; a link aligns its products and the accumulator, and cuts."""
    for link in links:
        terms = np.stack([C, *(np.outer(A[:, k], B[k]) for k in link)])
        least = np.where(terms == 0, -300, np.frexp(terms)[1] - 1).max(axis=0) - bits
        cut = how["cut"](np.ldexp(terms, -least))
        C = narrowed(np.ldexp(cut.sum(axis=0), least), how["out"])
    return C


def aligned(links: list[list[int]], bits: int, cut: str, out: str, flush: bool = False) -> Subject:
    """Return a unit of links of products."""
    how = {"cut": ROUND[cut], "out": out}

    def call(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
        A, B, C = matrices(i, given)
        if flush:
            A, B = (np.where(np.abs(x) < 2.0**-14, 0, x) for x in (A, B))
        with np.errstate(all="ignore"):
            D = [chain(a, b, c, links, bits, how) for a, b, c in zip(A, B, C, strict=True)]
            return np.asarray(i.pack("D", np.stack(D).astype(np.float32)[:, None]))

    return Subject("aligned", call)


def runs(group: int) -> list[list[int]]:
    return [list(range(k, min(k + group, 16))) for k in range(0, 16, group)]


UNITS: dict[str, tuple[list[list[int]], int, str, str, bool]] = {
    "five": (runs(5), 19, "zero", "zero", True),
    "four": (runs(4), 19, "zero", "zero", False),
    "four and back": (runs(4)[::-1], 26, "zero", "nearest", False),
    "two": (runs(2), 19, "zero", "nearest", False),
    "one": (runs(1), 19, "nearest", "nearest", False),
    "eight": (runs(8), 22, "nearest", "nearest", False),
    "eight, upward": (runs(8), 20, "up", "nearest", False),
    "sixteen": (runs(16), 12, "zero", "zero", False),
    "every fourth": ([list(range(k, 16, 4)) for k in (0, 1, 2, 3)], 19, "zero", "zero", False),
    "neither up nor down": ([runs(4)[n] for n in (2, 0, 3, 1)], 19, "zero", "zero", False),
}
ORDERS = {"four and back": "descending", "neither up nor down": "mixed", "sixteen": "none"}


@pytest.mark.parametrize("name", UNITS)
def test_a_foreign_unit_is_recovered(name: str) -> None:
    links, bits, cut, out, flush = UNITS[name]
    found = probe(aligned(links, bits, cut, out, flush), F16)
    assert found.links == tuple(sorted(map(tuple, links)))
    assert found.group == max(map(len, links))
    assert found.order == ORDERS.get(name, "ascending")
    assert (found.product_bits, found.product_rounding) == (bits, cut)
    assert (found.accumulator_bits, found.accumulator_rounding) == (bits, cut)
    longest = max(links, key=len)
    assert found.cut_together == (tuple(longest) if len(longest) > 2 else ())
    assert found.output_rounding in (out, "unknown")
    assert (found.output_rounding == out) == (bits == 26)  # fewer leave nothing to be rounded
    assert found.flush_inputs == flush and not found.exact_models


def variant(**change: Any) -> Subject:
    model = dataclasses.replace(gpuemu.models()["cdna3_f16"], name="variant", **change)
    return Subject("variant", lambda i, x, _: gpuemu.execute(i, **x, model=model, backend="numpy"))


def test_the_bits_of_a_product_in_links_of_two() -> None:
    found = probe(variant(product_bits=19, group=2), F16)
    assert (found.group, found.product_bits, found.product_rounding) == (2, 19, "zero")


@pytest.mark.parametrize(
    ("bits", "rule", "other"),
    [
        (19, "zero", {"product_bits": 19}),
        (22, "up", {"product_bits": 30, "output_rounding": "down", "group": 2}),
    ],
)
def test_a_cut_accumulator_is_no_rounding_of_the_result(bits: int, rule: str, other: Any) -> None:
    found = probe(variant(accumulator_bits=bits, accumulator_rounding=rule, **other), F16)
    assert (found.accumulator_bits, found.accumulator_rounding) == (bits, rule)
    assert found.output_rounding == "unknown"


def own(name: str, arch: str) -> Features:
    subject = Subject("own", lambda i, x, _: gpuemu.execute(i, **x, backend="numpy"))
    return probe(subject, gpuemu.instruction(name, arch))


@pytest.mark.parametrize(
    ("name", "arch", "note"),
    [
        ("v_mfma_f32_16x16x4f32", "gfx90a", "all 24 that can be asked for"),
        ("v_mfma_f64_16x16x4_f64", "gfx942", "all 53 that can be asked for"),
        ("v_mfma_f32_16x16x16f16", "gfx908", "all 57 that can be asked for"),
        ("v_mfma_f32_16x16x8bf16", "gfx90a", "not cut: the sum is rounded to 24 bits"),
        ("v_mfma_f32_16x16x16f16", "gfx90a", "a link is summed in parts, each of them rounded"),
    ],
)
def test_what_is_not_cut_has_a_reason(name: str, arch: str, note: str) -> None:
    found = own(name, arch)
    assert found.product_bits is None and note in found.product_note


def ring(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    """Go round from the k after the most negative product's opposite: no order fits the answers."""
    A, B, D = matrices(i, given)
    with np.errstate(all="ignore"):
        for n, (a, b) in enumerate(zip(A, B, strict=True)):
            first = int(np.argmin(a[0] * b[:, 0])) + 8
            links = [[(first + s) % 16] for s in range(16)]
            D[n] = chain(a, b, D[n], links, 30, {"cut": np.trunc, "out": "zero"})
        return np.asarray(i.pack("D", D.astype(np.float32)[:, None]))


def test_links_that_no_order_explains_are_unknown() -> None:
    found = probe(Subject("ring", ring), F16)
    assert (found.group, found.links, found.order) == (None, (), "unknown")
    assert found.product_note == found.accumulator_note == "not asked: the links are unknown"
    assert found.product_bits is found.accumulator_bits is None
    assert found.output_rounding == "unknown" and not found.cut_together


def c_comes_last(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    A, B, C = matrices(i, given)
    with np.errstate(all="ignore"):
        how = {"cut": np.trunc, "out": "nearest"}
        zero = np.zeros_like(C[0])
        D = C + [chain(a, b, zero, runs(4), 26, how) for a, b in zip(A, B, strict=True)]
        return np.asarray(i.pack("D", D.astype(np.float32)[:, None]))


def test_no_bits_are_told_of_a_sum_that_is_made_in_steps() -> None:
    found = probe(Subject("last", c_comes_last), F16)
    assert found.group == 16 and found.product_bits is None
    assert found.product_note.startswith("depend on k")


def nothing(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    return np.full_like(given["c"], 0x7FC00000)


def noise(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    return np.random.default_rng().integers(0, 2**32, given["c"].shape, np.uint32)


def one_bit_of_noise(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    d = gpuemu.execute(i, **given, backend="numpy")
    d[-1, 3, 63] ^= np.random.default_rng().integers(0, 2**32, dtype=np.uint32)
    return np.asarray(d)


def only_c(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    return np.asarray(given["c"])


def last_term(i: gpuemu.Instruction, given: Any, m: Any) -> Array:
    """Return the last product that is not zero, else C."""
    A, B, D = matrices(i, given)
    with np.errstate(all="ignore"):
        for k in range(16):
            term = A[:, :, k, None] * B[:, k, None, :]
            D = np.where(term != 0, term, D)
        return np.asarray(i.pack("D", D.astype(np.float32)[:, None]))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (nothing, r"answers nan for 1 \* 2\*\*0 at k=0 \+ C = 0; legal: a finite number"),
        (noise, "gave two answers to the same inputs: .* legal: a unit whose D depends on A"),
        (one_bit_of_noise, "gave two answers to the same inputs: 1 outputs differ"),
        (only_c, r"answers 0 for 1 \* 2\*\*0 at k=0 .* legal: 1, the only term of the sum"),
        (last_term, "loses a term that is as large as the others"),
    ],
)
def test_what_is_no_matrix_unit_is_refused(function: Any, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        probe(Subject("hostile", function), F16)


def test_the_command_prints_what_was_not_asked() -> None:
    text = CliRunner().invoke(
        build(),
        ["probe", f"{__name__}:ring_as_a_callable", "-i", F16.mnemonic, "-a", F16.arch],
        env={"COLUMNS": "80"},
    )
    assert text.exit_code == 0, text.output
    assert "not asked: the links are unknown" in text.output
    assert max(map(len, text.output.splitlines())) <= 80


def ring_as_a_callable(i: gpuemu.Instruction, a: Array, b: Array, c: Array) -> Array:
    return ring(i, {"a": a, "b": b, "c": c}, None)
