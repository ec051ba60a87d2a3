"""What a descriptor answers when it is asked, and what it warns of."""

from __future__ import annotations

import pytest

from gpuemu.gemm import (
    SM,
    Alignment,
    Block,
    BlocksPerCluster,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    TransposeMode,
    WithPipeline,
)
from gpuemu.gemm.describe import describe

HALF = Size(128, 128, 32) + Precision("f16", "f16", "f32") + Function("MM")


def test_what_only_needs_asking() -> None:
    d = HALF + SM(900) + LeadingDimension(40, 48, 136)
    assert (d.lda, d.ldb, d.ldc) == (40, 48, 136)
    assert d.function == "MM"
    assert d.transpose_mode is None
    assert d.suggested_alignment == Alignment(16, 16, 16)
    with pytest.warns(DeprecationWarning):
        mode = TransposeMode("T", "N")
    assert (HALF + mode).transpose_mode == mode


@pytest.mark.parametrize(("blocks", "large"), [((8,), False), ((3, 3), True), ((4, 4), True)])
def test_clusters_beyond_eight_blocks(blocks: tuple[int, ...], large: bool) -> None:
    d = HALF + SM(900) + BlocksPerCluster(*blocks) + WithPipeline()
    assert d.needs_nonportable_cluster == large
    (said,) = [x.warning for x in describe(d) if x.name == "BlocksPerCluster"]
    assert said == large * "more than 8 blocks: needs the non-portable cluster attribute"
    (said,) = [x.warning for x in describe(d.without(WithPipeline)) if x.name == "BlocksPerCluster"]
    assert said == "has no effect without WithPipeline"


def test_a_half_precision_sum_is_warned_of() -> None:
    for names, warning in (
        (("f16", "f16", "f16"), "C accumulates in f16: it defaults to A's type"),
        (("f16", "f16", "f32"), ""),
        (("f64", "f64", "f32"), "C accumulates in f32, narrower than B (f64)"),
    ):
        d = HALF.replace(Precision(*names))
        assert [x.warning for x in describe(d) if x.name == "Precision"] == [warning]


def test_emulated_descriptors_say_their_products() -> None:
    d = Size(32, 32, 16) + Precision("f32") + Function("MM") + SM(900) + Block()
    d = d + WithPipeline() + RequiredMantissaBits(23)
    assert ("int8 slices", "3, 6 products") in [(x.name, x.value) for x in describe(d)]
