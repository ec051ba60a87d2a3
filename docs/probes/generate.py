"""Write the probe programs and what each reading predicts; name the readings of an output.

    python docs/probes/generate.py             writes NAME.hip and predictions.json beside this file
    python docs/probes/generate.py OUTPUT...   says which readings the outputs of probes agree with

A probe runs one instruction on one wavefront and prints the registers before and after as a vector
file, which `gpuemu verify` reads too. It needs nothing but the HIP runtime.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from questions import PROBES, Array, Images, Probe, step_of

from gpuemu.mfma.assembly import AssemblyCall

FOLDER = Path(__file__).parent


def hexadecimal(image: Array) -> list[list[str]]:
    """Return a register image as text: a list of 64 words for each register."""
    return [[f"{int(word):08X}" for word in register] for register in image]


def predictions() -> dict[str, Any]:
    """Return what every reading predicts, on every architecture, as JSON has it."""
    found: dict[str, Any] = {}
    for probe in PROBES:
        targets: dict[str, Any] = {}
        for arch, line in probe.lines:
            step = step_of(arch, line)
            images = probe.images(step)
            predicted = {
                name: hexadecimal(rule(step, images)) for name, rule in probe.readings.items()
            }
            targets[arch] = {"instruction": line, "readings": predicted}
        found[probe.name] = {"question": probe.question, "targets": targets}
    return found


def kernel(call: AssemblyCall, images: Images) -> str:
    """Return the body of the kernel for one architecture.

    The instruction is inline assembly, so that the compiler changes nothing of it; the s_nops let
    its result settle before it is stored.
    """
    bare = str(replace(call, cbsz=0, abid=0, blgp=0, neg=(0, 0, 0), op_sel=(0, 0)))
    modifiers = str(call)[len(bare) :]
    bank = "a" if call.instruction.registers == "accumulation" else "v"
    last = "%3" if "idx" in images else "%0"
    inputs = ", ".join(f'"v"({name})' for name in images if name != "c")
    loads = [
        f"  u{image.shape[0]} {name} = load<u{image.shape[0]}, {image.shape[0]}>({name}_words);"
        for name, image in images.items()
    ]
    settle = "".join("\\n s_nop 15" for _ in range(3))
    text = f"{call.instruction.mnemonic} %0, %1, %2, {last}{modifiers}{settle}"
    d = images["c"].shape[0]
    return "\n".join([
        *loads,
        f'  asm volatile("{text}" : "+{bank}"(c) : {inputs});',
        f"  store<u{d}, {d}>(d_words, c);",
    ])  # fmt: skip


def modifiers(call: AssemblyCall) -> str:
    """Return the modifiers that are not 0 as members of a JSON object, in a C string."""
    names = ("cbsz", "abid", "blgp")
    given = {name: value for name in names if (value := getattr(call, name))} | {"legality": "llvm"}
    text: str = json.dumps(given)[1:-1]
    return '"' + text.replace('"', '\\"') + '"'


def array(name: str, image: Array) -> str:
    """Return a C array of a register image."""
    words = [f"0x{int(word):08x}" for word in image.reshape(-1)]
    rows = ",\n    ".join(", ".join(words[n : n + 8]) for n in range(0, len(words), 8))
    return f"static const unsigned {name}[] = {{\n    {rows}}};"


def program(probe: Probe) -> str:
    """Return the HIP program of a probe."""
    kernels, arrays, targets = [], [], []
    for n, (arch, line) in enumerate(probe.lines):
        step = step_of(arch, line)
        images = probe.images(step)
        guard = "elif" if n else "if"
        kernels.append(f"#{guard} defined(__{arch}__)\n{kernel(step.call, images)}")
        arrays += [array(f"{arch}_{name}", image) for name, image in images.items()]
        pointers = [f"{arch}_{name}" if name in images else "0" for name in ("a", "b", "c", "idx")]
        counts = [str(images[name].shape[0]) for name in "abc"]
        facts = ", ".join(
            [f'"{arch}"', f'"{step.call.instruction.mnemonic}"', modifiers(step.call)]
        )
        targets.append(f"    {{{facts}, {', '.join([*pointers, *counts])}}},")
    parts = {
        "question": probe.question,
        "name": probe.name,
        "arch": probe.lines[-1][0],
        "kernels": "\n".join(kernels),
        "arrays": "\n".join(arrays),
        "targets": "\n".join(targets),
    }
    text = (FOLDER / "template.hip").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def readings_of(output: dict[str, Any], predicted: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the probe and architecture of a vector file, and the readings that it agrees with."""
    name, group = output["tool"].removeprefix("probe "), output["groups"][0]
    words = group["cases"][0]["d"]
    target = predicted[name]["targets"][group["arch"]]
    return f"{name} on {group['arch']}", [
        reading
        for reading, d in target["readings"].items()
        if all(
            int(words.get(f"{vgpr}:{lane}", "0"), 16) == int(word, 16)
            for vgpr, register in enumerate(d)
            for lane, word in enumerate(register)
        )
    ]


def files() -> Iterator[tuple[str, str]]:
    """Return name and text of every file that this program writes."""
    yield "predictions.json", json.dumps(predictions(), separators=(",", ":")) + "\n"
    for probe in PROBES:
        yield f"{probe.name}.hip", program(probe)


def main(arguments: list[str]) -> None:
    """Write the files, or name the readings of outputs."""
    if not arguments:
        for name, text in files():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return
    predicted = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))
    for path in arguments:
        output = json.loads(Path(path).read_text(encoding="utf-8"))
        where, found = readings_of(output, predicted)
        print(f"{where}: {', '.join(found) or 'none of the readings'}")


if __name__ == "__main__":
    main(sys.argv[1:])
