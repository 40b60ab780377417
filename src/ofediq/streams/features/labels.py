"""A label to be predicted: naive forecasts of it, and features from its own past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.streams.features.running import Numbers, average

FORECASTS = ("last", "mean", "season")
_PRIOR = (0.9, 0.05, 0.05)
_PRIOR_HITS, _PRIOR_TRIALS = 9.0, 10.0  # what a forecast counts as before it is tried
_TRIALS = 1000.0  # no more than so many count as evidence


class LabelPast(NamedTuple):
    """What a client remembers of its labels, one row per client."""

    number: Numbers  # [clients], how many there were
    past: Numbers  # [clients, depth], newest first; -1 where there was none
    shares: Numbers  # [clients, classes], how often each label came
    hits: Numbers  # [clients, forecasts], share of right naive forecasts
    rivals: Numbers  # [clients, forecasts], that of the last label over the same trials
    tried: Numbers  # [clients, forecasts], how many forecasts that is


@dataclass(frozen=True)
class LabelTarget:
    """What is to be learnt is added to the log-probabilities of a naive forecast.

    A naive forecast is the client's last label, its most frequent one ("mean"), or the label one season ago. With h
    its share of hits so far, the label that it names has probability h, and the others share 1 - h by how often they
    came. "auto" is their mean with weights prior_i exp(n_i (L(h_i) - L(g_i)) / 2), where h_i is the share of hits of
    forecast i over its n_i trials on this client, g_i that of the last label over the same trials, and
    L(h) = h log h + (1 - h) log((1 - h) / (classes - 1)) the mean log-likelihood of such a share; the prior is .9 for
    the last label and .05 for the others. An untrained model predicts what these probabilities say.

    Attributes:
        classes: number of labels.
        baseline: "last", "mean", "season", "auto", or "none": all labels alike.
        season: rows per season; 0 if there is none.
        lags: how many past labels are features, one column per label.
    """

    classes: int
    baseline: str = "auto"
    season: int = 0
    lags: int = 2

    @property
    def anchors(self) -> tuple[str, ...]:
        """Names of the columns after the features: log-probabilities of the naive forecast."""
        return tuple(f"log-odds of {label}" for label in range(self.classes))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        labels = range(self.classes)
        return tuple(f"label {lag} ago is {label}" for lag in self._lagged for label in labels)

    @property
    def _lagged(self) -> tuple[int, ...]:
        return (*range(1, self.lags + 1), *((self.season,) if self.season > self.lags else ()))

    def memory(self, clients: int) -> LabelPast:
        """No labels yet."""
        shape = (clients, len(FORECASTS))
        depth = max(self.lags, self.season, 1)
        past = np.full((clients, depth), -1.0)
        shares = np.zeros((clients, self.classes))
        return LabelPast(np.zeros(clients), past, shares, *(np.zeros(shape) for _ in range(3)))

    def observe(self, past: LabelPast, limit: float) -> tuple[Numbers, Numbers]:
        """Features [clients, columns] and anchors [clients, classes] of the next label."""
        labels = np.arange(self.classes)
        parts = [(past.past[:, lag - 1, None] == labels).astype(np.float64) for lag in self._lagged]
        features = np.concatenate(parts, axis=1) if parts else np.zeros((len(past.number), 0))
        return features, self._log_odds(past)

    def learn(self, past: LabelPast, targets: Numbers, horizon: float, robust: bool) -> LabelPast:
        """What is remembered after `targets` [clients]."""
        naive = self._naive(past)
        hits = np.where(naive < 0, np.nan, naive == targets[:, None])
        tried = past.tried + ~np.isnan(hits)
        count = past.number + 1
        seen = (targets[:, None] == np.arange(self.classes)).astype(np.float64)
        return LabelPast(
            count,
            np.concatenate([targets[:, None], past.past[:, :-1]], axis=1),
            average(past.shares, seen, count[:, None], horizon),
            average(past.hits, hits, tried, horizon),
            average(past.rivals, np.where(np.isnan(hits), np.nan, hits[:, :1]), tried, horizon),
            tried,
        )

    def _naive(self, past: LabelPast) -> Numbers:
        """Each naive forecast, [clients, forecasts]; -1 where it is not known yet."""
        common = np.where(past.number > 0, np.argmax(past.shares, axis=1), -1)
        ago = past.past[:, self.season - 1] if self.season else np.full(len(past.number), -1.0)
        return np.stack([past.past[:, 0], common, ago], axis=1)

    def _log_odds(self, past: LabelPast) -> Numbers:
        clients, labels = len(past.number), np.arange(self.classes)
        if self.baseline == "none":
            return np.zeros((clients, self.classes))
        rate, naive = _smoothed(past.hits, past.tried), self._naive(past)
        weights = self._weights(past, naive)
        smooth = (past.shares * past.number[:, None] + 1) / (past.number[:, None] + self.classes)
        # Sums in a fixed order, one term after another: the same bits for one client and for many.
        chances, total = np.zeros((clients, self.classes)), np.zeros(clients)
        for one in range(len(FORECASTS)):
            named = naive[:, one, None] == labels
            others, rest = np.where(named, 0.0, smooth), np.zeros(clients)
            for label in labels:
                rest = rest + others[:, label]
            hit = rate[:, one, None]
            chance = np.where(named, hit, (1 - hit) * others / rest[:, None])
            chances = chances + weights[:, one, None] * chance
            total = total + weights[:, one]
        known = total[:, None] > 0
        return np.where(
            known, np.log(np.where(known, chances, 1.0)) - np.log(np.where(known, total[:, None], 1.0)), 0.0
        )

    def _weights(self, past: LabelPast, naive: Numbers) -> Numbers:
        known = naive >= 0
        if self.baseline != "auto":
            wanted = np.arange(len(FORECASTS)) == FORECASTS.index(self.baseline)
            fallback = ~(known & wanted).any(axis=1, keepdims=True) & (np.arange(len(FORECASTS)) == 0)
            return np.asarray((wanted | fallback) & known, np.float64)
        own = self._likelihood(_smoothed(past.hits, past.tried))
        better = own - self._likelihood(_smoothed(past.rivals, past.tried))
        evidence = np.log(_PRIOR) + np.minimum(past.tried, _TRIALS) * better / 2
        best = np.where(known, evidence, -np.inf).max(axis=1, keepdims=True)
        return np.asarray(np.exp(np.clip(evidence - best, -600.0, 0.0)) * known)

    def _likelihood(self, rate: Numbers) -> Numbers:
        return rate * np.log(rate) + (1 - rate) * np.log((1 - rate) / (self.classes - 1))


def _smoothed(share: Numbers, tried: Numbers) -> Numbers:
    """A share of hits, with what is assumed before the first trial."""
    seen = np.minimum(tried, _TRIALS)
    return (share * seen + _PRIOR_HITS) / (seen + _PRIOR_TRIALS)
