"""Vector files: what is written is read back; what is damaged or foreign is refused with its
place.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.difftest import vectors
from gpuemu.difftest.generators import CLASSES
from gpuemu.difftest.images import images
from gpuemu.errors import BadFile
from gpuemu.mfma import modifiers


def group(name: str, arch: str, **options: Any) -> vectors.Group:
    i = gpuemu.instruction(name, arch)
    m = modifiers.check(i, **options)
    operands = images(i, m, CLASSES["raw"], 0, np.arange(3))
    d = gpuemu.execute(i, **operands, **m.non_default(), backend="numpy")
    return vectors.Group(i, m, operands, d)


GROUPS = [
    ("v_mfma_f32_4x4x4_16b_f16", "gfx942", {"cbsz": 2, "abid": 1, "blgp": 3}),
    ("v_mfma_f64_16x16x4_f64", "gfx942", {"neg": (1, 0, 1)}),
    ("v_smfmac_f32_16x16x32_f16", "gfx942", {"abid": 2}),
    ("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", {"cbsz": 2, "blgp": 4, "op_sel": (1, 3)}),
]
ORIGIN = vectors.Provenance("silicon", "MI300X", "2026-11-30", "gpuemu 0.1.0")


def same(one: vectors.Group, other: vectors.Group) -> bool:
    left, right = ({**g.operands, "d": g.d}.values() for g in (one, other))
    pairs = zip(left, right, strict=True)
    return (
        one.instruction is other.instruction
        and one.modifiers == other.modifiers
        and one.operands.keys() == other.operands.keys()
        and all(np.array_equal(x, y) for x, y in pairs)
    )


def test_json_keeps_many_groups(tmp_path: Path) -> None:
    groups = [group(name, arch, **options) for name, arch, options in GROUPS]
    groups = [
        vectors.Group(g.instruction, g.modifiers, dict(sorted(g.operands.items())), g.d)
        for g in groups
    ]
    vectors.save(tmp_path / "v.json", ORIGIN, groups)
    origin, found = vectors.load(tmp_path / "v.json")
    assert origin == ORIGIN and len(found) == 4
    for one, other in zip(groups, found, strict=True):
        sorted_other = vectors.Group(
            other.instruction, other.modifiers, dict(sorted(other.operands.items())), other.d
        )
        assert same(one, sorted_other)


@pytest.mark.parametrize(("name", "arch", "options"), GROUPS)
def test_npz_keeps_one_group(tmp_path: Path, name: str, arch: str, options: dict[str, Any]) -> None:
    one = group(name, arch, **options)
    vectors.save(tmp_path / "v.npz", ORIGIN, [one])
    origin, (other,) = vectors.load(tmp_path / "v.npz")
    assert origin == ORIGIN
    assert same(
        one,
        vectors.Group(
            other.instruction,
            other.modifiers,
            {k: other.operands[k] for k in one.operands},
            other.d,
        ),
    )


def facts() -> dict[str, Any]:
    case = {"a": {"0:0": "3C00"}, "b": {"0:0": "3C00"}, "c": {}, "d": {"0:0": "3F800000"}}
    call = {"instruction": "v_mfma_f32_16x16x16_f16", "arch": "gfx942", "cases": [case]}
    return {"format": "gpuemu-vectors", "version": 1, "origin": "user", "groups": [call]}


DAMAGE = [
    (lambda f: f.update(format="other"), "format: 'other'"),
    (lambda f: f.update(version=2), "version: 2; legal: 1"),
    (lambda f: f.update(version=True), "version: True"),
    (lambda f: f.update(origin="rumour"), "legal: silicon, model, user"),
    (lambda f: f.pop("groups"), "groups: None"),
    (lambda f: f.update(groups=[]), "groups is empty; legal: at least one"),
    (lambda f: f.update(extra=1), "the file: field 'extra'; legal: format, version"),
    (lambda f: f["groups"].append(3), "groups[1] is a int"),
    (lambda f: f["groups"][0].update(cases=[]), "groups[0].cases is empty; legal: at least one"),
    (lambda f: f["groups"][0].update(foo=2), "groups[0]: field 'foo'; legal: instruction, arch"),
    (lambda f: f["groups"][0].update(arch="gfx1"), "arch='gfx1'"),
    (lambda f: f["groups"][0].update(instruction="v_nope"), "v_nope"),
    (lambda f: f["groups"][0].update(modifiers={"cbsz": 9}), "cbsz=9"),
    (lambda f: f["groups"][0].update(modifiers={"x": 9}), "groups[0].modifiers: 'x'"),
    (lambda f: f["groups"][0]["cases"][0].pop("d"), "groups[0].cases[0].d: None"),
    (lambda f: f["groups"][0]["cases"][0].update(e={}), "field 'e'"),
    (lambda f: f["groups"][0]["cases"][0]["a"].update({"2:0": "1"}), "2:0 = 1 lies outside"),
    (lambda f: f["groups"][0]["cases"][0]["a"].update({"0:0": 5}), "HEX"),
    (lambda f: f["groups"][0]["cases"][0]["a"].update({"x": "5"}), "VGPR:LANE"),
    (lambda f: f["groups"][0]["cases"][0]["a"].update({"0:0": "123456789"}), "outside"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[m for _, m in DAMAGE])
def test_damaged_json(tmp_path: Path, damage: Any, message: str) -> None:
    wrong = facts()
    damage(wrong)
    path = tmp_path / "v.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(BadFile) as raised:
        vectors.load(path)
    assert message in str(raised.value) and str(raised.value).startswith(f"{path}: ")


def test_sound_json_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps(facts()))
    _, (found,) = vectors.load(tmp_path / "v.json")
    assert np.array_equal(
        gpuemu.execute(found.instruction, **found.operands, backend="numpy"), found.d
    )


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    one = group(*GROUPS[0][:2])
    right = facts() | facts()["groups"][0]
    del right["groups"], right["cases"]
    header = np.array(json.dumps(right))
    more = np.array(json.dumps(right | {"foo": 2}))
    arrays = {**one.operands, "d": one.d}
    for wrong, message in (
        (arrays, "'header' is missing"),
        ({**arrays, "header": np.array(3)}, "no text"),
        ({**arrays, "header": np.array("{")}, "header: no JSON"),
        ({**one.operands, "header": header}, "legal: a, b, c, d"),
        ({**arrays, "a": one.operands["a"].astype(np.int64), "header": header}, "a: int64"),
        ({**arrays, "a": one.operands["a"][:2], "header": header}, "a has 2 cases, d has 3"),
        ({**{name: x[:0] for name, x in arrays.items()}, "header": header}, "d has 0 cases"),
        ({**arrays, "header": more}, "header: field 'foo'; legal: format"),
        ({**arrays, "a": np.array([{}], object), "header": header}, "holds Python objects"),
    ):
        np.savez(path, **wrong)
        with pytest.raises(BadFile, match=message):
            vectors.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", "nonsense")
    with pytest.raises(BadFile, match="no readable"):
        vectors.load(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(BadFile, match="no readable"):
        vectors.load(path)


def test_npz_holds_one_group(tmp_path: Path) -> None:
    one = group(*GROUPS[0][:2])
    with pytest.raises(BadFile, match="2 groups"):
        vectors.save(tmp_path / "v.npz", ORIGIN, [one, one])
