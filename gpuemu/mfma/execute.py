"""The door of the MFMA domain: validate, build the call, hand it to the dispatcher, return."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dispatch
from ..backends import arrays
from . import device, operands, oracle, registers, repeats
from . import modifiers as mods
from .calls import Call, call, remembered_call
from .comparison import compare, equal_bits
from .instructions import Instruction
from .layouts import LANES

__all__ = ["Call", "call", "compare", "equal_bits", "execute", "matrix_call", "run"]

NO_NEG = (0, 0, 0)
NO_OP_SEL = (0, 0)


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
        key = repeats.key(instruction, (a, b, c), (cbsz, abid, blgp), switches, model)
        launch = repeats.LAUNCHES.get(key)
        if launch is not None:
            return launch((a, b, c, None, None, None))
    made = remembered_call(
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
        repeats.remember(key, made, operands.Operands(a, b, c), result.shape[:-2])
    return arrays.like(result, a)


def run(made: Call, given: dict[str, Any], backend: str, *, strict_index: bool = True) -> Any:
    """Run a validated call on a resolved backend; returns NumPy, or CuPy from "cuda"."""
    if backend == "check":
        return _run_checked(made, given, strict_index)
    convert = arrays.to_cupy if backend == "cuda" else arrays.to_numpy
    images = {
        name: None if x is None else operands.as_uint32(convert(x, f"registers of {name}"))
        for name, x in given.items()
    }
    lead = operands.check(made, images)
    if strict_index and images["idx"] is not None:
        from . import sparse

        sparse.check_index(made.instruction, images["idx"], made.modifiers)
    found = operands.Operands(**images)
    if backend == "cuda":
        return device.run_cuda(made.instruction, made.model, made.modifiers, found, lead)
    if backend == "host":
        return device.run_host(made.instruction, made.model, made.modifiers, found, lead)
    waves = int(np.prod(lead, dtype=np.int64))
    flat: list[Any] = [
        None
        if x is None
        else np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(waves, *x.shape[-2:])
        for x in images.values()
    ]
    d = oracle.execute(made.instruction, made.model, made.modifiers, *flat)
    return d.reshape(*lead, *d.shape[1:])


def _run_checked(made: Call, given: dict[str, Any], strict_index: bool) -> Any:
    checked = dispatch.checked_backend()
    got = run(made, given, checked, strict_index=strict_index)
    want = run(made, given, "numpy", strict_index=strict_index)
    compare(made, arrays.to_numpy(got), want, checked)
    return got


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
    return np.zeros((instruction.vgprs["D"], LANES), np.uint32)
