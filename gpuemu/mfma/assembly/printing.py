"""A call as text: the assembly line that LLVM prints, and the builtin call of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operands import Constant
from .slots import OPERANDS, by_opcode

if TYPE_CHECKING:
    from .call import AssemblyCall


def _modifiers(call: AssemblyCall) -> list[str]:
    texts = []
    if call.instruction.kind == "mfma_scale":
        low, high = ([byte >> bit & 1 for byte in call.op_sel] for bit in (0, 1))
        if any(low):
            texts.append(f"op_sel:[{low[0]},{low[1]},0]")
        texts.append(f"op_sel_hi:[{high[0]},{high[1]},0]")
    texts += [
        f"{name}:{value}" for name in ("cbsz", "abid", "blgp") if (value := getattr(call, name))
    ]
    if any(call.neg):
        texts.append(f"neg:[{','.join(map(str, call.neg))}]")
    return texts


def assembly(call: AssemblyCall) -> str:
    """Return the assembly line in LLVM's canonical form."""
    given = call.operands.given()
    operands = ", ".join(str(given[name]) for name in OPERANDS[call.instruction.kind])
    return " ".join([call.instruction.mnemonic, operands, *_modifiers(call)])


def builtin(call: AssemblyCall) -> str:
    """Return the builtin call; unscaled f8f6f4 is the scaled builtin with both scales 0."""
    row = call.instruction
    c = f"c /* {call.operands.C} */" if isinstance(call.operands.C, Constant) else "c"
    if row.kind == "smfmac":
        return f"{row.builtin}(a, b, c, idx, {call.cbsz}, {call.abid})"
    if row.formats["A"] != "f8f6f4":
        blgp = call.blgp or sum(bit << n for n, bit in enumerate(call.neg))
        return f"{row.builtin}(a, b, {c}, {call.cbsz}, {call.abid}, {blgp})"
    scaled = by_opcode(row.arch, row.opcode, scaled=True)
    assert scaled is not None, "every f8f6f4 opcode has a scaled form"
    scales = ("scale_a", "scale_b") if row.kind == "mfma_scale" else ("0", "0")
    chosen = [f"{byte}, {scale}" for byte, scale in zip(call.op_sel, scales, strict=True)]
    return f"{scaled.builtin}(a, b, {c}, {call.cbsz}, {call.blgp}, {', '.join(chosen)})"
