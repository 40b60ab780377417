"""Skellam noise: whole numbers whose sums are Skellam again, so that many can share in making one noise.

X = A - B with A, B Poisson of mean variance / 2. A draw compares random bits with a table of tails: the same whole
numbers in NumPy and in JAX.
"""

from __future__ import annotations

import functools
import math
import os

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.randomness import Key, words

MAX_VARIANCE = 2.0**22
"""Above it the table of tails takes seconds to make."""


def skellam(key: Key, count: int, variance: float) -> Array:
    """`count` draws of mean 0 and this variance from each stream of `key`: int32, [n, count].

    Anyone who knows the key can repeat them: this is for simulations. 31 random bits decide a size, so what happens
    less often than once in 2^31 never does.

    >>> from ofediq.randomness import Purpose, stream_key
    >>> drawn = skellam(stream_key(0, 1, np.arange(3), Purpose.NOISE), 10_000, variance=4.0)
    >>> drawn.shape, bool(abs(drawn.var() - 4) < 0.2)
    ((3, 10000), True)
    """
    columns = Key(key.first[..., None], key.second[..., None])
    drawn = words(columns, namespace(columns.first).arange(count, dtype=np.uint32))
    tails = namespace(drawn).asarray(_tails(variance, 31).astype(np.uint32))
    return _from_words(drawn, tails, np.uint32(1))


def secret_skellam(count: int, variance: float) -> npt.NDArray[np.int32]:
    """`count` draws that nobody can repeat, from the random numbers of the operating system, 63 bits for each.

    >>> secret_skellam(3, 4.0).shape
    (3,)
    """
    drawn = np.frombuffer(os.urandom(8 * count), np.uint64)
    made: npt.NDArray[np.int32] = _from_words(drawn, _tails(variance, 63), np.uint64(1))
    return made


def _from_words(drawn: Array, tails: Array, one: np.unsignedinteger) -> Array:
    """The lowest bit is the sign, the others say how many of the tails are still above them."""
    xp = namespace(drawn)
    size = (len(tails) - xp.searchsorted(tails, drawn >> one, side="right")).astype(np.int32)
    return xp.where(drawn & one == one, -size, size)


@functools.lru_cache(maxsize=64)
def _tails(variance: float, bits: int) -> npt.NDArray[np.uint64]:
    """floor(2^bits P(|X| >= j)) for j = ..., 2, 1, as far as it is not 0: ascending.

    Sums of positive terms, from the smallest on: exact to a few parts in 10^16 of each tail.
    """
    mean = variance / 2
    reach = 14 * math.sqrt(mean) + 60
    first = max(0, math.floor(mean - reach))
    counts = range(first, math.ceil(mean + reach) + 1)
    poisson = np.exp([count * math.log(mean) - mean - math.lgamma(count + 1) for count in counts])
    above = np.convolve(poisson, poisson[::-1])[len(poisson) :][::-1]  # P(X = j), j = ..., 2, 1
    made = np.floor(np.cumsum(2 * above) * 2.0**bits)
    return made[made > 0].astype(np.uint64)
