"""Features from what a client measures: values scaled by their past, their changes, and where they are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.streams.features.running import Moments, Numbers, average, no_moments, scaled, update


class Seen(NamedTuple):
    """What a client remembers of its readings, [clients, readings] each."""

    last: Numbers  # the last known value; NaN before the first
    moments: Moments
    change: Numbers  # mean squared change so far
    changes: Numbers  # how many there were


@dataclass(frozen=True)
class Readings:
    """Numbers that a client reads before it predicts.

    A number becomes (value - mean) / deviation with mean and deviation so far, and, with `differences`,
    (value - last value) / their root mean square so far; a missing one becomes 0 in both. A flag (0 or 1, a
    category's column) stays as it is. Each of `gaps` gets a column that is 1 where it is missing.

    Attributes:
        names: of the readings, in their order.
        flags: those of them that are 0 or 1.
        gaps: those that may be missing.
        differences: whether changes are features too.
    """

    names: tuple[str, ...]
    flags: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    differences: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        numbers = self._names(flags=False)
        changes = tuple(f"change of {name}" for name in numbers) if self.differences else ()
        return (*numbers, *changes, *self._names(flags=True), *(f"{name} is missing" for name in self.gaps))

    def memory(self, clients: int) -> Seen:
        """Nothing read yet."""
        shape = (clients, len(self.names))
        return Seen(np.full(shape, np.nan), no_moments(*shape), np.zeros(shape), np.zeros(shape))

    def observe(
        self, seen: Seen, values: Numbers, horizon: float, limit: float, robust: bool
    ) -> tuple[Numbers, Seen]:
        """Features of `values` [clients, readings], and what is remembered after them."""
        change = values - seen.last
        changes = seen.changes + ~np.isnan(change)
        after = Seen(
            np.where(np.isnan(values), seen.last, values),
            update(seen.moments, values, horizon, robust=robust),
            average(seen.change, change * change, changes, horizon),
            changes,
        )
        numbers, flags = self._places(flags=False), self._places(flags=True)
        level = scaled(values, after.moments.mean, after.moments.deviation, limit)
        parts = [level[:, numbers]]
        if self.differences:
            parts.append(scaled(change, 0.0, np.sqrt(after.change), limit)[:, numbers])
        if flags:
            parts.append(np.where(np.isnan(values[:, flags]), 0.0, values[:, flags]))
        if self.gaps:
            parts.append(
                np.isnan(values[:, [self.names.index(name) for name in self.gaps]]).astype(np.float64)
            )
        return np.concatenate(parts, axis=1), after

    def _names(self, *, flags: bool) -> tuple[str, ...]:
        return tuple(name for name in self.names if (name in self.flags) == flags)

    def _places(self, *, flags: bool) -> list[int]:
        return [place for place, name in enumerate(self.names) if (name in self.flags) == flags]
