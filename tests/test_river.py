"""The estimators for River pass River's own checks, and learn by few bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("river")

from river import checks, compose, datasets, drift, dummy, evaluate, metrics, preprocessing, stats

from ofediq.errors import InputError
from ofediq.river import FederatedClassifier, FederatedRegressor


@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor])
def test_rivers_own_checks(kind: type) -> None:
    checks.check_estimator(kind(clients=3))


def test_in_a_pipeline_beats_knowing_nothing() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), FederatedRegressor(clients=4, budget=1.0))
    found, mean = (
        evaluate.progressive_val_score(datasets.TrumpApproval().take(800), one, metrics.MAE()).get()
        for one in (model, dummy.StatisticRegressor(stats.Mean()))
    )
    assert found < mean


def test_members_by_a_feature_and_a_detector_of_drift() -> None:
    model, detector = FederatedClassifier(clients=2, client="site", budget=1.0), drift.ADWIN()
    for step in range(400):
        x: dict[Any, Any] = {
            "site": "ab"[step % 2],
            "reading": float(step % 7 - 3),
            "kind": "xy"[step % 3 == 0],
        }
        label = "hot" if x["reading"] > 0 else "ok"
        detector.update(float(model.predict_one(x) != label))
        model.learn_one(x, label)
    assert model.predict_one({"site": "a", "reading": 3.0, "kind": "x"}) == "hot"
    assert detector.estimation < 0.2
    assert model.bits_wire > 0


@pytest.mark.parametrize(
    ("options", "sample", "argument"),
    [
        ({"clients": 0}, {}, "clients"),
        ({"budget": 2.0}, {}, "budget"),
        ({"features": 1}, {"a": 1.0, "b": 2.0}, "features"),
        ({"client": "site"}, {"a": 1.0}, "site"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], sample: dict[str, float], argument: str) -> None:
    with pytest.raises(InputError, match=argument):
        FederatedRegressor(**options).learn_one(sample, 1.0)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("y", ["warm", None, 10**400])
def test_a_target_that_is_no_number_is_said(y: Any) -> None:
    with pytest.raises(InputError, match="`y` must be a number, got"):
        FederatedRegressor().learn_one({"a": 1.0}, y)


def test_a_sample_that_is_no_dict_and_a_label_that_is_several_are_said() -> None:
    with pytest.raises(InputError, match=r"`x` must be a dict of features, got \[1, 2\]"):
        FederatedRegressor().learn_one([1, 2], 1.0)  # type: ignore[arg-type]  # what a user may try
    for label in (["a", "b"], float("nan")):
        with pytest.raises(InputError, match="`y` must be one label, got " + re.escape(repr(label))):
            FederatedClassifier().learn_one({"x": 1.0}, label)


@pytest.mark.parametrize("y", [float("nan"), float("inf"), 1e300])
def test_a_target_that_stands_for_none_is_said_and_harms_nobody(y: float) -> None:
    model = FederatedRegressor(clients=2)
    for step in range(8):
        model.learn_one({"a": float(step % 3)}, float(step % 3))
    before = model.predict_one({"a": 2.0})
    with pytest.raises(InputError, match=r"`y` must be finite and less than 1e\+36 in size, got "):
        model.learn_one({"a": 2.0}, y)
    assert model.predict_one({"a": 2.0}) == before


def test_readings_beyond_all_measure_are_missing() -> None:
    model, other = FederatedRegressor(clients=2), FederatedRegressor(clients=2)
    for step in range(8):
        far = {"b": (1e300, float("-inf"), 10**400)[step % 3]}
        model.learn_one({"a": float(step % 3), **far}, float(step % 3))
        other.learn_one({"a": float(step % 3), "b": float("nan")}, float(step % 3))
    assert model.predict_one({"a": 2.0}) == other.predict_one({"a": 2.0}) != 0


def test_a_text_tells_something() -> None:
    model, right = FederatedClassifier(clients=2), 0
    for step, colour in enumerate(np.random.default_rng(0).choice(["red", "blue", "grey"], 300).tolist()):
        x: dict[Any, Any] = {"colour": colour, "other": 1.0}
        right += step >= 200 and model.predict_one(x) == (colour == "red")
        model.learn_one(x, colour == "red")
    assert right == 100
