"""The estimators in scikit-learn's style pass its own checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from ofediq.sklearn import FederatedClassifier, FederatedRegressor


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        FederatedClassifier(clients=2, budget=1.0, passes=4),
        FederatedRegressor(clients=2, budget=1.0, passes=4),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_pieces_of_a_stream_are_the_stream() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    whole = FederatedClassifier(clients=3).partial_fit(X, y, classes=[0, 1])
    parts = (
        FederatedClassifier(clients=3).partial_fit(X[:25], y[:25], classes=[0, 1]).partial_fit(X[25:], y[25:])
    )
    np.testing.assert_array_equal(whole.predict_proba(X), parts.predict_proba(X))
    assert whole.bits_wire_ == parts.bits_wire_
