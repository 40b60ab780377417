from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ofediq.errors import InputError
from ofediq.streams import Stream, Truth, load, partition, synthetic


def _truth(stream: Stream) -> Truth:
    assert stream.dataset.truth is not None
    return stream.dataset.truth


def _least_squares(stream: Stream, steps: slice, clients: slice = slice(None)) -> NDArray[np.float64]:
    rows = stream.order[steps, clients].ravel()
    return np.asarray(np.linalg.lstsq(stream.x[rows], stream.y[rows], rcond=None)[0])


def test_least_squares_recovers_the_optimum() -> None:
    """With n samples each coefficient has standard error noise / sqrt(n) = 0.1 / 100; six of them."""
    stream = synthetic(clients=100, steps=100, features=5, noise=0.1)
    np.testing.assert_allclose(_least_squares(stream, slice(None)), _truth(stream).weights[0], atol=0.006)


def test_the_optimum_has_norm_one() -> None:
    for drift in ("none", "abrupt", "gradual"):
        weights = _truth(synthetic(clients=2, steps=7, drift=drift)).weights
        np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1, rtol=1e-5)


def test_heterogeneity_is_the_spread_of_the_clients_optima() -> None:
    stream = synthetic(clients=10, steps=50, features=4, heterogeneity=0.7, noise=0.0)
    offsets = _truth(stream).offsets
    np.testing.assert_allclose(offsets.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.sqrt((offsets**2).sum(axis=1).mean()), 0.7, rtol=1e-5)
    for client in range(10):
        own = _least_squares(stream, slice(None), slice(client, client + 1))
        np.testing.assert_allclose(own, _truth(stream).weights[0] + offsets[client], atol=1e-4)


def test_abrupt_drift_replaces_the_optimum_halfway() -> None:
    stream = synthetic(clients=50, steps=20, features=4, noise=0.0, drift="abrupt")
    weights = _truth(stream).weights
    np.testing.assert_allclose(_least_squares(stream, slice(0, 10)), weights[0], atol=1e-4)
    np.testing.assert_allclose(_least_squares(stream, slice(10, 20)), weights[-1], atol=1e-4)
    assert abs(float(weights[0] @ weights[-1])) < 1e-5


def test_gradual_drift_turns_by_equal_angles_to_a_right_angle() -> None:
    weights = _truth(synthetic(clients=2, steps=10, drift="gradual")).weights
    angles = np.arccos(np.clip((weights[1:] * weights[:-1]).sum(axis=1), -1, 1))
    np.testing.assert_allclose(angles, np.pi / 2 / 9, rtol=1e-3)


def test_labels_without_noise_are_the_best_class() -> None:
    stream = synthetic("classification", clients=20, steps=20, classes=4, noise=0.0)
    scores = stream.x @ _truth(stream).weights[0]
    np.testing.assert_array_equal(scores.argmax(axis=1), stream.y)
    assert stream.classes == 4


def _logistic_score(stream: Stream, noise: float) -> tuple[float, float]:
    """Mean and standard error of sum_c (1[y = c] - P(c)) <x, w_c>, whose mean is 0 at the true noise only."""
    scores = (stream.x @ _truth(stream).weights[0]).astype(float)
    chance = np.exp(scores / noise)
    chance /= chance.sum(axis=1, keepdims=True)
    terms = ((np.eye(3)[stream.y] - chance) * scores).sum(axis=1)
    return float(terms.mean()), float(terms.std() / len(terms) ** 0.5)


def test_labels_follow_the_softmax_of_the_scores() -> None:
    """Four standard errors around 0 hold the true noise and exclude one that is a tenth off."""
    stream = synthetic("classification", clients=200, steps=200, classes=3, noise=0.5)
    for noise, fits in ((0.45, False), (0.5, True), (0.55, False)):
        mean, error = _logistic_score(stream, noise)
        assert (abs(mean) < 4 * error) == fits


def test_column_partition_of_the_dataset_is_the_stream() -> None:
    stream = synthetic(clients=3, steps=5)
    np.testing.assert_array_equal(partition(stream.dataset, kind="column").order, stream.order)
    assert len(load("synthetic", clients=3, steps=5)) == 15


def test_the_seed_decides_everything() -> None:
    a, b, c = (
        synthetic(clients=3, steps=4, heterogeneity=0.5, seed=seed).fingerprint() for seed in (1, 1, 2)
    )
    assert a == b != c


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="`features` must be an integer >= 2, got 1"):
        synthetic(features=1)
    with pytest.raises(InputError, match="`noise` must be a finite number >= 0, got -1"):
        synthetic(noise=-1)
    with pytest.raises(InputError, match="`heterogeneity` must be a finite number >= 0"):
        synthetic(heterogeneity=float("nan"))
    with pytest.raises(InputError, match=r"`clients` must be at least 2 for `heterogeneity` 1\.0, got 1"):
        synthetic(clients=1, heterogeneity=1.0)
    with pytest.raises(InputError, match="`classes` must be an integer >= 2, got 1"):
        synthetic("classification", classes=1)
