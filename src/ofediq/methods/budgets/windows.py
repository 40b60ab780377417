"""`Growing`: windows that grow like the square root of time, each with one message down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.errors import require
from ofediq.methods.pieces import piece
from ofediq.settings import Ranged, limited

Steps = npt.NDArray[np.int32]

_MOST_WINDOWS = 2**22  # of the longest: their ends are kept in memory


@piece
@dataclass(frozen=True)
class Growing(Ranged):
    """Windows of about `longest` sqrt(t / T) steps, so that N = 2 T / `longest` of them end near T (n / N)^2.

    What is learnt early helps all later steps, and late gradients say little new. Lengths are 1, 2, 3, 4, 6, 8, 12,
    16, ..., so that compiled code is made for a few of them; after T all are as long as the last. The first step is a
    window of its own unless `shortest` says otherwise. Only whole numbers decide, so that everyone who counts comes
    to the same windows.

    Attributes:
        longest: length of a window near T.
        steps: T.
        shortest: no window is shorter, where one of that length is not longer than `longest`.
    """

    longest: float
    steps: Annotated[int, limited(1, 2**30)]
    shortest: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.longest < 2**20, "longest", "must lie in [1, 2^20)", self.longest)
        require(1 <= self.shortest <= self.longest, "shortest", "must lie in [1, longest]", self.shortest)
        many = self.steps / self.longest <= _MOST_WINDOWS
        require(many, "steps", f"must be at most {_MOST_WINDOWS:,} of the longest windows", self.steps)

    def length(self, step: Array) -> Array:
        """Steps of the window that begins after `step`.

        >>> Growing(8.0, 64).length(np.array([0, 1, 4, 16, 36, 64, 1000]))
        array([1, 1, 2, 4, 6, 8, 8], dtype=int32)
        >>> Growing(8.0, 64, shortest=3.0).length(np.array([0, 1, 4, 16, 36, 64, 1000]))
        array([3, 3, 3, 4, 6, 8, 8], dtype=int32)
        """
        xp, (starts, lengths) = namespace(step), _table(self)
        place = (xp.asarray(step)[..., None] >= xp.asarray(starts)).sum(-1) - 1
        return xp.asarray(lengths)[place]

    def length_to(self, end: Array) -> Array:
        """Steps of the window that ends with the step `end`.

        >>> Growing(4.0, 16).length_to(np.array([1, 4, 6, 13, 16, 17, 20]))
        array([1, 1, 2, 3, 3, 4, 4], dtype=int32)
        """
        xp, ends = namespace(end), _ends(self)
        place = xp.searchsorted(xp.asarray(ends), end)
        before = xp.asarray(np.concatenate([np.zeros(1, np.int32), ends]))[place]
        return xp.where(end <= ends[-1], end - before, self._last()).astype(np.int32)

    def number_to(self, end: Array) -> Array:
        """How many windows there are up to the one that ends with the step `end`."""
        xp, ends = namespace(end), _ends(self)
        beyond = len(ends) + (end - ends[-1]) // self._last()
        within = xp.searchsorted(xp.asarray(ends), end, side="right")
        return xp.where(end <= ends[-1], within, beyond).astype(np.int32)

    def ends(self, steps: int) -> Steps:
        """The last steps of all windows within `steps`.

        >>> Growing(4.0, 16).ends(18)
        array([ 1,  2,  3,  4,  6,  8, 10, 13, 16], dtype=int32)
        """
        ends = _ends(self)
        beyond = np.arange(ends[-1], steps + 1, self._last(), dtype=np.int32)[1:]
        return np.concatenate([ends[ends <= steps], beyond])

    def _last(self) -> np.int32:
        """Length of the windows after T."""
        return np.int32(_table(self)[1][-1])


@lru_cache(maxsize=64)
def _table(windows: Growing) -> tuple[Steps, Steps]:
    """The steps from which on windows have each length."""
    lengths = [1, *(size for power in range(1, 20) for size in (2**power, 3 * 2 ** (power - 1)))]
    within = sorted(size for size in lengths if size <= windows.longest)
    kept = [size for size in within if size >= windows.shortest] or within[-1:]
    # `longest` sqrt(t / T) >= length
    starts = [0, *(int(np.ceil(windows.steps * (size / windows.longest) ** 2)) for size in kept[1:])]
    return np.array(starts, np.int32), np.array(kept, np.int32)


@lru_cache(maxsize=64)
def _ends(windows: Growing) -> Steps:
    """The last steps of all windows that begin before T."""
    starts, lengths = _table(windows)
    parts, end = [], 0
    for begin, length in zip([*starts[1:].tolist(), windows.steps], lengths.tolist(), strict=True):
        count = max(0, -(-(min(begin, windows.steps) - end) // length))
        parts.append(end + length * np.arange(1, count + 1, dtype=np.int32))
        end += length * count
    return np.concatenate(parts)
