"""What the server believes of what members say about their predictions.

Nobody can check a report. So one member's numbers count as far as they are usual among members: a liar among ten
moves the page's figures by as much as an unlucky member would, and carries a mark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats
from ofediq.federation.protocol.reports import Report

RECENT = 64
"""What is usual is read from the members that reported last, at least so many of them."""

SAMPLES, SPREAD = 3.0, 10.0
"""Predictions that a member may have reported in all, in usual numbers; and how far its mean error may lie from that
of the middle members, in their mean distances from it, and half of it beside."""

WINDOWS = 16
"""Predictions of a report where nobody knows what is usual, in windows; 64 at least."""

_FEW = 4  # so few members say nothing about what is usual
_TRIMMED = 30  # per cent of the members, at either end, that do not say what is usual
_MEMORY, _MANY = 64, 16  # reports over which a member's means are taken; over which it is marked
_ODD, _EVEN = 0.7, 0.3  # share of reports out of line at which a mark is made, and taken away


class Belief:
    """Cuts the reports of a round to what is usual.

    >>> belief, honest, lie = Belief(), Report(samples=8, error=1.0, naive=2.0), Report(65_535, 1e18, 0.0)
    >>> for _ in range(20):
    ...     found = belief.fit([(number, lie if number == 3 else honest) for number in range(10)])
    >>> found[3].samples, found[3].error < 20, belief.odd
    (24, True, frozenset({3}))
    >>> found[0] == honest
    True
    """

    def __init__(self, window: int = 1) -> None:
        self._first = max(64, WINDOWS * window)
        self._count = np.zeros(0, np.int64)  # by number, as all of these
        self._last = np.zeros(0, np.int64)  # when it reported, in reports of all
        self._samples = np.zeros(0)  # that it has reported, as far as they count
        self._means = np.zeros((0, 2))  # errors per prediction, its own and the naive ones
        self._outside = np.zeros(0)  # share of its reports that were out of line
        self._odd = np.zeros(0, bool)

    @property
    def odd(self) -> frozenset[int]:
        """The members whose numbers are out of line, again and again."""
        return frozenset(np.flatnonzero(self._odd).tolist())

    def fit(self, said: Sequence[tuple[int, Report]]) -> list[Report]:
        """As much of each report of a round as counts, with the numbers of those who sent them."""
        some = [(number, one) for number, one in said if one.samples]
        if not some:
            return []
        numbers = np.array([number for number, _ in some])
        rows = np.array([(one.samples, one.error, one.naive) for _, one in some], np.float64)
        rows[:, 1:] /= rows[:, :1]
        self._learn(numbers, rows)
        fitted = self._fitted(numbers, rows)
        outside = (np.abs(fitted - rows) > 1e-9 * np.abs(rows)).any(1)
        memory = np.minimum(self._count[numbers], _MANY)
        self._outside[numbers] += (outside - self._outside[numbers]) / memory
        limit = np.where(self._odd[numbers], _EVEN, _ODD)
        self._odd[numbers] = (self._outside[numbers] > limit) & (memory == _MANY)
        return [
            Report(int(samples), error * samples, naive * samples)
            for samples, error, naive in fitted.tolist()
        ]

    def _learn(self, numbers: npt.NDArray[np.int64], rows: Floats) -> None:
        for name in ("count", "last", "samples", "means", "outside", "odd"):
            table = getattr(self, f"_{name}")
            missing = int(numbers.max()) + 1 - len(table)
            if missing > 0:
                more = np.zeros((missing, *table.shape[1:]), table.dtype)
                setattr(self, f"_{name}", np.concatenate([table, more]))
        self._count[numbers] += 1
        self._last[numbers] = self._last.max(initial=0) + 1
        memory = np.minimum(self._count[numbers], _MEMORY)[:, None]
        self._means[numbers] += (rows[:, 1:] - self._means[numbers]) / memory

    def _fitted(self, numbers: npt.NDArray[np.int64], rows: Floats) -> Floats:
        known = np.flatnonzero(self._count)
        since = np.sort(self._last[known])[max(0, known.size - RECENT)]
        recent = known[self._last[known] >= since]
        said = self._samples[numbers] + rows[:, 0]
        self._samples[numbers] = (
            said if recent.size <= _FEW else np.minimum(said, self._most(numbers, recent, said))
        )
        samples = rows[:, 0] - (said - self._samples[numbers])
        if recent.size <= _FEW:
            return np.column_stack([np.minimum(samples, self._first), rows[:, 1:]])
        middle, reach = _usual(self._means[recent])
        # Single errors vary, means do not: who is out of line on average counts as one at the edge.
        means, high, low = self._means[numbers], middle + reach, middle - reach
        drawn = rows[:, 1:] * (np.minimum(means, high) / np.where(means > 0, means, 1)) + np.maximum(
            0, low - means
        )
        return np.column_stack([samples, drawn])

    def _most(self, numbers: npt.NDArray[np.int64], recent: npt.NDArray[np.int64], said: Floats) -> Floats:
        """Predictions that each of these may have reported by now."""
        totals = self._samples.copy()
        totals[numbers] = said
        most: Floats = np.maximum(self._samples[numbers], SAMPLES * np.median(totals[recent]) + self._first)
        return most


def _usual(means: Floats) -> tuple[Floats, Floats]:
    """The middle of members' means, and how far from it is not out of line, without those at either end."""
    cut = -(-len(means) * _TRIMMED // 100)
    inner = np.sort(means, axis=0)[cut : len(means) - cut]
    middle = inner.mean(0)
    return middle, SPREAD * np.abs(inner - middle).mean(0) + middle / 2
