"""Where the quantisers' uniform draws come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import InputError
from ofediq.randomness import Key, Purpose, stream_key, uniform

Rng: TypeAlias = np.random.Generator | Key | int
"""A NumPy generator; an addressable stream; or the seed of a run, which stands for one stream per purpose."""

Source: TypeAlias = Callable[[int, int], Array]
"""Draws from (first index, how many), a row for each client. A generator ignores the index and goes on."""


@dataclass(frozen=True)
class StreamDraws:
    """The draws of the stream `key`, or of one stream for each client: coordinate i at index i.

    >>> StreamDraws(stream_key(0, 1, np.arange(2), Purpose.ROUND))(4, 3).shape
    (2, 3)
    """

    key: Key

    def __call__(self, start: int, count: int) -> Array:
        """A `Source`."""
        columns = Key(self.key.first[..., None], self.key.second[..., None])
        xp = namespace(columns.first)
        return uniform(columns, xp.arange(start, start + count, dtype=np.uint32))


def stream_draws(key: Key) -> StreamDraws:
    """The draws of the stream `key`, or of one stream for each client."""
    return StreamDraws(key)


def level_draws(rng: Rng, step: int, client: int) -> Source:
    """Draws for rounding coordinates."""
    return _source(rng, Purpose.ROUND, step, client)


def norm_draws(rng: Rng, norm_rng: Key | None, step: int, client: int) -> Source:
    """Draws for rounding norms: block j at index j. A stream of level draws cannot serve, it is used up."""
    if isinstance(rng, Key):
        if norm_rng is None:
            raise InputError("`norm_rng` must be given when `rng` is a stream and `norm_bits` is 16")
        rng = norm_rng
    return _source(rng, Purpose.NORM, step, client)


def _source(rng: Rng, purpose: Purpose, step: int, client: int) -> Source:
    if isinstance(rng, np.random.Generator):
        return lambda start, count: rng.random(count, np.float32)[None]
    if isinstance(rng, Key):
        key = Key(*(np.asarray(word, np.uint32).reshape(-1) for word in rng))
        if key.first.size != 1 or key.second.size != 1:
            raise InputError(f"`rng` must be the key of one stream, got {key.first.size} streams")
        return stream_draws(key)
    if isinstance(rng, bool) or not hasattr(rng, "__index__"):
        raise InputError(f"`rng` must be a numpy Generator, a randomness.Key or an integer seed, got {rng!r}")
    return stream_draws(stream_key(rng.__index__(), step, client, purpose))
