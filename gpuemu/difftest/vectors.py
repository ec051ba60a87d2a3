"""Vector files: inputs and expected outputs of one or more instructions, from a chip, a model or
a failure.

Two containers hold the same facts. A `.json` file is an object::

    {"format": "gpuemu-vectors", "version": 1,
     "origin": "silicon", "device": "MI300X", "date": "2026-11-30", "tool": "gpuemu 0.1.0",
     "groups": [{"instruction": "v_mfma_f32_16x16x16_f16", "arch": "gfx942", "modifiers": {},
                 "cases": [{"a": {"0:5": "00003C00"}, "b": {}, "c": {}, "d": {}}]}]}

where an operand names its words that are not zero by "VGPR:LANE". A `.npz` file holds one group:
the arrays `a`, `b`, `c`, `d`, and `idx`, `scale_a`, `scale_b` where the instruction reads them,
uint32 (cases, vgprs, 64), and `header`, the JSON text of everything else. Nothing is ever
unpickled or evaluated. `origin` is "silicon", "model" or "user".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, GpuemuError
from ..mfma.instructions import Instruction, instruction
from ..mfma.layouts import LANES
from ..mfma.modifiers import Modifiers, check
from .cases import empty_images
from .files import load_arrays
from .images import Images

Array = np.ndarray[Any, Any]

FORMAT, VERSION = "gpuemu-vectors", 1
ORIGINS = ("silicon", "model", "user")
_FACTS = ("format", "version", "origin", "device", "date", "tool")
_CALL = ("instruction", "arch", "modifiers")


@dataclass(frozen=True)
class Provenance:
    """Where vectors come from.

    Attributes
    ----------
    origin : "silicon", "model" or "user"
    device, date, tool : str
    """

    origin: str = "user"
    device: str = ""
    date: str = ""
    tool: str = ""


@dataclass(frozen=True)
class Group:
    """Cases of one instruction with one set of modifiers.

    Attributes
    ----------
    instruction : Instruction
    modifiers : Modifiers
    operands : dict of uint32 array (cases, vgprs, 64)
    d : uint32 array (cases, vgprs, 64)
    """

    instruction: Instruction
    modifiers: Modifiers
    operands: Images
    d: Array


def load(path: Path) -> tuple[Provenance, list[Group]]:
    """Return what a vector file holds.

    Raises
    ------
    BadFile
        Naming the file and the field that is missing, foreign or damaged.
    """
    try:
        if path.suffix == ".npz":
            return _load_npz(path)
        return _load_json(path)
    except BadFile as error:
        raise BadFile(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except GpuemuError as error:
        raise BadFile(f"{path}: {error}") from None


def _load_json(path: Path) -> tuple[Provenance, list[Group]]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadFile(f"no JSON: {error}") from None
    origin = _provenance(facts)
    _refuse_unknown(facts, (*_FACTS, "groups"))
    groups = _some(facts, "groups")
    return origin, [_json_group(group, f"groups[{n}]") for n, group in enumerate(groups)]


def _json_group(facts: Any, where: str) -> Group:
    i, m = _call(facts, where)
    _refuse_unknown(facts, (*_CALL, "cases"), where)
    cases = _some(facts, "cases", where)
    shapes = {**empty_images(i, m), "d": np.zeros((1, i.vgprs["D"], LANES), np.uint32)}
    arrays = {name: np.zeros((len(cases), *x.shape[1:]), np.uint32) for name, x in shapes.items()}
    for n, case in enumerate(cases):
        place = f"{where}.cases[{n}]"
        _refuse_unknown(case if isinstance(case, dict) else {}, tuple(arrays), place)
        for name, image in arrays.items():
            _fill(image[n], _get(case, name, dict, place), f"{place}.{name}")
    d = arrays.pop("d")
    return Group(i, m, arrays, d)


def _fill(image: Array, words: dict[str, Any], where: str) -> None:
    for place, text in words.items():
        try:
            vgpr, lane = (int(part) for part in place.split(":"))
            word = int(text, 16)
        except (ValueError, TypeError):
            raise BadFile(f'{where}: {place!r}: {text!r}; legal: "VGPR:LANE": "HEX"') from None
        if not (0 <= vgpr < image.shape[0] and 0 <= lane < LANES and 0 <= word < 1 << 32):
            raise BadFile(f"{where}: {place} = {text} lies outside {image.shape} words of 32 bits")
        image[vgpr, lane] = word


def _load_npz(path: Path) -> tuple[Provenance, list[Group]]:
    found = load_arrays(path)
    header = found.pop("header", None)
    if header is None or header.dtype.kind != "U" or header.ndim:
        raise BadFile("array 'header' is missing or no text; legal: the JSON text of the facts")
    try:
        facts = json.loads(str(header))
    except (ValueError, RecursionError) as error:
        raise BadFile(f"header: no JSON: {error}") from None
    origin = _provenance(facts)
    i, m = _call(facts, "header")
    _refuse_unknown(facts, (*_FACTS, *_CALL), "header")
    shapes = {name: x.shape[1:] for name, x in empty_images(i, m).items()}
    shapes["d"] = (i.vgprs["D"], LANES)
    if set(found) != set(shapes):
        raise BadFile(f"arrays {', '.join(sorted(found))}; legal: {', '.join(shapes)}")
    for name, image in found.items():
        if image.dtype != np.uint32 or image.shape[1:] != shapes[name]:
            raise BadFile(
                f"{name}: {image.dtype} {image.shape}; legal: uint32 (n, *{shapes[name]})"
            )
        if len(image) != len(found["d"]):
            raise BadFile(f"{name} has {len(image)} cases, d has {len(found['d'])}")
    d = found.pop("d")
    if not len(d):
        raise BadFile("d has 0 cases; legal: at least one")
    return origin, [Group(i, m, found, d)]


def _provenance(facts: Any) -> Provenance:
    if _get(facts, "format", str) != FORMAT:
        raise BadFile(f"format: {facts['format']!r}; legal: {FORMAT!r}")
    if _get(facts, "version", int) != VERSION:
        raise BadFile(f"version: {facts['version']}; legal: {VERSION}")
    origin = _get(facts, "origin", str)
    if origin not in ORIGINS:
        raise BadFile(f"origin: {origin!r}; legal: {', '.join(ORIGINS)}")
    return Provenance(
        origin, *(_get(facts, name, str, "", "") for name in ("device", "date", "tool"))
    )


def _call(facts: Any, where: str) -> tuple[Instruction, Modifiers]:
    i = instruction(_get(facts, "instruction", str, where), _get(facts, "arch", str, where))
    given = _get(facts, "modifiers", dict, where, {})
    legal = {*vars(Modifiers()), "legality"}
    unknown = sorted(set(given) - legal)
    if unknown:
        raise BadFile(f"{where}.modifiers: {unknown[0]!r}; legal: {', '.join(sorted(legal))}")
    return i, check(i, **given)


def _refuse_unknown(facts: dict[str, Any], legal: tuple[str, ...], where: str = "") -> None:
    for name in sorted(facts):
        if name not in legal:
            raise BadFile(f"{where or 'the file'}: field {name!r}; legal: {', '.join(legal)}")


def _some(facts: Any, name: str, where: str = "") -> list[Any]:
    """Return a list that is not empty."""
    found: list[Any] = _get(facts, name, list, where)
    if not found:
        raise BadFile(f"{where + '.' if where else ''}{name} is empty; legal: at least one")
    return found


def _get(facts: Any, name: str, kind: type, where: str = "", default: Any = None) -> Any:
    if not isinstance(facts, dict):
        raise BadFile(f"{where or 'the file'} is a {type(facts).__name__}; legal: an object")
    value = facts.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        at = f"{where}." if where else ""
        raise BadFile(f"{at}{name}: {value!r}; legal: a JSON {kind.__name__}")
    return value


def refuse_groups(path: Path, count: int) -> None:
    """Raise `BadFile` where a file of this name cannot hold so many groups."""
    if path.suffix == ".npz" and count != 1:
        raise BadFile(f"{path}: {count} groups; a .npz file holds one, a .json file many")


def save(path: Path, provenance: Provenance, groups: list[Group]) -> None:
    """Write a vector file, JSON or (one group, by its suffix) npz; `path` should be a temporary
    name.

    Raises
    ------
    BadFile
        For several groups in a .npz file.
    """
    facts: dict[str, Any] = {"format": FORMAT, "version": VERSION, **vars(provenance)}
    if path.suffix != ".npz":
        facts["groups"] = [_group_facts(group) | {"cases": _case_facts(group)} for group in groups]
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return
    refuse_groups(path, len(groups))
    header = json.dumps(facts | _group_facts(groups[0]))
    with path.open("wb") as file:
        np.savez_compressed(
            file, **_named(groups[0].operands, header=np.array(header), d=groups[0].d)
        )


def save_inputs(path: Path, i: Instruction, m: Modifiers, operands: Images) -> None:
    """Write a .npz file as `save` does, without the outputs: what a program under test is given."""
    facts: dict[str, Any] = {"format": FORMAT, "version": VERSION, **vars(Provenance())}
    facts |= {"instruction": i.mnemonic, "arch": i.arch, "modifiers": m.non_default()}
    with path.open("wb") as file:
        np.savez(file, **_named(operands, header=np.array(json.dumps(facts))))


def _named(operands: Images, **more: Array) -> dict[str, Any]:
    return {**operands, **more}


def _group_facts(group: Group) -> dict[str, Any]:
    i = group.instruction
    return {
        "instruction": i.mnemonic,
        "arch": i.arch,
        "modifiers": group.modifiers.non_default(),
    }


def _case_facts(group: Group) -> list[dict[str, dict[str, str]]]:
    def words(image: Array) -> dict[str, str]:
        return {f"{v}:{lane}": f"{int(image[v, lane]):08X}" for v, lane in np.argwhere(image)}

    images = {**group.operands, "d": group.d}
    return [{name: words(x[n]) for name, x in images.items()} for n in range(len(group.d))]
