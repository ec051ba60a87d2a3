"""Random numbers that depend on a key, a case number and a position, and on nothing else.

A case is the same whatever batch, worker or machine it is generated in: every word is a hash of its
coordinates (the finaliser of SplitMix64: Steele, Lea, Flood, 2014). No libm function is involved.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: Array) -> Array:
    """Return the SplitMix64 finaliser of uint64 words.

    >>> hex(int(mix(np.array([0x9E3779B97F4A7C15], np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def key_of(*parts: object) -> int:
    """Return a 64-bit key of any facts, by their text."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class Stream:
    """The random words of a list of cases, drawn in turn; every draw has the cases first.

    Parameters
    ----------
    key : int
        Of the seed, the instruction and the class; see `key_of`.
    cases : int array (n,)
        Case numbers.
    """

    def __init__(self, key: int, cases: Array) -> None:
        self.cases = np.asarray(cases, np.uint64)
        self._state = mix((self.cases + np.uint64(1)) * _GOLDEN) ^ np.uint64(key)
        self._position = 1

    @property
    def count(self) -> int:
        """Return the number of cases."""
        return len(self.cases)

    def words(self, *shape: int) -> Array:
        """Return uint64 words (n, *shape)."""
        size = int(np.prod(shape, dtype=np.int64))
        position = np.arange(self._position, self._position + size, dtype=np.uint64)
        self._position += size
        return mix(self._state[:, None] + position * _GOLDEN).reshape(self.count, *shape)

    def below(self, limit: int, *shape: int) -> Array:
        """Return int64 (n, *shape) from 0 to limit - 1."""
        return ((self.words(*shape) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(
            np.int64
        )

    def between(self, low: int, high: int, *shape: int) -> Array:
        """Return int64 (n, *shape) from low to high, both included."""
        return low + self.below(high - low + 1, *shape)

    def choose(self, options: Array, *shape: int) -> Array:
        """Return items of a list (n, *shape)."""
        return np.asarray(options)[self.below(len(options), *shape)]

    def sign(self, *shape: int) -> Array:
        """Return +1.0 or -1.0 (n, *shape)."""
        return np.asarray(1.0 - 2.0 * self.below(2, *shape))

    def significand(self, fraction_bits: int, *shape: int) -> Array:
        """Return float64 (n, *shape) in [1, 2) with so many random fraction bits, at most 52."""
        fraction = (
            self.words(*shape) >> np.uint64(64 - fraction_bits) if fraction_bits else np.uint64(0)
        )
        return np.asarray(1.0 + np.ldexp(fraction * np.ones((self.count, *shape)), -fraction_bits))

    def bell(self, *shape: int) -> Array:
        """Return float64 (n, *shape) of mean 0 and spread 1, nearly normal, with full random
        significands.
        """
        word = self.words(*shape)
        total = np.zeros(word.shape)
        for shift in (0, 16, 32, 48):
            total += (word >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.float64)
        _, exponent = np.frexp((total - 2.0**17 + 0.5) * (1.5 / 2.0**16))
        size = np.ldexp(self.significand(52, *shape), exponent - 1)
        return np.asarray(np.copysign(size, total - 2.0**17 + 0.5))
