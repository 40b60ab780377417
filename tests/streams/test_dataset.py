from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq.errors import DataError, InputError
from ofediq.streams import Dataset

X = np.arange(6.0).reshape(3, 2)


def test_arrays_become_float32_and_int32() -> None:
    data = Dataset("d", X, np.array([0.0, 2.0, 1.0]), "classification")
    assert (data.x.dtype.name, data.y.dtype.name, data.classes) == ("float32", "int32", 3)


def test_regression_targets_become_float32_without_classes() -> None:
    data = Dataset("d", X, np.array([1, 2, 3]), "regression")
    assert (data.y.dtype.name, data.classes) == ("float32", None)


def test_more_classes_than_labels_seen_are_allowed() -> None:
    assert Dataset("d", X, np.array([0, 1, 0]), "classification", classes=7).classes == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.arange(3.0)}, r"`x` must have shape \[samples, \.\.\.\]"),
        ({"x": np.empty((0, 2)), "y": np.empty(0)}, "at least one sample"),
        ({"x": np.array([["a"], ["b"], ["c"]])}, "`x` must hold numbers only"),
        ({"x": np.where(X == 0, np.nan, X)}, "`x` must be finite in float32, got 1 values"),
        ({"x": np.where(X == 0, 1e300, X)}, "`x` must be finite in float32, got 1 values"),
        ({"y": np.array([0, 1])}, r"`y` must have shape \[3\]"),
        ({"y": np.array([0, 1, -1])}, r"`y` must lie in 0\.\."),
        ({"y": np.array([0, 1, 0.5])}, "`y` must hold whole numbers"),
        ({"y": np.array([0, 1, np.nan])}, "`y` must hold whole numbers"),
        ({"y": np.array(["a", "b", "c"])}, "`y` must hold whole numbers"),
        ({"classes": 1}, "`classes` must be an integer from 2"),
        ({"previous": np.array([0, 1, 2])}, "`previous` must hold labels from -1 to 1"),
        ({"client_ids": np.array([0, 1])}, r"`client_ids` must have shape \[3\]"),
        ({"client_ids": np.array([0, 1, 3])}, r"`client_ids` must lie in 0\.\.2, got 0 to 3"),
        ({"feature_names": ("a",)}, "1 names do not fit 2"),
        ({"task": "ranking"}, "`task` must be one of classification, regression, got 'ranking'"),
    ],
)
def test_bad_content_is_named(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"x": X, "y": np.array([0, 1, 0]), "task": "classification", "previous": None}
    with pytest.raises(InputError, match=message):
        Dataset("d", **(good | change))


def test_infinite_target_is_refused() -> None:
    with pytest.raises(DataError, match="`y` must be finite"):
        Dataset("d", X, np.array([0.0, np.inf, 1.0]), "regression")
