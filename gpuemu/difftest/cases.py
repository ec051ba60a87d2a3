"""Cases: which modifiers, which input class, which number; and the JSON text that repeats one.

Case n of an instruction takes input class n modulo the number of classes. Its modifiers come from
the list of all legal ones, in an order that reaches every pair of class and modifiers before any
comes again; where modifiers move lanes, every other turn has the default ones.
"""

from __future__ import annotations

import difflib
import itertools
import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..errors import BadFile, BadValue, UnknownInstruction
from ..mfma import modifiers as mods
from ..mfma.instructions import ARCHITECTURES, Instruction, instruction, instructions
from ..mfma.modifiers import Modifiers
from ..mfma.registers import LANES
from .generators import CLASSES, InputClass, classes_for
from .images import Images, images

Array = np.ndarray[Any, Any]


def sweep(i: Instruction) -> tuple[Modifiers, ...]:
    """Return every set of modifiers that `strict` allows, the default first.

    >>> len(sweep(instruction("v_mfma_f32_4x4x1_16b_f32", "gfx942")))
    248
    """
    rules = i.modifiers
    if rules.cbsz == "broadcast":
        lanes = [(c, a) for c in range(rules.cbsz_max + 1) for a in range(1 << c)]
    elif rules.cbsz == "index-set":
        lanes = list(itertools.product(range(rules.cbsz_max + 1), range(rules.abid_max + 1)))
    else:
        lanes = [(c, 0) for c in range(rules.cbsz_max + 1)] if rules.cbsz == "format" else [(0, 0)]
    bytes_ = list(itertools.product(range(4), repeat=2)) if i.kind == "mfma_scale" else [(0, 0)]
    return tuple(
        mods.check(i, cbsz=cbsz, abid=abid, blgp=blgp, op_sel=op_sel)
        for op_sel, (cbsz, abid), blgp in itertools.product(
            bytes_, lanes, range(rules.blgp_max + 1)
        )
    )


@dataclass(frozen=True)
class Plan:
    """The cases of one instruction under one seed.

    Attributes
    ----------
    instruction : Instruction
    seed : int
    classes : tuple of InputClass
    modifiers : tuple of Modifiers
    """

    instruction: Instruction
    seed: int
    classes: tuple[InputClass, ...]
    modifiers: tuple[Modifiers, ...]

    def places(self, numbers: Array) -> tuple[Array, Array]:
        """Return the classes and the modifiers of cases, int64, as positions in their lists."""
        turn, cls = np.divmod(numbers.astype(np.int64), len(self.classes))
        step = round(len(self.modifiers) * 0.618)
        rules = self.instruction.modifiers
        if rules.blgp != "lanes" and rules.cbsz != "broadcast":
            return cls, (turn + cls * step) % len(self.modifiers)
        # Moved lanes break up what a class has put together: every other turn leaves them alone.
        return cls, np.where(turn % 2 == 0, 0, (turn // 2 + cls * step) % len(self.modifiers))

    def place(self, number: int) -> tuple[int, int]:
        """Return the class and the modifiers of a case, as positions in their lists."""
        cls, modifiers = self.places(np.array([number]))
        return int(cls[0]), int(modifiers[0])

    def case(self, number: int) -> Case:
        """Return one case."""
        cls, modifiers = self.place(number)
        return Case(
            self.instruction, self.modifiers[modifiers], self.classes[cls].name, self.seed, number
        )


def plan(
    i: Instruction, seed: int = 0, classes: tuple[str, ...] = (), *, only_default: bool = False
) -> Plan:
    """Return the plan of an instruction over the named classes (all that apply, where none is
    named).
    """
    unknown = [name for name in classes if name not in CLASSES]
    if unknown:
        raise BadValue(f"input class {unknown[0]!r}; legal: {', '.join(CLASSES)}")
    chosen = tuple(CLASSES[name] for name in classes) or classes_for(i)
    modifiers = sweep(i)
    return Plan(i, seed, chosen, modifiers[:1] if only_default else modifiers)


@dataclass(frozen=True)
class Case:
    """One case: an instruction, its modifiers, and either a place in the random inputs or the
    inputs themselves.

    Attributes
    ----------
    instruction : Instruction
    modifiers : Modifiers
    cls : str
        Input class; "" where `words` holds the inputs.
    seed, number : int
    words : tuple of (operand, VGPR, lane, word), optional
        The words that are not zero; those of operand "d" are the expected output.
    """

    instruction: Instruction
    modifiers: Modifiers
    cls: str = ""
    seed: int = 0
    number: int = 0
    words: tuple[tuple[str, int, int, int], ...] | None = None

    def images(self) -> Images:
        """Return the operands, uint32 arrays (1, vgprs, 64)."""
        if self.words is None:
            cls = CLASSES[self.cls]
            return images(self.instruction, self.modifiers, cls, self.seed, np.array([self.number]))
        found = empty_images(self.instruction, self.modifiers)
        for name, vgpr, lane, word in self.words:
            if name != "d":
                found[name][0, vgpr, lane] = word
        return found

    def expected(self) -> Array | None:
        """Return the expected D, uint32 (1, vgprs, 64), where the case has its own."""
        if self.words is None or all(name != "d" for name, _, _, _ in self.words):
            return None
        d = np.zeros((1, self.instruction.vgprs["D"], LANES), np.uint32)
        for name, vgpr, lane, word in self.words:
            if name == "d":
                d[0, vgpr, lane] = word
        return d

    def with_images(self, found: Images) -> Case:
        """Return the case with its inputs written out."""
        words = tuple(
            (name, int(vgpr), int(lane), int(image[0, vgpr, lane]))
            for name, image in sorted(found.items())
            for vgpr, lane in np.argwhere(image[0])
        )
        return Case(self.instruction, self.modifiers, words=words)

    def to_json(self, **more: object) -> str:
        """Return the case as one line of JSON; `more` adds fields, such as the subject."""
        facts: dict[str, Any] = {
            "instruction": self.instruction.mnemonic,
            "arch": self.instruction.arch,
        }
        if self.modifiers.non_default():
            facts["modifiers"] = self.modifiers.non_default()
        if self.words is None:
            facts |= {"class": self.cls, "seed": self.seed, "case": self.number}
        else:
            inputs: dict[str, dict[str, str]] = {}
            for name, vgpr, lane, word in self.words:
                inputs.setdefault(name, {})[f"{vgpr}:{lane}"] = f"{word:08X}"
            facts["inputs"] = inputs
        return json.dumps(facts | more, separators=(",", ":"))


def empty_images(i: Instruction, m: Modifiers) -> Images:
    """Return operands of zeros, uint32 arrays (1, vgprs, 64)."""
    vgprs = {
        "a": i.operand_vgprs("A", m.cbsz, m.blgp),
        "b": i.operand_vgprs("B", m.cbsz, m.blgp),
        "c": i.vgprs["D"],
    }
    if i.sparse:
        vgprs["idx"] = 1
    if i.kind == "mfma_scale":
        vgprs |= {"scale_a": 1, "scale_b": 1}
    return {name: np.zeros((1, count, LANES), np.uint32) for name, count in vgprs.items()}


_FIELDS = {
    "instruction",
    "arch",
    "modifiers",
    "class",
    "seed",
    "case",
    "inputs",
    "subject",
    "reference",
}


def from_json(text: str) -> tuple[Case, dict[str, str]]:
    """Return the case that a replay line describes, and its further fields (subject, reference).

    Raises
    ------
    BadFile
        Naming the field that is missing, unknown or wrong.
    """
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise BadFile(f"replay text is no JSON: {error}") from None
    if not isinstance(facts, dict):
        raise BadFile(f"replay text is a JSON {type(facts).__name__}; legal: an object")
    unknown = sorted(set(facts) - _FIELDS)
    if unknown:
        raise BadFile(f"replay field {unknown[0]!r}; legal: {', '.join(sorted(_FIELDS))}")
    i = instruction(_field(facts, "instruction", str), _field(facts, "arch", str))
    m = _modifiers(i, _field(facts, "modifiers", dict, {}))
    more = {name: _field(facts, name, str) for name in ("subject", "reference") if name in facts}
    if "inputs" in facts:
        return Case(i, m, words=_words(i, m, _field(facts, "inputs", dict))), more
    cls = _field(facts, "class", str)
    if cls not in CLASSES:
        raise BadFile(f"replay field 'class': {cls!r}; legal: {', '.join(CLASSES)}")
    number = _field(facts, "case", int)
    if number < 0:
        raise BadFile(f"replay field 'case': {number}; legal: 0 or more")
    return Case(i, m, cls, _field(facts, "seed", int), number), more


def _field(facts: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = facts.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadFile(f"replay field {name!r}: {value!r}; legal: a JSON {kind.__name__}")
    return value


def _modifiers(i: Instruction, given: dict[str, Any]) -> Modifiers:
    legal = set(vars(Modifiers())) | {"legality"}
    unknown = sorted(set(given) - legal)
    if unknown:
        raise BadFile(
            f"replay field 'modifiers': {unknown[0]!r}; legal: {', '.join(sorted(legal))}"
        )
    return mods.check(i, **given)


def _words(
    i: Instruction, m: Modifiers, given: dict[str, Any]
) -> tuple[tuple[str, int, int, int], ...]:
    shapes = {name: image.shape[1:] for name, image in empty_images(i, m).items()}
    shapes["d"] = (i.vgprs["D"], LANES)
    words = []
    for name, places in given.items():
        if name not in shapes or not isinstance(places, dict):
            raise BadFile(
                f"replay field 'inputs': {name!r}; legal: objects named {', '.join(shapes)}"
            )
        for place, text in places.items():
            try:
                vgpr, lane = (int(part) for part in place.split(":"))
                word = int(text, 16)
            except (ValueError, TypeError, AttributeError):
                raise BadFile(
                    f'replay inputs of {name}: {place!r}: {text!r}; legal: "VGPR:LANE": "HEX"'
                ) from None
            if not (0 <= vgpr < shapes[name][0] and 0 <= lane < LANES and 0 <= word < 1 << 32):
                raise BadFile(
                    f"replay inputs of {name}: {place} = {text} is outside {shapes[name]} words "
                    f"of 32 bits"
                )
            words.append((name, vgpr, lane, word))
    return tuple(words)


def select(pattern: str, arch: str, kinds: tuple[str, ...] = ()) -> tuple[Instruction, ...]:
    """Return the instructions whose mnemonic, alias or builtin name fits a shell pattern, of
    fitting architectures.

    Raises
    ------
    UnknownInstruction, BadValue
        Where none fits.
    """

    archs = [name for name in ARCHITECTURES if fnmatchcase(name, arch)]
    if not archs:
        raise BadValue(f"arch pattern {arch!r} fits none of {', '.join(ARCHITECTURES)}")
    rows = [row for row in instructions() if row.arch in archs and (not kinds or row.kind in kinds)]
    found = tuple(row for row in rows if any(fnmatchcase(name, pattern) for name in row.names))
    if found:
        return found
    known = sorted({row.mnemonic for row in rows})
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    hint = f"; near names: {', '.join(near)}" if near else "; `gpuemu list` shows all"
    raise UnknownInstruction(f"no instruction of {', '.join(archs)} fits {pattern!r}{hint}")


__all__ = ["Case", "Plan", "empty_images", "from_json", "plan", "select", "sweep"]
