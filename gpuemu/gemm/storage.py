"""How the tiles of a descriptor lie in memory: extents, leading dimensions, shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elements import COMPLEX
from .operators import (
    MAX_ALIGNMENT,
    Alignment,
    LeadingDimension,
    WithPipeline,
    col_major,
)
from .resolved import Resolved, Three
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


def round_up(value: int, unit: int) -> int:
    """Return the least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


class Storage(Resolved):
    """Extents, sizes and shared memory of the tiles of A, B and C."""

    # ----------------------------------------------------------------- extents

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
