"""Find out how an unknown matrix unit computes, by inputs that each show one feature.

Every question is one dot product: a few products that are powers of two, the others zero, and an
accumulator. The answers give the links (products that are summed before a rounding), the bits that
a product and the accumulator keep when they are aligned, how the rest is rounded, the rounding of
the result, and what is flushed. At the end the unit is run on the input classes and compared with
every known model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..mfma import execute
from ..mfma import modifiers as mods
from ..mfma.instructions import Instruction
from . import known
from .generators import classes_for
from .images import images
from .probe_kept import accumulator, cut_together, product
from .probe_result import Links, output_rounding
from .probe_unit import Question, Unit
from .subjects import Subject


@dataclass(frozen=True)
class Features:
    """What the probes say; None where they could not tell.

    Attributes
    ----------
    group : int or None
        Products of a link, the longest one's; None: no order of links explains the answers.
    links : tuple of tuple of int
        Which products share a link; empty: unknown.
    order : str
        Of the links, by their first k: "ascending", "descending", "mixed", "none" (a single link)
        or "unknown".
    product_bits, accumulator_bits : int or None
        Fraction bits kept below the largest exponent of a link.
    product_rounding, accumulator_rounding : str or None
        "zero", "down", "up", "nearest" or "unknown", of what lies below; None: not asked.
    product_note, accumulator_note : str
        Why there are no bits: all that could be asked were kept, or no question can be made.
    cut_together : tuple of int
        Products of the link that are cut below the first one's last kept bit; empty where nothing
        is cut.
    output_rounding : str
        As above; "unknown": so few bits are kept that none is left to be rounded, or no rule fits.
    flush_inputs, flush_accumulator, flush_outputs : bool or None
    exact_models : tuple of str
        Known models that agree in every bit with the unit on the input classes.
    nearest : str
        The model that agrees most often.
    agreement : float
        Its share of equal outputs.
    """

    group: int | None
    links: Links
    order: str
    product_bits: int | None
    product_rounding: str | None
    product_note: str
    accumulator_bits: int | None
    accumulator_rounding: str | None
    accumulator_note: str
    cut_together: tuple[int, ...]
    output_rounding: str
    flush_inputs: bool
    flush_accumulator: bool
    flush_outputs: bool | None
    exact_models: tuple[str, ...]
    nearest: str
    agreement: float


def probe(subject: Subject, i: Instruction) -> Features:
    """Return what probes find out about a unit.

    Parameters
    ----------
    subject : Subject
    i : Instruction
        A dense floating-point one: its shape and formats, not its arithmetic.

    Raises
    ------
    BadValue
        For another instruction; for a unit that gives two answers to one question, no finite answer
        to a finite one, or that does not return the only term of a sum.
    """
    unit = Unit(subject, i)
    timed = _links(unit)
    link = max(timed, key=len, default=())
    small_product, small_c = product(unit, link), accumulator(unit, link)
    found = _compared(unit)
    nearest = max(found, key=lambda name: found[name])
    flushes = unit.subnormal()
    return Features(
        group=len(link) or None,
        links=tuple(sorted(timed)),
        order=_order(timed),
        product_bits=small_product.bits,
        product_rounding=small_product.rounding,
        product_note=small_product.note,
        accumulator_bits=small_c.bits,
        accumulator_rounding=small_c.rounding,
        accumulator_note=small_c.note,
        cut_together=cut_together(unit, link, small_product.bits),
        output_rounding=output_rounding(unit, timed, small_product.bits),
        flush_inputs=flushes[0],
        flush_accumulator=flushes[1],
        flush_outputs=flushes[2],
        exact_models=tuple(name for name, share in found.items() if share == 1.0),
        nearest=nearest,
        agreement=found[nearest],
    )


def _links(unit: Unit) -> Links:
    """Return the links, first those that are added first; none where no order explains the answers.

    C and product i cancel; product m, far too small to be seen beside them, survives where it is
    added later. Within a link it may survive or not, but then the other way round as well.
    """
    K = unit.i.K
    pairs = [(i, m) for i in range(K) for m in range(K) if i != m]
    asked: list[Question] = [
        ({i: (-1.0, unit.top), m: (1.0, unit.bottom)}, 2.0**unit.top) for i, m in pairs
    ]
    survives = np.zeros((K, K), bool)
    if pairs:
        survives[tuple(np.transpose(pairs))] = unit.dots(asked) == 2.0**unit.bottom
    later = survives & ~survives.T
    rank = later.sum(axis=0)
    if not np.array_equal(later, rank[:, None] < rank):
        return ()
    return tuple(tuple(np.flatnonzero(rank == r).tolist()) for r in np.unique(rank))


def _order(timed: Links) -> str:
    """Name the order of links."""
    if len(timed) < 2:
        return "none" if timed else "unknown"
    names = {tuple(sorted(timed)): "ascending", tuple(sorted(timed, reverse=True)): "descending"}
    return names.get(timed, "mixed")


def _compared(unit: Unit, cases: int = 24) -> dict[str, float]:
    """Return, for every known model that can compute the formats, its share of equal outputs."""
    i = unit.i
    plain = mods.check(i)
    parts = [images(i, plain, cls, 0, np.arange(cases)) for cls in classes_for(i)]
    given = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    got = unit.answers(given)
    return {
        name: float(execute.equal_bits(i, got, want).mean())
        for name, want in known.answers(i, given)
    }
