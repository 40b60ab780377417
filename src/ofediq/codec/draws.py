"""Where the quantisers' uniform draws come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.randomness import Key, uniform

Source: TypeAlias = Callable[[int, int], Array]
"""Draws from (first index, how many), a row for each client."""


@dataclass(frozen=True)
class StreamDraws:
    """The draws of the stream `key`, or of one stream for each client: coordinate i at index i.

    >>> from ofediq.randomness import Purpose, stream_key
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
