"""The fractions of `explain` equal the oracle bit for bit, and its errors add up."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpuemu
from gpuemu.cli import build
from gpuemu.difftest.explain import cut, explain, exponent, hex_of, rounded, stored
from gpuemu.difftest.generators import CLASSES
from gpuemu.difftest.images import images
from gpuemu.difftest.items import max_finite
from gpuemu.errors import BadValue
from gpuemu.formats import get
from gpuemu.mfma import modifiers

ROWS = [
    ("v_mfma_f32_16x16x4f32", "gfx90a"),
    ("v_mfma_f64_16x16x4_f64", "gfx942"),
    ("v_mfma_f32_16x16x16f16", "gfx908"),
    ("v_mfma_f32_16x16x8bf16", "gfx908"),
    ("v_mfma_f32_16x16x16f16", "gfx90a"),
    ("v_mfma_f32_16x16x8bf16", "gfx90a"),
    ("v_mfma_f32_16x16x16_f16", "gfx942"),
    ("v_mfma_f32_16x16x8_xf32", "gfx942"),
    ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942"),
    ("v_mfma_f32_16x16x32_f16", "gfx950"),
]
FINITE = (
    "normal",
    "ties",
    "shifts",
    "signs",
    "cancel_pair",
    "cancel_c",
    "flush",
    "round_down",
    "staggered",
)


@pytest.mark.parametrize(("name", "arch"), ROWS)
def test_equals_the_oracle_and_adds_up(name: str, arch: str) -> None:
    i = gpuemu.instruction(name, arch)
    model = gpuemu.models()[i.model]
    fa, fb = i.operand_format("A"), i.operand_format("B")
    compared = 0
    for cls in FINITE:
        made = images(i, modifiers.check(i), CLASSES[cls], 0, np.arange(3))
        D = i.unpack("D", gpuemu.execute(i, **made, backend="numpy")).astype(np.float64)
        A, B, C = (i.unpack(m, made[m.lower()]).astype(np.float64) for m in ("A", "B", "C"))
        for n in range(3):
            for row, col in ((0, 0), (5, 11), (15, 2)):
                a = [Fraction(float(x)) for x in A[n, 0, row]]
                b = [Fraction(float(x)) for x in B[n, 0, :, col]]
                c = Fraction(float(C[n, 0, row, col]))
                exact = sum((x * y for x, y in zip(a, b, strict=True)), c)
                try:
                    found = explain(model, fa, fb, a, b, c, exact)
                except BadValue:
                    assert not np.isfinite(D[n, 0, row, col])
                    continue
                assert float(found.result) == D[n, 0, row, col], (cls, n, row, col)
                assert sum(found.errors.values()) == found.result - exact
                compared += 1
    assert compared > 70


def test_kinds_of_error() -> None:
    i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942")
    f16, model = i.operand_format("A"), gpuemu.models()["cdna3_f16"]
    a = [Fraction(-(2**13)), Fraction(-1, 2), Fraction(-1, 4), Fraction(-1, 8)]
    b = [Fraction(2**10), Fraction(1), Fraction(1), Fraction(1)]
    found = explain(model, f16, f16, a, b, Fraction(2**23), Fraction(-7, 8))
    assert found.errors == {"input": 0, "alignment": Fraction(3, 8), "accumulation": 0, "output": 0}
    chain = explain(
        gpuemu.models()["fma_f32"],
        f16,
        f16,
        [Fraction(1)] * 2,
        [Fraction(1)] * 2,
        Fraction(2**24),
        Fraction(2**24 + 2),
    )
    assert chain.errors["accumulation"] == chain.errors["output"] == -1
    xf32 = gpuemu.instruction("v_mfma_f32_16x16x8_xf32", "gfx942").operand_format("A")
    cut_off = explain(
        gpuemu.models()["cdna3_xf32"],
        xf32,
        xf32,
        [1 + Fraction(1, 2**11)],
        [Fraction(1)],
        Fraction(0),
        1 + Fraction(1, 2**11),
    )
    assert cut_off.errors["input"] == -Fraction(1, 2**11)


def test_helpers() -> None:
    assert hex_of(Fraction(0)) == "0x0p+0" and hex_of(Fraction(5, 4)) == "0x5p-2"
    assert [exponent(Fraction(x)) for x in (1, 3, Fraction(1, 3), -8)] == [0, 1, -2, 3]
    assert [cut(Fraction(-3, 2), 0, r) for r in ("zero", "down", "up", "nearest")] == [
        -1,
        -2,
        -1,
        -2,
    ]
    assert rounded(Fraction(2**24 + 1)) == 2**24
    with pytest.raises(BadValue, match="overflows"):
        rounded(Fraction(2) ** 128)


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    options = ["-i", "v_mfma_f32_16x16x16_f16", "-a", "gfx942"]
    found = json.loads(runner.invoke(build(), ["explain", *options, "--json"]).output)
    assert (found["result"], found["exact"]) == ("-0x1p-1", "-0x7p-3")
    assert found["errors"]["alignment"] == "0x3p-3"
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((4, 20)), rng.standard_normal((20, 3))
    np.savez(tmp_path / "in.npz", A=A, B=B)
    arguments = ["explain", str(tmp_path / "in.npz"), *options, "--row", "3", "--col", "2"]
    found = json.loads(runner.invoke(build(), [*arguments, "--json"]).output)
    assert found["errors"]["input"] != "0x0p+0"
    text = runner.invoke(build(), arguments, env={"COLUMNS": "80"}).output
    assert "all together" in text and "16" in text
    assert runner.invoke(build(), ["explain", *options, "--row", "1"]).exit_code == 2
    np.savez(tmp_path / "in.npz", A=A * np.inf, B=B)
    assert runner.invoke(build(), arguments).exit_code == 2


def test_inputs_are_rounded_once() -> None:
    """Through binary32, 1 + 2**-8 + 2**-40 would become a tie, and then 1."""
    bf16 = get("bf16")
    above = 1 + Fraction(1, 2**8) + Fraction(1, 2**40)
    assert stored(above, bf16) == 1 + Fraction(1, 2**7) and stored(-above, bf16) < -1
    for fmt in map(get, ("f16", "f32", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz")):
        top, least = fmt.value(max_finite(fmt)), fmt.value(1)
        unit = Fraction(2) ** (fmt.emax - fmt.mantissa_bits)
        assert stored(top, fmt) == stored(top + unit / 4, fmt) == top
        with pytest.raises(BadValue, match="overflows"):
            stored(-top - unit, fmt)
        assert [stored(least * x / 4, fmt) for x in (2, 3, 6)] == [0, least, 2 * least]


E5M2 = ("v_mfma_f32_16x16x32_bf8_bf8", "gfx942")
F16 = ("v_mfma_f32_16x16x16_f16", "gfx942")
ONES = np.ones((2, 4)), np.ones((4, 3))
REFUSED = [
    ((*ONES, np.ones((1, 3))), "C (1, 3); legal with A (2, 4), B (4, 3): (2, 3)"),
    ((*ONES, np.ones((2, 1))), "C (2, 1); legal"),
    ((*ONES, np.ones((2, 3, 1))), "C (2, 3, 1); legal"),
    ((np.ones((2, 0)), np.ones((0, 3))), "A (2, 0), B (0, 3); legal"),
    ((ONES[0].astype(str), ONES[1]), "A has dtype <U32; legal: floats and integers"),
    ((ONES[0], ONES[1] * 1j), "B has dtype complex128; legal"),
    ((*ONES, np.ones((2, 3), bool)), "C has dtype bool; legal"),
    ((np.zeros((2, 4), "V1"), ONES[1]), "A has dtype |V1"),
    ((np.full((2, 4), 65520.0), ONES[1]), "65520 overflows in f16"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refused_files(tmp_path: Path, given: Any, message: str) -> None:
    np.savez(tmp_path / "in.npz", **dict(zip("ABC", given, strict=False)))
    words = ["explain", str(tmp_path / "in.npz"), "-i", F16[0], "-a", F16[1], "--row", "1"]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 2 and message in result.stderr, result.output


@pytest.mark.parametrize(
    ("on", "dtype"), [(E5M2, "bf8"), (F16, "bf16"), (F16, "i4"), (F16, "f4")], ids=str
)
def test_files_of_formats_and_integers(tmp_path: Path, on: tuple[str, str], dtype: str) -> None:
    """NumPy saves bf16 and 8-bit floats as raw bytes."""
    i = gpuemu.instruction(*on)
    of = {"bf8": i.operand_format("A").dtype, "bf16": get("bf16").dtype}.get(dtype, dtype)
    A, B = np.array([[1, 2, 3, 4]]).astype(of), np.array([[1], [2], [0], [-1]]).astype(of)
    np.savez(tmp_path / "in.npz", A=A, B=B)
    words = ["explain", str(tmp_path / "in.npz"), "-i", on[0], "-a", on[1], "--json"]
    found = json.loads(CliRunner().invoke(build(), words).output)
    assert (found["exact"], found["result"]) == ("0x1p+0", "0x1p+0")
