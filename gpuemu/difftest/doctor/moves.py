"""Parts of A, B or C in another order: lanes, registers, rows, columns."""

from __future__ import annotations

import numpy as np

from .computing import Candidates, compute, packed, unpacked
from .problem import Array, Problem

# matrix, noun, axis of its register image (n, vgprs, 64)
OF_AN_IMAGE = tuple((m, noun, axis) for m in "ABC" for noun, axis in (("lane", 2), ("register", 1)))
# matrix, noun, axis of the matrix (n, blocks, rows, columns); k is no axis of the result
OF_A_MATRIX = (("A", "row", 2), ("B", "column", 3), ("C", "row", 2), ("C", "column", 3))


def orders(size: int, letter: str) -> dict[str, Array]:
    """Return orders that layouts are mixed up by: what place n holds, by its text.

    >>> list(orders(4, "k"))
    ['k ^ 1', 'k ^ 2', 'k ^ 3', '(k + 1) % 4', '(k + 3) % 4']
    """
    places = np.arange(size)
    powers = {1 << n for n in range((size - 1).bit_length())}
    steps = sorted(set(range(1, size)) if size <= 16 else powers | {size - n for n in powers})
    found = {f"{letter} ^ {n}": places ^ n for n in steps}
    found[f"{size - 1} - {letter}"] = places[::-1]
    found |= {f"({letter} + {n}) % {size}": (places + n) % size for n in steps}
    kept: dict[bytes, str] = {}
    for text, order in found.items():
        if order.max(initial=0) < size and (order != places).any():
            kept.setdefault(order.tobytes(), text)
    return {text: found[text] for text in kept.values()}


def moved(p: Problem) -> Candidates:
    """Yield a part of a matrix that is read in another order."""
    A = unpacked(p, "A")
    for text, order in orders(A.shape[-1], "k").items():
        sentence = f"Column k of A meets row {text} of B."
        yield "k_permuted", sentence, compute(p, packed(p, "A", A[..., order]))
    for matrix, noun, axis in OF_AN_IMAGE:
        name = matrix.lower()
        image = p.operands[name]
        for text, order in orders(image.shape[axis], "n").items():
            changed = {name: np.ascontiguousarray(image.take(order, axis))}
            yield f"{name}_{noun}s", _sentence(matrix, noun, text), compute(p, changed)
    for matrix, noun, axis in OF_A_MATRIX:
        X = unpacked(p, matrix)
        for text, order in orders(X.shape[axis], "n").items():
            changed = packed(p, matrix, X.take(order, axis))
            yield f"{matrix.lower()}_{noun}s", _sentence(matrix, noun, text), compute(p, changed)


def _sentence(matrix: str, noun: str, text: str) -> str:
    return f"{noun.capitalize()} n of {matrix} holds what belongs into {noun} {text}."
