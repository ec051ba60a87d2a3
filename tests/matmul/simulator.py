"""Run a tuned kernel on CPU threads: its own indexing, tails and flags, which the host build does
not have.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.backends import sources

SHIM = Path(__file__).with_name("cuda_on_threads.h")
THREADS = SHIM.parent.parent / "emulation" / "cuda_on_threads.h"
FLAGS = (
    "-std=c++20",
    "-O1",
    "-frounding-math",
    "-ffp-contract=off",
    "-march=native",
    "-fPIC",
    "-shared",
    "-pthread",
)


def library(source: str, name: str, defines: dict[str, Any]) -> Any:
    """Return the launch function of a kernel compiled for CPU threads."""
    facts = (
        source,
        name,
        sorted(defines.items()),
        SHIM.read_text(),
        THREADS.read_text(),
        sources.digest(),
    )
    path = (
        sources.cache_directory()
        / f"threads-{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}.so"
    )
    if not path.is_file():
        program = f'#include "{SHIM}"\n#include "{source}"\nEXPORT({name})\n'
        options = [f"-D{k}={v}" for k, v in defines.items()]
        command = [
            "g++",
            f"-I{sources.directory()}",
            *options,
            *FLAGS,
            "-o",
            str(path),
            "-x",
            "c++",
            "-",
        ]
        subprocess.run(command, input=program, text=True, check=True)
    return getattr(ctypes.CDLL(str(path)), f"launch_{name}")


def launch(
    source: str, name: str, defines: dict[str, Any], blocks: int, threads: int, args: list[Any]
) -> None:
    """Run blocks one after the other; args are NumPy arrays (structs by value)."""
    kept = [np.ascontiguousarray(x) for x in args]
    pointers = (ctypes.c_void_p * len(kept))(*(x.ctypes.data for x in kept))
    shape = (ctypes.c_int * 4)(blocks, 1, threads, 1)
    library(source, name, defines)(pointers, shape)
