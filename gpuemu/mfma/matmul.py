"""Whole matrix products, as a kernel of matrix instructions computes them: the door.

A kernel keeps one accumulator for every output and issues one instruction after the other along k.
Which instruction shape it takes matters only through the arithmetic model, the links along k, and
where the last instruction is padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dispatch, formats
from ..backends import arrays
from ..errors import BadShape, BadType, BadValue
from . import execute
from .instructions import F8F6F4, Instruction
from .matmul_compute import Product, compare, compute, too_large
from .matmul_device import Chain
from .matmul_epilogue import OUTPUTS, Epilogue
from .operands import common_lead


def matmul(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    instruction: Instruction,
    backend: str = "auto",
    split_k: int = 1,
    alpha: float = 1.0,
    beta: float = 1.0,
    output: str | None = None,
    model: Any = None,
    bits: bool = False,
    cbsz: int | None = None,
    blgp: int | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    devices: Sequence[int] | None = None,
) -> Any:
    """Return A @ B + C as a chain of one matrix instruction along k computes it, bit for bit.

    Parameters
    ----------
    A : array (..., M, K)
        Of the instruction's dtype. A sparse instruction takes a dense A of 2:4 structure.
    B : array (..., K, N)
        Leading dimensions of A, B and C broadcast. Any strides; M and N need not fit the
        instruction. Where K is no multiple of its K, zeros fill the last instruction.
    C : array (..., M, N), optional
        The accumulator that comes in; zeros where left out.
    instruction : Instruction
        From `gpuemu.instruction`.
    backend : "auto", "cuda", "host", "numpy" or "check"
    split_k : int
        Parts of K of equal length, whole instructions each, with an accumulator each; C joins the
        first. The partial sums are added in ascending order in the accumulator's format.
    alpha, beta : float
        Where one of them is not 1, accumulators start from zero and the result is alpha sum + beta
        C, each of the three operations rounded to binary32. Only with an f32 accumulator.
    output : "f16" or "bf16", optional
        Round the binary32 result once more, to nearest even.
    model : Model or str, optional
        An arithmetic model in place of the instruction's own.
    bits : bool
        Whether unsigned integers are taken as bits.
    cbsz, blgp : int, optional
        The formats of A and B of an f8f6f4 instruction; found by dtype where left out.
    scale_a, scale_b : uint8 arrays (..., M, K/32) and (..., K/32, N)
        E8M0 scales of an mfma_scale instruction; K must be a multiple of 32.
    devices : sequence of int, optional
        CUDA devices that share the rows of the result.

    Returns
    -------
    array (..., M, N)
        Of D's dtype or the output format's, of A's kind of array.

    Raises
    ------
    gpuemu.errors.GpuemuError
        Before anything runs; `Mismatch` from backend "check".

    >>> import numpy as np, gpuemu
    >>> from gpuemu.mfma.matmul import matmul
    >>> i = gpuemu.instruction("v_mfma_f32_32x32x8_f16", arch="gfx942")
    >>> a = np.array([[-(2.0**13), -0.5, -0.25, -0.125]], np.float16)
    >>> b = np.array([[2.0**10], [1], [1], [1]], np.float16)
    >>> d = matmul(a, b, np.array([[2.0**23]], np.float32), instruction=i, backend="numpy")
    >>> hex(d.view(np.uint32)[0, 0])
    '0xbf000000'

    Source: the instruction set guides' chapters on matrix instructions; arithmetic as in
    `gpuemu.models`.
    """
    given = {"A": A, "B": B, "C": C, "scale_a": scale_a, "scale_b": scale_b}
    chosen = dispatch.resolve(backend, tuple(x for x in given.values() if x is not None))
    run_on = dispatch.checked_backend() if chosen == "check" else chosen
    chain = _chain(instruction, model, A, B, cbsz, blgp)
    epilogue = _epilogue(chain, alpha, beta, output)
    if C is None and beta not in (0, 1):
        raise BadValue(f"beta={beta!r} without C; legal: beta=1 or 0, or C")
    _check_split(split_k)
    if devices is not None:  # which share host arrays, of whichever device they come from
        given = {n: None if x is None else arrays.to_numpy(x, n) for n, x in given.items()}
    operands = _operands(chain, given, bits)
    lead = _check_shapes(chain, operands)
    product = Product(chain, epilogue, split_k, lead)
    if devices is not None or (run_on == "cuda" and too_large(product, operands)):
        from . import panels

        return arrays.like(panels.run(product, operands, chosen, devices), A)
    result = compute(product, operands, run_on)
    if chosen == "check":
        compare(product, result, compute(product, operands, "numpy"), run_on)
    return arrays.like(result, A)


def _chain(
    instruction: Instruction, model: Any, A: Any, B: Any, cbsz: int | None, blgp: int | None
) -> Chain:
    if not isinstance(instruction, Instruction):
        raise BadType(
            f"instruction={instruction!r} is a {type(instruction).__name__}; legal: what "
            "gpuemu.instruction(name, arch) returns"
        )
    if instruction.modifiers.cbsz != "format":
        if cbsz is not None or blgp is not None:
            raise BadValue(
                f"cbsz={cbsz}, blgp={blgp}; on a whole product they name the formats of an f8f6f4 "
                f"instruction, "
                f"{instruction.mnemonic} has fixed ones"
            )
        return _made(instruction, model, 0, 0)
    a = _format_code("cbsz", cbsz, A, "A")
    b = _format_code("blgp", blgp, B, "B")
    return _made(instruction, model, a, b)


def _made(instruction: Instruction, model: Any, cbsz: int, blgp: int) -> Chain:
    made = execute.call(instruction, model, cbsz=cbsz, blgp=blgp)
    return Chain(made.instruction, made.model, made.modifiers)


def _format_code(field: str, code: int | None, x: Any, matrix: str) -> int:
    if code is not None:
        return code
    name = str(getattr(x, "dtype", type(x).__name__)).removeprefix("torch.")
    for number, fmt in enumerate(F8F6F4):
        if name == formats.get(fmt).dtype_name:
            return number
    raise BadType(
        f"{matrix} has dtype {name}, which names no f8f6f4 format; legal: "
        f"{', '.join(formats.get(f).dtype_name for f in F8F6F4)}, or bits with {field}=0..4"
    )


def _epilogue(chain: Chain, alpha: float, beta: float, output: str | None) -> Epilogue:
    accumulator = chain.instruction.formats["D"]
    factors = _binary32("alpha", alpha), _binary32("beta", beta)
    if output is not None and not (isinstance(output, str) and output in OUTPUTS):
        raise BadValue(
            f"output={output!r}; legal: {', '.join(OUTPUTS)}, or None for the accumulator's format"
        )
    made = Epilogue(accumulator, *factors, output)
    if accumulator != "f32" and (made.scales or output):
        raise BadValue(
            f"alpha={alpha}, beta={beta}, output={output!r} want an f32 accumulator; "
            f"{chain.instruction.mnemonic} has {accumulator}"
        )
    return made


def _binary32(name: str, value: Any) -> float:
    """Return a factor; raise where binary32 does not hold it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise BadType(
            f"{name}={value!r} is a {type(value).__name__}; legal: a number that binary32 holds"
        )
    largest = float(np.finfo(np.float32).max)
    legal = f"legal: a magnitude of at most {largest!r}, or an infinity"
    exact = int(value) if isinstance(value, np.integer) else value
    try:
        with np.errstate(over="ignore"):
            nearest = float(np.float32(value))
    except OverflowError:
        raise BadValue(f"{name} is an int of {int(value).bit_length()} bits; {legal}") from None
    if exact == nearest or np.isnan(nearest):
        return nearest
    if np.isinf(nearest):
        raise BadValue(f"{name}={value!r} is no binary32 number; {legal}")
    raise BadValue(f"{name}={value!r} is no binary32 number; nearest: {nearest!r}")


def _check_split(split_k: int) -> None:
    if isinstance(split_k, bool) or not isinstance(split_k, (int, np.integer)):
        raise BadType(
            f"split_k={split_k!r} is a {type(split_k).__name__}; legal: an int of at least 1"
        )
    if split_k < 1:
        raise BadValue(f"split_k={split_k}; legal: at least 1")


def _operands(chain: Chain, given: dict[str, Any], bits: bool) -> dict[str, Any]:
    """Return the bits of every operand, where it lies; dtypes checked."""
    i, m = chain.instruction, chain.modifiers
    scaled = i.kind == "mfma_scale"
    found: dict[str, Any] = {}
    for name, x in given.items():
        if name.startswith("scale"):
            if (x is None) == scaled:
                what = "is missing" if x is None else "is given"
                raise BadType(
                    f"{name} {what}; {i.mnemonic} ({i.arch}) takes "
                    f"{'scales' if scaled else 'no scales'}"
                )
            found[name] = None if x is None else _bits(x, formats.get("f8e8m0fnu"), name, True)
        elif x is None:
            if name != "C":
                raise BadType(f"{name} is missing; {i.mnemonic} ({i.arch}) needs A and B")
            found[name] = None
        else:
            found[name] = _bits(
                x, i.operand_format(name, m.cbsz, m.blgp), f"matrix {name} of {i.mnemonic}", bits
            )
    return found


def _bits(x: Any, fmt: formats.Format, name: str, bits: bool) -> Any:
    """Return an array's items as unsigned bits, on the host or the device where they are."""
    if not arrays.on_cuda(x):
        found = formats.bits_of(arrays.to_numpy(x, name), fmt, name, bits=bits)
        if fmt.bits < 8 and found.size and int(found.max()) >> fmt.bits:
            raise BadValue(
                f"{name} holds the code {int(found.max()):#x}; {fmt.name} has {fmt.bits} bits"
            )
        return found
    dtype = None
    if arrays.kind(x) == "torch":
        x, dtype = arrays._torch_bits(x)
    array = arrays.to_cupy(x, name)
    if dtype is not None:
        if dtype != fmt.dtype:
            raise BadType(f"{name} has dtype {dtype}; {fmt.name} wants {fmt.dtype}")
        return array.view(fmt.storage)
    return formats.bits_of(array, fmt, name, bits=bits)


def _check_shapes(chain: Chain, operands: dict[str, Any]) -> tuple[int, ...]:
    """Check that the shapes fit; return the common leading shape."""
    i = chain.instruction
    for name, x in operands.items():
        if x is not None and x.ndim < 2:
            raise BadShape(
                f"{name} has shape {tuple(x.shape)}; a matrix has two dimensions or more"
            )
    (m, k), (k_of_b, n) = operands["A"].shape[-2:], operands["B"].shape[-2:]
    if k != k_of_b:
        raise BadShape(
            f"A is (..., {m}, {k}) and B (..., {k_of_b}, {n}); A's columns must be B's rows"
        )
    if i.sparse and k % 4:
        raise BadShape(
            f"K={k}; {i.mnemonic} ({i.arch}) stores two of every four columns: "
            "K must be a multiple of 4"
        )
    if operands["scale_a"] is not None and k % 32:
        raise BadShape(
            f"K={k}; scales hold for 32 k each: K must be a multiple of 32 ({i.mnemonic}, {i.arch})"
        )
    wanted = {"C": (m, n), "scale_a": (m, k // 32), "scale_b": (k // 32, n)}
    for name, shape in wanted.items():
        x = operands[name]
        if x is not None and tuple(x.shape[-2:]) != shape:
            raise BadShape(
                f"{name} has shape {tuple(x.shape)}; A (..., {m}, {k}) and B (..., {k}, {n}) "
                f"want (..., {shape[0]}, {shape[1]})"
            )
    return common_lead({n: tuple(x.shape[:-2]) for n, x in operands.items() if x is not None})
