"""Pipelines: static rejections, error codes and their order, depth, capture, execution over the
grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuemu.gemm as gemm
from gpuemu.errors import BadShape, BadType, BadValue, PipelineRefused
from gpuemu.gemm import (
    SM,
    Arrangement,
    Block,
    BlocksPerCluster,
    Descriptor,
    Function,
    Precision,
    RequiredMantissaBits,
    Size,
    Type,
    WithPipeline,
    make_pipeline,
    pipeline,
    pipeline_rules,
    suggest_pipeline,
)

from .problems import bits, operands

D = (
    Size(32, 16, 16)
    + Precision("f16", "f16", "f32")
    + Function("MM")
    + SM(900)
    + Block()
    + WithPipeline()
)
EMULATED = (
    Size(32, 16, 16)
    + Precision("f32")
    + Function("MM")
    + SM(900)
    + Block()
    + WithPipeline()
    + RequiredMantissaBits(23)
)


def zeros(m: int, n: int, k: int, dtype: str = "f2", k_b: int | None = None) -> tuple[Any, Any]:
    """Return A and B of zeros in the default arrangement, cheaply."""
    return np.zeros((m, k), dtype), np.zeros((n, k_b or k), dtype).T


def code(d: Descriptor, extents: Any, depth: int | None = 1, **options: Any) -> str:
    dtype = "f4" if RequiredMantissaBits in d else "f2"
    p = suggest_pipeline(d, *zeros(*extents, dtype), depth=depth, **options)
    assert bool(p) == (p.error.code == "none")
    return p.error.code


def test_a_good_pipeline_is_true() -> None:
    p = make_pipeline(D, *zeros(64, 48, 64), 3)
    assert p
    assert p.error.code == "none"
    assert (p.value.stages, p.value.grid, p.value.block_dim) == (3, (2, 3), D.block_dim)
    assert p.value.get_block_dim() == D.block_dim
    assert p.value.buffer_size == 3 * (1024 + 512 + 16)
    assert list(p.value.tiles()) == [(i, j) for i in range(2) for j in range(3)]


def test_codes_are_named() -> None:
    assert pipeline_rules.CODES == (
        "none",
        "incompatible_k_dimensions",
        "tile_divisibility",
        "cluster_grid_divisibility",
        "insufficient_stages",
        "emulation_k_dimension_too_large",
        "allocation_failed",
        "unknown",
        "cuda",
    )


@pytest.mark.parametrize(
    ("extents"), [(33, 16, 16), (32, 17, 16), (32, 16, 17), (31, 16, 16), (0, 16, 16)]
)
def test_tile_divisibility(extents: Any) -> None:
    assert code(D, extents) == "tile_divisibility"


def test_incompatible_k() -> None:
    p = suggest_pipeline(D, *zeros(32, 16, 32, k_b=48))
    assert not p
    assert str(p.error) == "incompatible_k_dimensions: A has K=32, B has K=48"
    # precedence: K first, whatever else is wrong
    assert suggest_pipeline(D, *zeros(33, 17, 31, k_b=32)).error.code == "incompatible_k_dimensions"


def test_clusters() -> None:
    d = D + BlocksPerCluster(2, 3)
    assert code(d, (64, 48, 16)) == "none"
    p = suggest_pipeline(d, *zeros(96, 48, 16), depth=1)
    assert p.error.code == "cluster_grid_divisibility"
    assert "a grid of 3x3 tiles is no whole number of 2x3 clusters" in p.error.message
    assert code(d, (64, 32, 16)) == "cluster_grid_divisibility"
    assert code(d, (97, 48, 16)) == "tile_divisibility"  # before clusters
    assert code(d, (96, 48, 16), depth=2) == "cluster_grid_divisibility"  # before stages


def test_stages() -> None:
    assert code(D, (32, 16, 32), depth=2) == "none"
    assert code(D, (32, 16, 32), depth=3) == "insufficient_stages"
    assert code(D, (32, 16, 255), depth=16) == "tile_divisibility"
    # a suggested depth is refused as well when K is short, unless it may be clamped
    assert code(D, (32, 16, 16 * 15), depth=None) == "insufficient_stages"
    assert code(D, (32, 16, 16 * 16), depth=None) == "none"
    p = suggest_pipeline(D, *zeros(32, 16, 48), clamp_depth=True)
    assert p.value.stages == 3
    assert (
        code(D, (32, 16, 32), depth=3, clamp_depth=True) == "insufficient_stages"
    )  # a given depth is kept


def test_emulated_k() -> None:
    for k, want in (
        (33024, "none"),
        (33040, "emulation_k_dimension_too_large"),
        (33025, "tile_divisibility"),
    ):
        assert code(EMULATED, (32, 16, k)) == want
    assert code(D, (32, 16, 33040)) == "none"  # native pipelines have no bound
    assert code(EMULATED, (32, 16, 33040), emulation="never") == "none"
    assert code(EMULATED + BlocksPerCluster(2), (32, 16, 33040)) == "cluster_grid_divisibility"


def test_raises() -> None:
    with pytest.raises(
        PipelineRefused, match="tile_divisibility: M=33 is no multiple of 32; K=17"
    ) as caught:
        suggest_pipeline(D, *zeros(33, 16, 17), raises=True)
    assert caught.value.error.code == "tile_divisibility"
    with pytest.raises(PipelineRefused, match="tile_divisibility"):
        _ = suggest_pipeline(D, *zeros(33, 16, 16)).value


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("MemoryError", "allocation_failed"),
        ("OutOfMemoryError", "allocation_failed"),
        ("CUDARuntimeError", "cuda"),
    ],
)
def test_allocation_failures(kind: str, want: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = MemoryError if kind == "MemoryError" else type(kind, (Exception,), {})

    def fail(memory: Any) -> Any:
        raise error("no memory left")

    monkeypatch.setattr(pipeline, "_copy", fail)
    p = suggest_pipeline(EMULATED, *zeros(32, 16, 16, "f4"), depth=1)
    assert not p
    assert p.error.code == want
    assert p.error.message == "no memory left"


def test_other_failures_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(memory: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(pipeline, "_copy", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        suggest_pipeline(EMULATED, *zeros(32, 16, 16, "f4"), depth=1)


def test_static_rejections() -> None:
    a, b = zeros(32, 16, 16)
    cases: list[tuple[Descriptor, Any, Any, Any, type[Exception], str]] = [
        (D.without(WithPipeline), a, b, {}, BadValue, r"needs WithPipeline\(\)"),
        (D.without(Block), a, b, {}, BadValue, "cannot be executed without Block"),
        (D, a, b, {"depth": 0}, BadValue, "depth=0; legal: 1 to 16"),
        (D, a, b, {"depth": 17}, BadValue, "depth=17; legal: 1 to 16"),
        (D, a, b, {"depth": 1.5}, BadType, "depth=1.5 is a float"),
        (
            D,
            a,
            b,
            {"result_storage": "registers"},
            BadValue,
            "result_storage='registers'; legal: internal",
        ),
        (D, a, b, {"emulation": "maybe"}, BadValue, "emulation='maybe'"),
        (D, a[None], b, {}, BadShape, "ranks 3 and 2; legal: both 2, or both 3"),
        (D, a[0], b[0], {}, BadShape, "ranks 1 and 1"),
        (D, a[None, None], b[None, None], {}, BadShape, "ranks 4 and 4"),
        (D, a[None].repeat(2, 0), b[None], {}, BadShape, "A has 2 batch entries, B 1"),
        (
            D,
            np.asfortranarray(a),
            b,
            {},
            BadValue,
            r"A does not lie in memory as the descriptor's Arrangement says \(row",
        ),
        (D, a, np.ascontiguousarray(b), {}, BadValue, "B does not lie in memory"),
        (
            D,
            a,
            np.zeros((48, 16), "f2"),
            {},
            BadValue,
            "B does not lie in memory",
        ),  # static before the K mismatch
        (D, a.astype("f8"), b, {}, BadType, "A has dtype float64"),
        (
            D.replace(Size(256, 256, 256)) + Type("complex"),
            a,
            b,
            {},
            BadValue,
            "1 stage.s. of 524304 bytes do not fit",
        ),
        (
            D.replace(Size(256, 128, 64)),
            a,
            b,
            {"depth": 16},
            BadValue,
            "legal: a smaller tile, or depth up to 4",
        ),
        (EMULATED.without(WithPipeline), a, b, {}, BadValue, r"needs WithPipeline\(\)"),
        (
            EMULATED,
            a,
            b,
            {},
            BadType,
            "A is float16, B float16; an emulated pipeline takes f32 as it is",
        ),
        (EMULATED, a[None], b[None], {}, BadShape, "an emulated pipeline takes matrices of rank 2"),
    ]
    for d, left, right, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            suggest_pipeline(d, left, right, **options)


@pytest.mark.parametrize("storage", pipeline_rules.STORAGES)
def test_result_storage_is_recorded(storage: Any) -> None:
    p = suggest_pipeline(EMULATED, *zeros(32, 16, 16, "f4"), depth=1, result_storage=storage)
    assert p.value.result_storage == storage


@pytest.mark.parametrize(
    "names", [("f16", "f16", "f32"), ("f64",) * 3, ("i8", "u8", "i32"), ("tf32", "tf32", "f32")]
)
def test_execution_over_the_grid_is_the_tiles_side_by_side(names: Any) -> None:
    d = D.replace(Precision(*names))
    extents = (64, 32, 64)
    a, b, c = operands(d, 3, extents=extents)
    p = suggest_pipeline(d, a, b, clamp_depth=True)
    whole = p.value.execute(c, alpha=2, beta=1, backend="numpy")
    assert np.array_equal(bits(p.value.execute(c, alpha=2, beta=1, backend="host")), bits(whole))
    tile = d.without(WithPipeline).replace(Size(32, 16, 64))
    for i, j in p.value.tiles():
        rows, columns = slice(32 * i, 32 * i + 32), slice(16 * j, 16 * j + 16)
        part = gemm.execute(
            tile, a[rows], b[:, columns], c[rows, columns], alpha=2, beta=1, backend="numpy"
        )
        assert np.array_equal(bits(whole[rows, columns]), bits(part))


def test_batches() -> None:
    a, b, c = operands(D, 4, extents=(32, 16, 32))
    left, right = np.stack([a, -a]), np.stack([b.T, b.T]).swapaxes(1, 2)
    p = suggest_pipeline(D, left, right, depth=2)
    got = p.value.execute(backend="numpy")
    assert got.shape == (2, 32, 16)
    assert np.array_equal(got[1], -got[0])
    both = p.value.execute(
        np.stack([c, c]).swapaxes(1, 2).copy().swapaxes(1, 2), beta=1, backend="numpy"
    )
    assert np.array_equal(both[0], got[0] + c)


def test_native_pipelines_see_later_changes_and_emulated_ones_do_not() -> None:
    a, b, _ = operands(D, 5, extents=(32, 16, 32))
    p = suggest_pipeline(D, a, b, depth=1)
    before = p.value.execute(backend="numpy")
    a *= 2
    assert np.array_equal(p.value.execute(backend="numpy"), 2 * before)
    a, b, _ = operands(EMULATED, 5, extents=(32, 16, 32))
    p = suggest_pipeline(EMULATED, a, b, depth=1)
    before = p.value.execute(backend="numpy")
    a *= 2
    b[...] = 0
    assert np.array_equal(p.value.execute(backend="numpy"), before)


def test_emulated_execution() -> None:
    a, b, c = operands(EMULATED, 6, extents=(32, 32, 32))
    p = suggest_pipeline(EMULATED, a, b, depth=1)
    assert p.value.emulation_slices == 3
    plain = gemm.emulated_matmul(a, b, mantissa_bits=23, backend="numpy")
    assert np.array_equal(p.value.execute(backend="numpy"), plain)
    got = p.value.execute(c, alpha=2, beta=-1, backend="numpy")
    assert np.array_equal(got, np.float32(2) * plain + np.float32(-1) * c)
    out = np.zeros((32, 32), "f4", order="F")
    assert p.value.execute(out=out, backend="numpy") is out
    assert np.array_equal(out, plain)
    assert np.array_equal(gemm.matmul(EMULATED, a, b, backend="numpy"), plain)


@pytest.mark.parametrize(
    ("names", "arch", "mantissa", "emulated"),
    [
        ("f64", 900, 39, True),
        ("f64", 900, 52, False),
        ("f64", 900, 54, True),
        ("f64", 890, 52, True),
        ("f32", 900, 31, True),
        ("f32", 900, 23, True),
        ("f64", 800, 47, False),
        ("f64", 1000, 52, True),
    ],
)
def test_native_fallback_is_asked_for(names: str, arch: int, mantissa: int, emulated: bool) -> None:
    d = EMULATED.replace(Precision(names), SM(arch), RequiredMantissaBits(mantissa))
    operands_ = zeros(32, 16, 16, "f8" if names == "f64" else "f4")
    p = suggest_pipeline(d, *operands_, depth=1, emulation="auto")
    assert (p.value.emulation_slices > 0) == emulated
    assert suggest_pipeline(d, *operands_, depth=1).value.emulation_slices == d.emulation_slices


def test_pipeline_epilogue_rejections() -> None:
    p = suggest_pipeline(D, *zeros(32, 16, 16), depth=1)
    with pytest.raises(BadValue, match="beta=1 but C is missing"):
        p.value.execute(beta=1)
    with pytest.raises(BadShape, match="C is"):
        p.value.execute(np.zeros((16, 32), "f4", order="F"), beta=1)
    with pytest.raises(BadType, match="C has dtype float64"):
        p.value.execute(np.zeros((32, 16), "f8", order="F"), beta=1)


def test_arrangement_of_the_pipeline_is_the_descriptors() -> None:
    d = D + Arrangement("col_major", "row_major", "row_major")
    a, b, _ = operands(d, 7, extents=(32, 16, 32))
    p = suggest_pipeline(d, a, b, depth=1)
    assert p.value.execute(backend="numpy").flags.c_contiguous
