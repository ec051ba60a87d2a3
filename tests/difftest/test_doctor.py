"""The layout doctor: planted faults, each made here by hand, and the name that must come back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest.doctor import Diagnosis, Problem, diagnose
from gpuemu.difftest.doctor.problem import bits_of_result
from gpuemu.errors import BadShape
from gpuemu.mfma import modifiers

Array = np.ndarray[Any, Any]
F16 = ("v_mfma_f32_16x16x16_f16", "gfx942")
F32 = ("v_mfma_f32_16x16x4_f32", "gfx942")
FOUR = ("v_mfma_f32_4x4x4_16b_f16", "gfx942")
FP8 = ("v_mfma_f32_16x16x32_fp8_fp8", "gfx942")
I8 = ("v_mfma_i32_16x16x32_i8", "gfx942")
F64 = ("v_mfma_f64_4x4x4_4b_f64", "gfx942")
F64_WIDE = ("v_mfma_f64_16x16x4_f64", "gfx942")
BF16 = ("v_mfma_f32_16x16x8bf16", "gfx90a")
SPARSE = ("v_smfmac_f32_16x16x32_f16", "gfx942")
SCALED = ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")


class Bench:
    """An instruction with random inputs: register images, matrices, and the right D."""

    def __init__(
        self, name: tuple[str, str], seed: int = 0, cases: int = 1, spread: int = 0, **options: Any
    ):
        self.i = gpuemu.instruction(*name)
        self.options = options
        rng = np.random.default_rng(seed)
        self.A, self.B, self.C = (self._random(rng, m, cases, spread) for m in ("A", "B", "C"))
        self.images = {
            m.lower(): self.i.pack(m, x) for m, x in (("A", self.A), ("B", self.B), ("C", self.C))
        }
        if self.i.sparse:
            nibbles = rng.choice([0x4, 0x8, 0xC, 0x9, 0xD, 0xE], (cases, 64, 8)).astype(np.uint32)
            words = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)
            self.images["idx"] = words[:, None, :]
        if self.i.kind == "mfma_scale":
            for name_ in ("scale_a", "scale_b"):
                codes = rng.integers(120, 134, (cases, 1, 64, 4)).astype(np.uint8)
                self.images[name_] = codes.view(np.uint32)[..., 0]
        self.D = self.run()

    def _random(self, rng: np.random.Generator, m: str, cases: int, spread: int) -> Array:
        shape = (cases, *self.i.shape(m))
        dtype = self.i.operand_format(m).dtype
        if dtype.kind == "i":
            top = 127 if dtype.itemsize == 1 else 1 << 30
            return rng.integers(-top, top, shape).astype(dtype)
        return (
            rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
        ).astype(dtype)

    def run(
        self, model: Any = None, images: dict[str, Array] | None = None, **options: Any
    ) -> Array:
        given = {**self.images, **(images or {}), **self.options, **options}
        d = gpuemu.execute(self.i, **given, backend="numpy", model=model)
        return np.asarray(self.i.unpack("D", d))

    def matrices(
        self, A: Array | None = None, B: Array | None = None, C: Array | None = None
    ) -> Array:
        changed = {"A": A, "B": B, "C": C}
        return self.run(
            images={m.lower(): self.i.pack(m, x) for m, x in changed.items() if x is not None}
        )

    def ask(self, got: Array, inputs: bool = True) -> Diagnosis:
        bits = [bits_of_result(self.i, x, "D") for x in (got, self.D)]
        m = modifiers.check(self.i, **self.options)
        return diagnose(Problem(self.i, m, bits[0], bits[1], self.images if inputs else {}))


def image(bench: Bench) -> Array:
    return np.asarray(bench.i.pack("D", bench.D))


def from_image(bench: Bench, words: Array) -> Array:
    return np.asarray(bench.i.unpack("D", words))


def rows_interleaved(bench: Bench) -> Array:
    return bench.D[:, :, [n % 4 * 4 + n // 4 for n in range(16)]]


def one_block(bench: Bench) -> Array:
    return np.repeat(bench.D[:, 5:6], 16, axis=1)


def dropped(bench: Bench) -> Array:
    A = bench.A.copy()
    A[..., 8:16] = 0
    return bench.matrices(A=A)


def reversed_bytes(bench: Bench) -> Array:
    words = bench.images["a"]
    return bench.run(images={"a": np.ascontiguousarray(words).byteswap()})


def ocp(bench: Bench) -> Array:
    # The OCP value of a code is twice its FNUZ value.
    doubled = (x.astype(np.float32) * 2 for x in (bench.A, bench.B))
    A, B = (x.astype(ml_dtypes.float8_e4m3fnuz) for x in doubled)
    return bench.matrices(A=A, B=B)


def unsigned(bench: Bench) -> Array:
    A, B, C = (
        bench.A.view(np.uint8).astype(np.int64),
        bench.B.astype(np.int64),
        bench.C.astype(np.int64),
    )
    return (C + A @ B).astype(np.int32)


def saturated(bench: Bench) -> Array:
    near = bench.C.astype(np.int64) % 1000
    bench.C = np.where(bench.C > 0, 2**31 - 1 - near, near - 2**31).astype(np.int32)
    bench.images["c"] = bench.i.pack("C", bench.C)
    bench.D = bench.run()
    total = bench.C.astype(np.int64) + bench.A.astype(np.int64) @ bench.B.astype(np.int64)
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)


def before(bench: Bench) -> Array:
    C = np.concatenate([bench.C[:1], bench.D[:-1]])
    return bench.matrices(C=C)


def model(bench: Bench, **change: Any) -> Array:
    own = gpuemu.models()[bench.i.model]
    return bench.run(model=dataclasses.replace(own, name="other", **change))


def inputs_flushed(bench: Bench) -> Array:
    bench.A = (bench.A.astype(np.float32) * 2.0**-15).astype(np.float16)
    bench.images["a"] = bench.i.pack("A", bench.A)
    bench.D = bench.run()
    return bench.matrices(A=np.where(np.abs(bench.A) < 2.0**-14, np.float16(0), bench.A))


def lane_missing(bench: Bench) -> Array:
    words = image(bench)
    words[..., 17] = 0
    return from_image(bench, words)


def upper_lanes_hold_c(bench: Bench) -> Array:
    words = image(bench)
    words[..., 32:] = bench.images["c"][..., 32:]
    return from_image(bench, words)


def every_second(bench: Bench) -> Array:
    A = bench.A.copy()
    A[..., 1::2] = 0
    return bench.matrices(A=A)


def c_moved(bench: Bench, order: Any, axis: int) -> Array:
    return bench.run(images={"c": np.ascontiguousarray(bench.images["c"].take(order, axis))})


def tiny(bench: Bench) -> Array:
    scale = np.float32(2.0**-127)
    bench.C = (bench.C * scale).astype(np.float32)
    bench.images["a"] = np.zeros_like(bench.images["a"])
    bench.images["c"] = bench.i.pack("C", bench.C)
    bench.D = bench.run()
    return np.where(np.abs(bench.D) < 2.0**-126, np.float32(0) * np.sign(bench.D), bench.D)


FAULTS: list[tuple[str, tuple[str, str], Callable[[Bench], Array], dict[str, Any]]] = [
    ("zeros", F16, lambda b: np.zeros_like(b.D), {}),
    ("transposed", F16, lambda b: b.D.swapaxes(-1, -2), {}),
    ("lanes_swapped", F16, lambda b: from_image(b, image(b)[..., np.arange(64) ^ 32]), {}),
    ("lanes_rotated", F16, lambda b: from_image(b, np.roll(image(b), -16, -1)), {}),
    ("lanes_reversed", F16, lambda b: from_image(b, image(b)[..., ::-1]), {}),
    ("registers_swapped", F16, lambda b: from_image(b, image(b)[:, [1, 0, 3, 2]]), {}),
    ("registers_reversed", F16, lambda b: from_image(b, image(b)[:, ::-1]), {}),
    ("lanes_missing", F16, lane_missing, {}),
    ("rows_interleaved", F16, rows_interleaved, {}),
    ("columns_swapped", F16, lambda b: b.D[..., np.arange(16) ^ 1], {}),
    ("blocks_broadcast", FOUR, one_block, {}),
    (
        "f64_layout",
        F64,
        lambda b: np.asarray(b.i.unpack("D", b.i.pack("D", b.D), output_layout="formula")),
        {},
    ),
    ("byte_order", F16, lambda b: np.ascontiguousarray(b.D).byteswap(), {}),
    ("halves_swapped", F64, lambda b: from_image(b, image(b)[:, [1, 0]]), {}),
    ("registers_reversed", F64_WIDE, lambda b: from_image(b, image(b)[:, ::-1]), {}),
    ("registers_reversed", F64_WIDE, lambda b: from_image(b, image(b)[:, ::-1]), {"seed": 1}),
    ("registers_swapped", F64_WIDE, lambda b: from_image(b, image(b)[:, np.arange(8) ^ 6]), {}),
    ("negated", F16, lambda b: -b.D, {}),
    ("bf16_truncated", F16, lambda b: (b.D.view(np.uint32) & 0xFFFF0000).view(np.float32), {}),
    ("f16_rounded", F16, lambda b: b.D.astype(np.float16).astype(np.float32), {}),
    ("integer_as_float", I8, lambda b: b.D.astype(np.float32).view(np.uint32), {}),
    ("output_subnormals_flushed", F16, tiny, {}),
    ("c_ignored", F16, lambda b: b.matrices(C=np.zeros_like(b.C)), {}),
    ("stale_accumulator", F16, lambda b: b.matrices(C=b.D), {}),
    ("stale_accumulator", F16, before, {"cases": 4}),
    ("c_lanes", F16, lambda b: c_moved(b, np.arange(64) ^ 32, 2), {}),
    ("c_registers", F16, lambda b: c_moved(b, np.arange(4)[::-1], 1), {}),
    ("c_registers", F64_WIDE, lambda b: c_moved(b, np.arange(8) ^ 6, 1), {}),
    ("c_rows", F16, lambda b: b.matrices(C=np.roll(b.C, 3, -2)), {}),
    ("c_columns", I8, lambda b: b.matrices(C=b.C[..., ::-1]), {}),
    ("c_added_twice", F16, lambda b: b.matrices(C=b.C * 2), {}),
    ("c_added_twice", F16, lambda b: b.D + b.C, {}),
    ("c_added_twice", I8, lambda b: b.D + b.C, {}),
    ("product_missing", F16, lambda b: b.C, {}),
    ("lanes_missing", F16, upper_lanes_hold_c, {}),
    ("c_transposed", F16, lambda b: b.matrices(C=b.C.swapaxes(-1, -2)), {}),
    ("a_transposed", F16, lambda b: b.matrices(A=b.A.swapaxes(-1, -2)), {}),
    ("b_transposed", F16, lambda b: b.matrices(B=b.B.swapaxes(-1, -2)), {}),
    (
        "operands_swapped",
        F16,
        lambda b: b.matrices(A=b.B.swapaxes(-1, -2), B=b.A.swapaxes(-1, -2)),
        {},
    ),
    ("a_block_broadcast", FOUR, lambda b: b.matrices(A=np.repeat(b.A[:, 3:4], 16, axis=1)), {}),
    ("k_dropped", F16, dropped, {}),
    ("k_dropped", F16, every_second, {}),
    ("a_rows", F16, lambda b: b.matrices(A=np.roll(b.A, 1, -2)), {}),
    ("b_columns", F16, lambda b: b.matrices(B=b.B[..., ::-1]), {}),
    ("k_permuted", F16, lambda b: b.matrices(A=b.A[..., np.arange(16) ^ 2]), {}),
    ("a_lanes", F16, lambda b: b.run(images={"a": b.images["a"][..., np.arange(64) ^ 1]}), {}),
    ("b_lanes", F16, lambda b: b.run(images={"b": np.roll(b.images["b"], -1, -1)}), {}),
    ("a_packing", FP8, reversed_bytes, {}),
    (
        "b_packing",
        I8,
        lambda b: b.run(images={"b": np.ascontiguousarray(b.images["b"]).byteswap()}),
        {},
    ),
    ("modifiers", FOUR, lambda b: b.run(cbsz=2, abid=1), {}),
    ("modifiers", F16, lambda b: b.run(blgp=3), {}),
    ("broadcast_reading", FOUR, lambda b: b.run(broadcast="lane_block"), {"cbsz": 2, "abid": 1}),
    ("format:both", FP8, ocp, {}),
    ("format:a", I8, unsigned, {}),
    ("saturated", I8, saturated, {}),
    ("index_set", SPARSE, lambda b: b.run(abid=1), {}),
    (
        "index_ignored",
        SPARSE,
        lambda b: b.run(images={"idx": np.full_like(b.images["idx"], 0x44444444)}),
        {},
    ),
    (
        "scales_ignored",
        SCALED,
        lambda b: b.run(
            images={n: np.full_like(b.images[n], 0x7F7F7F7F) for n in ("scale_a", "scale_b")}
        ),
        {},
    ),
    ("scale_byte", SCALED, lambda b: b.run(op_sel=(0, 2)), {}),
    ("arithmetic", F16, lambda b: b.run(model="cdna2_f16"), {"cases": 4, "spread": 6}),
    ("arithmetic", BF16, lambda b: b.run(model="fma_f32"), {"cases": 4, "spread": 6}),
    ("rounding", F16, lambda b: model(b, output_rounding="zero"), {"cases": 4}),
    ("inputs_flushed", F16, inputs_flushed, {}),
    ("kept_bits", F16, lambda b: model(b, product_bits=20), {"cases": 4, "spread": 6}),
    ("group", F16, lambda b: model(b, group=16), {"cases": 8, "spread": 8}),
    ("order", F32, lambda b: b.matrices(A=b.A[..., ::-1], B=b.B[..., ::-1, :]), {"cases": 4}),
]


@pytest.mark.parametrize(
    ("name", "row", "plant", "options"), FAULTS, ids=[f"{n}-{f[0]}" for n, f in enumerate(FAULTS)]
)
def test_a_planted_fault_is_named(
    name: str, row: tuple[str, str], plant: Any, options: dict[str, Any]
) -> None:
    bench = Bench(row, **options)
    got = plant(bench)
    answer = bench.ask(got)
    assert answer.name == name or name in answer.also, answer
    assert answer.confidence >= 0.5, answer
    assert answer.sentence.endswith(".")


@pytest.mark.parametrize(
    ("matrix", "lane"), [("a", 1), ("a", 16), ("a", 32), ("b", 16), ("c", 1), ("c", 16), ("c", 32)]
)
def test_names_of_one_rearrangement_share_no_confidence(matrix: str, lane: int) -> None:
    bench = Bench(F16)
    lanes = np.ascontiguousarray(bench.images[matrix][..., np.arange(64) ^ lane])
    answer = bench.ask(bench.run(images={matrix: lanes}))
    assert f"{matrix}_lanes" in (answer.name, *answer.also)
    assert answer.confidence == 1.0


def test_at_least_25_kinds() -> None:
    assert len({name for name, _, _, _ in FAULTS}) >= 25


def test_sentences_say_what_exactly() -> None:
    bench = Bench(F16)
    assert "k=8..15 are left out" in bench.ask(dropped(bench)).sentence
    assert (
        "lane n holds lane n ^ 32"
        in bench.ask(from_image(bench, image(bench)[..., np.arange(64) ^ 32])).sentence
    )
    assert (
        "row n holds row n % 4 * 4 + n // 4"
        in bench.ask(rows_interleaved(bench), inputs=False).sentence
    )
    assert "k % 2 = 1 are left out" in bench.ask(every_second(bench)).sentence
    assert "of D still hold C: not written" in bench.ask(upper_lanes_hold_c(bench)).sentence
    many = Bench(F16, cases=4, spread=6)
    assert "cdna2_f16" in many.ask(many.run(model="cdna2_f16")).sentence


@pytest.mark.parametrize("row", [F16, FOUR, FP8, I8, F64, SPARSE, SCALED])
def test_noise_is_unknown_and_equal_is_equal(row: tuple[str, str]) -> None:
    bench = Bench(row)
    assert bench.ask(bench.D).name == "equal"
    noise = np.random.default_rng(9).permuted(bench.D.reshape(-1)).reshape(bench.D.shape)
    for inputs in (False, True):
        answer = bench.ask(noise, inputs)
        assert answer.name == "unknown" and answer.confidence == 0
    assert "elements differ" in answer.sentence


def test_one_wrong_element_is_not_explained_away() -> None:
    bench = Bench(F16)
    got = bench.D.copy()
    got[0, 0, 3, 4] += 1
    answer = bench.ask(got)
    assert answer.name == "unknown"
    assert "all in row 3, all in column 4" in answer.sentence


@pytest.mark.parametrize("row", [F16, F64_WIDE])
def test_the_distance_is_counted_in_units_of_the_last_place(row: tuple[str, str]) -> None:
    bench = Bench(row)
    sentence = bench.ask(np.nextafter(bench.D, bench.D.dtype.type(np.inf)), inputs=False).sentence
    assert "by 1 to 1 units in the last place" in sentence
    zero = bench.D.dtype.type(0)
    across = np.where(bench.D > 0, np.nextafter(zero, zero - 1), bench.D)
    bench.D = np.where(bench.D > 0, np.nextafter(zero, zero + 1), bench.D)
    assert "by 2 to 2 units in the last place" in bench.ask(across, inputs=False).sentence


def test_a_nan_is_no_distance_away() -> None:
    bench = Bench(F16)
    got = bench.D.copy()
    got[0, 0, 3, 4] = np.nan
    sentence = bench.ask(got, inputs=False).sentence
    assert "1 of them by a NaN" in sentence and "units in the last place" not in sentence
    got[0, 0, 5, 6] = np.nextafter(got[0, 0, 5, 6], np.float32(np.inf))
    assert "by 1 to 1 units in the last place" in bench.ask(got, inputs=False).sentence


def test_a_d_without_cases_is_refused(tmp_path: Path) -> None:
    i = gpuemu.instruction(*F16)
    empty = np.zeros((0, 1, 16, 16), np.float32)
    with pytest.raises(
        BadShape, match=r"D has shape \(0, 1, 16, 16\), no case; legal: one or more"
    ):
        bits_of_result(i, empty, "D")
    path = tmp_path / "empty.npy"
    np.save(path, empty)
    result = CliRunner().invoke(
        build(), ["diagnose", str(path), str(path), "-i", F16[0], "-a", F16[1]]
    )
    assert result.exit_code == 2 and "no case" in result.output
