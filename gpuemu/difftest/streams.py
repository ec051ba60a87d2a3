"""Random numbers that depend on a key, a case number and a position, and on nothing else.

A case is the same whatever batch, worker or machine it is generated in: every word is a hash of its
coordinates (the finaliser of SplitMix64: Steele, Lea, Flood, 2014). No libm function is involved.
What is written here in NumPy is one kernel of `device_cases` on a device, of the same bits.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from . import device_cases
from .device_cases import Array, namespace

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def bits_of(values: Array) -> Array:
    """Return the bits of float64 values, int64."""
    return values.view(np.int64)


def power(exponent: Array) -> Array:
    """Return 2**exponent as float64, for exponents from -1074 to 1023 (below: 0)."""
    if namespace(exponent) is not np:
        return device_cases.power(exponent)
    # The product of two normal powers is exact, and subnormal where it has to be.
    whole = exponent.astype(np.int64)
    half = whole >> 1
    return _normal_power(half) * _normal_power(whole - half)


def _normal_power(exponent: Array) -> Array:
    return ((exponent + 1023) << 52).view(np.float64)


def exponent_of(values: Array) -> Array:
    """Return floor(log2 |x|) of normal float64 values, int64; -1023 of smaller ones."""
    return (bits_of(values) >> 52 & 0x7FF) - 1023


def mix(x: Array) -> Array:
    """Return the SplitMix64 finaliser of uint64 words.

    >>> hex(int(mix(np.array([0x9E3779B97F4A7C15], np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


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
        Case numbers; every draw is an array of the same library.

    Attributes
    ----------
    xp : module
        NumPy or CuPy.
    """

    @property
    def on_device(self) -> bool:
        """Tell whether draws are kernels of `device_cases`."""
        return self.xp is not np

    def __init__(self, key: int, cases: Array) -> None:
        self.xp = namespace(cases)
        self.cases = cases.astype(np.uint64)
        if self.on_device:
            self._state = device_cases.draw("state", self.cases, (), 0, 0, key)
        else:
            self._state = mix((self.cases + np.uint64(1)) * _GOLDEN) ^ np.uint64(key)
        self._position = 1

    @property
    def count(self) -> int:
        """Return the number of cases."""
        return len(self.cases)

    def _draw(self, kind: str, shape: tuple[int, ...], low: int = 0, limit: int = 0) -> Array:
        """Return a draw in one kernel; a "bell" takes two words."""
        at = self._position
        self._position += math.prod(shape) * (2 if kind == "bell" else 1)
        return device_cases.draw(kind, self._state, shape, at, low, limit)

    def words(self, *shape: int) -> Array:
        """Return uint64 words (n, *shape)."""
        if self.on_device:
            return self._draw("words", shape)
        size = math.prod(shape)
        position = self.xp.arange(self._position, self._position + size, dtype=np.uint64)
        self._position += size
        return mix(self._state[:, None] + position * _GOLDEN).reshape(self.count, *shape)

    def below(self, limit: int, *shape: int) -> Array:
        """Return int64 (n, *shape) from 0 to limit - 1."""
        if self.on_device:
            return self._draw("below", shape, 0, limit)
        return ((self.words(*shape) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(
            np.int64
        )

    def between(self, low: int, high: int, *shape: int) -> Array:
        """Return int64 (n, *shape) from low to high, both included."""
        if self.on_device:
            return self._draw("below", shape, low, high - low + 1)
        return self.below(high - low + 1, *shape) + low

    def choose(self, options: Array, *shape: int) -> Array:
        """Return items of a list (n, *shape)."""
        return self.xp.asarray(options)[self.below(len(options), *shape)]

    def sign(self, *shape: int) -> Array:
        """Return +1.0 or -1.0 (n, *shape)."""
        if self.on_device:
            return self._draw("sign", shape)
        return 1.0 - 2.0 * self.below(2, *shape)

    def significand(self, fraction_bits: int, *shape: int) -> Array:
        """Return float64 (n, *shape) in [1, 2) with so many random fraction bits, at most 52."""
        if not fraction_bits:
            return self.xp.ones((self.count, *shape))
        if self.on_device:
            return self._draw("significand", shape, 0, fraction_bits)
        fraction = self.words(*shape) >> np.uint64(64 - fraction_bits)
        return fraction.astype(np.float64) * 2.0**-fraction_bits + 1.0

    def bell(self, *shape: int) -> Array:
        """Return float64 (n, *shape) of mean 0 and spread 1, nearly normal, with full random
        significands.
        """
        if self.on_device:
            return self._draw("bell", shape)
        word = self.words(*shape)
        total = self.xp.full(word.shape, 0.5 - 2.0**17)
        for shift in (0, 16, 32, 48):
            total += (word >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.float64)
        size = self.significand(52, *shape) * power(exponent_of(total * (1.5 / 2.0**16)))
        return self.xp.copysign(size, total)


__all__ = [
    "Array",
    "Stream",
    "bits_of",
    "exponent_of",
    "key_of",
    "mix",
    "namespace",
    "power",
]
