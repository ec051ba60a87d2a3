"""The products of an output: product p of every (row, column) as two arrays that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Products:
    """The factors of every product, after `map` in whatever form the model works on.

    Attributes
    ----------
    A : array (n, M, products)
    B : array (n, K, N)
    chosen : int array (n, M, products) or None
        The dense column of every stored product, of a sparse instruction.
    dense_grouping : bool
        Whether `slot` counts dense columns.
    """

    A: Array
    B: Array
    chosen: Array | None = None
    dense_grouping: bool = False

    @property
    def count(self) -> int:
        """Return the number of products of an output."""
        return int(self.A.shape[2])

    def map(self, a: Callable[[Array], Array], b: Callable[[Array], Array]) -> Products:
        """Return the same products with their factors converted."""
        return Products(a(self.A), b(self.B), self.chosen, self.dense_grouping)

    def a(self, p: int) -> Array:
        """Return A's factor of product p, (n, M, 1)."""
        return self.A[:, :, p, None]

    def b(self, p: int) -> Array:
        """Return B's factor of product p, (n, 1, N), or (n, M, N) where rows choose columns."""
        if self.chosen is None:
            return self.B[:, None, p, :]
        n = np.arange(self.B.shape[0])[:, None]
        return self.B[n, self.chosen[:, :, p]]

    def slot(self, p: int, modulus: int) -> int | Array:
        """Return the partial sum of product p: p or its dense column, modulo their number."""
        if self.chosen is not None and self.dense_grouping:
            return self.chosen[:, :, p, None] % modulus
        return p % modulus

    def link_length(self, group: int) -> int:
        """Return the products of a link: `group`, or half of it where dense columns are counted."""
        halved = max(group // 2, 1) if self.chosen is not None and self.dense_grouping else group
        return min(halved, self.count)
