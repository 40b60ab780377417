"""Federated estimators in scikit-learn's style: `fit`, `partial_fit`, `predict`, on a simulated swarm.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(400, 3))
>>> model = FederatedRegressor(clients=5).fit(X, X @ [1.0, -2.0, 0.5])
>>> model.score(X, X @ [1.0, -2.0, 0.5]) > 0.9, model.bits_wire_ > 0
(True, True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ofediq.arrays import Floats, Numbers
from ofediq.errors import require_fraction, require_integer
from ofediq.swarm import ScaledSwarm


class _Federated(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifier and regressor share: rows go to one client after the other."""

    def __init__(
        self, method: str = "ofediq", clients: int = 10, budget: float = 0.1, passes: int = 20, seed: int = 0
    ) -> None:
        self.method, self.clients, self.budget = method, clients, budget
        self.passes, self.seed = passes, seed

    def _begin(self, classes: int | None) -> None:
        require_integer("clients", self.clients, 1)
        require_integer("passes", self.passes, 1)
        require_fraction("budget", self.budget)
        self.swarm_ = ScaledSwarm(
            self.method, self.n_features_in_, classes, self.clients, self.budget, self.seed
        )
        self.n_rows_ = 0

    def _take(self, rows: Floats, targets: Any) -> None:
        for row, target in zip(rows, targets, strict=True):
            self.swarm_.learn(self.n_rows_ % self.clients, row, target)
            self.n_rows_ += 1
        self.bits_wire_ = self.swarm_.swarm.bits_wire

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))


class FederatedRegressor(RegressorMixin, _Federated):  # type: ignore[misc]  # scikit-learn has no types
    """A linear model that a simulated swarm learns together, in few bits.

    Args:
        method: a method of `ofediq methods`.
        clients: K; rows go to one after the other.
        budget: share of FedOGD's uplink bits.
        passes: how often `fit` goes over the data.
        seed: of all draws.
    """

    def fit(self, X: Any, y: Any) -> FederatedRegressor:
        """Start anew and go over the data `passes` times."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._begin(None)
        for _ in range(self.passes):
            self._take(X, y)
        return self

    def partial_fit(self, X: Any, y: Any) -> FederatedRegressor:
        """Go on with these rows, once."""
        first = not hasattr(self, "swarm_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64, y_numeric=True)
        if first:
            self._begin(None)
        self._take(X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """What the first client predicts."""
        return np.array([self.swarm_.predict(0, row) for row in self._rows(X)], np.float64)


class FederatedClassifier(ClassifierMixin, _Federated):  # type: ignore[misc]  # scikit-learn has no types
    """Softmax regression that a simulated swarm learns together, in few bits; arguments as `FederatedRegressor`."""

    def fit(self, X: Any, y: Any) -> FederatedClassifier:
        """Start anew and go over the data `passes` times."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` must have at least 2 classes, got one class: {self.classes_.tolist()[0]!r}"
            )
        self._begin(len(self.classes_))
        for _ in range(self.passes):
            self._take(X, places.tolist())
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> FederatedClassifier:
        """Go on with these rows, once; the first call needs all `classes`."""
        first = not hasattr(self, "swarm_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("`classes` must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(classes)
            self._begin(max(2, len(self.classes_)))
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"`y` must hold labels of `classes` {self.classes_.tolist()}, got {unknown.tolist()[0]!r}"
            )
        self._take(X, np.searchsorted(self.classes_, y).tolist())
        return self

    def predict_proba(self, X: Any) -> Floats:
        """What the first client thinks of each class."""
        rows = self._rows(X)
        chances = np.array([self.swarm_.probabilities(0, row) for row in rows], np.float64)
        known = chances[:, : len(self.classes_)]
        return np.asarray(known / known.sum(1, keepdims=True))

    def predict(self, X: Any) -> Numbers:
        """The likeliest class."""
        places = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[places])
