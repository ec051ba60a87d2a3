"""Emulated products as operations of a campaign: both types, both schemes, shapes, bits, memory
orders, scalars.

The input classes are those of the matrix instructions, and four of what slicing and residues part
on: digits that carry, exact halves of a cut, exponents far apart, rows that are not finite.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import formats
from ..backends import arrays
from ..gemm.emulation import emulated_matmul
from . import items
from .generators import CLASSES, InputClass
from .operation import ArrayOperation, Arrays, Configuration
from .spec import Array, Extents, Matrices, Spec, bell, power
from .streams import Stream, key_of, namespace

ARCH = "int8"
SHAPES = ((4, 4, 16), (1, 1, 1), (1, 9, 7), (7, 1, 33), (5, 3, 129), (17, 16, 2), (33, 20, 64))
BITS = {"f32": (23, 1, 7, 8, 15, 24, 31, 47), "f64": (52, 1, 7, 23, 31, 39, 55, 61)}
ORDERS = ("row", "column", "padded", "strided")
SCALARS = ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (-0.5, 0.0), (1.25, -0.7), (2.0**-20, 2.0**20))
ROUNDINGS = ("truncate", "nearest")


def digits(spec: Spec, s: Stream) -> Matrices:
    """Digits at the ends of int8: significands that start with seven ones, halves of 256, and runs
    of ones, whose carries reach the leading digit.
    """
    tops = np.array([126.5, 126.99, 127.0, 127.5, 127.999, 128.0, 64.5, 1.0])
    tail = np.array([0.0, 0.5, 127.0 / 256, 129.0 / 256, 1 - 2.0**-16, 2.0**-9])

    def made(*shape: int) -> Array:
        return s.sign(*shape) * (s.choose(tops, *shape) + s.choose(tail, *shape) * 2.0**-8)

    _, M, N = spec.outputs
    K = spec.products
    return made(1, M, K), made(1, K, N), bell(spec.c, s, *spec.outputs)


def halves(spec: Spec, s: Stream) -> Matrices:
    """Whole numbers of up to eight bits, halved up to 60 times: exact halves at every cut."""
    _, M, N = spec.outputs

    def made(*shape: int) -> Array:
        return s.between(-255, 255, *shape) * power(-s.below(60, *shape))

    return made(1, M, spec.products), made(1, spec.products, N), made(*spec.outputs)


def spread(spec: Spec, s: Stream) -> Matrices:
    """Exponents from one end of the format to the other inside every row and column."""
    _, M, N = spec.outputs
    fmt = spec.c
    low = fmt.emin - fmt.mantissa_bits

    def made(*shape: int) -> Array:
        far = s.between(low, fmt.emax - 1, *shape)
        near = s.between(-8, 8, *shape)
        exponent = s.xp.where(s.below(2, *shape) == 0, far, near)
        return s.sign(*shape) * s.significand(fmt.mantissa_bits, *shape) * power(exponent)

    return made(1, M, spec.products), made(1, spec.products, N), made(*spec.outputs)


def nonfinite_rows(spec: Spec, s: Stream) -> Matrices:
    """Few rows and columns with infinities, NaNs and zeros against them; all others are finite."""
    _, M, N = spec.outputs
    K = spec.products
    top = items.infinity(spec.c)
    sign, quiet = 1 << (spec.c.bits - 1), 1 << (spec.c.mantissa_bits - 1)
    odd = np.array([top, top | sign, top | quiet, top | 1, top, 0], np.uint64)

    def made(rows: Array, *shape: int) -> Array:
        bits = items.encode(spec.c, bell(spec.c, s, *shape))
        hit = rows & (s.below(4, *shape) == 0)
        return s.xp.where(hit, s.choose(odd, *shape), bits).astype(spec.c.storage)

    a = made(s.below(4, 1, M, 1) == 0, 1, M, K)
    b = made(s.below(4, 1, 1, N) == 0, 1, K, N)
    return a, b, made(s.below(8, *spec.outputs) == 0, *spec.outputs)


CLASSES_OF_ITS_OWN = tuple(
    InputClass(f.__name__, f) for f in (digits, halves, spread, nonfinite_rows)
)


def laid(x: Array, order: str) -> Array:
    """Return matrices (n, rows, columns) in another memory order: rows or columns together, rows
    apart from each other, or every second element of every second row.
    """
    xp = namespace(x)
    if order == "row":
        return xp.ascontiguousarray(x)
    if order == "column":
        return xp.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    count, rows, columns = x.shape
    step = 2 if order == "strided" else 1
    wide = xp.zeros((count, step * rows, step * columns + 3), x.dtype)
    view = wide[:, ::step, : step * columns : step]
    view[...] = x
    return view


class Emulated(ArrayOperation):
    """`gpuemu.gemm.emulated_matmul` in one type and scheme.

    Operands `a` (n, M, K), `b` (n, K, N), `c` (n, M, N) and the result `d` (n, M, N) are bits of
    the type. C is given where beta is 0, too: it must not be read then. Native arithmetic, which
    `mantissa_control="dynamic"` may choose, has no bits of its own and is left out.
    """

    def __init__(self, kind: str, scheme: str) -> None:
        self.mnemonic, self.arch = f"emulated_{kind}_{scheme}", ARCH
        self.format, self.scheme = formats.FORMATS[kind], scheme
        self.classes = (*CLASSES.values(), *CLASSES_OF_ITS_OWN)
        self.factors = {
            "shape": SHAPES,
            "mantissa_bits": BITS[kind],
            "slice_rounding": ROUNDINGS if scheme == "slices" else ROUNDINGS[:1],
            "order_a": ORDERS,
            "order_b": ORDERS,
            "scalars": SCALARS,
        }

    def _shapes(self, m: Configuration) -> dict[str, tuple[int, int]]:
        M, N, K = m["shape"]
        return {"a": (M, K), "b": (K, N), "c": (M, N)}

    def empty(self, m: Configuration) -> Arrays:
        """Return operands of zeros."""
        return {
            name: np.zeros((1, *shape), self.format.storage)
            for name, shape in self._shapes(m).items()
        }

    def results(self, m: Configuration) -> Arrays:
        """Return D of zeros."""
        return {"d": np.zeros((1, *m["shape"][:2]), self.format.storage)}

    def operands(self, m: Configuration, cls: InputClass, seed: int, numbers: Array) -> Arrays:
        """Return the matrices of a class."""
        M, N, K = m["shape"]
        s = Stream(key_of(seed, self.arch, self.mnemonic, cls.name), numbers)
        spec = Spec(Extents(1, M, N, K), self.format, self.format, self.format)
        made = cls.generate(spec, s)
        return {
            name: items.encode(self.format, x).reshape(len(numbers), *shape)
            for (name, shape), x in zip(self._shapes(m).items(), made, strict=True)
        }

    def elements(self) -> int:
        """Return the elements of the largest shape, eight times: int8 planes take room too."""
        return 8 * max(m * k + k * n + 2 * m * n for m, n, k in SHAPES)

    def outputs(self, m: Configuration) -> int:
        """Return the elements of D."""
        return int(m["shape"][0] * m["shape"][1])

    def options(self, m: Configuration) -> dict[str, Any]:
        """Return the options of `emulated_matmul`."""
        alpha, beta = m["scalars"]
        return {
            "alpha": alpha,
            "beta": beta,
            "mantissa_bits": m["mantissa_bits"],
            "scheme": self.scheme,
            "slice_rounding": m["slice_rounding"],
        }

    def _matrices(self, operands: Arrays, m: Configuration, xp: Any = np) -> list[Array]:
        orders = m["order_a"], m["order_b"], "row"
        return [
            laid(xp.asarray(operands[name].view(self.format.dtype)), order)
            for name, order in zip("abc", orders, strict=True)
        ]

    def compute(self, backend: str, operands: Arrays, m: Configuration) -> Arrays:
        """Return what `emulated_matmul` computes on a backend."""
        library = importlib.import_module("cupy" if backend == "cuda" else "numpy")
        given = self._matrices(operands, m, library)
        found = emulated_matmul(*given, **self.options(m), backend=backend)
        return {"d": arrays.to_numpy(found).view(self.format.storage)}

    def ask(self, function: Callable[..., Any], operands: Arrays, m: Configuration) -> Any:
        """Call `f(operation, a, b, c, alpha, beta, mantissa_bits, scheme, slice_rounding)`."""
        return function(self, *self._matrices(operands, m), **self.options(m))

    def ignored(self, name: str, got: Arrays, want: Arrays, nan: str) -> Array | None:
        """Return where both are NaNs, which no scheme tells apart."""
        if nan == "exact":
            return None
        mine, theirs = (np.isnan(side[name].view(self.format.dtype)) for side in (got, want))
        return mine & theirs

    def item_format(self, name: str) -> formats.Format | None:
        """Return the number format of an operand's items."""
        return self.format


ROWS = tuple(Emulated(kind, scheme) for kind in ("f32", "f64") for scheme in ("slices", "crt"))

__all__ = ["ROWS", "Emulated", "laid"]
