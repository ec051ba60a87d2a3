"""The operators of a GEMM descriptor: frozen values that check their own arguments and compose with
`+`.

Names, arguments, defaults and ranges follow cuBLASDx 0.8. What an operator can check alone it
checks at construction; checks between operators live in `descriptor.py`.
"""

from __future__ import annotations

import operator as _operator
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import BadType, BadValue
from .elements import Element, element

if TYPE_CHECKING:
    from .descriptor import Descriptor

Order = Literal["row_major", "col_major"]
row_major: Order = "row_major"
col_major: Order = "col_major"

ARCHITECTURES = (750, 800, 860, 870, 890, 900, 1000, 1030, 1070, 1100, 1200, 1210)
RETIRED = {700: "gone with CUDA 13", 720: "gone with CUDA 13", 1010: "renamed 1100"}
MODIFIERS = {"generic": "", "arch_specific": "a", "family_specific": "f"}
MAX_ALIGNMENT_BYTES = 16


def integer(value: Any, name: str) -> int:
    """Return an integer argument as a Python int; refuse booleans, floats and anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return _operator.index(value)
    except TypeError:
        raise BadType(f"{name}={value!r} is a {type(value).__name__}; legal: an integer") from None


class Operator:
    """Base of all operators: `+` with an operator or a descriptor gives a descriptor."""

    keyword: ClassVar[str]

    def __add__(self, other: Operator | Descriptor) -> Descriptor:
        from .descriptor import compose

        return compose(self, other)

    def _set_integers(self, *names: str, least: int = 1) -> None:
        """Store arguments as Python ints and require a least value."""
        for name in names:
            value = integer(getattr(self, name), f"{type(self).__name__} {name}")
            if value < least:
                raise BadValue(
                    f"{self.keyword}: {name}={value} is too small; legal: {least} and up"
                )
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Size(Operator):
    """The problem of one tile, M x N x K elements; K defaults to 1 as in C++.

    Examples
    --------
    >>> Size(128, 128, 32) + Function("MM") == Function("MM") + Size(128, 128, 32)
    True
    """

    keyword: ClassVar[str] = "size"
    m: int
    n: int
    k: int = 1

    def __post_init__(self) -> None:
        self._set_integers("m", "n", "k")


@dataclass(frozen=True)
class Function(Operator):
    """What is computed: "MM", the matrix product. (There is no function named gemm.)"""

    keyword: ClassVar[str] = "function"
    name: str

    def __post_init__(self) -> None:
        if self.name == "TRSM":
            raise BadValue("Function('TRSM') is not emulated; legal: 'MM'")
        if self.name != "MM":
            raise BadValue(
                f"Function({self.name!r}) does not exist; a GEMM is spelled Function('MM')"
            )


@dataclass(frozen=True)
class SM(Operator):
    """The target architecture, `SM(900)` for sm_90, with the modifier that allows its own
    instructions."""

    keyword: ClassVar[str] = "sm"
    arch: int
    modifier: str = "generic"

    def __post_init__(self) -> None:
        self._set_integers("arch")
        if self.arch not in ARCHITECTURES:
            hint = RETIRED.get(self.arch) or (
                f"did you mean SM({self.arch * 10})?" if self.arch * 10 in ARCHITECTURES else ""
            )
            legal = ", ".join(map(str, ARCHITECTURES))
            raise BadValue(
                f"SM({self.arch}) is no architecture{f' ({hint})' if hint else ''}; legal: {legal}"
            )
        if self.modifier not in MODIFIERS:
            raise BadValue(
                f"SM modifier {self.modifier!r} does not exist; legal: {', '.join(MODIFIERS)}"
            )
        if self.modifier != "generic" and self.arch < 900:
            raise BadValue(
                f"SM({self.arch}, {self.modifier!r}): only architectures from 900 on have modifiers"
            )

    @property
    def name(self) -> str:
        """The compiler's spelling: "sm_90a" for `SM(900, "arch_specific")`."""
        return f"sm_{self.arch // 10}{MODIFIERS[self.modifier]}"


@dataclass(frozen=True)
class Block(Operator):
    """Execution by one thread block: needed to run, not to query."""

    keyword: ClassVar[str] = "execution"


@dataclass(frozen=True)
class Thread(Operator):
    """Execution by one thread, which no GEMM has: construction explains and refuses."""

    keyword: ClassVar[str] = "execution"

    def __post_init__(self) -> None:
        raise BadValue(
            "Thread() belongs to triangular solves; a GEMM runs at block level: use Block()"
        )


@dataclass(frozen=True, init=False, repr=False)
class Precision(Operator):
    """Element types of A, B and C; B and C default to **A's**, so `Precision("f16", "f32")`
    accumulates in f16."""

    keyword: ClassVar[str] = "precision"
    a: Element
    b: Element
    c: Element

    def __init__(self, a: Any, b: Any = None, c: Any = None) -> None:
        types = [element(a if given is None else given) for given in (a, b, c)]
        for name, value in zip("abc", types, strict=True):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if len({x.is_integer for x in (self.a, self.b, self.c)}) == 2:
            raise BadValue(
                f"{self} mixes integers and floats; convert the inputs (a load operation) instead"
            )
        if self.a.is_integer:
            for name, x in (("A", self.a), ("B", self.b)):
                if 4 * x.bits > self.c.bits:
                    raise BadValue(
                        f"{self}: an integer accumulator is at least 4 times as wide as its "
                        "inputs; "
                        f"{name} has {x.bits} bits, C {self.c.bits}; legal: for example ('i8', "
                        "'i8', 'i32')"
                    )
            if "signed" in (self.a.kind, self.b.kind) and self.c.kind != "signed":
                raise BadValue(f"{self}: a signed input needs a signed accumulator; C is {self.c}")
        if not self.c.accumulates:
            raise BadValue(
                f"{self}: C cannot accumulate in {self.c}; legal: i32, u32, i64, u64, f16, f32, f64"
            )

    def __repr__(self) -> str:
        return f"Precision('{self.a}', '{self.b}', '{self.c}')"

    @property
    def unsigned(self) -> bool:
        """Whether any of the three is an unsigned integer."""
        return "unsigned" in (self.a.kind, self.b.kind, self.c.kind)

    @property
    def names(self) -> tuple[str, str, str]:
        """The three names, what tables are keyed by."""
        return self.a.name, self.b.name, self.c.name


@dataclass(frozen=True)
class Type(Operator):
    """Real or complex elements."""

    keyword: ClassVar[str] = "data_type"
    value: str = "real"

    def __post_init__(self) -> None:
        if self.value not in ("real", "complex"):
            raise BadValue(f"Type({self.value!r}) does not exist; legal: 'real', 'complex'")


@dataclass(frozen=True)
class Arrangement(Operator):
    """Storage order of A, B and C. B and C default to col_major whatever A is."""

    keyword: ClassVar[str] = "arrangement"
    a: Order
    b: Order = col_major
    c: Order = col_major

    def __post_init__(self) -> None:
        for name in "abc":
            value = getattr(self, name)
            if value not in (row_major, col_major):
                raise BadValue(
                    f"Arrangement {name.upper()}={value!r}; legal: 'row_major', 'col_major'"
                )


@dataclass(frozen=True)
class TransposeMode(Operator):
    """Deprecated spelling of the storage order: N is col_major, T and C are row_major, matrix C is
    col_major.

    Notes
    -----
    "C" also conjugates in BLAS; here, as in the original, it selects the order only.
    """

    keyword: ClassVar[str] = "transpose_mode"
    a: str = "T"
    b: str = "N"

    def __post_init__(self) -> None:
        for name in "ab":
            value = getattr(self, name)
            if value not in ("N", "T", "C"):
                raise BadValue(f"TransposeMode {name.upper()}={value!r}; legal: 'N', 'T', 'C'")
        warnings.warn(
            "TransposeMode is deprecated; write Arrangement with row_major (T, C) or col_major (N)",
            DeprecationWarning,
            stacklevel=3,
        )

    @property
    def arrangement(self) -> Arrangement:
        """The storage orders that the modes stand for."""
        a, b = (col_major if mode == "N" else row_major for mode in (self.a, self.b))
        return Arrangement(a, b, col_major)


@dataclass(frozen=True)
class LeadingDimension(Operator):
    """Elements between consecutive rows (row_major) or columns (col_major) of the tile of A, B and
    C."""

    keyword: ClassVar[str] = "leading_dimension"
    a: int
    b: int
    c: int | None = None

    def __post_init__(self) -> None:
        self._set_integers("a", "b", *(("c",) if self.c is not None else ()))


@dataclass(frozen=True)
class Alignment(Operator):
    """Alignment of A, B and C in bytes: powers of two, what exceeds 16 counts as 16."""

    keyword: ClassVar[str] = "alignment"
    a: int
    b: int
    c: int

    def __post_init__(self) -> None:
        self._set_integers("a", "b", "c")
        for name in "abc":
            value = getattr(self, name)
            if value & (value - 1):
                raise BadValue(
                    f"Alignment {name.upper()}={value} is no power of two; legal: 1, 2, 4, 8, 16"
                )
            object.__setattr__(self, name, min(value, MAX_ALIGNMENT_BYTES))


MAX_ALIGNMENT = Alignment(16, 16, 16)


@dataclass(frozen=True)
class BlockDim(Operator):
    """Threads of the block that take part in the GEMM; 32 to 1024 in all."""

    keyword: ClassVar[str] = "block_dim"
    x: int
    y: int = 1
    z: int = 1

    def __post_init__(self) -> None:
        self._set_integers("x", "y", "z")
        if not 32 <= self.threads <= 1024:
            raise BadValue(
                f"BlockDim({self.x}, {self.y}, {self.z}) has {self.threads} threads; legal: 32 "
                "to 1024"
            )

    @property
    def threads(self) -> int:
        """Threads in all."""
        return self.x * self.y * self.z


@dataclass(frozen=True)
class BlocksPerCluster(Operator):
    """Cluster extents in thread blocks; matters with `WithPipeline` only, `Size` stays the tile of
    one block."""

    keyword: ClassVar[str] = "blocks_per_cluster"
    m: int
    n: int = 1
    k: int = 1

    def __post_init__(self) -> None:
        self._set_integers("m", "n", "k")
        if self.k != 1:
            raise BadValue(f"BlocksPerCluster k={self.k}; legal: 1")
        if self.m * self.n > 16:
            raise BadValue(
                f"BlocksPerCluster({self.m}, {self.n}) has {self.m * self.n} blocks; legal: at "
                "most 16"
            )


@dataclass(frozen=True)
class StaticBlockDim(Operator):
    """A promise that the kernel is launched with exactly `BlockDim`; it is checked at launch."""

    keyword: ClassVar[str] = "static_block_dim"


@dataclass(frozen=True)
class EnableInputStreaming(Operator):
    """A promise that A and B are used as they lie in memory: no load operations."""

    keyword: ClassVar[str] = "enable_input_streaming"


@dataclass(frozen=True)
class WithPipeline(Operator):
    """The descriptor is run through a pipeline, and only so."""

    keyword: ClassVar[str] = "with_pipeline"


@dataclass(frozen=True)
class RequiredMantissaBits(Operator):
    """Ask for emulation by int8 slices that preserves this many mantissa bits, 1 to 63 (8 slices),
    relative to row and column maxima."""

    keyword: ClassVar[str] = "required_mantissa_bits"
    bits: int

    def __post_init__(self) -> None:
        self._set_integers("bits")
        if self.bits > 63:
            raise BadValue(f"{self.keyword}: bits={self.bits}; legal: 1 to 63, of 8 int8 slices")

    @property
    def slices(self) -> int:
        """int8 slices an element: ceil((bits + 1) / 8)."""
        return -(-(self.bits + 1) // 8)
