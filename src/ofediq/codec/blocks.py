"""How a vector is cut into blocks: sizes differ by at most one, the longer blocks come first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ofediq.arrays import Array
from ofediq.errors import require_integer

MAX_DIM = 2**32 - 1
"""Largest number of coordinates that a frame can announce."""

TILE = 2**14
"""Coordinates that NumPy code works on at a time. Temporary arrays of 64 kB stay in the cache, and allocators
reuse them: fresh pages for each one would cost as much as the arithmetic."""


class Run(NamedTuple):
    """Neighbouring blocks of one size. Their coordinates are one plain reshape of a slice.

    Attributes:
        start: first coordinate.
        first_block: number of the first block.
        blocks: how many blocks.
        size: coordinates in each block.
    """

    start: int
    first_block: int
    blocks: int
    size: int

    def rows(self, vector: Array) -> Array:
        """The run's coordinates, one block per row; axes before the last one stay."""
        stop = self.start + self.blocks * self.size
        return vector[..., self.start : stop].reshape(*vector.shape[:-1], self.blocks, self.size)

    def column(self, per_block: Array) -> Array:
        """The run's part of one number per block, as a column that broadcasts against `rows`."""
        return per_block[..., self.first_block : self.first_block + self.blocks, None]


def block_layout(dim: int, blocks: int) -> tuple[Run, ...]:
    """The blocks of a vector, as one or two runs of equal blocks.

    With q, r = divmod(D, b): r blocks of q + 1 coordinates, then b - r blocks of q.

    Args:
        dim: D, the length of the vector.
        blocks: b, from 1 to `dim`.

    >>> block_layout(10, 4)
    (Run(start=0, first_block=0, blocks=2, size=3), Run(start=6, first_block=2, blocks=2, size=2))
    >>> block_layout(10, 5)
    (Run(start=0, first_block=0, blocks=5, size=2),)
    """
    dim = require_integer("dim", dim, 1, MAX_DIM)
    blocks = require_integer("blocks", blocks, 1, dim)
    size, longer = divmod(dim, blocks)
    runs = (Run(0, 0, longer, size + 1), Run(longer * (size + 1), longer, blocks - longer, size))
    return tuple(run for run in runs if run.blocks)


def tiles(runs: tuple[Run, ...], limit: int = TILE) -> Iterator[Run]:
    """Cut runs into smaller ones of at most `limit` coordinates: several whole blocks, or a piece of one.

    >>> list(tiles(block_layout(10, 2), limit=4))[:2]
    [Run(start=0, first_block=0, blocks=1, size=4), Run(start=4, first_block=0, blocks=1, size=1)]
    """
    for run in runs:
        together = max(1, limit // run.size)
        for skipped in range(0, run.blocks, together):
            start, block = run.start + skipped * run.size, run.first_block + skipped
            if run.size <= limit:
                yield Run(start, block, min(together, run.blocks - skipped), run.size)
                continue
            for offset in range(0, run.size, limit):
                yield Run(start + offset, block, 1, min(limit, run.size - offset))
