"""The operators of a descriptor with their defaults: what everything else is computed from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from ..errors import BadValue
from .operators import (
    SM,
    Alignment,
    Arrangement,
    Block,
    BlocksPerCluster,
    Function,
    Operator,
    Order,
    Precision,
    RequiredMantissaBits,
    Size,
    TransposeMode,
    Type,
)
from .target import Target


class Three(NamedTuple):
    """One value each for A, B and C."""

    a: Any
    b: Any
    c: Any


class Resolved(ABC):
    """What the operators say, or their defaults; `Descriptor` adds the operators themselves."""

    @abstractmethod
    def get(self, kind: type[Any]) -> Any:
        """Return the operator of a type or None; the descriptor knows."""

    @abstractmethod
    def __contains__(self, kind: type[Operator]) -> bool: ...

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

    # ----------------------------------------------------------------- operators

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
    def target_name(self) -> str:
        """The target as its compiler spells it: "sm_90a", or "gfx942" on AMD."""
        target: Target | None = self.get(Target)
        return target.arch if target else self.sm.name

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

    @property
    def _elements(self) -> tuple[Any, Any, Any]:
        return self.precision.a, self.precision.b, self.precision.c

    @property
    def emulation_slices(self) -> int:
        """int8 slices that RequiredMantissaBits asks for; 0 without it."""
        emulated = self.get(RequiredMantissaBits)
        return emulated.slices if emulated else 0
