"""A label to be predicted: naive forecasts of it, and features from its own past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats
from ofediq.streams.features.running import average

BLENDS = (0.0, 0.3, 0.6, 0.9)
FORECASTS = ("last", "season", "mean", *(f"last {share:.0%}" for share in BLENDS[1:]))
_PRIOR = (0.85, 0.02, 0.07, 0.02, 0.02, 0.02)
_PRIOR_HITS, _PRIOR_TRIALS = 4.0, 5.0  # what a named label counts as before it is tried
_TRIALS = 1000.0  # no more than so many count as evidence
_CERTAIN = 600.0  # logarithm of the odds from which on the other side has no weight


class LabelPast(NamedTuple):
    """What a client remembers of its labels, one row per client."""

    number: Floats  # [clients], how many there were
    past: Floats  # [clients, depth], newest first; -1 where there was none
    shares: Floats  # [clients, classes], how often each label came
    hits: Floats  # [clients, 2], how often the last label, and the one a season ago, came again
    tried: Floats  # [clients, 2], over how many labels
    evidence: Floats  # [clients, forecasts], log-likelihood of each forecast less that of the last label


@dataclass(frozen=True)
class LabelTarget:
    """What is to be learnt is added to the log-probabilities of a naive forecast.

    With q the smoothed shares of the labels so far on this client, a naive forecast is one of

    - "last": the label that came last comes again with its share h of hits so far, the others share 1 - h by q;
    - "season": the same for the label one season ago;
    - "mean": q, the most frequent label first; and a + (1 - a) q for the last label and (1 - a) q for the others,
      with a = .3, .6, .9.

    "auto" is their mixture by Bayes' rule: prior times likelihood on this client so far. What is older than 1,000
    labels fades; the prior is .85 for the last label and .07 for the shares. An untrained model predicts what these
    probabilities say.

    Attributes:
        classes: number of labels.
        baseline: "last", "mean", "season", "auto", or "none": all labels alike.
        season: rows per season; 0 if there is none.
        lags: how many past labels are features, one column per label.
        ahead: how many rows after the last known label the predicted one is.
    """

    classes: int
    baseline: str = "auto"
    season: int = 0
    lags: int = 2
    ahead: int = 1

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
        """How far back the features look from the predicted label."""
        lags, season = range(self.ahead, self.ahead + self.lags), self._named[1]
        return (*lags, *((season,) if season and season not in lags else ()))

    @property
    def _named(self) -> tuple[int, int]:
        """How far back the last known label, and that of the same season, are from the predicted one; 0: never."""
        return self.ahead, -(-self.ahead // self.season) * self.season if self.season else 0

    def memory(self, clients: int) -> LabelPast:
        """No labels yet."""
        past = np.full((clients, max(self.ahead, *self._lagged, *self._named)), -1.0)
        shares = np.zeros((clients, self.classes))
        trials, evidence = np.zeros((clients, 2)), np.zeros((clients, len(FORECASTS)))
        return LabelPast(np.zeros(clients), past, shares, np.zeros((clients, 2)), trials, evidence)

    def observe(self, past: LabelPast, limit: float) -> tuple[Floats, Floats]:
        """Features [clients, columns] and anchors [clients, classes] of the next label to predict."""
        labels = np.arange(self.classes)
        # `past` begins with the last known label, which is `ahead` rows before the predicted one.
        at = [lag - self.ahead for lag in self._lagged]
        parts = [(past.past[:, place, None] == labels).astype(np.float64) for place in at]
        features = np.concatenate([np.zeros((len(past.number), 0)), *parts], axis=1)
        return features, self._log_odds(past)

    def learn(self, past: LabelPast, targets: Floats, horizon: float) -> LabelPast:
        """What is remembered after `targets` [clients]."""
        named = self._labels(past, 1)  # by forecasts of these targets, `ahead` rows ago
        hits = np.where(named < 0, np.nan, named == targets[:, None])
        tried = past.tried + ~np.isnan(hits)
        count = past.number + 1
        seen = (targets[:, None] == np.arange(self.classes)).astype(np.float64)
        chances = self._chances(past, named, targets)
        gain = np.where(chances > 0, np.log(np.where(chances > 0, chances, 1.0)), np.nan)
        gain = gain - gain[:, :1]
        faded = (1 - 1 / _TRIALS) * past.evidence
        return LabelPast(
            count,
            np.concatenate([targets[:, None], past.past[:, :-1]], axis=1),
            average(past.shares, seen, count[:, None], horizon),
            average(past.hits, hits, tried, horizon),
            tried,
            faded + np.where(np.isnan(gain), 0.0, gain),
        )

    def _labels(self, past: LabelPast, ahead: int) -> Floats:
        """The last known label and that of the same season, [clients, 2]; -1 where unknown.

        Seen from `ahead` rows after the newest label in `past`.
        """
        unknown = np.full(len(past.number), -1.0)
        return np.stack([past.past[:, back - ahead] if back else unknown for back in self._named], axis=1)

    def _chances(self, past: LabelPast, named: Floats, targets: Floats) -> Floats:
        """Of `targets` by each forecast, [clients, forecasts]; 0 where the forecast is not known."""
        share = self._smooth(past)
        of_target = _at(share, targets)
        rate = _smoothed(past.hits, past.tried)
        found = []
        for place in range(2):
            label = named[:, place]
            hit, rest = rate[:, place], 1 - _at(share, np.maximum(label, 0))
            chance = np.where(label == targets, hit, (1 - hit) * of_target / rest)
            found.append(np.where(label >= 0, chance, 0.0))
        again = named[:, 0] == targets
        found += [blend * again + (1 - blend) * of_target for blend in BLENDS]
        return np.stack(found, axis=1)

    def _log_odds(self, past: LabelPast) -> Floats:
        clients = len(past.number)
        named = self._labels(past, self.ahead)
        weights = self._weights(past, named)
        share, rate = self._smooth(past), _smoothed(past.hits, past.tried)
        # Sums in a fixed order, one term after another: the same bits for one client and for many.
        spread, total = np.zeros(clients), np.zeros(clients)
        extra = [np.zeros(clients), np.zeros(clients)]  # what the named labels get above that
        for one, blend in enumerate(BLENDS, 2):
            spread = spread + weights[:, one] * (1 - blend)
            extra[0] = extra[0] + weights[:, one] * blend
            total = total + weights[:, one]
        for place in range(2):
            own = _at(share, np.maximum(named[:, place], 0))
            left = weights[:, place] * (1 - rate[:, place]) / (1 - own)
            spread = spread + left
            extra[place] = extra[place] + weights[:, place] * rate[:, place] - left * own
            total = total + weights[:, place]
        chances = spread[:, None] * share
        for place in range(2):
            chances = chances + extra[place][:, None] * (named[:, place, None] == np.arange(self.classes))
        known = (total > 0) & (past.number > 0) & (self.baseline != "none")
        relative = np.where(known[:, None], chances / np.where(known, total, 1.0)[:, None], 1.0)
        return np.log(relative)

    def _weights(self, past: LabelPast, named: Floats) -> Floats:
        known = np.concatenate([named >= 0, np.repeat(past.number[:, None] > 0, len(BLENDS), axis=1)], axis=1)
        if self.baseline == "none":
            return np.zeros(known.shape)
        if self.baseline != "auto":
            wanted = np.arange(len(FORECASTS)) == FORECASTS.index(self.baseline)
            fallback = ~(known & wanted).any(axis=1, keepdims=True) & (np.arange(len(FORECASTS)) == 0)
            return np.asarray((wanted | fallback) & known, np.float64)
        evidence = np.log(_PRIOR) + past.evidence
        best = np.where(known, evidence, -np.inf).max(axis=1, keepdims=True)
        return np.asarray(np.exp(np.clip(evidence - best, -_CERTAIN, 0.0)) * known)

    def _smooth(self, past: LabelPast) -> Floats:
        """Shares of the labels, none of them 0 or 1; they add up to one."""
        return (past.shares * past.number[:, None] + 1) / (past.number[:, None] + self.classes)


def _at(rows: Floats, labels: Floats) -> Floats:
    """The entry of each row that its label names."""
    return np.asarray(rows[np.arange(len(rows)), labels.astype(np.int64)])


def _smoothed(share: Floats, tried: Floats) -> Floats:
    """A share of hits, with what is assumed before the first trial."""
    seen = np.minimum(tried, _TRIALS)
    return (share * seen + _PRIOR_HITS) / (seen + _PRIOR_TRIALS)
