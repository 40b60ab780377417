"""Features from what a client measures: values scaled by their past, their changes, and where they are missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import DataError
from ofediq.streams.cells import NO_NUMBER, amount
from ofediq.streams.features.running import ROUNDING, RunningMoments, average, no_moments, scaled, update

LASTING, LOOSE = (
    0.6,
    0.9,
)  # half a squared change over the variance: of neighbours that are alike, and that are not
_TRUTH = {"true": 1.0, "false": 0.0}


class Seen(NamedTuple):
    """What a client remembers of its readings, [clients, readings] each."""

    last: Floats  # the last known value; NaN before the first
    moments: RunningMoments
    change: Floats  # mean squared change so far
    changes: Floats  # how many there were


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
        numbers, flags = (tuple(self.names[place] for place in places) for places in self._places[:2])
        changes = tuple(f"change of {name}" for name in numbers) if self.differences else ()
        return (*numbers, *changes, *flags, *(f"{name} is missing" for name in self.gaps))

    def read(self, sample: Mapping[str, Any]) -> Floats:
        """The readings in `sample`, by name, as one row [1, readings] for `observe`.

        A name "mode=eco" is 1 where the sample's "mode" is eco. None, an empty text and NaN are missing, and so is a
        name that is not there, if it is one of `gaps`.

        >>> readings = Readings(("heat", "mode=eco", "mode=full"), flags=("mode=eco", "mode=full"), gaps=("heat",))
        >>> readings.read({"mode": "eco", "heat": 21.5}).tolist(), readings.read({"mode": "full"}).tolist()
        ([[21.5, 1.0, 0.0]], [[nan, 0.0, 1.0]])
        >>> readings.read({"mode": "eco", "heta": 21.5})
        Traceback (most recent call last):
        ofediq.errors.DataError: `sample` must hold heat, mode only, got 'heta'
        """
        categories = {name: name.partition("=") for name in self.names if "=" in name and name not in sample}
        known = list(
            dict.fromkeys(categories[name][0] if name in categories else name for name in self.names)
        )
        for name in sample:
            if name not in known:
                raise DataError(f"`sample` must hold {', '.join(known)} only, got {name!r}")
        row = np.empty((1, len(self.names)))
        for place, name in enumerate(self.names):
            key = categories[name][0] if name in categories else name
            if key not in sample and name not in self.gaps:
                raise DataError(f"`sample` must hold {key!r}, got {', '.join(map(str, sample)) or 'nothing'}")
            value = sample.get(key)
            row[0, place] = (
                float(str(value) == categories[name][2]) if name in categories else _number(key, value)
            )
        return row

    def memory(self, clients: int) -> Seen:
        """Nothing read yet."""
        shape = (clients, len(self.names))
        return Seen(np.full(shape, np.nan), no_moments(*shape), np.zeros(shape), np.zeros(shape))

    def observe(
        self, seen: Seen, values: Floats, horizon: float, limit: float, robust: bool
    ) -> tuple[Floats, Seen]:
        """Features of `values` [clients, readings], and what is remembered after them."""
        change = values - seen.last
        changes = seen.changes + ~np.isnan(change)
        after = Seen(
            np.where(np.isnan(values), seen.last, values),
            update(seen.moments, values, horizon, robust=robust),
            average(seen.change, change * change, changes, horizon),
            changes,
        )
        numbers, flags, gaps = self._places
        level = scaled(values, after.moments.mean, after.moments.deviation, limit)
        parts = [level[:, numbers]]
        if self.differences:
            parts.append(scaled(change, 0.0, np.sqrt(after.change), limit)[:, numbers])
        if flags:
            parts.append(np.where(np.isnan(values[:, flags]), 0.0, values[:, flags]))
        if gaps:
            parts.append(np.isnan(values[:, gaps]).astype(np.float64))
        return np.concatenate(parts, axis=1), after

    def unordered(self, seen: Seen) -> Floats:
        """How much each client's rows look like rows in no order, [clients]: 0 for a time series, up to 1.

        In no order, half the mean squared change of a reading is its variance: their ratio is 1. Where neighbours are
        alike it is less, 3 / (n + 1) after n rows of a random walk. The mean ratio of all numbers, each cut to 1,
        counts from .6 on and in full from .9: one reading in two that lasts makes it a time series. Flags count where
        there are no numbers.

        >>> readings = Readings(("heat", "number"))
        >>> memory = readings.memory(2)
        >>> for row in range(8):  # of the first client both numbers jump, of the second one they grow
        ...     values = np.array([[row * 5 % 8, row * 3 % 8], [row, 10.0 + row]])
        ...     _, memory = readings.observe(memory, values, horizon=1000, limit=5.0, robust=False)
        >>> readings.unordered(memory).tolist()
        [1.0, 0.0]
        """
        moments, numbers = seen.moments, self._places[0] or self._places[1]
        usable = (moments.deviation > ROUNDING * np.abs(moments.mean)) & (seen.changes > 1)
        twice = 2 * moments.number * moments.spread
        ratio = np.minimum(seen.change * (moments.number - 1) / np.where(usable, twice, 1.0), 1.0)
        # Added up one after another: the same bits for one client and for many.
        total = np.cumsum(np.where(usable, ratio, 0.0)[:, numbers], axis=1)[:, -1:].sum(axis=1)
        count = usable[:, numbers].sum(axis=1)
        loose = (total / np.maximum(count, 1) - LASTING) / (LOOSE - LASTING)
        return np.asarray(np.clip(loose, 0.0, 1.0))

    @cached_property
    def _places(self) -> tuple[list[int], list[int], list[int]]:
        """Where numbers, flags and gaps are among the names; looked up once, since there may be thousands."""
        flags, at = set(self.flags), {name: place for place, name in enumerate(self.names)}
        numbers = [place for place, name in enumerate(self.names) if name not in flags]
        return numbers, [at[name] for name in self.names if name in flags], [at[name] for name in self.gaps]


def known(values: Any) -> Floats:
    """`values` in float64, NaN where they are so large that they stand for none.

    >>> known([20.5, 9.97e36, float("-inf")]).tolist()
    [20.5, nan, nan]
    """
    array = np.asarray(values, np.float64)
    return np.where(np.abs(array) < NO_NUMBER, array, np.nan)


def _number(name: str, value: Any) -> float:
    """`value` as a number, 1 and 0 for the words of truth; NaN if there is none, or one that stands for none."""
    if value is None or (isinstance(value, str) and not value):
        return float("nan")
    if isinstance(value, str) and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    try:
        return float(known(float(value)))
    except (TypeError, ValueError):
        if isinstance(value, str) and not math.isnan(found := amount(value)):
            return found
        raise DataError(f"`{name}` must be a number or missing, got {value!r}") from None
