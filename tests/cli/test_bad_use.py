"""Bad use of every command: exit code 2 and one line that says what would be legal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuemu.cli import build

F16 = "v_mfma_f32_16x16x16_f16"
ON = ("-a", "gfx942")
ONE = ("-i", F16, *ON)

# The command, as words, and what its message has to contain.
REFUSED = [
    (("list", *ON, "--kind", "foo"), "kind='foo'; legal: mfma, smfmac"),
    (("list", "-a", "gfx95"), "arch pattern 'gfx95' fits none of gfx908"),
    (("show", F16, "-a", "gfx908"), "does not exist on gfx908; it exists on gfx942, gfx950"),
    (("layout", F16, "A", *ON, "--blgp", "9"), "the encoding's field holds 0..7"),
    (("run", F16, "--neg", "1,x,0", *ON), "neg='1,x,0'; legal: integers with commas between"),
    (("diff", "--seconds", "0"), "seconds=0; legal: more than 0"),
    (("diff", "--seconds", "nan"), "seconds=nan; legal: more than 0"),
    (("run", F16, "--neg", "1", *ON), "neg='1'; legal: three integers"),
    (("run", F16, "--op-sel", "1,2,3", *ON), "op_sel='1,2,3'; legal: two integers"),
    (("run", F16, "xy.npz", *ON), "xy.npz holds an array 'X'; legal: A, B, C, idx"),
    (("run", F16, "ab.npz", "--a", "a.npy", *ON), "A is in ab.npz and in a.npy; legal: one"),
    (("run", F16, "--a", "ab.npz", "--b", "a.npy", *ON), "ab.npz holds 2 arrays (A, B)"),
    (("run", F16, "--a", "a.npy", *ON), "no array B; A and B are needed, or no array at all"),
    (("run", F16, "ab.npz", "--registers", *ON), "no array C; register images need A, B and C"),
    (("compare", "ab.npz", "--a", "1"), "a file and --a, --b or --c; legal: one of them"),
    (("compare", "ab.npz", "--c", "5"), "a file and --a, --b or --c; legal: one of them"),
    (("compare", "--c", "5"), "one of --a, --b and --c alone; legal: --a and --b"),
    (("compare", "raw.npz"), "A has dtype |V1: NumPy saves all 8-bit floats as raw bytes"),
    (("compare", "xy.npz"), "xy.npz holds 'X', 'Y'; legal: 'A', 'B' and perhaps 'C'"),
    (("compare", "text.npz"), "text.npz: A has dtype <U1; legal: real numbers"),
    (("compare", "--a", "1", "--b", "1", "--c", "1,2"), "--c has 2 numbers; legal: one"),
    (("run", F16, "ab.npz", "--class", "ties", *ON), "arrays and --class or --seed; legal"),
    (("run", F16, "ab.npz", "--seed", "0", *ON), "arrays and --class or --seed; legal"),
    (("run", F16, "--bits", *ON), "--bits without matrices; legal"),
    (("run", F16, "a.npy", *ON), "a.npy holds one array without a name; legal: a .npz file"),
    (("layout", F16, "--lane", "64", *ON), "lane 64; legal: 0..63"),
    (("layout", F16, "--lane=-1", *ON), "lane -1; legal: 0..63"),
    (("layout", F16, "A", "--vgpr", "7", *ON), "vgpr 7; legal: 0..1"),
    (("layout", F16, "--lane", "3", "--svg", "f.svg", *ON), "and a picture; legal: one of them"),
    (("layout", F16, "--png", "a.xyz", *ON), "a.xyz is no name of a picture; legal endings: .png"),
    (("layout", F16, "--png", "a.svg", *ON), "a.svg is no name of a picture; legal endings: .png"),
    (("tile", "run", "x.s", "--png", "x.foo"), "x.foo is no name of a picture; legal endings"),
    (("tile", "run", "x.s", "--pe", "0"), "--show or --pe without --png; legal"),
    (("show", F16), "say which with arch= or --arch"),
    (("show", "xyz"), "gpuemu.instructions() or `gpuemu list` lists all"),
    (("asm", "xyz", *ON), "gpuemu.instructions() or `gpuemu list` lists all"),
    (("run", F16, "--a", "u16.npy", "--b", "u16.npy", *ON), "bits only with bits=True or --bits"),
    (("tile", "run", "none.s"), "error: none.s: no such file"),
    (("tile", "run", "t.s", "--tiles", "none.npz"), "error: none.npz: no such file"),
    (("tile", "run", "t.s", "--tiles", "a.npy"), "a.npy: one array without a name; legal: an .npz"),
    (("tile", "run", "t.s", "--tiles", "empty.bin"), "empty.bin: No data left in file; legal"),
    (("tile", "asm", "none.s"), "error: none.s: no such file"),
    (("tile", "disasm", "--file", "none.bin"), "error: none.bin: no such file"),
    (("run-asm", "none.s", *ON, "-o", "x.npz"), "error: none.s: no such file"),
    (("bench", "--compare", "none.json", "a.npy"), "error: none.json: no such file"),
    (("asm", "none.s", *ON), "error: none.s: no such file"),
    (("asm", "no/such", *ON), "error: no/such: no such file"),
    (("asm", ".", *ON), "error: .: cannot be read: Is a directory"),
    (("asm", "", *ON), "the text holds no instruction; legal: one"),
    (("disasm", "none.bin", *ON), "error: none.bin: no such file"),
    (("disasm", "/tmp", *ON), "error: /tmp: cannot be read: Is a directory"),
    (("disasm", "00", "--to", "french", *ON), "--to french; legal: words, bytes, asm, builtin"),
    (("disasm", "empty.bin", *ON), "there are no words; legal: 8 bytes an instruction"),
    (("explain", "-i", "v_mfma_i32_16x16x32_i8", *ON), "only dense floating-point instructions"),
    (("explain", "xy.npz", *ONE), "xy.npz holds 'X', 'Y'; legal: 'A', 'B', perhaps 'C'"),
    (("explain", "ab.npz", *ONE, "--row", "16"), "row 16, column 0; legal: below 16 and 16"),
    (("explain", "turned.npz", *ONE), "A (2, 3), B (2, 3); legal: A (rows, K), B (K, columns)"),
    (("diagnose", "d.npy", "d.npy", "many.npz", *ONE), "a has 3 cases of uint32; D has 1"),
    (("probe", "numpy"), "subject 'numpy' needs --instruction, for its shape and formats"),
    (("verify", "ab.npz", "--nan", "all"), "nan='all'; legal: any, exact"),
    (("bench", "--backend", "gpu"), "legal: one of auto, cuda, host, numpy, check"),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder of arrays that are right in themselves."""
    monkeypatch.chdir(tmp_path)
    half = np.ones((16, 16), np.float16)
    Path("empty.bin").touch()
    np.save("a.npy", half)
    np.save("u16.npy", half.view(np.uint16))
    np.save("d.npy", np.ones((16, 16), np.float32))
    np.savez("ab.npz", A=half, B=half)
    np.savez("many.npz", A=np.ones((3, 1, 16, 16), np.float16), B=half)
    np.savez("xy.npz", X=half, Y=half)
    np.savez("raw.npz", A=np.zeros((2, 2), "V1"), B=half)
    np.savez("text.npz", A=np.array(["x"]), B=half)
    np.savez("turned.npz", A=np.ones((2, 3)), B=np.ones((2, 3)))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[" ".join(w) for w, _ in REFUSED])
def test_refused(words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(build(), list(words))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not result.stdout


def test_a_layout_of_no_element() -> None:
    words = ["layout", F16, "A", *ON, "--element", "0,0", "--lane", "1"]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 0 and "no element lies there" in result.stdout
