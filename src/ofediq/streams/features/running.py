"""Running statistics of many clients at once: pure, in float64, one row per client.

Every function is arithmetic per entry, so one client alone gets the same bits as the same client among thousands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats


class RunningMoments(NamedTuple):
    """Mean and variance so far; weights fade after `horizon` values.

    Attributes:
        number: how many values there were.
        mean: of the values.
        spread: their mean squared distance from the mean.
    """

    number: Floats
    mean: Floats
    spread: Floats

    @property
    def deviation(self) -> Floats:
        """The standard deviation so far."""
        return np.sqrt(self.spread)


def no_moments(*shape: int) -> RunningMoments:
    """Before the first value."""
    return RunningMoments(np.zeros(shape), np.zeros(shape), np.zeros(shape))


def update(
    moments: RunningMoments, values: Floats, horizon: float, *, robust: bool = False
) -> RunningMoments:
    """`moments` after `values`; NaN leaves an entry as it is.

    With a = max(1 / n, 1 / horizon) for the n-th value v: mean' = mean + a (v - mean) and
    spread' = (1 - a) (spread + a (v - mean)^2): Welford's update for n <= horizon, exponential forgetting after it.
    `robust` cuts v to four deviations around the mean, once there are ten values.

    >>> moments = no_moments(1)
    >>> for value in (1.0, 3.0, float("nan"), 5.0):
    ...     moments = update(moments, np.array([value]), horizon=1000)
    >>> moments.number.tolist(), moments.mean.tolist(), moments.spread.round(6).tolist()
    ([3.0], [3.0], [2.666667])
    """
    known = ~np.isnan(values)
    if robust:
        reach = np.where(moments.number >= _ENOUGH, 4 * np.sqrt(moments.spread), np.inf)
        values = np.clip(values, moments.mean - reach, moments.mean + reach)
    count = moments.number + known
    rate = np.maximum(1 / np.maximum(count, 1), 1 / horizon)
    off = np.where(known, values - moments.mean, 0.0)
    kept = np.where(known, 1 - rate, 1.0)
    return RunningMoments(count, moments.mean + rate * off, kept * (moments.spread + rate * off * off))


_ENOUGH = 10
ROUNDING = 1e-9  # a width below this share of the centre is rounding noise of a constant


def average(mean: Floats, values: Floats, count: Floats, horizon: float) -> Floats:
    """The fading mean of values after the `count`-th one; NaN leaves an entry as it is."""
    rate = np.maximum(1 / np.maximum(count, 1), 1 / horizon)
    return np.where(np.isnan(values), mean, mean + rate * (values - mean))


def scaled(values: Floats, centre: Floats | float, width: Floats, limit: float) -> Floats:
    """(values - centre) / width, cut to [-limit, limit]; 0 where the value is unknown or the width is 0.

    >>> scaled(np.array([3.0, 99.0, np.nan, 5.0]), 1.0, np.array([2.0, 1.0, 1.0, 0.0]), limit=5.0).tolist()
    [1.0, 5.0, 0.0, 0.0]
    """
    usable = (width > ROUNDING * np.abs(centre)) & ~np.isnan(values)
    ratio = np.where(usable, values - centre, 0.0) / np.where(usable, width, 1.0)
    return np.minimum(np.maximum(ratio, -limit), limit)
