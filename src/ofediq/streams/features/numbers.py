"""A number to be predicted: naive forecasts of it, and features from its own past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats
from ofediq.streams.features.running import RunningMoments, average, no_moments, scaled, update

FADES = (0.5, 0.2, 0.05)
FORECASTS = ("last", *(f"fading {rate}" for rate in FADES), "mean", "steady", "season")
# In usual times, and after a target that was far from the one before: there it may have been a spike.
_LOG_PRIOR = np.log(
    ((0.92, 0.005, 0.005, 0.005, 0.03, 0.015, 0.02), (0.95, 0.003, 0.003, 0.003, 0.011, 0.025, 0.005))
)
# Where the readings come in no order (`Readings.unordered`), the targets may too: the mean counts so much more.
_UNORDERED = np.log([1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0])
# By so much the logarithm of an error must be lower than that of the last target before it counts as better: what is
# learnt is learnt best from a steady start, and what the learner finds by itself need not be in it.
_MARGINS = np.array([0.0, 0.3, 0.3, 0.3, 0.05, 0.05, 0.05])
_TRIALS = 200.0  # no more than so many count as evidence
_LARGEST = 20.0  # of the logarithm of a ratio of errors: more is no better evidence
_CHANGES_NEEDED = 3  # before the size of a change is known well enough to learn from it
_FAR, _FAR_NEEDED = 20.0, 5  # usual distances that are far, and how many must be known
# Of the squared jump: after far targets errors are few, so one more is counted for each forecast.
_FAR_ERROR = 0.0001


class NumberPast(NamedTuple):
    """What a client remembers of its targets, one row per client."""

    number: Floats  # [clients], how many there were
    past: Floats  # [clients, depth], newest first; NaN where there was none
    moments: RunningMoments  # [clients]
    fading: Floats  # [clients, fades], means in which older targets fade
    change: Floats  # [clients], mean squared difference of neighbours
    kept: Floats  # [clients], the last target that was not far from the one kept before it
    usual: Floats  # [clients], mean distance between a target and the one kept before it
    far: Floats  # [clients, ahead], of a far target its distance from the one kept before, else 0; newest first
    # [clients, 2, forecasts], mean squared error of each naive forecast: in usual times, and after a far target in
    # units of how far that was.
    misses: Floats
    rivals: Floats  # [clients, 2, forecasts], that of the last value over the same trials
    tried: Floats  # [clients, 2, forecasts], how many errors that is the mean of
    tails: Floats  # [clients], mean fourth power of the last value's error in usual times
    miss: Floats  # [clients], mean squared error of the forecast that the prediction starts from
    starts: Floats  # [clients], how many of those
    naive: Floats  # [clients, ahead, forecasts], made with each of the last targets, newest first; NaN if unknown
    forecast: Floats  # [clients, ahead], b made with each of them
    unit: Floats  # [clients], s of the next prediction


@dataclass(frozen=True)
class NumberTarget:
    """What is to be learnt is the distance from a naive forecast b, in units of its usual size s.

    The model predicts b + s f(features); with f = 0, before anything is learnt, that *is* the naive forecast. b is
    the client's last target, its mean so far, the target one season ago, or with "auto" the mean of these, of three
    fading means (m <- m + a (y - m), a = .5, .2, .05) and of the last target that was no spike, with weights

        prior_i (l_i / (e_i exp m_i))^(n_i / 2),

    where e_i is the mean squared error of forecast i on this client so far, l_i that of the last target over the same
    trials, and n_i <= 200 their number, times 3 l^2 / (mean fourth power) if that is less than 1, because of errors
    with heavy tails few count: Bayes' rule for errors of unknown size. The prior is .92 for the last target and .03
    for the mean, four times that where the readings are those of rows in no order; the margin m is .3 for fading
    means, .05 for the others. s is the root mean squared error of b itself. Until three errors are known s is 0: the
    client predicts b and learns nothing.

    A target is far if it is 20 usual distances from the last one that was not, unless that one was far too. The rows
    after far targets have errors of their own, in units of how far the target was, so that all jumps count alike, and
    one more of .0001: whether such targets are spikes, or there to stay, is seen from these few rows at once, and in
    no others.

    Attributes:
        baseline: "last", "mean", "season", "auto", or "none": b = 0 and s = 1, the target as it is.
        season: rows per season; 0 if there is none.
        lags: how many past changes are features.
        ahead: how many rows after the last known target the predicted one is.
    """

    baseline: str = "auto"
    season: int = 0
    lags: int = 4
    ahead: int = 1

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
        return max(2, self.lags, self._ago + 1 if self.season else 0, self.ahead - 1) + 1

    @property
    def _ago(self) -> int:
        """How many rows before the last known target the one is that is whole seasons before the predicted one."""
        return -self.ahead % self.season if self.season else 0

    def memory(self, clients: int) -> NumberPast:
        """No targets yet."""
        shape = (clients, 2, len(FORECASTS))
        return NumberPast(
            np.zeros(clients),
            np.full((clients, self.depth), np.nan),
            no_moments(clients),
            np.zeros((clients, len(FADES))),
            np.zeros(clients),
            np.zeros(clients),
            np.zeros(clients),
            np.zeros((clients, self.ahead)),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(clients),
            np.zeros(clients),
            np.zeros(clients),
            np.full((clients, self.ahead, len(FORECASTS)), np.nan),
            np.full((clients, self.ahead), np.nan),
            np.full(clients, 1.0 if self.baseline == "none" else 0.0),
        )

    def observe(self, past: NumberPast, limit: float) -> tuple[Floats, Floats]:
        """Features [clients, columns] and anchors [clients, 2] of the next target to predict."""
        last, unit = past.past[:, 0], past.unit
        forecast = np.where(past.number > 0, past.forecast[:, 0], 0.0)
        changes = past.past[:, :-1] - past.past[:, 1:]
        usual = np.sqrt(past.change)
        parts = [
            scaled(last, past.moments.mean, past.moments.deviation, limit)[:, None],
            scaled(last, forecast, unit, limit)[:, None],
            scaled(changes[:, : self.lags], 0.0, usual[:, None], limit),
        ]
        if self.season:
            ago = past.past[:, self._ago]
            parts.append(scaled(ago, last, past.moments.deviation, limit)[:, None])
            parts.append(scaled(changes[:, self._ago], 0.0, usual, limit)[:, None])
        return np.concatenate(parts, axis=1), np.stack([forecast, unit], axis=1)

    def learn(
        self, past: NumberPast, targets: Floats, horizon: float, robust: bool, unordered: Floats
    ) -> NumberPast:
        """What is remembered after `targets` [clients]; `unordered` [clients] is how much their rows look so."""
        jump = past.far[:, -1:]  # when these forecasts were made, `ahead` rows ago
        errors = ((past.naive[:, -1] - targets[:, None]) / np.where(jump > 0, jump, 1.0)) ** 2
        miss = (past.forecast[:, -1] - targets) ** 2
        starts = past.starts + ~np.isnan(miss)
        counted = np.stack([np.where(jump > 0, np.nan, errors), np.where(jump > 0, errors, np.nan)], axis=1)
        tried = past.tried + ~np.isnan(counted)
        change = targets - past.past[:, 0]
        distance = np.where(past.number > 0, np.abs(targets - past.kept), np.nan)
        reach = np.where((past.number >= _FAR_NEEDED) & (past.usual > 0), _FAR * past.usual, np.inf)
        far = (past.far[:, 0] == 0) & (distance > reach)
        after = NumberPast(
            past.number + 1,
            np.concatenate([targets[:, None], past.past[:, :-1]], axis=1),
            update(past.moments, targets, horizon, robust=robust),
            past.fading
            + np.maximum(FADES, 1 / (past.number[:, None] + 1)) * (targets[:, None] - past.fading),
            average(past.change, change * change, past.number, horizon),
            np.where(far, past.kept, targets),
            average(past.usual, np.minimum(distance, reach), past.number, horizon),
            np.concatenate([np.where(far, distance, 0.0)[:, None], past.far[:, :-1]], axis=1),
            average(past.misses, counted, tried, horizon),
            average(past.rivals, np.where(np.isnan(counted), np.nan, counted[:, :, :1]), tried, horizon),
            tried,
            average(past.tails, counted[:, 0, 0] ** 2, tried[:, 0, 0], horizon),
            average(past.miss, miss, starts, horizon),
            starts,
            past.naive,
            past.forecast,
            past.unit,
        )
        naive = self._naive(after)
        forecast, unit = self._forecast(after, naive, unordered)
        return after._replace(
            naive=np.concatenate([naive[:, None], past.naive[:, :-1]], axis=1),
            forecast=np.concatenate([forecast[:, None], past.forecast[:, :-1]], axis=1),
            unit=unit,
        )

    def _naive(self, past: NumberPast) -> Floats:
        """Each naive forecast, [clients, forecasts]; NaN where it is not known yet."""
        last, mean = past.past[:, 0], past.moments.mean
        ago = past.past[:, self._ago] if self.season else np.full_like(mean, np.nan)
        found = [last, *past.fading.T, mean, past.kept, ago]
        return np.where(past.number[:, None] > 0, np.stack(found, axis=1), np.nan)

    def _forecast(self, past: NumberPast, naive: Floats, unordered: Floats) -> tuple[Floats, Floats]:
        if self.baseline == "none":
            return np.zeros(len(past.number)), np.ones(len(past.number))
        weights = self._weights(past, naive, unordered)
        parts = weights * np.where(weights > 0, naive, 0.0)
        # Added up one after another: the same bits for one client and for many.
        total, chosen = np.cumsum(weights, axis=1)[:, -1], np.cumsum(parts, axis=1)[:, -1]
        forecast = chosen / np.where(total > 0, total, 1.0)
        unit = np.where(past.starts >= _CHANGES_NEEDED, np.sqrt(past.miss), 0.0)
        return forecast, unit

    def _weights(self, past: NumberPast, naive: Floats, unordered: Floats) -> Floats:
        known = ~np.isnan(naive)
        if self.baseline != "auto":
            wanted = np.arange(len(FORECASTS)) == FORECASTS.index(self.baseline)
            fallback = ~(known & wanted).any(axis=1, keepdims=True) & (np.arange(len(FORECASTS)) == 0)
            return np.asarray((wanted | fallback) & known, np.float64)
        now, every = (past.far[:, 0] > 0).astype(np.int64), np.arange(len(past.number))
        tried, misses, rivals = past.tried[every, now], past.misses[every, now], past.rivals[every, now]
        more = np.where(now[:, None] > 0, _FAR_ERROR, 0.0)
        better = _log_ratio(rivals * tried + more, misses * tried + more) - _MARGINS
        level, tails = misses[:, :1], np.where(now > 0, 0.0, past.tails)[:, None]
        heavy = np.minimum(np.where(tails > 0, 3 * level * level / np.where(tails > 0, tails, 1.0), 1.0), 1.0)
        prior = _LOG_PRIOR[now] + unordered[:, None] * _UNORDERED
        evidence = prior + np.minimum(heavy * tried, _TRIALS) / 2 * better
        best = np.where(known, evidence, -np.inf).max(axis=1, keepdims=True)
        return np.asarray(np.exp(np.clip(evidence - best, -600.0, 0.0)) * known)


def _log_ratio(one: Floats, other: Floats) -> Floats:
    """log(one / other), at most `_LARGEST` in size; 0 where both are 0."""
    usable = (one > 0) & (other > 0)
    ratio = np.log(np.where(usable, one, 1.0)) - np.log(np.where(usable, other, 1.0))
    certain = _LARGEST * (np.sign(one) - np.sign(other))
    return np.clip(np.where(usable, ratio, certain), -_LARGEST, _LARGEST)
