from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq.streams import APART, Dataset, Stream, availability, naive_references, partition
from ofediq.streams.features import NumberTarget, Pipeline, Readings, featurize, pipeline_for

from .made import make_dataset


def _plain_loop(stream: Stream) -> dict[str, list[float]]:
    """The definitions, one prediction at a time."""
    classification = stream.task == "classification"
    seen = stream.y[stream.order[stream.present]].tolist()
    constant = max(sorted(set(seen)), key=seen.count) if classification else float(np.mean(seen))
    history: list[float] = []
    own: dict[int, list[float]] = {}
    points: dict[str, list[float]] = {"common": [], "constant": [], "own": [], "last": []}
    curves: dict[str, list[float]] = {name: [] for name in points}
    for t in range(stream.steps):
        common = _usual(history, classification)
        for client in np.flatnonzero(stream.present[t]).tolist():
            sample = stream.order[t, client]
            truth = float(stream.y[sample])
            mine = own.setdefault(client, [])
            last = mine[-1] if mine else 0.0
            if stream.dataset.previous is not None:
                before = float(stream.dataset.previous[sample])
                last = last if np.isnan(before) or (classification and before == -1) else before
            answers = (common, constant, _usual(mine, classification), last)
            for name, answer in zip(points, answers, strict=True):
                points[name].append(float(answer == truth) if classification else (answer - truth) ** 2)
        for client in np.flatnonzero(stream.present[t]).tolist():
            own[client].append(float(stream.y[stream.order[t, client]]))
            history.append(own[client][-1])
        for name in points:
            curves[name].append(float(np.mean(points[name])) if points[name] else np.nan)
    return curves


def _usual(history: list[float], classification: bool) -> float:
    """The most frequent label or the mean; 0 of nothing."""
    if not history:
        return 0.0
    return max(sorted(set(history)), key=history.count) if classification else float(np.mean(history))


def _check(stream: Stream) -> None:
    curves, expected = naive_references(stream), _plain_loop(stream)
    common = "majority" if stream.task == "classification" else "mean"
    assert list(curves) == [common, "constant", f"own {common}", "last"]
    for name, key in zip(curves, expected, strict=True):
        np.testing.assert_allclose(curves[name], expected[key], rtol=1e-6, err_msg=name)


def test_curves_of_a_classification_follow_the_definitions() -> None:
    _check(partition(make_dataset(40, classes=4), 5, 12, kind="dirichlet", seed=3))


def test_curves_of_a_regression_follow_the_definitions() -> None:
    _check(partition(make_dataset(40, classes=None), 5, 12, seed=3))


def test_absent_clients_do_not_count_and_keep_their_last_value() -> None:
    for classes in (4, None):
        stream = partition(make_dataset(40, classes), 5, 12, seed=3)
        masked = availability(stream, join=[0, 3, 0, 11, 2], pause=0.4, pause_length=2, seed=1)
        _check(masked)


def test_the_sources_own_previous_value_comes_first() -> None:
    rng = np.random.default_rng(0)
    labels, targets = rng.integers(0, 3, 30), rng.random(30)
    before_label, before_target = (
        rng.integers(-1, 3, 30),
        np.where(rng.random(30) < 0.3, np.nan, targets[::-1]),
    )
    x = np.ones((30, 1))
    for data in (
        Dataset("c", x, labels, "classification", 3, previous=before_label),
        Dataset("r", x, targets, "regression", previous=before_target),
    ):
        _check(partition(data, 4, 9, seed=5))


def test_a_client_that_comes_late_knows_nothing_of_the_others() -> None:
    """All targets are 5: who comes later answers 0 at first; the mean of all clients, set apart, does not."""
    data = Dataset("late", np.zeros((5, 1)), np.full(5, 5.0), "regression")
    order = np.array([[0, -1], [1, -1], [2, 3], [-1, 4]])
    curves = naive_references(Stream(data, order))
    sums = np.array([25.0, 25.0, 50.0, 50.0]) / np.array([1, 2, 4, 5])
    np.testing.assert_allclose(curves["last"], sums)
    np.testing.assert_allclose(curves["own mean"], sums)
    np.testing.assert_allclose(curves["mean"], 25.0 / np.array([1, 2, 4, 5]))
    assert set(curves) - set(APART) == {"own mean", "last"}


def test_a_stretchs_last_value_is_its_own() -> None:
    """Each of four stretches of one file begins without a past, although the file has a row before it."""
    y = np.arange(10.0, 410.0)
    data = Dataset("file", np.zeros((400, 1)), y, "regression", previous=np.concatenate([[np.nan], y[:-1]]))
    stream = featurize(partition(data, 4, kind="stretches"), pipeline_for(("x",)))
    first = stream.y[stream.order[0]]
    np.testing.assert_allclose(naive_references(stream)["last"][0], np.mean(first**2))


def test_before_the_first_sample_there_is_no_score() -> None:
    stream = Stream(make_dataset(4, classes=2), np.array([[-1], [1], [1]]))
    curves = naive_references(stream)
    np.testing.assert_array_equal(curves["majority"], [np.nan, 0.0, 0.5])
    np.testing.assert_array_equal(curves["constant"], [np.nan, 1.0, 1.0])


def test_several_rows_ahead_only_what_was_known_counts() -> None:
    """Two clients, three rows ahead: the last target is three rows old, the mean that of all up to then."""
    rng, steps, ahead = np.random.default_rng(0), 30, 3
    y = rng.normal(size=(steps, 2)).astype(np.float32)
    data = Dataset("two", np.zeros((2 * steps, 1)), y.ravel(), "regression")
    pipeline = Pipeline(Readings(("x",)), NumberTarget(ahead=ahead))
    stream = featurize(Stream(data, np.arange(2 * steps).reshape(steps, 2)), pipeline)
    curves = naive_references(stream)
    wanted = y[ahead - 1 :].astype(np.float64)
    last = np.concatenate([np.zeros((1, 2)), y[: steps - ahead]])  # at the first step nothing is known
    counts = 2 * np.arange(1, len(wanted) + 1)
    np.testing.assert_allclose(curves["last"], np.cumsum(((wanted - last) ** 2).sum(1)) / counts, rtol=1e-5)
    known = [y[:t].mean() if t else 0.0 for t in range(len(wanted))]
    errors = ((wanted - np.array(known)[:, None]) ** 2).sum(1)
    np.testing.assert_allclose(curves["mean"], np.cumsum(errors) / counts, rtol=1e-5)
    mine = np.array([y[:t].mean(axis=0) if t else np.zeros(2) for t in range(len(wanted))])
    np.testing.assert_allclose(
        curves["own mean"], np.cumsum(((wanted - mine) ** 2).sum(1)) / counts, rtol=1e-5
    )


@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_season_ago_is_the_clients_own_target_whole_seasons_before(task: Any, ahead: int) -> None:
    season, clients, steps = 4, 2, 23
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, clients * steps)
    data = Dataset("two", x=rng.random((clients * steps, 1)), y=y, task=task)
    order = rng.permutation(clients * steps).reshape(steps, clients)
    pipeline = pipeline_for(("x",), data.classes, "auto", season, ahead=ahead)
    rows = featurize(Stream(data, order), pipeline)
    assert rows.dataset.season is not None
    back = -(-ahead // season) * season
    for client in range(clients):
        own = y[order[:, client]]
        for t in range(rows.steps):
            target = t + ahead - 1
            found = rows.dataset.season[rows.order[t, client]]
            if target < back:
                assert np.isnan(found) if task == "regression" else found == -1
            else:
                assert found == own[target - back]


def test_on_a_periodic_stream_a_season_ago_is_never_wrong_again() -> None:
    season, steps = 6, 40
    y = np.tile(np.random.default_rng(1).random(season), 7)[:steps]
    data = Dataset("waves", x=np.zeros((steps, 1)), y=y, task="regression")
    rows = featurize(Stream(data, np.arange(steps)[:, None]), pipeline_for(("x",), None, "auto", season))
    curves = naive_references(rows)
    sums = curves["season"] * np.arange(1, steps + 1)
    np.testing.assert_allclose(sums[season - 1 :], sums[season - 1])
    np.testing.assert_allclose(curves["season"][:season], curves["last"][:season])
    assert curves["season"][-1] < curves["last"][-1]
