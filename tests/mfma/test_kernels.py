"""Every kernel compiles without a GPU, for three generations; PTX has nothing that changes bits."""

from __future__ import annotations

import re

import pytest

import gpuemu
from gpuemu import errors
from gpuemu.backends import cuda
from gpuemu.mfma import device
from gpuemu.mfma.modifiers import Modifiers
from tests.mfma.cases import ROWS


def nvrtc_missing() -> str:
    try:
        cuda.nvrtc_version()
    except errors.BackendUnavailable as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(nvrtc_missing()), reason=nvrtc_missing() or "NVRTC is there")

# One row of every model and kind of instruction: the kernels that differ in more than their shape.
DISTINCT = list({(i.model, i.kind, i.formats["A"]): i for i in ROWS}.values())


def source(i: gpuemu.Instruction, dense: bool = True) -> device.KernelSource:
    return device.kernel_source(i, gpuemu.models()[i.model], Modifiers(), dense)


@pytest.mark.parametrize("i", DISTINCT, ids=repr)
def test_ptx_neither_flushes_nor_contracts(i: gpuemu.Instruction) -> None:
    made = source(i)
    text = cuda.ptx(made.source, made.defines)
    assert ".ftz" not in text
    assert ".approx" not in text
    fused = set(re.findall(r"fma\.\w+\.f\d\d", text))
    written = {"fma_f32": {"fma.rn.f32"}}.get(i.model, set())
    assert fused == written


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
@pytest.mark.parametrize("i", DISTINCT[::3], ids=repr)
def test_compiles_for_older_and_newer_chips(i: gpuemu.Instruction, arch: str) -> None:
    made = source(i, dense=False)
    assert cuda.cubin(made.source, made.defines, arch)[:4] == b"\x7fELF"


def test_only_models_of_wide_sums_use_local_memory() -> None:
    """A register array indexed at run time would go to local memory, and be slow."""
    for i in (
        gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942"),
        gpuemu.instruction("v_mfma_f32_16x16x16f16", "gfx90a"),
    ):
        made = source(i)
        assert ".local" not in cuda.ptx(made.source, made.defines)


def test_a_kernel_that_does_not_compile_shows_the_compilers_log() -> None:
    with pytest.raises(errors.CompileError, match="NOT_DEFINED"):
        cuda.cubin("mfma.cu", {"GPUEMU_CONFIG": "NOT_DEFINED", "ALGORITHM": "Fma32", "WAVES": 1})


def test_headers_in_the_working_directory_are_not_taken(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "common.cuh").write_text("#error not this one")
    (tmp_path / "mfma.cu").write_text("#error nor this")
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    made = source(gpuemu.instruction("v_mfma_f32_16x16x4_f32", "gfx942"))
    assert cuda.cubin(made.source, made.defines)[:4] == b"\x7fELF"


def test_the_cache_is_used_and_survives_two_writers(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    made = source(gpuemu.instruction("v_mfma_f32_16x16x4_f32", "gfx942"))
    first = cuda.cubin_path(made.source, made.defines)
    stamp = first.stat().st_mtime_ns
    assert cuda.cubin_path(made.source, made.defines).stat().st_mtime_ns == stamp
    assert [p.name for p in tmp_path.iterdir()] == [first.name]
