"""The instruction table: one frozen row for every matrix instruction of every architecture.

The rows lie in `instructions.json`, one a line. Their facts come from AMD's instruction set guides,
its matrix instruction calculator 1.3.2, and the LLVM 22 assembler; `cycles_source` and
`fidelity_source` say which.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from ..errors import BadType, BadValue, UnknownInstruction
from ..formats import Format
from ..formats import get as get_format

if TYPE_CHECKING:
    import numpy as np

ARCHITECTURES = ("gfx908", "gfx90a", "gfx942", "gfx950")
KINDS = ("mfma", "smfmac", "mfma_f8f6f4", "mfma_scale")
MATRICES = ("A", "B", "C", "D")

# Where all names are, for who has none that is near.
ALL_NAMES = "gpuemu.instructions() or `gpuemu list` lists all"

# The formats that cbsz (of A) and blgp (of B) name on the f8f6f4 instructions.
F8F6F4 = ("f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")

Kind = Literal["mfma", "smfmac", "mfma_f8f6f4", "mfma_scale"]
Fidelity = Literal["silicon-vectors", "published-model", "documented", "unverified"]


@dataclass(frozen=True)
class ModifierRules:
    """What one instruction's modifier fields mean, and their largest values under `strict`.

    Attributes
    ----------
    cbsz : "broadcast", "index-set", "format" or "none"
    cbsz_max : int
    abid : "block" (up to 2**cbsz - 1), "index-set" or "none"
    abid_max : int
    blgp : "lanes", "neg", "format" or "none"
    blgp_max : int
    blgp_documented : bool
        False where AMD's calculator and documentation pages call blgp unsupported though the
        assembler and the instruction set guide accept it.
    index_bits, index_sets : int
        Width and number of the index sets of a sparse instruction; 0 elsewhere.
    """

    cbsz: Literal["broadcast", "index-set", "format", "none"]
    cbsz_max: int
    abid: Literal["block", "index-set", "none"]
    abid_max: int
    blgp: Literal["lanes", "neg", "format", "none"]
    blgp_max: int
    blgp_documented: bool
    index_bits: int = 0
    index_sets: int = 0


@dataclass(frozen=True, eq=False)
class Instruction:
    """One matrix instruction of one architecture; call it with matrices.

    Attributes
    ----------
    arch, mnemonic : str
    aliases : tuple of str
        Older mnemonics that the assembler accepts.
    builtin : str or None
        The compiler builtin.
    kind : "mfma", "smfmac", "mfma_f8f6f4" or "mfma_scale"
    opcode : int
        The 7-bit field of the VOP3P-MAI encoding.
    M, N, K, blocks : int
        D[b, i, j] = C[b, i, j] + sum over k of A[b, i, k] B[b, k, j].
    formats : mapping
        Matrix to format name; "f8f6f4" where cbsz (A) or blgp (B) chooses.
    vgprs : mapping
        Matrix (and "idx", "scale_a", "scale_b") to registers of a lane.
    cycles : int
        Of the matrix core; with 8-bit operands, on an f8f6f4 instruction.
    cycles_narrow : int or None
        Of an f8f6f4 instruction without 8-bit operands.
    registers : "accumulation" or "either"
        Which register file C and D may lie in.
    even_aligned : bool
        Whether register tuples start at even numbers.
    modifiers : ModifierRules
    model : str
        The arithmetic model's name; see `gpuemu.models()`.
    fidelity : str
        How sure the arithmetic is: "silicon-vectors", "published-model", "documented",
        "unverified".
    fidelity_source, cycles_source : str
    """

    arch: str
    mnemonic: str
    aliases: tuple[str, ...]
    builtin: str | None
    kind: Kind
    opcode: int
    M: int
    N: int
    K: int
    blocks: int
    formats: Mapping[str, str]
    vgprs: Mapping[str, int]
    cycles: int
    cycles_narrow: int | None
    registers: Literal["accumulation", "either"]
    even_aligned: bool
    cycles_source: str
    model: str
    fidelity: Fidelity
    fidelity_source: str
    modifiers: ModifierRules

    def __repr__(self) -> str:
        return f"<{self.mnemonic} ({self.arch})>"

    @property
    def passes(self) -> int:
        """Return the matrix core's passes, of four cycles each."""
        return self.cycles // 4

    @property
    def flops(self) -> int:
        """Return the operations (floating-point or integer), two for each dense multiply-add."""
        return 2 * self.M * self.N * self.K * self.blocks

    @property
    def sparse(self) -> bool:
        """Tell whether A stores two of every four columns."""
        return self.kind == "smfmac"

    @property
    def products(self) -> int:
        """Return the products of one output: K, or K/2 of a sparse instruction."""
        return self.K // 2 if self.sparse else self.K

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return every name that finds this row; mnemonic, aliases, builtin also without prefix."""
        full = (self.mnemonic, *self.aliases, *((self.builtin,) if self.builtin else ()))
        short = (name.removeprefix("v_").removeprefix("__builtin_amdgcn_") for name in full)
        return (*full, *short)

    def operand_format(self, matrix: str, cbsz: int = 0, blgp: int = 0) -> Format:
        """Return the number format of a matrix, which cbsz and blgp choose on f8f6f4."""
        name = self.formats[check_matrix(matrix)]
        if name != "f8f6f4":
            return get_format(name)
        code = cbsz if matrix == "A" else blgp
        if not 0 <= code < len(F8F6F4):
            field = "cbsz" if matrix == "A" else "blgp"
            raise BadValue(
                f"{field}={code} names no format; legal on {self.mnemonic}: "
                + ", ".join(f"{n} {name}" for n, name in enumerate(F8F6F4))
            )
        return get_format(F8F6F4[code])

    def operand_vgprs(self, matrix: str, cbsz: int = 0, blgp: int = 0) -> int:
        """Return the registers of a lane that a matrix takes, in the formats of cbsz and blgp."""
        if self.formats.get(matrix) == "f8f6f4":
            bits = self.operand_format(matrix, cbsz, blgp).bits
            return self.vgprs[matrix] * bits // 8
        return self.vgprs[matrix]

    def shape(self, matrix: str) -> tuple[int, int, int]:
        """Return (blocks, rows, columns) of a matrix; sparse A by its stored columns."""
        rows_columns = {"A": (self.M, self.products), "B": (self.K, self.N)}
        rows, columns = rows_columns.get(check_matrix(matrix), (self.M, self.N))
        return self.blocks, rows, columns

    def layout(self, matrix: str, **modifiers: Any) -> np.ndarray[Any, Any]:
        """Return where every element of a matrix lies in the registers; see `layouts.layout`."""
        from . import layouts

        return layouts.layout(self, matrix, **modifiers)

    def pack(self, matrix: str, values: Any, **modifiers: Any) -> Any:
        """Return the register image of a matrix; see `registers.pack`."""
        from . import registers

        return registers.pack(self, matrix, values, **modifiers)

    def unpack(self, matrix: str, image: Any, **modifiers: Any) -> Any:
        """Return the matrix that a register image holds; see `registers.unpack`."""
        from . import registers

        return registers.unpack(self, matrix, image, **modifiers)

    def pack_sparse(self, dense: Any, **modifiers: Any) -> tuple[Any, Any]:
        """Return the register images (values, idx) of a 2:4 sparse A; see `sparse.pack_sparse`."""
        from . import sparse

        return sparse.pack_sparse(self, dense, **modifiers)

    def unpack_sparse(self, values: Any, idx: Any, **modifiers: Any) -> Any:
        """Return the dense A of register images (values, idx); see `sparse.unpack_sparse`."""
        from . import sparse

        return sparse.unpack_sparse(self, values, idx, **modifiers)

    def __call__(self, A: Any, B: Any, C: Any = None, **options: Any) -> Any:
        """Run the instruction on matrices; see `execute.matrix_call`."""
        from . import execute

        return execute.matrix_call(self, A, B, C, **options)


def check_matrix(matrix: str) -> str:
    """Return a matrix name, or raise `BadValue` with the legal ones."""
    if matrix not in MATRICES:
        raise BadValue(f"matrix {matrix!r}; legal: A, B, C, D")
    return matrix


@cache
def _table() -> tuple[Instruction, ...]:
    text = resources.files(__package__).joinpath("instructions.json").read_text(encoding="utf-8")
    from . import silicon

    rows = []
    captures = dict(silicon.captures())
    for row in json.loads(text):
        if captures:
            key = (row["mnemonic"], row["arch"], silicon.model_digest(row["model"]))
            if key in captures:
                row |= {"fidelity": "silicon-vectors", "fidelity_source": captures[key]}
        row["aliases"] = tuple(row["aliases"])
        row["modifiers"] = ModifierRules(**row["modifiers"])
        rows.append(Instruction(**row))
    return tuple(rows)


@cache
def _index() -> dict[tuple[str, str], Instruction]:
    return {(name, row.arch): row for row in reversed(_table()) for name in row.names}


def check_arch(arch: str | None) -> str | None:
    """Return an architecture name, or raise `BadValue` with the legal ones."""
    if arch is not None and arch not in ARCHITECTURES:
        raise BadValue(f"arch={arch!r}; legal: {', '.join(ARCHITECTURES)}")
    return arch


def instructions(arch: str | None = None, kind: str | None = None) -> tuple[Instruction, ...]:
    """Return the rows of the table, of one architecture or kind where given.

    >>> len(instructions()), len(instructions("gfx942", "smfmac"))
    (161, 14)
    """
    check_arch(arch)
    if kind is not None and kind not in KINDS:
        raise BadValue(f"kind={kind!r}; legal: {', '.join(KINDS)}")
    return tuple(row for row in _table() if arch in (None, row.arch) and kind in (None, row.kind))


def instruction(name: str, arch: str | None = None) -> Instruction:
    """Return one instruction by mnemonic, alias or builtin name.

    Parameters
    ----------
    name : str
        Such as "v_mfma_f32_32x32x8_f16", its old alias, or "__builtin_amdgcn_mfma_f32_32x32x8f16".
    arch : str, optional
        "gfx908", "gfx90a", "gfx942" or "gfx950"; may be left out where one architecture alone has
        the name.

    Raises
    ------
    UnknownInstruction
        Where no row has the name, with the nearest names; or with the architectures that have it.

    >>> instruction("v_mfma_f32_32x32x8f16", arch="gfx942").mnemonic
    'v_mfma_f32_32x32x8_f16'
    """
    if not isinstance(name, str):
        raise BadType(f"instruction name {name!r} is a {type(name).__name__}; legal: a string")
    check_arch(arch)
    having = [a for a in ARCHITECTURES if (name, a) in _index()]
    if arch in having:
        return _index()[name, arch]
    if having and arch is not None:
        raise UnknownInstruction(
            f"{name} does not exist on {arch}; it exists on {', '.join(having)}"
        )
    if len(having) == 1:
        return _index()[name, having[0]]
    if having:
        raise UnknownInstruction(
            f"{name} exists on {', '.join(having)}; say which with arch= or --arch"
        )
    known = sorted({n for n, a in _index() if arch in (None, a)})
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"near names: {', '.join(near)}" if near else ALL_NAMES
    raise UnknownInstruction(
        f"no instruction is named {name!r}" + (f" on {arch}" if arch else "") + f"; {hint}"
    )
