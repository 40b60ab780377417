"""Where the quantiser's uniform draws come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ofediq.codec.message import Vector
from ofediq.errors import InputError
from ofediq.randomness import Key, Purpose, stream_key, uniform

Rng: TypeAlias = np.random.Generator | Key | int
"""A NumPy generator; an addressable stream; or the seed of a run, which stands for one stream per purpose."""

Source: TypeAlias = Callable[[int, int], Vector]
"""Draws from (first index, how many). A generator ignores the index and goes on where it stopped."""


def level_draws(rng: Rng, step: int, client: int) -> Source:
    """Draws for rounding coordinates: coordinate i at index i.

    >>> level_draws(0, step=1, client=2)(4, 3).shape
    (3,)
    """
    return _source(rng, Purpose.ROUND, step, client)


def norm_draws(rng: Rng, norm_rng: Key | None, step: int, client: int) -> Source:
    """Draws for rounding norms: block j at index j. A stream of level draws cannot serve, it is used up.

    >>> norm_draws(0, None, step=1, client=2)(0, 2).shape
    (2,)
    """
    if isinstance(rng, Key):
        if norm_rng is None:
            raise InputError("`norm_rng` must be given when `rng` is a stream and `norm_bits` is 16")
        rng = norm_rng
    return _source(rng, Purpose.NORM, step, client)


def _source(rng: Rng, purpose: Purpose, step: int, client: int) -> Source:
    if isinstance(rng, np.random.Generator):
        return lambda start, count: rng.random(count, np.float32)
    if isinstance(rng, Key):
        key = Key(*(np.asarray(word, np.uint32).reshape(-1) for word in rng))
        if key.first.size != 1 or key.second.size != 1:
            raise InputError(f"`rng` must be the key of one stream, got {key.first.size} streams")
    elif isinstance(rng, bool) or not hasattr(rng, "__index__"):
        raise InputError(f"`rng` must be a numpy Generator, a randomness.Key or an integer seed, got {rng!r}")
    else:
        key = stream_key(rng.__index__(), step, client, purpose)

    def addressed(start: int, count: int) -> Vector:
        drawn: Vector = uniform(key, np.arange(start, start + count, dtype=np.uint32))
        return drawn

    return addressed
