"""Random assembly lines: mostly legal ones, and mutations of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import gpuemu
from gpuemu.mfma.assembly.slots import MODIFIERS, format_registers

_FOLDER = Path(__file__).parent
CONSTANTS = (_FOLDER / "constants.txt").read_text(encoding="utf-8").splitlines()
PIECES = [*(_FOLDER / "pieces.txt").read_text(encoding="utf-8").splitlines(), " ", "  "]
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class Lines:
    """A stream of random lines.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows = {
            arch: gpuemu.instructions(arch) for arch in ("gfx908", "gfx90a", "gfx942", "gfx950")
        }

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def registers(self, bank: str, count: int, odd: float) -> str:
        r = self.random
        if self.chance(0.03):
            count = r.choice([1, 2, 3, 4, 5, 6, 8, 12, 16, 32])
        first = r.randrange(0, 257 - count) if self.chance(0.97) else r.randrange(0, 260)
        if not self.chance(odd):
            first &= ~1
        if self.chance(0.1):
            first = 256 - count
        if count == 1:
            return r.choice(
                [f"{bank}{first}"] * 6 + [f"{bank}[{first}]", f"{bank}[{first}:{first}]"]
            )
        if self.chance(0.03):
            return "[" + ",".join(f"{bank}{first + n}" for n in range(count)) + "]"
        return f"{bank}[{first}:{first + count - 1}]"

    def bank(self) -> str:
        return "acc" if self.chance(0.03) else self.random.choice("va")

    def accumulator(self, row: gpuemu.Instruction, d: str, bank: str, odd: float) -> str:
        r, x, count = self.random, self.random.random(), row.vgprs["D"]
        if row.kind == "smfmac":
            return self.registers("v" if self.chance(0.95) else "a", 1, 0.5)
        if x < 0.3:
            return d
        if x < 0.5:
            return r.choice(CONSTANTS)
        match = re.search(r"\[(\d+):", d)
        if x < 0.6 and match:
            first = max(int(match[1]) + r.choice([-4, -2, -1, 1, 2, 3, 4, 8, 16]), 0)
            return f"{bank}[{first}:{first + count - 1}]"
        return self.registers(bank if self.chance(0.95) else self.bank(), count, odd)

    def bits(self) -> str:
        count = self.random.choice([3, 3, 3, 3, 2, 1, 4])
        return "[" + ",".join(str(self.random.randrange(2)) for _ in range(count)) + "]"

    def modifiers(self, row: gpuemu.Instruction, cbsz: int, blgp: int) -> list[str]:
        r, texts = self.random, []
        for name in MODIFIERS[row.kind]:
            if name.startswith("op_sel"):
                texts += [f"{name}:{self.bits()}"] if self.chance(0.6) else []
            elif row.formats["A"] == "f8f6f4":
                value = cbsz if name == "cbsz" else blgp
                texts += [f"{name}:{value}"] if value or self.chance(0.2) else []
            elif self.chance(0.5):
                negates = (row.modifiers.blgp == "neg") != self.chance(0.05)
                top = {"cbsz": 8, "abid": 16, "blgp": 8}[name] + self.chance(0.05)
                neg = name == "blgp" and negates
                texts.append(f"neg:{self.bits()}" if neg else f"{name}:{r.randrange(top)}")
        if self.chance(0.02):
            r.shuffle(texts)
        if self.chance(0.01):
            texts.append(
                r.choice(
                    ["clamp", "neg_lo:[0,0,0]", "cbsz:0", "abid:0", "blgp:0", "op_sel:[0,0,0]"]
                )
            )
        return texts

    def name(self, row: gpuemu.Instruction) -> str:
        name = self.random.choice([row.mnemonic] * 6 + list(row.aliases))
        name += "_e64" if self.chance(0.02) else ""
        return name.upper() if self.chance(0.02) else name

    def line(self, arch: str) -> str:
        """Return a line of an architecture; about nine in ten are legal."""
        r = self.random
        row = r.choice(self.rows[arch])
        cbsz, blgp = (r.randrange(8) if self.chance(0.6) else 0 for _ in range(2))
        counts = [row.vgprs["A"], row.vgprs["B"]]
        if row.formats["A"] == "f8f6f4":
            counts = [format_registers(cbsz), format_registers(blgp)]
            counts = [r.choice([4, 6, 8]) if self.chance(0.05) else count for count in counts]
        old = row.registers == "accumulation"
        odd, bank = (0.5, "a") if old and self.chance(0.95) else (0.03, self.bank())
        d = self.registers(bank, row.vgprs["D"], odd)
        operands = [d, *(self.registers(self.bank(), count, odd) for count in counts)]
        operands.append(self.accumulator(row, d, bank, odd))
        if row.kind == "mfma_scale":
            operands += [
                self.registers("v" if self.chance(0.97) else "a", 1, 0.5) for _ in range(2)
            ]
        for n in (1, 2):
            operands[n] = r.choice(CONSTANTS) if self.chance(0.02) else operands[n]
        if self.chance(0.02):
            operands = operands[:-1] if self.chance(0.5) else [*operands, "v1"]
        comma, space = r.choice([", "] * 5 + [",", " , "]), r.choice([" "] * 5 + [", ", "  "])
        texts = self.modifiers(row, cbsz, blgp)
        return " ".join(
            [self.name(row), comma.join(operands), *([space.join(texts)] if texts else [])]
        )

    def mutation(self, arch: str) -> str:
        """Return a line with one to three words replaced, removed, doubled, added or swapped."""
        r, words = self.random, _WORDS.findall(self.line(arch))
        for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
            place, kind = r.randrange(1, len(words)), r.random()
            if kind < 0.35:
                words.insert(place, r.choice(PIECES))
            elif kind < 0.6:
                words[place] = r.choice(PIECES)
            elif kind < 0.75 and len(words) > 2:
                del words[place]
            elif kind < 0.85:
                words.insert(place, r.choice(words))
            else:
                other = r.randrange(1, len(words))
                words[place], words[other] = words[other], words[place]
        return "".join(words)
