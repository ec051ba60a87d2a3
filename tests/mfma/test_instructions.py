"""The table: rows, names, and what a wrong name says."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu import errors
from tests.mfma.cases import ROWS


def test_counts_by_architecture_and_kind() -> None:
    counts = {
        (a, k): len(gpuemu.instructions(a, k))
        for a in ("gfx908", "gfx90a", "gfx942", "gfx950")
        for k in ("mfma", "smfmac")
    }
    assert counts == {
        ("gfx908", "mfma"): 20,
        ("gfx908", "smfmac"): 0,
        ("gfx90a", "mfma"): 27,
        ("gfx90a", "smfmac"): 0,
        ("gfx942", "mfma"): 32,
        ("gfx942", "smfmac"): 14,
        ("gfx950", "mfma"): 36,
        ("gfx950", "smfmac"): 28,
    }
    assert (
        len(gpuemu.instructions(kind="mfma_f8f6f4"))
        == len(gpuemu.instructions(kind="mfma_scale"))
        == 2
    )
    assert len(ROWS) == 161


@pytest.mark.parametrize("i", ROWS, ids=repr)
def test_registers_hold_the_matrices_exactly(i: gpuemu.Instruction) -> None:
    """64 lanes of VGPRs have as many bits as the matrix has."""
    for matrix in ("A", "B", "C", "D"):
        blocks, rows, columns = i.shape(matrix)
        bits = i.operand_format(matrix).bits
        assert i.vgprs[matrix] * 64 * 32 == blocks * rows * columns * bits


@pytest.mark.parametrize("i", ROWS, ids=repr)
def test_every_name_finds_its_row(i: gpuemu.Instruction) -> None:
    for name in (i.mnemonic, *i.aliases, i.mnemonic.removeprefix("v_")):
        assert gpuemu.instruction(name, arch=i.arch) is i
    if i.builtin and i.kind != "mfma_f8f6f4":
        found = gpuemu.instruction(i.builtin, arch=i.arch)
        assert found is i


def test_opcodes_tell_instructions_of_an_architecture_apart() -> None:
    for arch in ("gfx908", "gfx90a", "gfx942", "gfx950"):
        # The scaled form shares the opcode of the unscaled one: abid says which.
        codes = [i.opcode for i in gpuemu.instructions(arch) if i.kind != "mfma_scale"]
        assert len(codes) == len(set(codes))


def test_fidelity_says_what_is_known() -> None:
    for i in ROWS:
        if i.model == "i8":
            assert i.fidelity == ("documented" if i.arch in ("gfx942", "gfx950") else "unverified")
        elif i.arch == "gfx950" or i.kind == "smfmac":
            assert i.fidelity == "unverified"
        else:
            assert i.fidelity == "published-model"
        assert i.fidelity_source and i.cycles_source


def test_fp8_is_fnuz_on_gfx942_and_ocp_on_gfx950() -> None:
    assert (
        gpuemu.instruction("v_mfma_f32_16x16x32_fp8_bf8", arch="gfx942").formats["A"]
        == "f8e4m3fnuz"
    )
    i = gpuemu.instruction("v_mfma_f32_16x16x32_fp8_bf8", arch="gfx950")
    assert (i.formats["A"], i.formats["B"]) == ("f8e4m3fn", "f8e5m2")


@pytest.mark.parametrize(
    ("name", "arch", "parts"),
    [
        ("v_mfma_f32_32x32x8_f17", "gfx942", ["f17", "v_mfma_f32_32x32x8_f16"]),
        ("v_mfma_f32_16x16x8_xf32", "gfx950", ["gfx950", "exists on gfx942"]),
        ("v_mfma_f32_32x32x8_f16", None, ["gfx942, gfx950", "arch="]),
    ],
)
def test_unknown_instruction(name: str, arch: str | None, parts: list[str]) -> None:
    with pytest.raises(errors.UnknownInstruction) as caught:
        gpuemu.instruction(name, arch)
    assert all(part in str(caught.value) for part in parts)


def test_bad_arguments_name_what_is_legal() -> None:
    with pytest.raises(errors.BadValue, match="gfx908, gfx90a, gfx942, gfx950"):
        gpuemu.instruction("v_mfma_f32_32x32x8_f16", arch="mi300")
    with pytest.raises(errors.BadValue, match="smfmac"):
        gpuemu.instructions(kind="wmma")
    with pytest.raises(errors.BadType, match="a string"):
        gpuemu.instruction(42)  # type: ignore[arg-type]


def test_a_name_of_one_architecture_needs_no_arch() -> None:
    assert gpuemu.instruction("v_mfma_f32_16x16x8_xf32").arch == "gfx942"
