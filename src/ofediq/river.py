"""Federated estimators for River: a swarm of clients behind `learn_one` and `predict_one`.

>>> from river import datasets, evaluate, metrics
>>> model = FederatedClassifier(clients=5)
>>> metric = evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy())
>>> metric.get() > 0.75, model.bits_wire > 0
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from river import base

from ofediq.arrays import Floats
from ofediq.errors import InputError, require_fraction, require_integer, shown
from ofediq.swarm import ScaledSwarm


class _Federated(base.Estimator):
    """What classifier and regressor share: who learns, and which number stands for which feature."""

    def __init__(
        self, method: str, clients: int, client: str | None, budget: float, features: int, seed: int
    ) -> None:
        self.method, self.clients, self.client = method, clients, client
        self.budget, self.features, self.seed = budget, features, seed
        require_integer("clients", clients, 1)
        require_integer("features", features, 1)
        require_fraction("budget", budget)
        self._places: dict[str, int] = {}
        self._texts: list[int] = []  # places of texts
        self._members: dict[Any, int] = {}
        self._learnt = 0
        self._swarm: ScaledSwarm | None = None

    @property
    def bits_wire(self) -> float:
        """Uplink bits of the swarm so far, as encoded."""
        return 0.0 if self._swarm is None else self._swarm.swarm.bits_wire

    def _whose(self, x: dict[Any, Any]) -> int:
        """The client of a sample: named by a feature, or one after the other."""
        if self.client is None:
            return self._learnt % self.clients
        return self._members.get(self._member(x), 0)

    def _member(self, x: dict[Any, Any]) -> Any:
        if self.client not in x:
            raise InputError(
                f"`x` must have the feature {self.client!r}, which names the client, got {sorted(map(str, x))}"
            )
        return x[self.client]

    def _enter(self, x: dict[Any, Any]) -> None:
        """Give names that are new a place; in order of their names, so that the order in a dict does not matter."""
        if self.client is not None and self._member(x) not in self._members:
            if len(self._members) == self.clients:
                raise InputError(f"`clients` must be at least the number of members, got {self.clients}")
            self._members[x[self.client]] = len(self._members)
        for name, _, text in sorted(self._numbers(x)):
            if name not in self._places:
                if len(self._places) == self.features:
                    raise InputError(
                        f"`features` must be at least the number of features, got {self.features}"
                    )
                self._places[name] = len(self._places)
                if text:
                    self._texts.append(self._places[name])

    def _numbers(self, x: dict[Any, Any]) -> list[tuple[str, float, bool]]:
        """Readings by name; a text is a reading of its own that is 1, and 0 where it is another one."""
        found = []
        if not isinstance(x, Mapping):
            raise InputError(f"`x` must be a dict of features, got {x!r}")
        for name, value in x.items():
            if name == self.client:
                continue
            try:
                found.append((str(name), float(value), False))
            except (TypeError, ValueError):
                found.append((f"{name}={value}", 1.0, True))
            except OverflowError:  # a whole number beyond all floats says as much as an infinite one
                found.append((str(name), math.inf, False))
        return found

    def _row(self, x: dict[Any, Any]) -> Floats:
        row = np.full(self.features, np.nan)
        row[self._texts] = 0.0
        for name, value, _ in self._numbers(x):
            if name in self._places:
                row[self._places[name]] = value
        return row

    def _learn(self, x: dict[Any, Any], target: Any, classes: int | None) -> None:
        if self._swarm is None:
            self._swarm = ScaledSwarm(
                self.method, self.features, classes, self.clients, self.budget, self.seed
            )
        self._enter(x)
        self._swarm.learn(self._whose(x), self._row(x), target)
        self._learnt += 1


class FederatedRegressor(_Federated, base.Regressor):
    """A linear model that a swarm of clients learns together, in few bits; for numbers.

    Parameters
    ----------
    method
        A method of `ofediq methods`, such as ofediq, ofedgrid or fedogd.
    clients
        K.
    client
        The feature that names the client of a sample; by default samples go to one client after the other.
    budget
        Share of FedOGD's uplink bits.
    features
        How many features there may be, texts counted once per value.
    seed
        Of all draws.

    """

    def __init__(
        self,
        method: str = "ofediq",
        clients: int = 10,
        client: str | None = None,
        budget: float = 0.1,
        features: int = 64,
        seed: int = 0,
    ) -> None:
        super().__init__(method, clients, client, budget, features, seed)

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn from one sample."""
        try:
            target = float(y)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"`y` must be a number, got {shown(y)}") from None
        self._learn(x, target, None)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction of the sample's client; 0 before anything is known."""
        return 0.0 if self._swarm is None else float(self._swarm.predict(self._whose(x), self._row(x)))


class FederatedClassifier(_Federated, base.Classifier):
    """Softmax regression that a swarm of clients learns together, in few bits; for labels of any type.

    The other parameters are those of `FederatedRegressor`.

    Parameters
    ----------
    classes
        How many labels there may be.

    """

    def __init__(
        self,
        method: str = "ofediq",
        clients: int = 10,
        client: str | None = None,
        budget: float = 0.1,
        features: int = 64,
        classes: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(method, clients, client, budget, features, seed)
        self.classes = classes
        require_integer("classes", classes, 2)
        self._labels: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn from one sample."""
        if not isinstance(y, Hashable) or y != y:
            raise InputError(f"`y` must be one label, got {y!r}")
        if y not in self._labels:
            if len(self._labels) == self.classes:
                raise InputError(f"`classes` must be at least the number of labels, got {self.classes}")
            self._labels[y] = len(self._labels)
        self._learn(x, self._labels[y], self.classes)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of every label seen so far, by the sample's client."""
        if self._swarm is None:
            return {}
        chances = self._swarm.probabilities(self._whose(x), self._row(x)).astype(np.float64)
        known = chances[: len(self._labels)]
        total = float(known.sum())
        if not math.isfinite(total) or total <= 0:
            return dict.fromkeys(self._labels, 1 / len(self._labels))
        return {label: float(known[place]) / total for label, place in self._labels.items()}
