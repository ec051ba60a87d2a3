"""`gpuemu show`: every fact of one instruction, what its modifiers may be, and where sources
disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ._output import Arch, Json, console, print_json, table

if TYPE_CHECKING:
    from ..mfma.instructions import Instruction


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(show)


def show(
    name: str = typer.Argument(help="Mnemonic, alias or builtin name."),
    arch: str = Arch,
    json: bool = Json,
) -> None:
    """Show every fact of an instruction, its modifiers, and where sources disagree about it."""
    from ..mfma.instructions import instruction
    from ..mfma.models import models
    from .list_ import facts

    i = instruction(name, arch)
    model = models()[i.model]
    if json:
        print_json(
            facts(i)
            | {"model": model.parameters(), "modifier_rules": modifiers(i), "notes": notes(i)}
        )
        return
    out = console()
    out.print(f"{i.mnemonic} ({i.arch})", style="bold")
    made = table("", "")
    made.show_header = False
    for label, text in _rows(i):
        made.add_row(label, text)
    made.add_row("model", f"{model.name}: {_model_text(model.parameters())}")
    out.print(made)
    out.print("\nModifiers", style="bold")
    rules = table("", "")
    rules.show_header = False
    for label, text in modifiers(i).items():
        rules.add_row(label, text)
    out.print(rules)
    remarks = notes(i)
    if remarks:
        out.print("\nWhere sources disagree, or say nothing", style="bold")
        for remark in remarks:
            out.print(f"- {remark}")


def _rows(i: Instruction) -> list[tuple[str, str]]:
    blocks = f", {i.blocks} blocks" if i.blocks > 1 else ""
    cycles = f"{i.cycles} ({i.passes} passes)"
    if i.cycles_narrow:
        cycles = f"{i.cycles} with an 8-bit operand, else {i.cycles_narrow}"
    shown = {"accumulation": "AccVGPRs only", "either": "VGPRs or AccVGPRs"}
    return [
        ("also called", ", ".join([*i.aliases, *([i.builtin] if i.builtin else [])]) or "-"),
        ("kind, opcode", f"{i.kind}, {i.opcode} ({i.opcode:#x})"),
        (
            "shape",
            f"D[{i.M}x{i.N}] = C + A[{i.M}x{i.K}] B[{i.K}x{i.N}]{blocks}"
            + (", A 2:4 sparse" if i.sparse else ""),
        ),
        ("formats", ", ".join(f"{matrix} {name}" for matrix, name in i.formats.items())),
        (
            "VGPRs of a lane",
            ", ".join(f"{name} {count}" for name, count in i.vgprs.items() if count),
        ),
        (
            "C and D lie in",
            shown[i.registers] + ("; tuples start at even registers" if i.even_aligned else ""),
        ),
        ("cycles", f"{cycles}; source: {i.cycles_source}"),
        (
            "operations",
            f"{i.flops} a wavefront, {i.flops * 4 // i.cycles} a cycle of a compute unit",
        ),
        ("fidelity", f"{i.fidelity}: {i.fidelity_source}"),
    ]


def _model_text(parameters: dict[str, object]) -> str:
    """Return the parameters that the algorithm uses, in words."""
    algorithm = str(parameters["algorithm"])
    used = {
        "fma": (),
        "integer": (),
        "exact": ("group", "output_rounding"),
        "pairwise": ("group", "flush_inputs", "flush_outputs"),
    }.get(algorithm)
    if used is None:
        skipped = (
            "name",
            "algorithm",
            "output",
            "fidelity",
            "source",
            "flush_inputs",
            "flush_outputs",
            "dense_grouping",
        )
        used = tuple(name for name in parameters if name not in skipped)
    words = [
        f"{name.replace('_', ' ')} {parameters[name]}"
        for name in used
        if parameters[name] is not None
    ]
    return ", ".join([f"algorithm {algorithm}", *words, f"source: {parameters['source']}"])


def modifiers(i: Instruction) -> dict[str, str]:
    """Return what each modifier means on an instruction, and its legal values under `strict`."""
    from ..mfma.instructions import F8F6F4

    rules = i.modifiers
    formats = ", ".join(f"{n} {name}" for n, name in enumerate(F8F6F4))
    cbsz = {
        "broadcast": f"0..{rules.cbsz_max}: A of one block goes to every 2^cbsz blocks",
        "index-set": f"0..{rules.cbsz_max}: 0 lets abid choose the index set, else set 0 is "
        f"read; A is never broadcast",
        "format": f"format of A: {formats}",
        "none": "0"
        if rules.cbsz_max == 0
        else f"0..{rules.cbsz_max}, without effect (a single index set)",
    }
    abid = {
        "block": "0..2^cbsz - 1: which block of the group is broadcast",
        "index-set": f"0..{rules.abid_max}: which of {rules.index_sets} index sets of "
        f"{rules.index_bits} bits",
        "none": "0",
    }
    blgp = {
        "lanes": "0..7: B by lane l: 0 l, 1 l%32, 2 l%32+32, 3 (l+16)%64, 4..7 l%16 + 16 (blgp-4)",
        "neg": "0..7 as the builtin's argument: bits 0, 1, 2 negate A, B, C",
        "format": f"format of B: {formats}",
        "none": "0",
    }
    found = {"cbsz": cbsz[rules.cbsz], "abid": abid[rules.abid], "blgp": blgp[rules.blgp]}
    if rules.blgp == "neg":
        found["neg"] = "three bits, negate A, B, C: neg:[a,b,c] in assembly; the same field as blgp"
    if i.sparse:
        found["idx"] = (
            f"two bits a stored item, {rules.index_sets} set(s) of {rules.index_bits} bits in "
            f"one VGPR; fields of a group ascend"
        )
    if i.kind == "mfma_scale":
        found["op_sel"] = "0..3 each: the byte of the scale registers of A and B"
    found["other modes"] = (
        "legality='llvm' takes what the assembler encodes, 'truncate' keeps the field's bits"
    )
    return found


def notes(i: Instruction) -> list[str]:
    """Return where AMD's own texts disagree about an instruction, or are silent."""
    rules = i.modifiers
    found = []
    if rules.cbsz == "broadcast" and rules.cbsz_max > 1:
        found.append(
            f"cbsz 1..{rules.cbsz_max - 1}: the parameter page, the calculator and the guides' "
            f"field tables broadcast one "
            "block within each group of 2^cbsz (broadcast='grouped', the default); section "
            "7.1.5.1 of the CDNA3 guide and "
            "AMD's emulator take lane l % S + S abid with S = 64 >> cbsz "
            "(broadcast='lane_block'). They agree for cbsz 0 "
            f"and {rules.cbsz_max}."
        )
    if not rules.blgp_documented:
        if rules.blgp == "lanes":
            found.append(
                "blgp: AMD's calculator and documentation pages call it unsupported on this "
                "instruction; the assembler "
                "accepts it and the instruction set guide has no such exception. strict takes 0..7."
            )
        else:
            found.append(
                "blgp: the gfx90a assembler accepts it on f64; the calculator calls it illegal, "
                "the guide is silent."
            )
    if i.sparse:
        found.append(
            "cbsz and abid: ROCm's parameter page gives them the dense meaning; the guides and "
            "the calculator since 1.3.1 "
            "say that they only choose the index set, which is what is computed here."
        )
        found.append(
            "idx: ROCm's parameter page counts two bits a group of four; the guides, the "
            "compiler tests and the page on "
            "sparse intrinsics hold two bits a stored item, four a group."
        )
    if i.formats["D"] == "f64" and i.blocks > 1:
        found.append(
            "C and D layout: calculator, documentation and emulator put D[b,i,j] in lane 16i+4b+j "
            "(output_layout='calculator', the default); the guide's general formula gives "
            "4i+16b+j ('formula')."
        )
    if i.fidelity == "unverified":
        found.append(
            f"arithmetic: no public measurement ({i.fidelity_source}); replace the model when "
            f"you have one."
        )
    if i.formats["A"] == "xf32":
        found.append(
            "inputs: the CDNA3 guide says 'round' in one place and 'truncate' in another; the "
            "published model, checked on the chip, truncates."
        )
    return found
