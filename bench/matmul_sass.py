"""Instructions of the tuned products' main loops, counted in the machine code.

    python bench/matmul_sass.py ["cdna3 f16" ...]

Needs nvdisasm (of the CUDA toolkit, or of the wheel nvidia-cuda-nvdisasm), but no GPU. What it
counts is the innermost loop that holds most of the arithmetic, without the conversion of operands
beside it; a profiler counts both (`matmul_report.py --one NAME`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matmul_cases import CLASSES, chain_of

from gpuemu.backends import cuda
from gpuemu.mfma import matmul_tuned

# Of one multiprocessor, lanes a clock.
PIPES = {
    "fp64": (64, r"D(FMA|ADD|MUL)"),
    "alu": (
        64,
        r"LOP3|VIADDMNMX|VIMNMX|ISETP|FSETP|SHF|LEA|VIADD|IADD3|PRMT|SEL|FSEL|FMNMX|MOV|PLOP3",
    ),
    "fma": (128, r"FFMA|FMUL|FADD|IMAD"),
    "shared": (32, r"LDS|STS"),
}
ISSUE = 128
ARITHMETIC = re.compile(r"DFMA|FFMA|FMUL|FADD|DMMA")


def disassembler() -> str:
    """Return the path of nvdisasm."""
    found = shutil.which("nvdisasm")
    for path in Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin/nvdisasm"):
        found = found or str(path)
    if found is None:
        raise SystemExit("nvdisasm is not here; pip install nvidia-cuda-nvdisasm")
    return found


def instructions(source: str, defines: dict[str, int | str], arch: str) -> list[tuple[str, int]]:
    """Return the kernel's opcodes and, of branches backward, the place that they lead to (else
    -1).
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cuda.cubin(source, defines, arch))
        file.flush()
        command = [disassembler(), "-c", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[tuple[str, int]] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        label = re.match(r"(\.L\w+):", line)
        if label:
            labels[label[1]] = len(found)
        code = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)(.*);", line)
        if code:
            target = re.search(r"`\((\.L\w+)\)", code[2]) if code[1].startswith("BRA") else None
            found.append((code[1], labels.get(target[1], -1) if target else -1))
    return found


def main_loop(name: str, arch: str = "sm_90a") -> Counter[str]:
    """Return how often each opcode occurs in the innermost loop with most of the arithmetic."""
    tuned = matmul_tuned.plan(chain_of(name))
    if tuned is None:
        return Counter()
    code = instructions(tuned.source, tuned.defines, arch)
    loops = [(to, at) for at, (_, to) in enumerate(code) if to >= 0]
    inner = [x for x in loops if not any(y != x and x[0] <= y[0] and y[1] <= x[1] for y in loops)]
    counts = [Counter(op for op, _ in code[a : b + 1]) for a, b in inner]
    return max(counts, key=lambda c: sum(n for op, n in c.items() if ARITHMETIC.match(op)))


def per_mac(name: str) -> dict[str, float]:
    """Return a main loop's instructions a multiply-add: all of them, and by pipe."""
    counts, macs = main_loop(name), CLASSES[name].loop_macs
    if not counts or not macs:
        return {}
    found = {"issue": sum(counts.values()) / macs}
    for pipe, (_, pattern) in PIPES.items():
        found[pipe] = sum(n for op, n in counts.items() if re.match(pattern, op)) / macs
    return {key: round(value, 2) for key, value in found.items()}


if __name__ == "__main__":
    for name in sys.argv[1:] or CLASSES:
        print(f"{name:15} {per_mac(name)}")
        if sys.argv[1:]:
            print(dict(main_loop(name).most_common()))
