"""A number to be predicted: naive forecasts of it, and features from its own past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.streams.features.running import Moments, Numbers, average, no_moments, scaled, update

FORECASTS = ("last", "mean", "season")
_PRIOR = (0.97, 0.015, 0.015)
_TRIALS = 1000.0  # no more than so many count as evidence
_LARGEST = 100.0  # of a ratio of errors: more is no better evidence
_CHANGES_NEEDED = 3  # before the size of a change is known well enough to learn from it


class NumberPast(NamedTuple):
    """What a client remembers of its targets, one row per client."""

    number: Numbers  # [clients], how many there were
    past: Numbers  # [clients, depth], newest first; NaN where there was none
    moments: Moments  # [clients]
    change: Numbers  # [clients], mean squared difference of neighbours
    misses: Numbers  # [clients, forecasts], mean squared error of each naive forecast
    rivals: Numbers  # [clients, forecasts], that of the last value over the same trials
    tried: Numbers  # [clients, forecasts], how many errors that is the mean of
    miss: Numbers  # [clients], mean squared error of the forecast that the prediction starts from
    starts: Numbers  # [clients], how many of those
    forecast: Numbers  # [clients], b of the next target
    unit: Numbers  # [clients], s of the next target


@dataclass(frozen=True)
class NumberTarget:
    """What is to be learnt is the distance from a naive forecast b, in units of its usual size s.

    The model predicts b + s f(features); with f = 0, before anything is learnt, that *is* the naive forecast. b is
    the client's last target, its mean so far, the target one season ago, or with "auto" their mean with weights

        prior_i exp(n_i (l_i / e_i - 1) / 4)   if l_i > e_i,   prior_i exp(-n_i (e_i / l_i - 1) / 4)   else,

    prior = .97 for the last value and .015 for the others, where e_i is the mean squared error of forecast i over its
    n_i trials on this client so far, and l_i that of the last value over the same trials: the last value, until
    another one is clearly better. s is the root mean squared error of b itself. Until
    three errors are known s is 0: the client predicts b and learns nothing.

    Attributes:
        baseline: "last", "mean", "season", "auto", or "none": b = 0 and s = 1, the target as it is.
        season: rows per season; 0 if there is none.
        lags: how many past changes are features.
    """

    baseline: str = "auto"
    season: int = 0
    lags: int = 4

    @property
    def anchors(self) -> tuple[str, ...]:
        """Names of the columns after the features: where the prediction starts, and in which unit it is learnt."""
        return ("forecast", "unit")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        changes = tuple(f"change {lag} ago" for lag in range(1, self.lags + 1))
        seasonal = ("season ago", "change a season ago") if self.season else ()
        return ("level", "last against forecast", *changes, *seasonal)

    @property
    def depth(self) -> int:
        """How many targets are remembered."""
        return max(self.lags, self.season) + 1

    def memory(self, clients: int) -> NumberPast:
        """No targets yet."""
        shape = (clients, len(FORECASTS))
        return NumberPast(
            np.zeros(clients),
            np.full((clients, self.depth), np.nan),
            no_moments(clients),
            np.zeros(clients),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(clients),
            np.zeros(clients),
            np.zeros(clients),
            np.full(clients, 1.0 if self.baseline == "none" else 0.0),
        )

    def observe(self, past: NumberPast, limit: float) -> tuple[Numbers, Numbers]:
        """Features [clients, columns] and anchors [clients, 2] of the next target."""
        last = past.past[:, 0]
        forecast, unit = past.forecast, past.unit
        changes = past.past[:, :-1] - past.past[:, 1:]
        usual = np.sqrt(past.change)
        parts = [
            scaled(last, past.moments.mean, past.moments.deviation, limit)[:, None],
            scaled(last, forecast, unit, limit)[:, None],
            scaled(changes[:, : self.lags], 0.0, usual[:, None], limit),
        ]
        if self.season:
            ago = past.past[:, self.season - 1]
            parts.append(scaled(ago, last, past.moments.deviation, limit)[:, None])
            parts.append(scaled(changes[:, self.season - 1], 0.0, usual, limit)[:, None])
        return np.concatenate(parts, axis=1), np.stack([forecast, unit], axis=1)

    def learn(self, past: NumberPast, targets: Numbers, horizon: float, robust: bool) -> NumberPast:
        """What is remembered after `targets` [clients]."""
        errors = (self._naive(past) - targets[:, None]) ** 2
        miss = np.where(past.number > 0, (past.forecast - targets) ** 2, np.nan)
        starts = past.starts + ~np.isnan(miss)
        tried = past.tried + ~np.isnan(errors)
        change = targets - past.past[:, 0]
        after = NumberPast(
            past.number + 1,
            np.concatenate([targets[:, None], past.past[:, :-1]], axis=1),
            update(past.moments, targets, horizon, robust=robust),
            average(past.change, change * change, past.number, horizon),
            average(past.misses, errors, tried, horizon),
            average(past.rivals, np.where(np.isnan(errors), np.nan, errors[:, :1]), tried, horizon),
            tried,
            average(past.miss, miss, starts, horizon),
            starts,
            past.forecast,
            past.unit,
        )
        forecast, unit = self._forecast(after)
        return after._replace(forecast=forecast, unit=unit)

    def _naive(self, past: NumberPast) -> Numbers:
        """Each naive forecast, [clients, forecasts]; NaN where it is not known yet."""
        known = past.number > 0
        mean = np.where(known, past.moments.mean, np.nan)
        ago = past.past[:, self.season - 1] if self.season else np.full_like(mean, np.nan)
        return np.stack([past.past[:, 0], mean, ago], axis=1)

    def _forecast(self, past: NumberPast) -> tuple[Numbers, Numbers]:
        if self.baseline == "none":
            return np.zeros(len(past.number)), np.ones(len(past.number))
        naive = self._naive(past)
        weights = self._weights(past, naive)
        total, chosen = np.zeros(len(naive)), np.zeros(len(naive))
        for one in range(len(FORECASTS)):  # in a fixed order: the same bits for one client and for many
            total = total + weights[:, one]
            chosen = chosen + weights[:, one] * np.where(weights[:, one] > 0, naive[:, one], 0.0)
        forecast = chosen / np.where(total > 0, total, 1.0)
        unit = np.where(past.starts >= _CHANGES_NEEDED, np.sqrt(past.miss), 0.0)
        return forecast, unit

    def _weights(self, past: NumberPast, naive: Numbers) -> Numbers:
        known = ~np.isnan(naive)
        if self.baseline != "auto":
            wanted = np.arange(len(FORECASTS)) == FORECASTS.index(self.baseline)
            fallback = ~(known & wanted).any(axis=1, keepdims=True) & (np.arange(len(FORECASTS)) == 0)
            return np.asarray((wanted | fallback) & known, np.float64)
        better = _excess(past.rivals, past.misses) - _excess(past.misses, past.rivals)
        evidence = np.log(_PRIOR) + np.minimum(past.tried, _TRIALS) * better / 4
        best = np.where(known, evidence, -np.inf).max(axis=1, keepdims=True)
        return np.asarray(np.exp(np.clip(evidence - best, -600.0, 0.0)) * known)


def _excess(larger: Numbers, smaller: Numbers) -> Numbers:
    """larger / smaller - 1 where that is positive, at most `_LARGEST`; else 0."""
    ratio = larger / np.where(smaller > 0, smaller, 1.0) - 1
    return np.where(larger > smaller, np.where(smaller > 0, np.minimum(ratio, _LARGEST), _LARGEST), 0.0)
