"""What a descriptor implies: resolved values, defaults, sizes, the instruction class, shared
memory.

Property names follow nvmath-python where it has them. Sizes are in elements and bytes as named.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadValue
from .elements import COMPLEX
from .instructions import (
    WGMMA_PRECISIONS,
    WGMMA_THREADS,
    Instruction,
    TensorCore,
    find_instruction,
    tensor_core,
)
from .operators import (
    MAX_ALIGNMENT,
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    BlocksPerCluster,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Operator,
    Order,
    Precision,
    RequiredMantissaBits,
    Size,
    TransposeMode,
    Type,
    WithPipeline,
    col_major,
)
from .target import Target

# Bytes of shared memory that one block can have, by architecture, in KiB.
SHARED_MEMORY_KIB = {
    750: 64,
    800: 163,
    860: 99,
    870: 163,
    890: 99,
    900: 227,
    1000: 227,
    1030: 227,
    1070: 227,
    1100: 227,
    1200: 99,
    1210: 99,
}


class Three(NamedTuple):
    """One value each for A, B and C."""

    a: Any
    b: Any
    c: Any


def round_up(value: int, unit: int) -> int:
    """Return the least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


class Traits:
    """The queryable side of a descriptor; `Descriptor` adds the operators themselves."""

    def get(self, kind: type[Any]) -> Any:
        """Return the operator of a type or None; the descriptor knows."""
        raise NotImplementedError

    def __contains__(self, kind: type[Operator]) -> bool:
        raise NotImplementedError

    # ----------------------------------------------------------------- completeness

    @property
    def is_complete(self) -> bool:
        """Whether Size, Function and SM (or an AMD Target) are there; everything else has a
        default."""
        return Size in self and Function in self and (SM in self or Target in self)

    @property
    def is_complete_execution(self) -> bool:
        """Whether the descriptor can also run: complete, with Block."""
        return self.is_complete and Block in self

    def _need(self, kind: type[Any], what: str) -> Any:
        op = self.get(kind)
        if op is None:
            raise BadValue(
                f"{what} needs {kind.__name__}, which the descriptor does not have: {self}"
            )
        return op

    # ----------------------------------------------------------------- resolved operators

    @property
    def size(self) -> tuple[int, int, int]:
        """(M, N, K) of one tile."""
        size = self._need(Size, "size")
        return size.m, size.n, size.k

    @property
    def function(self) -> str:
        """What is computed: "MM"."""
        name: str = self._need(Function, "function").name
        return name

    @property
    def sm(self) -> SM:
        """The target architecture."""
        target: SM = self._need(SM, "sm")
        return target

    @property
    def precision(self) -> Precision:
        """Element types; (f32, f32, f32) by default."""
        return self.get(Precision) or Precision("f32")

    @property
    def data_type(self) -> str:
        """ "real" (the default) or "complex"."""
        return (self.get(Type) or Type()).value

    @property
    def parts(self) -> int:
        """Numbers an element: 2 for complex, 1 for real."""
        return 2 if self.data_type == "complex" else 1

    @property
    def arrangement(self) -> tuple[Order, Order, Order]:
        """Storage orders; (row_major, col_major, col_major) by default."""
        mode = self.get(TransposeMode)
        chosen = mode.arrangement if mode else self.get(Arrangement) or Arrangement("row_major")
        return chosen.a, chosen.b, chosen.c

    @property
    def transpose_mode(self) -> TransposeMode | None:
        """The deprecated operator where it was used."""
        mode: TransposeMode | None = self.get(TransposeMode)
        return mode

    @property
    def alignment(self) -> Three:
        """Alignment of A, B and C in bytes: that of one element by default, both parts of a complex
        one."""
        given = self.get(Alignment)
        if given:
            return Three(given.a, given.b, given.c)
        return Three(*(min(x.bytes * self.parts, 16) for x in self._elements))

    @property
    def blocks_per_cluster(self) -> tuple[int, int, int]:
        """Cluster extents in blocks; 1 x 1 x 1 by default, which is no cluster."""
        cluster = self.get(BlocksPerCluster) or BlocksPerCluster(1)
        return cluster.m, cluster.n, cluster.k

    @property
    def needs_nonportable_cluster(self) -> bool:
        """Whether the cluster has more than the 8 blocks that every device allows."""
        m, n, _ = self.blocks_per_cluster
        return m * n > 8

    # ----------------------------------------------------------------- extents

    @property
    def _elements(self) -> tuple[Any, Any, Any]:
        return self.precision.a, self.precision.b, self.precision.c

    @property
    def a_dim(self) -> tuple[int, int]:
        """(rows, columns) of the tile of A."""
        m, _, k = self.size
        return m, k

    @property
    def b_dim(self) -> tuple[int, int]:
        """(rows, columns) of the tile of B."""
        _, n, k = self.size
        return k, n

    @property
    def c_dim(self) -> tuple[int, int]:
        """(rows, columns) of the tile of C."""
        m, n, _ = self.size
        return m, n

    @property
    def _dims(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        return self.a_dim, self.b_dim, self.c_dim

    def _contiguous(self) -> Three:
        """Return the extent along the leading dimension of each tile."""
        pairs = zip(self._dims, self.arrangement, strict=True)
        return Three(*(rows if order == col_major else columns for (rows, columns), order in pairs))

    @property
    def leading_dimension(self) -> Three:
        """Leading dimensions of the tiles in elements: the operator's, else the tiles' own
        extents."""
        given, own = self.get(LeadingDimension), self._contiguous()
        if given is None:
            return own
        return Three(given.a, given.b, own.c if given.c is None else given.c)

    @property
    def lda(self) -> int:
        """Leading dimension of A."""
        return int(self.leading_dimension.a)

    @property
    def ldb(self) -> int:
        """Leading dimension of B."""
        return int(self.leading_dimension.b)

    @property
    def ldc(self) -> int:
        """Leading dimension of C."""
        return int(self.leading_dimension.c)

    def _sizes(self, leading: Three) -> Three:
        """Return elements that each tile occupies: the last row or column is not padded."""
        sizes = []
        for lead, along, (rows, columns) in zip(
            leading, self._contiguous(), self._dims, strict=True
        ):
            other = rows * columns // along
            sizes.append(lead * (other - 1) + along)
        return Three(*sizes)

    @property
    def a_size(self) -> int:
        """Elements of the tile of A, gaps included."""
        return int(self._sizes(self.leading_dimension).a)

    @property
    def b_size(self) -> int:
        """Elements of the tile of B, gaps included."""
        return int(self._sizes(self.leading_dimension).b)

    @property
    def c_size(self) -> int:
        """Elements of the tile of C, gaps included."""
        return int(self._sizes(self.leading_dimension).c)

    def _value_type(self, index: int) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._elements[index].dtype
        if self.parts == 1:
            return dtype
        return COMPLEX[dtype] if dtype in COMPLEX else np.dtype((dtype, (2,)))

    @property
    def a_value_type(self) -> np.dtype[Any]:
        """dtype of an element of A; complex without a NumPy dtype is a pair (re, im)."""
        return self._value_type(0)

    @property
    def b_value_type(self) -> np.dtype[Any]:
        """dtype of an element of B."""
        return self._value_type(1)

    @property
    def c_value_type(self) -> np.dtype[Any]:
        """dtype of an element of C."""
        return self._value_type(2)

    # ----------------------------------------------------------------- threads

    @property
    def suggested_block_dim(self) -> tuple[int, int, int]:
        """Threads that suit the tile: the power of two not below sqrt(M N), 32 to 1024.

        Where only BlockDim stands between the descriptor and wgmma, 128 (M <= 128) or 256 at least.
        """
        if not self.is_complete:
            raise BadValue(f"a suggested block size needs Size, Function and SM: {self}")
        m, n, _ = self.size
        root = isqrt(m * n)
        threads = min(max(1 << (root - 1).bit_length() if root > 1 else 1, 32), 1024)
        if SM in self and not self._wgmma_obstacles(threads=None):
            threads = max(threads, 128 if m <= 128 else 256)
        return threads, 1, 1

    @property
    def block_dim(self) -> tuple[int, int, int]:
        """Threads of the block: BlockDim, else the suggested ones."""
        given = self.get(BlockDim)
        return (given.x, given.y, given.z) if given else self.suggested_block_dim

    @property
    def block_dim_source(self) -> str:
        """Where `block_dim` came from: "given" or "heuristic" (there is no tuning table)."""
        return "given" if BlockDim in self else "heuristic"

    @property
    def block_size(self) -> int:
        """Threads of the block in all."""
        x, y, z = self.block_dim
        return x * y * z

    max_threads_per_block = block_size
    min_blocks_per_multiprocessor = 1

    # ----------------------------------------------------------------- instruction

    @property
    def instruction(self) -> Instruction | None:
        """The `mma.sync` instruction that serves the tile, or None: a chain of FMAs (or an AMD
        target)."""
        if Target in self:
            return None
        return find_instruction(self.precision.names, self.size, self.sm.arch)

    def _wgmma_obstacles(self, threads: int | None) -> list[str]:
        """Return what keeps the descriptor from wgmma; `threads=None`: a suggested block size
        suits."""
        size, sm = self.size, self.sm
        gates = {
            "WithPipeline() is missing": WithPipeline in self,
            "EnableInputStreaming() is missing": EnableInputStreaming in self,
            f"the target is {sm.name}, wgmma exists on sm_90a: SM(900, 'arch_specific')": sm.name
            == "sm_90a",
            f"Alignment is {tuple(self.alignment)}, wgmma wants (16, 16, 16)": self.alignment
            == (16, 16, 16),
            f"{self.precision} has no wgmma form": self.precision.names in WGMMA_PRECISIONS,
            "Type is complex, wgmma multiplies real matrices": self.parts == 1,
            f"M={size[0]} is no multiple of 64": size[0] % 64 == 0,
            f"N={size[1]} is no multiple of 8": size[1] % 8 == 0,
            f"K={size[2]} is no multiple of the 32 bytes of one wgmma": size[2]
            * self.precision.a.bytes
            % 32
            == 0,
            f"RequiredMantissaBits runs integer slices, not {self.precision}": RequiredMantissaBits
            not in self,
        }
        if threads is not None:
            gates[f"BlockDim has {threads} threads, wgmma wants 128, 256, 512 or 1024"] = (
                threads in WGMMA_THREADS
            )
        return [message for message, open_ in gates.items() if not open_]

    @property
    def why_not_wgmma(self) -> tuple[str, ...]:
        """Every obstacle between this descriptor and Hopper's wgmma; empty where it is selected."""
        target = self.get(Target)
        if target:
            return (f"the target is {target.arch}",)
        return tuple(self._wgmma_obstacles(self.block_size if BlockDim in self else None))

    @property
    def mma_class(self) -> str:
        """Which class of instruction the original selects, silently: "fma", "mma_sync" or "wgmma";
        "mfma" on AMD."""
        if Target in self:
            return "mfma"
        if not self.why_not_wgmma:
            return "wgmma"
        return "mma_sync" if self.instruction else "fma"

    @property
    def tensor_core(self) -> TensorCore | None:
        """How the target's tensor cores add, or None where integers, f64 or FMA chains make it
        moot."""
        if (
            self.mma_class in ("fma", "mfma")
            or self.precision.c.is_integer
            or self.precision.c.name == "f64"
        ):
            return None
        return tensor_core(self.sm.arch, self.precision.names, self.mma_class == "wgmma")

    # ----------------------------------------------------------------- shared memory

    @property
    def shared_memory_available(self) -> int:
        """Bytes of shared memory (LDS on AMD) that one block can have on the target."""
        target: Target | None = self.get(Target)
        if target:
            return target.lds_bytes
        return SHARED_MEMORY_KIB[self.sm.arch] * 1024

    def _storage(self, sizes: Three, count: int) -> int:
        offset = 0
        for size, kind, align in list(zip(sizes, self._elements, self.alignment, strict=True))[
            :count
        ]:
            offset = round_up(offset, align) + size * kind.bytes * self.parts
        return offset

    def get_shared_storage_size(
        self, lda: int | None = None, ldb: int | None = None, ldc: int | None = None
    ) -> int:
        """Return bytes for the tiles of A, B and C, each aligned, with other leading dimensions if
        given."""
        own = self.leading_dimension
        given = Three(
            *(x if new is None else new for x, new in zip(own, (lda, ldb, ldc), strict=True))
        )
        return self._storage(self._sizes(given), 3)

    def get_shared_storage_size_ab(self, lda: int | None = None, ldb: int | None = None) -> int:
        """Return bytes for the tiles of A and B alone: what an accumulator in registers needs."""
        own = self.leading_dimension
        given = Three(own.a if lda is None else lda, own.b if ldb is None else ldb, own.c)
        return self._storage(self._sizes(given), 2)

    @property
    def shared_memory_needed(self) -> int:
        """Bytes for A and B (and C where it is not kept in registers: without a pipeline)."""
        return (
            self.get_shared_storage_size_ab()
            if WithPipeline in self
            else self.get_shared_storage_size()
        )

    def is_supported(self, registers: bool = False) -> bool:
        """Tell whether the tiles fit in shared memory; with C in registers, A and B only."""
        need = self.get_shared_storage_size_ab() if registers else self.get_shared_storage_size()
        return need <= self.shared_memory_available

    # ----------------------------------------------------------------- suggestions

    @property
    def suggested_layouts_enabled(self) -> bool:
        """False once LeadingDimension is given: it turns suggested layouts and accumulator off,
        silently."""
        return LeadingDimension not in self

    @property
    def suggested_leading_dimension(self) -> Three:
        """Leading dimensions that spread rows over the banks: 16 bytes more where a row is a
        multiple of 128.

        All three fall back to the plain ones where the padded A and B would not fit.
        """
        own = self._contiguous()
        padded = []
        for extent, kind in zip(own, self._elements, strict=True):
            width = kind.bytes * self.parts
            pad = 16 // width if extent * width % 128 == 0 else 0
            padded.append(extent + pad)
        fits = self._storage(self._sizes(Three(*padded)), 2) <= self.shared_memory_available
        return Three(*padded) if fits else own

    @property
    def suggested_alignment(self) -> Alignment:
        """16 bytes each."""
        return MAX_ALIGNMENT

    @property
    def emulation_slices(self) -> int:
        """int8 slices that RequiredMantissaBits asks for; 0 without it."""
        emulated = self.get(RequiredMantissaBits)
        return emulated.slices if emulated else 0
