"""The door of the MFMA domain: validate, build the call, hand it to the dispatcher, return."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue, Mismatch
from . import device, models, oracle, registers
from . import modifiers as mods
from .instructions import Instruction

NO_NEG = (0, 0, 0)
NO_OP_SEL = (0, 0)


@dataclass(frozen=True)
class Call:
    """A validated call: instruction, modifiers, model."""

    instruction: Instruction
    modifiers: mods.Modifiers
    model: models.Model


def call(instruction: Instruction, model: Any = None, **modifiers: Any) -> Call:
    """Return a validated call of an instruction.

    Parameters
    ----------
    instruction : Instruction
    model : Model or str, optional
        An arithmetic model in place of the instruction's own.
    **modifiers
        See `modifiers.check`.
    """
    if not isinstance(instruction, Instruction):
        raise BadType(
            f"instruction={instruction!r} is a {type(instruction).__name__}; "
            "legal: what gpuemu.instruction(name, arch) returns"
        )
    checked = mods.check(instruction, **modifiers)
    if model is None:
        return Call(instruction, checked, models.get(instruction.model))
    chosen = models.get(model)
    _check_model(instruction, chosen, checked)
    return Call(instruction, checked, chosen)


@lru_cache(maxsize=4096, typed=True)
def _remembered_call(
    instruction: Instruction,
    model: Any,
    neg: tuple[Any, ...],
    neg_types: tuple[type, ...],
    op_sel: tuple[Any, ...],
    op_sel_types: tuple[type, ...],
    **modifiers: Any,
) -> Call:
    """Return `call`, remembered; the types keep True apart from 1 inside the tuples."""
    return call(instruction, model, neg=neg, op_sel=op_sel, **modifiers)


def _call(instruction: Instruction, model: Any, neg: Any, op_sel: Any, **modifiers: Any) -> Call:
    """Return `call`, remembered if its arguments are hashable, for a model named or built in."""
    if isinstance(model, str):
        model = models.get(model)  # a name may come to mean another model
    try:
        types = tuple(map(type, neg)), tuple(map(type, op_sel))
        return _remembered_call(instruction, model, neg, types[0], op_sel, types[1], **modifiers)
    except TypeError:
        return call(instruction, model, neg=neg, op_sel=op_sel, **modifiers)


def _check_model(instruction: Instruction, model: models.Model, m: mods.Modifiers) -> None:
    """Raise where a model cannot compute an instruction's formats."""
    if model.output != instruction.formats["D"]:
        raise BadValue(
            f"model {model.name} computes {model.output}; "
            f"{instruction.mnemonic} wants {instruction.formats['D']}"
        )
    if instruction.kind == "mfma_scale" and model.algorithm != "aligned":
        raise BadValue(
            f"model {model.name} is {model.algorithm!r}; "
            "scaled instructions want an 'aligned' model"
        )
    length = min(model.group, instruction.products)
    if length % model.interleave:
        raise BadValue(
            f"model {model.name}: {model.interleave} partial sums "
            f"do not share links of {length} products"
        )
    if instruction.kind == "mfma_scale" and model.group > 32:
        raise BadValue(
            f"model {model.name}: a link of {model.group} products spans several scales of 32"
        )


def execute(
    instruction: Instruction,
    a: Any,
    b: Any,
    c: Any,
    *,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    neg: tuple[int, int, int] = NO_NEG,
    idx: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    op_sel: tuple[int, int] = NO_OP_SEL,
    legality: str = "strict",
    broadcast: str = "grouped",
    output_layout: str = "calculator",
    model: Any = None,
    backend: str = "auto",
) -> Any:
    """Run one instruction on register images of any number of wavefronts.

    Parameters
    ----------
    instruction : Instruction
        From `gpuemu.instruction`.
    a, b, c : uint32 array (..., vgprs, 64)
        Register images; leading dimensions broadcast.
    cbsz, abid, blgp, neg, op_sel, legality, broadcast, output_layout
        See `gpuemu.mfma.modifiers.check`.
    idx : uint32 array (..., 1, 64)
        The sparsity index register of a sparse instruction: two bits for every stored item, in the
        index set that cbsz and abid choose. ROCm's parameter page says otherwise; see
        docs/sparse.md.
    scale_a, scale_b : uint32 array (..., 1, 64)
        The scale registers of an mfma_scale instruction.
    model : Model or str, optional
        An arithmetic model in place of the instruction's own.
    backend : "auto", "cuda", "host", "numpy" or "check"

    Returns
    -------
    uint32 array (..., vgprs, 64)
        D, of the caller's kind of array.

    Raises
    ------
    gpuemu.errors.GpuemuError
        Before anything runs; `Mismatch` from backend "check".

    >>> import numpy as np, gpuemu
    >>> i = gpuemu.instruction("v_mfma_f32_16x16x16_f16", arch="gfx942")
    >>> one = i.pack("A", np.ones((1, 16, 16), np.float16))
    >>> d = gpuemu.execute(i, one, one, np.zeros((4, 64), np.uint32), backend="numpy")
    >>> hex(d[0, 0])
    '0x41800000'

    Source: AMD CDNA1 to CDNA4 instruction set guides, chapter 7 (matrix instructions).
    """
    key = None
    if neg is NO_NEG and op_sel is NO_OP_SEL and idx is scale_a is scale_b is None:
        switches = (legality, broadcast, output_layout, backend)
        key = _repeat_key(instruction, (a, b, c), (cbsz, abid, blgp), switches, model)
        launch = _repeats.get(key)
        if launch is not None:
            return launch((a, b, c, None, None, None))
    made = _call(
        instruction,
        model,
        neg,
        op_sel,
        cbsz=cbsz,
        abid=abid,
        blgp=blgp,
        legality=legality,
        broadcast=broadcast,
        output_layout=output_layout,
    )
    given = {"a": a, "b": b, "c": c, "idx": idx, "scale_a": scale_a, "scale_b": scale_b}
    present = tuple(x for x in given.values() if x is not None)
    chosen = dispatch.resolve(backend, present)
    result = run(made, given, chosen, strict_index=legality == "strict")
    if key is not None and result.size:
        _remember(key, made, device.Operands(a, b, c), result.shape[:-2])
    return arrays.like(result, a)


# Launches of plain calls on CuPy arrays that were validated before: the same instruction,
# constants, shapes, strides and device. Repeated, they cost the host little more than the launch.
_repeats: dict[Any, device.Launch] = {}


def _repeat_key(
    instruction: Instruction,
    operands: tuple[Any, Any, Any],
    constants: tuple[Any, Any, Any],
    switches: tuple[Any, ...],
    model: Any,
) -> tuple[Any, ...] | None:
    """Return what a plain CUDA call has to share with an earlier one; None for other calls."""
    a, b, c = operands
    if not (arrays.kind(a) == "cupy" and type(a) is type(b) is type(c)):
        return None
    # True equals 1, a name may come to mean another model, and what is wrong is refused elsewhere.
    plain = (
        isinstance(instruction, Instruction)
        and all(type(value) is int for value in constants)
        and all(type(value) is str for value in switches)
        and (model is None or type(model) is models.Model)
    )
    if not plain or switches[-1] not in ("auto", "cuda"):
        return None
    places = tuple((x.dtype, x.shape, x.strides) for x in operands)
    return instruction, constants, switches, model, places, a.device.id, device.current()


def _remember(
    key: tuple[Any, ...], made: Call, operands: device.Operands, lead: tuple[int, ...]
) -> None:
    """Keep the launch of a call that ran, unless its operands had to be copied."""
    launch, found = device.prepare_cuda(
        made.instruction, made.model, made.modifiers, operands, lead
    )
    if found[0] is operands.a and found[1] is operands.b and found[2] is operands.c:
        if len(_repeats) >= device.LAUNCHES:
            _repeats.clear()
        _repeats[key] = launch


@lru_cache(maxsize=4096)
def _expected(i: Instruction, m: mods.Modifiers) -> dict[str, int]:
    """Return the operands of a call and their registers."""
    expected = {
        "a": i.operand_vgprs("A", m.cbsz, m.blgp),
        "b": i.operand_vgprs("B", m.cbsz, m.blgp),
        "c": i.vgprs["D"],
    }
    if i.sparse:
        expected["idx"] = 1
    if i.kind == "mfma_scale":
        expected |= {"scale_a": 1, "scale_b": 1}
    return expected


def check_operands(made: Call, given: dict[str, Any]) -> tuple[int, ...]:
    """Check dtype and shape of every operand; return the common leading shape."""
    i = made.instruction
    expected = _expected(i, made.modifiers)
    for name, x in given.items():
        if x is None and name in expected:
            raise BadType(f"{name} is missing; {i.mnemonic} ({i.arch}) needs {', '.join(expected)}")
        if x is not None and name not in expected:
            raise BadType(
                f"{name} is given; {i.mnemonic} ({i.arch}) takes only {', '.join(expected)}"
            )
    for name, vgprs in expected.items():
        registers.check_image(i, name, given[name], vgprs)
    leads = {name: given[name].shape[:-2] for name in expected}
    lead: tuple[int, ...] = leads["a"]
    if all(other == lead for other in leads.values()):
        return lead
    try:
        return np.broadcast_shapes(*leads.values())
    except ValueError:
        shapes = ", ".join(f"{name} {lead}" for name, lead in leads.items())
        raise BadShape(
            f"leading shapes do not broadcast: {shapes}; each dimension must be equal or 1"
        ) from None


def run(made: Call, given: dict[str, Any], backend: str, *, strict_index: bool = True) -> Any:
    """Run a validated call on a resolved backend; returns NumPy, or CuPy from "cuda"."""
    if backend == "check":
        return _run_checked(made, given, strict_index)
    convert = arrays.to_cupy if backend == "cuda" else arrays.to_numpy
    images = {
        name: None if x is None else _as_uint32(convert(x, f"registers of {name}"))
        for name, x in given.items()
    }
    lead = check_operands(made, images)
    if strict_index and images["idx"] is not None:
        from . import sparse

        sparse.check_index(made.instruction, images["idx"], made.modifiers)
    operands = device.Operands(**images)
    if backend == "cuda":
        return device.run_cuda(made.instruction, made.model, made.modifiers, operands, lead)
    if backend == "host":
        return device.run_host(made.instruction, made.model, made.modifiers, operands, lead)
    waves = int(np.prod(lead, dtype=np.int64))
    flat: list[Any] = [
        None
        if x is None
        else np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(waves, *x.shape[-2:])
        for x in images.values()
    ]
    d = oracle.execute(made.instruction, made.model, made.modifiers, *flat)
    return d.reshape(*lead, *d.shape[1:])


def _as_uint32(x: Any) -> Any:
    """Return int32 bits (what PyTorch has for uint32) as uint32, anything else unchanged."""
    return x.view(np.uint32) if x.dtype == np.int32 else x


def _run_checked(made: Call, given: dict[str, Any], strict_index: bool) -> Any:
    checked = dispatch.checked_backend()
    got = run(made, given, checked, strict_index=strict_index)
    want = run(made, given, "numpy", strict_index=strict_index)
    compare(made, arrays.to_numpy(got), want, checked)
    return got


def equal_bits(
    instruction: Instruction, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return where two D images agree, any NaN being equal to any other; bool (..., vgprs, 64)."""
    same: np.ndarray[Any, Any] = got == want
    fmt = instruction.formats["D"]
    if fmt == "i32":
        return same
    if fmt == "f32":
        same |= np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32))
        return same
    pairs = [_doubles(x) for x in (got, want)]
    equal = (pairs[0].view(np.uint64) == pairs[1].view(np.uint64)) | (
        np.isnan(pairs[0]) & np.isnan(pairs[1])
    )
    return np.repeat(equal, 2, axis=-2)


def _doubles(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    low, high = image[..., ::2, :].astype(np.uint64), image[..., 1::2, :].astype(np.uint64)
    return np.ascontiguousarray(low | high << np.uint64(32)).view(np.float64)


def compare(
    made: Call, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], backend: str
) -> None:
    """Raise `Mismatch` at the first register that differs, with its place and both bit patterns."""
    same = equal_bits(made.instruction, got, want)
    if same.all():
        return
    where = tuple(int(n) for n in np.argwhere(~same)[0])
    vgpr, lane = where[-2:]
    i, options = made.instruction, made.modifiers.non_default()
    text = "".join(f", {name}={value!r}" for name, value in options.items())
    names = ", ".join(n if len(n) == 1 else f"{n}={n}" for n in _expected(i, made.modifiers))
    raise Mismatch(
        f"{i.mnemonic} ({i.arch}): {backend} and the oracle differ in {int((~same).sum())} "
        f"of {same.size} registers; first: wavefront {where[:-2]}, VGPR {vgpr}, lane {lane}: "
        f"{backend} {int(got[where]):08X}, oracle {int(want[where]):08X}. Repeat with the same "
        f"registers: gpuemu.execute(gpuemu.instruction({i.mnemonic!r}, {i.arch!r}), "
        f"{names}{text}, backend='check')"
    )


def matrix_call(
    instruction: Instruction,
    A: Any,
    B: Any,
    C: Any = None,
    *,
    bits: bool = False,
    idx: Any = None,
    **options: Any,
) -> Any:
    """Run one instruction on matrices.

    Parameters
    ----------
    instruction : Instruction
    A : array (..., blocks, M, K)
        Of the format's dtype. A sparse instruction takes its K/2 stored columns with `idx`, or K
        dense columns of 2:4 structure without.
    B : array (..., blocks, K, N)
    C : array (..., blocks, M, N), optional
        Zeros where left out. The blocks dimension may be left out where there is one block.
    bits : bool
        Whether unsigned integers are taken as bits.
    idx : uint32 array (..., 1, 64), optional
    **options
        As for `execute`. scale_a (..., M, K/32) and scale_b (..., K/32, N) are E8M0 matrices, as
        `mx.quantize` makes them, or scale registers, uint32 (..., 1, 64).

    Returns
    -------
    array (..., blocks, M, N)
        Of D's dtype, of the caller's kind of array.
    """
    fields = ("cbsz", "abid", "blgp", "neg", "op_sel", "legality", "broadcast", "output_layout")
    m = mods.check(instruction, **{name: options[name] for name in fields if name in options})
    # Matrices are what lies in the registers before cbsz, abid and blgp move lanes.
    plain = mods.Modifiers(output_layout=m.output_layout)
    if instruction.modifiers.cbsz == "format":
        plain = mods.Modifiers(cbsz=m.cbsz, blgp=m.blgp)
    if instruction.sparse and idx is None:
        from . import sparse

        a, idx = sparse.compress(instruction, A, m, bits=bits)
    else:
        a = _packed(instruction, "A", A, plain, bits)
    b = _packed(instruction, "B", B, plain, bits)
    c = _zeros(instruction) if C is None else _packed(instruction, "C", C, plain, bits)
    for matrix, name in (("A", "scale_a"), ("B", "scale_b")):
        if options.get(name) is not None:
            options[name] = _scale_register(instruction, matrix, options[name], m, bits)
    d = execute(instruction, a, b, c, idx=idx, **options)
    D = registers.gather(instruction, "D", arrays.to_numpy(d), plain)
    values = D.view(instruction.operand_format("D").dtype)
    return arrays.like(values, A)


def _packed(
    instruction: Instruction, matrix: str, values: Any, m: mods.Modifiers, bits: bool
) -> np.ndarray[Any, Any]:
    items = registers.matrix_bits(instruction, matrix, values, m, bits=bits)
    return registers.scatter(instruction, matrix, items, m)


def _scale_register(
    instruction: Instruction, matrix: str, scales: Any, m: mods.Modifiers, bits: bool
) -> np.ndarray[Any, Any]:
    """Return a scale register, from a matrix of E8M0 scales or as it was given."""
    from . import mx

    array = arrays.to_numpy(scales, f"scales of {matrix}")
    if array.dtype == np.uint32:
        return array
    return mx.scale_image(
        instruction, matrix, mx.scale_codes(instruction, matrix, array, bits=bits), m
    )


def _zeros(instruction: Instruction) -> np.ndarray[Any, Any]:
    return np.zeros((instruction.vgprs["D"], registers.LANES), np.uint32)
