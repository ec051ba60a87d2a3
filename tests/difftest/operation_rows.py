"""What tests of TFMA, bundles and emulated GEMM as campaigns share: rows, what is right, runs."""

from __future__ import annotations

from typing import Any

import pytest

from gpuemu.backends import host
from gpuemu.difftest import subjects
from gpuemu.difftest.campaign import drive, engine
from gpuemu.difftest.campaign.campaign import Campaign
from gpuemu.difftest.cases import plan
from gpuemu.difftest.catalogue import array_operations, find
from gpuemu.difftest.subjects import Subject

ROWS = array_operations()
RIGHT = subjects.load("numpy")
FP16, FP32 = find("tfma_fp16", "pto"), find("tfma_fp32", "pto")
BUNDLE = find("tfma_bundle", "pto-core")
F32, F64 = find("emulated_f32_slices", "int8"), find("emulated_f64_slices", "int8")
RESIDUES = find("emulated_f64_crt", "int8")
needs_host = pytest.mark.skipif(not host.available(), reason=host.why_unavailable() or "host build")


def records(campaign: Campaign, *more: Any) -> list[Any]:
    return [r for part in drive.drive(campaign, *more) for r in part]


def failed_cases(i: Any, numbers: range, subject: Subject, **options: Any) -> int:
    p = plan(i)
    found = p.run(engine.pieces(p, numbers), subject, RIGHT, **options)
    return sum(outcome.failed_cases for outcome in found)
