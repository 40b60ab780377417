"""Participation rates: one for all clients, or one per client in proportion to its uplink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import InputError, require, require_integer

Rate = float | Sequence[float] | Floats
"""The probability p_k that client k sends: one number for all clients, or one number per client."""

MAX_COUNT = 2**53
"""Largest number of clients or steps: beyond it a float no longer holds every integer."""


class RateSummary(NamedTuple):
    """What the bounds need to know about the rates p_1, ..., p_K.

    Attributes:
        lowest: p_min, the rate of the slowest client.
        total: p_sum, the expected number of senders per transmission.
        clients: K.
    """

    lowest: float
    total: float
    clients: int


def rate_summary(rate: Rate, clients: int) -> RateSummary:
    """Summarise `rate` for the bounds.

    Args:
        rate: p_k in (0, 1]; a number for all clients or one entry per client.
        clients: K.

    >>> rate_summary(0.5, clients=10)
    RateSummary(lowest=0.5, total=5.0, clients=10)
    >>> rate_summary([0.25, 0.75], clients=2)
    RateSummary(lowest=0.25, total=1.0, clients=2)
    """
    clients = require_integer("clients", clients, 1, MAX_COUNT)
    rates = _numbers("rate", rate)
    outside = rates[~((rates > 0) & (rates <= 1))]
    require(outside.size == 0, "rate", "must lie in (0, 1]", float(outside[0]) if outside.size else None)
    if rates.ndim == 0:
        return RateSummary(float(rates), float(rates) * clients, clients)
    require(rates.size == clients, "rate", f"must have {clients} entries, one per client", rates.size)
    return RateSummary(float(rates.min()), float(rates.sum()), clients)


class ProportionalRates:
    """Rates in proportion to uplink capacities c_k, cut at 1, for any wanted mean rate.

        p_k = min(1, x c_k),   with x such that (p_1 + ... + p_K) / K = mean

    What a saturated client (p_k = 1) cannot use goes to the others in proportion to their capacities. The mean
    is a piecewise linear, increasing function of x with a knot at each 1 / c_k, so x is an interpolation.

    Args:
        capacities: c_k > 0, in any unit; only ratios matter.

    >>> rates = ProportionalRates([1.0, 1.0, 6.0])
    >>> [round(float(p), 3) for p in rates.at(0.2)]
    [0.075, 0.075, 0.45]
    >>> [round(float(p), 3) for p in rates.at(0.5)]
    [0.25, 0.25, 1.0]
    """

    def __init__(self, capacities: Sequence[float] | Floats) -> None:
        values = _numbers("capacities", capacities)
        require(
            values.ndim == 1 and values.size > 0,
            "capacities",
            "must be a list, one number per client",
            capacities,
        )
        wrong = values[~(np.isfinite(values) & (values > 0))]
        require(
            wrong.size == 0,
            "capacities",
            "must be finite numbers > 0",
            float(wrong[0]) if wrong.size else None,
        )
        self._capacities = values / values.max()
        smallest = float(self._capacities.min())
        require(
            smallest > 1e-100, "capacities", "must lie within a factor of 1e100", f"a ratio of {smallest:.3g}"
        )
        ascending = np.sort(self._capacities)
        # At the knot x = 1 / c every client with a capacity of at least c is saturated; the others send x c_k.
        capacity, smaller = np.unique(ascending, return_index=True)
        unsaturated = np.concatenate(([0.0], np.cumsum(ascending)))[smaller] / capacity
        means = (ascending.size - smaller + unsaturated) / ascending.size
        self._knots = np.concatenate(([0.0], 1 / capacity[::-1]))
        self._means = np.concatenate(([0.0], means[::-1]))

    @property
    def clients(self) -> int:
        """K, the number of capacities."""
        return int(self._capacities.size)

    @property
    def smallest_share(self) -> float:
        """The smallest capacity over the mean capacity: p_min / mean as long as nobody is saturated."""
        return float(self._capacities.min() / self._capacities.mean())

    def at(self, mean: float) -> Floats:
        """One rate per client whose average is `mean`, a number in (0, 1]."""
        return self._cut(np.array(mean), self._capacities)

    def lowest(self, mean: Floats) -> Floats:
        """p_min for each mean rate: convex and increasing in the mean, 0 at 0 and 1 at 1."""
        return self._cut(mean, self._capacities.min())

    def _cut(self, mean: Floats, capacity: Floats) -> Floats:
        scale: Floats = np.interp(mean, self._means, self._knots)
        return np.minimum(1.0, scale * capacity)


def _numbers(name: str, value: Rate) -> Floats:
    """`value` as a float array with at most one axis, or `InputError`."""
    rule = "must be a number or a list of numbers"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` {rule}, got {value!r}") from None
    require(array.ndim <= 1, name, rule, f"an array of shape {array.shape}")
    return array
