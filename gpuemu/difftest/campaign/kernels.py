"""The kernels of a campaign, in the order in which it needs them: what is compiled ahead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from ...backends import ahead, cuda
from ...mfma.instructions import Instruction
from ...mfma.kernels import kernel_shape, kernel_source
from ...mfma.models import models
from .. import device_cases
from ..cases import Plan
from . import reference
from .campaign import Campaign, shares

LOOKED_AT = 1 << 12  # cases of an instruction: no list of modifiers takes longer to be gone through


def kernels(campaign: Campaign) -> Iterator[ahead.Job]:
    """Yield the sources and definitions of the kernels that a campaign launches, each once."""
    sides = {campaign.subject, campaign.reference}
    if sides <= {"cuda", reference.NAME}:  # cases are made on the device
        yield device_cases.SOURCE, {}
    if reference.NAME in sides:
        yield reference.SOURCE, {}
    if "cuda" not in sides:
        return
    seen = set()
    for plan, share in zip(campaign.plans(), shares(campaign), strict=True):
        if not isinstance(plan.instruction, Instruction):
            continue  # array operations have few kernels
        for source, defines in _of_plan(plan, min(share, LOOKED_AT)):
            key = source, tuple(sorted(defines.items()))
            if key not in seen:
                seen.add(key)
                yield source, defines


def _of_plan(plan: Plan, cases: int) -> Iterator[ahead.Job]:
    i = plan.instruction
    _, places = plan.places(np.arange(cases))
    found, first = np.unique(places, return_index=True)
    in_turn = (plan.modifiers[n] for n in found[np.argsort(first)])
    for m in dict.fromkeys(kernel_shape(i, m) for m in in_turn):
        made = kernel_source(i, models()[i.model], m)
        yield made.source, made.defines


@contextlib.contextmanager
def compiled_ahead(campaign: Campaign) -> Iterator[None]:
    """Compile a campaign's kernels in the background, as a context, where there is a device."""
    with contextlib.ExitStack() as stack:
        if cuda.available():
            jobs = kernels(campaign)
            stack.enter_context(ahead.compiling(jobs, cuda.device_arch()))
        yield
