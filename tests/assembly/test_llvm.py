"""Reader, encoder and decoder against LLVM 22: stored answers, and live where it is installed.

GPUEMU_ASSEMBLY_CASES sets the number of live cases; 10^5 and more are for a release.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

import gpuemu
from gpuemu.errors import GpuemuError
from gpuemu.mfma.assembly import AssemblyCall, decode, parse

from . import llvm
from .lines import Lines

PROBES = Path(__file__).parents[1] / "vectors" / "assembly" / "llvm22.jsonl.gz"
CASES = int(os.environ.get("GPUEMU_ASSEMBLY_CASES", "6000"))
ARCHITECTURES = ("gfx908", "gfx90a", "gfx942", "gfx950")

live = pytest.mark.skipif(llvm.version() != 22, reason="ziglang 0.17.1 (LLVM 22) is not installed")


def read(text: str, arch: str, legality: str = "llvm") -> AssemblyCall | None:
    try:
        return parse(text, arch, legality)
    except GpuemuError:
        return None


def stored() -> list[dict[str, Any]]:
    with gzip.open(PROBES, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check(text: str, arch: str, accepted: bool, printed: str, words: str) -> None:
    call = read(text, arch)
    where = f"{arch}: {text!r}; LLVM says {printed!r}"
    assert (call is not None) == accepted, where
    if call is None:
        assert read(text, arch, "strict") is None, f"strict accepts what LLVM refuses: {where}"
        return
    assert (str(call), call.encode().hex()) == (printed, words), where
    assert decode(bytes.fromhex(words), arch, "llvm") == call, where
    assert read(printed, arch) == call, where


def test_stored_probes() -> None:
    probes = stored()
    assert len(probes) == 6890
    assert {p["arch"] for p in probes} == set(ARCHITECTURES)
    for p in probes:
        check(p["asm"], p["arch"], p["accepted"], p["printed"], p.get("words", ""))


def test_every_instruction_is_probed() -> None:
    seen = {(p["arch"], p["printed"].split()[0]) for p in stored() if p["accepted"]}
    assert seen == {(i.arch, i.mnemonic) for i in gpuemu.instructions()}


@live
@pytest.mark.parametrize("kind", ["line", "mutation"])
def test_random_lines(kind: str, tmp_path: Path) -> None:
    lines = Lines(seed=20 if kind == "line" else 21)
    accepted = 0
    for _ in range(CASES // 2000):
        arch = lines.random.choice(ARCHITECTURES)
        texts = [getattr(lines, kind)(arch) for _ in range(1000)]
        for text, answer in zip(texts, llvm.assemble(texts, arch, tmp_path), strict=True):
            check(text, arch, answer.accepted, answer.printed, answer.words)
            accepted += answer.accepted
    assert accepted > (CASES // 4 if kind == "line" else CASES // 200)  # both answers occur


EXPRESSIONS = """
1==1 | 1!=2 | 1<>2 | 1<2 | 2>1 | 2&&1 | 0||3 | 1+2*3 | 7^2 | 7&2+1 | 6-4-2 | 16>>2 | -1>>60
-8/2 | -7/2 | -7%4 | 7/0 | !0 | !5 | ~-1 | ((2)) | 0x10 | 0B11 | 017 | 08 | 1e | 1e1 | .5 | .5x
-.5 | - 0.5 | +0.5 | (0.5) | 0.5+0.5 | 1.0f | 1.e0 | 0x.8p0 | 0x8p-3 | 0x8p | 0x1.8 | -0x1p0
1e-400 | 1e-46 | 1.401298464324817e-45 | 5e-324 | 0.159154 | 0.1591549366712570190
9223372036854775808 | 18446744073709551615 | 18446744073709551616 | -4294967280 | 4294967280
0xffffffff00000001 | max(1,2) | or(1,2) | alignto(3,4) | max() | MAX(1,2) | max (1,2) | '1'
'\\n' | 1 1 | 1, | 1,, | ,1 | [1] | -[1] | ([1]) | 1 cbsz:[1] | 1 cbsz:0.0 | 1 cbsz:1.0
1 cbsz:0>1 | 1 cbsz:1>0 | 1 cbsz:1abid:2 | 1 cbsz:1u | 1 cbsz:8-1 | 1 cbsz : 1 | 1!2 | 1<<64
1<<65 | 1 == 1 == 1 | 1=1 | 1UL | 1lu | 1_ | 1 neg : [1,1,0] | 1 neg: [1,1,0] | - -1 | --1
-scc | (src_scc)
"""


@live
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_expressions_and_numbers(arch: str, tmp_path: Path) -> None:
    heads = {
        "gfx90a": (
            "v_mfma_f32_4x4x1f32 v[0:3], v0, v1, ",
            "v_mfma_f64_4x4x4f64 v[0:1], v[0:1], v[2:3], ",
        ),
        "gfx942": (
            "v_mfma_i32_4x4x4_16b_i8 v[0:3], v0, v1, ",
            "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[0:1], v[2:3], ",
        ),
    }
    items = [item.strip() for item in re.split(r"\n| \| ", EXPRESSIONS) if item.strip()]
    texts = [head + item for head in heads[arch] for item in items]
    for text, answer in zip(texts, llvm.assemble(texts, arch, tmp_path), strict=True):
        check(text, arch, answer.accepted, answer.printed, answer.words)


VECTORS = """
typedef float f32; typedef _Float16 f16; typedef __bf16 bf16; typedef double f64;
typedef short i16; typedef int i32; typedef long i64;
#define V(t, n) typedef t t##x##n __attribute__((ext_vector_type(n)));
V(f32,2) V(f32,4) V(f32,16) V(f32,32) V(f64,4) V(i32,2) V(i32,4) V(i32,8) V(i32,16) V(i32,32)
V(f16,4) V(f16,8) V(f16,16) V(bf16,8) V(bf16,16) V(i16,2) V(i16,4) V(i16,8)
"""


def vector(i: gpuemu.Instruction, matrix: str) -> str:
    """The C type of a builtin's vector, by the registers and format of the matrix."""
    fmt, registers = i.formats[matrix], i.vgprs[matrix]
    if fmt in ("f16", "bf16"):
        short = fmt == "bf16" and matrix in "AB" and not (i.arch == "gfx950" and registers * 2 >= 8)
        narrow = "i16" if short else fmt
        if i.sparse and fmt == "bf16" and i.vgprs["A"] == 2:
            narrow = "i16"
        return f"{narrow}x{registers * 2}"
    base = {
        "f32": "f32",
        "xf32": "f32",
        "f64": "f64",
        "i32": "i32",
        "i8": "i32",
        "f8f6f4": "i32",
    }.get(fmt)
    if base is None:  # the 8-bit floats
        return "i64" if registers == 2 and not i.sparse else f"i32x{registers}"
    if fmt == "i8" and registers == 2 and not i.sparse:
        return "i64"
    count = registers // 2 if base == "f64" else registers
    return base if count == 1 else f"{base}x{count}"


def builtin_call(i: gpuemu.Instruction, r: random.Random) -> str:
    if i.kind == "mfma":
        return f"{i.builtin}(a, b, *d, {r.randrange(8)}, {r.randrange(16)}, {r.randrange(8)})"
    if i.kind == "smfmac":
        return f"{i.builtin}(a, b, *d, s, {r.randrange(8)}, {r.randrange(16)})"
    formats, byte_a, byte_b = f"{r.randrange(2)}, {r.randrange(2)}", r.randrange(4), r.randrange(4)
    return f"{i.builtin}(a, b, *d, {formats}, {byte_a}, s, {byte_b}, t)"


@live
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_builtin_calls_mean_what_clang_makes_of_them(arch: str, tmp_path: Path) -> None:
    r, kernels, calls = random.Random(arch), [], []
    for i in (row for row in gpuemu.instructions(arch) if row.builtin):
        a, b, d = (vector(i, matrix) for matrix in "ABD")
        for _ in range(3):
            calls.append(builtin_call(i, r))
            kernels.append(
                f"void k{len(calls)}({d} *d, {a} a, {b} b, int s, int t) {{ *d = {calls[-1]}; }}"
            )
    made = llvm.compile_c(VECTORS + "\n".join(kernels), arch, tmp_path)
    lines = [line.strip() for line in made.split("\n") if re.match(r"\s*v_s?mfma", line)]
    assert len(lines) == len(calls), made
    for call, line in zip(calls, lines, strict=True):
        ours, theirs = parse(call, arch, "truncate"), parse(line, arch, "llvm")
        fields = ("instruction", "cbsz", "abid", "blgp", "neg", "op_sel")
        assert [getattr(ours, f) for f in fields] == [getattr(theirs, f) for f in fields], (
            call,
            line,
        )
