"""The layout doctor: what is wrong with a D that is not the wanted one.

`diagnose` tries faults that people make: first those that turn the wanted D into the given one by
themselves, then those that need the inputs and compute a D with the fault in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import inputs, outputs
from .problem import Hypothesis, Problem

Array = np.ndarray[Any, Any]

# A fault explains a D where it predicts every element; below that, where it repairs nearly all.
NEARLY = 0.97
FEW = 8  # wrong elements below which any explanation is weak


@dataclass(frozen=True)
class Diagnosis:
    """The answer.

    Attributes
    ----------
    name : str
        Of the fault, such as "transposed"; "equal" or "unknown".
    sentence : str
    confidence : float
        From 0 to 1: how much of the difference is explained, shared among the faults that
        explain it.
    wrong : int
        Elements that differ; `elements` is their number in all.
    elements : int
    also : tuple of str
        Other faults that explain the same.
    """

    name: str
    sentence: str
    confidence: float
    wrong: int
    elements: int
    also: tuple[str, ...] = ()


def diagnose(problem: Problem) -> Diagnosis:
    """Return the simplest fault that explains the given D."""
    wrong, size = problem.wrong, problem.got.size
    if wrong == 0:
        return Diagnosis("equal", "The two agree in every bit.", 1.0, 0, size)
    found = list(_explaining(problem))
    if not found:
        return Diagnosis("unknown", f"Unknown: {outputs.where_wrong(problem)}", 0.0, wrong, size)
    share = max(share for _, share in found)
    equal = [hypothesis for hypothesis, other in found if other == share]
    best = equal[0]
    also = tuple(dict.fromkeys(other.name for other in equal if other.name != best.name))
    # Several names for one and the same rearrangement do not make it less sure.
    rivals = {hypothesis.family for hypothesis in equal}
    confidence = share * min(1.0, wrong / FEW) / len(rivals)
    return Diagnosis(best.name, best.sentence, round(confidence, 3), wrong, size, also)


def _explaining(problem: Problem) -> Iterator[tuple[Hypothesis, float]]:
    """Yield the faults that explain (nearly) all of the difference, with the share they explain."""
    exact = False
    for source in (outputs.hypotheses, inputs.hypotheses):
        for hypothesis in source(problem):
            share = problem.explained(hypothesis.predicted)
            exact |= share == 1.0
            if share >= NEARLY:
                yield hypothesis, share
        if exact:
            return


__all__ = ["Diagnosis", "Hypothesis", "Problem", "diagnose"]
