"""What a newcomer does on a bare machine: the README's examples, and wrong uses that get help.

    python newcomer.py README.md

Runs with the interpreter of an environment that holds the installed wheel alone: no compiler, no
GPU, no CuPy, no matplotlib. Prints every message; exit code 1 where something is not as it should
be.
"""

import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

IMPORTS = "import numpy as np, gpuemu; from gpuemu import gemm; "
F16 = 'i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", "gfx942"); '
X = "x = np.ones((16, 16), np.float16); "
NAME = "v_mfma_f32_16x16x16_f16"

RIGHT = ("--help", "compare", "diff --cases 50 --subject numpy", "list", "info")

# A command of gpuemu, and what its one line of error has to contain.
COMMANDS = (
    ("show v_mfma_f32_16x16x16_f61 -a gfx942", "near names: v_mfma_f32_16x16x16_f16"),
    (f"show {NAME}", "say which with arch= or --arch"),
    (f"show {NAME} -a gfx900", "legal: gfx908, gfx90a, gfx942, gfx950"),
    (f"layout {NAME} E -a gfx942", "legal: A, B, C, D"),
    (f"layout {NAME} A -a gfx942 --cbsz 1", "cbsz"),
    (f"layout {NAME} A -a gfx942 --png a.png", "pip install 'gpuemu[plot]'"),
    (f"layout {NAME} A -a gfx942 --svg none/a.svg", "none/a.svg: cannot be written"),
    (f"run {NAME} -a gfx942 none.npz", "none.npz"),
    (f"run {NAME} -a gfx942 README.md", "README.md"),
    (f"show {NAME} -a gfx908", "it exists on gfx942, gfx950"),
    (f"show {NAME} -a gfx942 --nosuch", "No such option: --nosuch"),
    (f"matmul {NAME} none.npy none.npy -a gfx942", "none.npy"),
    (f"matmul {NAME} cut.npy cut.npy -a gfx942", "cut.npy: no readable .npy or .npz file"),
    (f"matmul {NAME} wide.npy wide.npy -a gfx942", "f16 wants float16"),
    (f"matmul {NAME} half.npy half.npy -a gfx942", "A's columns must be B's rows"),
    (f"matmul {NAME} half.npy half.npy -a gfx942 --backend cuda", "pip install"),
    ("diff --subject none:f --cases 1", "none"),
    ("diff --subject cuda --cases 1", "pip install"),
    ("diff --subject host --cases 1", "no C++ compiler found"),
    ("diff --subject numpy -i nothing --cases 1", "nothing"),
    ("bench --backend gpu", "legal: one of auto, cuda, host, numpy, check"),
    ("bench --compare README.md README.md", "README.md: no JSON"),
    ("replay {}", "instruction"),
    ("verify README.md", "README.md"),
    ("asm v_mfma -a gfx942", "v_mfma"),
    ("tile run none.s", "none.s"),
    ("tile asm README.md", "line 1"),
    ("gemm describe Size(1,2", "Size(1,2"),
)

# Python, the type of the error, and what its message has to contain.
PROGRAMS = (
    (F16 + "i(np.ones((16, 16)), np.ones((16, 16)))", "BadType", "float16"),
    (F16 + X + "i(x[:8], x)", "BadShape", "16"),
    (F16 + X + "i(x, x, backend='cuda')", "BackendUnavailable", "pip install"),
    (F16 + X + "i(x, x, backend='check')", "BackendUnavailable", "C++ compiler"),
    (F16 + X + "i(x, x, blgp=9)", "IllegalModifier", "0..7"),
    (F16 + "gpuemu.execute(i, 1, 2, 3)", "BadType", "a"),
    (X + "gpuemu.matmul(x, x, instruction='v_mfma')", "BadType", "gpuemu.instruction(name, arch)"),
    ("gpuemu.parse('v_mfma_f32', arch='gfx942')", "UnknownInstruction", "near names"),
    ("gpuemu.tile.fma([1], [1], [1], 'FP9')", "BadValue", "FP16"),
    ("gpuemu.tile.Core().tile(0)", "BadValue", "not allocated"),
    (X + "gemm.execute(gemm.Size(16, 16, 16), x, x)", "BadValue", "without Function, SM, Block"),
    ("gemm.emulated_matmul(np.ones((2, 3)), np.ones((2, 3)))", "BadShape", "3"),
    ("import gpuemu.torch", "ImportError", "pip install 'gpuemu[torch]'"),
)


def readme(text: str, folder: str) -> list[str]:
    """Run the README's code in a process of its own; return what is wrong."""
    (Path(folder) / "README.md").write_text(text, encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    (want, *_) = re.findall(r"```text\n(.*?)```", text, re.S)
    right = done.returncode == 0 and done.stdout == want
    return [] if right else [f"README: {done.stdout}{done.stderr}"]


def commands() -> list[str]:
    """Run right and wrong commands; return what is wrong."""
    import numpy as np
    from typer.testing import CliRunner

    from gpuemu.cli import build

    found = []
    np.save("half.npy", np.ones((4, 8), np.float16))
    np.save("wide.npy", np.ones((8, 8)))
    Path("cut.npy").write_bytes(Path("wide.npy").read_bytes()[:90])
    for command in RIGHT:
        done = CliRunner().invoke(build(), command.split())
        if done.exit_code:
            found.append(f"gpuemu {command}: exit code {done.exit_code}: {done.output}")
    for command, message in COMMANDS:
        done = CliRunner().invoke(build(), command.split())
        print(f"$ gpuemu {command}\n{done.output}", flush=True)
        if done.exit_code != 2 or message not in done.stderr:
            found.append(f"gpuemu {command}: {done.exit_code}, {done.output!r} ({message!r})")
    return found


def programs() -> list[str]:
    """Run wrong uses of the library; return what is wrong."""
    found = []
    for program, kind, message in PROGRAMS:
        try:
            exec(IMPORTS + program, {})
            last = "no error"
        except Exception as error:
            last = f"{type(error).__module__}.{type(error).__name__}: {error}"
        print(f">>> {program}\n{last}\n", flush=True)
        module = "builtins" if kind == "ImportError" else "gpuemu.errors"
        if not last.startswith(f"{module}.{kind}: ") or message not in last:
            found.append(f"{program}: {last} ({kind}, {message!r})")
    return found


def main() -> int:
    """Print what was tried; return the exit code."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    os.environ["PATH"] = str(Path(sys.executable).parent)  # no compiler there
    warnings.simplefilter("error")
    print(f"Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = [*readme(text, folder), *commands(), *programs()]
        os.chdir("/")
    print("\n".join(f"PROBLEM {line}" for line in found))
    print(f"{len(COMMANDS) + len(PROGRAMS)} wrong uses, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
