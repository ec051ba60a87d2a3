"""Input classes: deterministic, legal, and each reaching what it is named for."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu import formats
from gpuemu.difftest.cases import plan, sweep
from gpuemu.difftest.generators import CLASSES, classes_for
from gpuemu.difftest.images import images
from gpuemu.difftest.items import special_codes
from gpuemu.mfma import modifiers, sparse

ROWS = gpuemu.instructions()
F16 = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
F32 = gpuemu.instruction("v_mfma_f32_16x16x4_f32", "gfx942")


def matrices(i: gpuemu.Instruction, name: str, cases: int = 64) -> list[np.ndarray]:
    """Return A, B and C of a class as float64 values."""
    made = images(i, modifiers.check(i), CLASSES[name], 0, np.arange(cases))
    with np.errstate(invalid="ignore"):
        return [i.unpack(m, made[m.lower()]).astype(np.float64) for m in ("A", "B", "C")]


@pytest.mark.parametrize("i", ROWS, ids=lambda i: f"{i.arch}-{i.mnemonic}")
def test_every_class_of_every_instruction_is_legal_and_the_same_in_any_batch(
    i: gpuemu.Instruction,
) -> None:
    for cls in classes_for(i):
        for m in (sweep(i)[0], sweep(i)[-1]):
            whole = images(i, m, cls, 3, np.array([10, 11, 12]))
            alone = images(i, m, cls, 3, np.array([11]))
            for name, image in whole.items():
                assert np.array_equal(image[1], alone[name][0]), (cls.name, name)
            options = {
                key: value
                for key, value in m.non_default().items()
                if key in ("cbsz", "blgp", "abid")
            }
            if i.sparse:
                sparse.check_index(i, whole["idx"], modifiers.check(i, **options))


def test_seeds_and_instructions_give_other_inputs() -> None:
    m = modifiers.check(F16)
    one = images(F16, m, CLASSES["raw"], 0, np.array([0]))["a"]
    other = gpuemu.instruction("v_mfma_f32_16x16x16_bf16", "gfx942")
    assert not np.array_equal(one, images(F16, m, CLASSES["raw"], 1, np.array([0]))["a"])
    assert not np.array_equal(
        one, images(other, modifiers.check(other), CLASSES["raw"], 0, np.array([0]))["a"]
    )


def test_raw_reaches_every_f16_code() -> None:
    a = images(F16, modifiers.check(F16), CLASSES["raw"], 0, np.arange(2000))["a"].view(np.uint16)
    assert len(np.unique(a)) > 65000


def test_specials_pair_every_code_with_every_other() -> None:
    made = images(F16, modifiers.check(F16), CLASSES["specials"], 0, np.arange(200))
    a, b = (F16.unpack(m, made[m.lower()]).view(np.uint16) for m in ("A", "B"))

    codes = special_codes(formats.get("f16"))
    pairs = set()
    for n in range(200):
        for k in range(F16.K):
            pairs |= {(int(x), int(y)) for x in a[n, 0, :, k] for y in b[n, 0, k]}
    wanted = {(int(x), int(y)) for x in codes for y in codes}
    assert len(wanted & pairs) > 0.98 * len(wanted)


def test_ties_are_exact_halves() -> None:
    A, B, C = matrices(F32, "ties")
    products = np.abs(A[..., :, :, None] * B[..., None, :, :]).max(axis=-2)
    halves = products / 2.0 ** (np.floor(np.log2(np.abs(C))) - 24)
    assert ((halves % 2 == 1) | (halves % 1 == 0.5)).mean() > 0.9


def test_shifts_reach_from_zero_to_twice_the_kept_bits_at_every_k() -> None:
    A, B, C = matrices(F16, "shifts", 300)
    products = np.abs(A[..., :, :, None] * B[..., None, :, :])
    hot = products.argmax(axis=-2)
    assert set(np.unique(hot)) == set(range(F16.K))
    distance = np.log2(np.abs(C)) - np.log2(products.max(axis=-2))
    assert distance.min() < -45 and distance.max() > 45


def test_cancellations_are_exact() -> None:
    A, B, C = matrices(F16, "cancel_c")
    products = A[..., :, :, None] * B[..., None, :, :]
    assert (np.abs(products + C[..., :, None, :]).min(axis=-2) == 0).all()
    A, B, _ = matrices(F16, "cancel_pair")
    products = A[..., :, :, None] * B[..., None, :, :]
    top = np.sort(np.abs(products), axis=-2)
    assert (top[..., -1, :] == top[..., -2, :]).mean() > 0.5


def test_overflow_reaches_both_infinities_and_nan() -> None:
    i = gpuemu.instruction("v_mfma_f32_16x16x16_bf16", "gfx942")
    made = images(i, modifiers.check(i), CLASSES["overflow"], 0, np.arange(20))
    d = i.unpack("D", gpuemu.execute(i, **made, backend="numpy"))
    assert (
        np.isposinf(d).any() and np.isneginf(d).any() and np.isnan(d).any() and np.isfinite(d).any()
    )


def test_flush_straddles_the_smallest_normal_numbers() -> None:
    A, B, C = (np.abs(x[x != 0]) for x in matrices(F16, "flush"))
    for values, least, ulp in (
        (A, 2.0**-14, 2.0**-24),
        (B, 2.0**-14, 2.0**-24),
        (C, 2.0**-126, 2.0**-149),
    ):
        assert {least - ulp, least, least + ulp} <= set(values.tolist())


def test_subnormals_are_subnormal() -> None:
    A, B, C = (np.abs(x) for x in matrices(F16, "subnormals"))
    assert ((A < 2.0**-14).any(axis=(1, 2, 3)) | (B < 2.0**-14).any(axis=(1, 2, 3))).all()
    assert (C < 2.0**-126).all()


def test_unique_gives_every_word_another_value_and_shows_it_in_d() -> None:
    made = images(F16, modifiers.check(F16), CLASSES["unique"], 0, np.arange(8))
    d = gpuemu.execute(F16, **made, backend="numpy").reshape(8, -1)
    assert all(len(np.unique(image)) > 250 for image in d)
    halves = [made[name].view(np.uint16).reshape(8, -1) for name in ("a", "b")]
    assert all(max(len(np.unique(h[n])) for h in halves) == 256 for n in range(8))


@pytest.mark.parametrize("fault", ["sum_bits", "product_bits", "accumulator_bits", "result_bits"])
def test_one_bit_of_an_aligned_model_is_seen_by_some_class(fault: str) -> None:
    import dataclasses

    model = gpuemu.models()[F16.model]
    wrong = dataclasses.replace(model, name="wrong", **{fault: getattr(model, fault) - 1})
    seen = set()
    for cls in classes_for(F16):
        made = images(F16, modifiers.check(F16), cls, 0, np.arange(64))
        right = gpuemu.execute(F16, **made, backend="numpy")
        if not np.array_equal(right, gpuemu.execute(F16, **made, backend="numpy", model=wrong)):
            seen.add(cls.name)
    assert seen, fault


def test_a_plan_reaches_every_pair_of_class_and_modifiers_before_any_again() -> None:
    p = plan(gpuemu.instruction("v_mfma_f32_16x16x4_4b_f16", "gfx942"))
    total = len(p.classes) * len(p.modifiers)
    places = [p.place(n) for n in range(2 * total)]
    assert len(set(places)) == total
    assert sum(m == 0 for _, m in places) == total + len(p.classes)
    assert p.case(0).modifiers == modifiers.check(p.instruction)
    formats = plan(gpuemu.instruction("v_mfma_f32_16x16x128_f8f6f4", "gfx950"))
    total = len(formats.classes) * len(formats.modifiers)
    assert len({formats.place(n) for n in range(total)}) == total


@pytest.mark.parametrize(
    ("name", "arch", "count"),
    [
        ("v_mfma_f32_16x16x16_f16", "gfx942", 8),
        ("v_mfma_f32_32x32x1_2b_f32", "gfx942", 24),
        ("v_mfma_f64_16x16x4f64", "gfx90a", 1),
        ("v_mfma_f64_16x16x4_f64", "gfx942", 8),
        ("v_smfmac_f32_16x16x32_f16", "gfx942", 16),
        ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", 25),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", 400),
    ],
)
def test_sweep_holds_every_legal_combination(name: str, arch: str, count: int) -> None:
    found = sweep(gpuemu.instruction(name, arch))
    assert len(found) == len(set(found)) == count


def test_sparse_inputs_put_the_products_where_the_class_wants_them() -> None:
    i = gpuemu.instruction("v_smfmac_f32_16x16x32_f16", "gfx942")
    for options in ({}, {"abid": 2}, {"cbsz": 1, "abid": 3}):
        m = modifiers.check(i, **options)
        made = images(i, m, CLASSES["cancel_c"], 0, np.arange(16))
        A = sparse.unpack_sparse(i, made["a"], made["idx"], **options).astype(np.float64)
        B, C = (i.unpack(x, made[x.lower()]).astype(np.float64) for x in ("B", "C"))
        with np.errstate(invalid="ignore"):
            products = A[..., :, :, None] * B[..., None, :, :]
            assert (np.nanmin(np.abs(products + C[..., :, None, :]), axis=-2) == 0).all()


def test_scales_are_one_or_near_it_but_in_the_wild_classes() -> None:
    i = gpuemu.instruction("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
    m = modifiers.check(i)
    codes = {
        name: images(i, m, CLASSES[name], 0, np.arange(20))["scale_a"].view(np.uint8)
        for name in ("normal", "raw")
    }
    assert codes["normal"].min() >= 117 and codes["normal"].max() <= 137
    assert (codes["normal"].reshape(20, -1) == 127).all(axis=1).any()
    assert set(range(256)) == set(np.unique(codes["raw"]).tolist())
