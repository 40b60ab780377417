"""Models that are no stacks of layers: random features, prototypes, one network for every feature."""

from __future__ import annotations

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.simulation import simulate
from ofediq.streams import load, partition


def test_random_features_approach_the_gaussian_kernel() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3)).astype(np.float32)
    model = models.random_features(3, kernels=(1.5, 4.0), pairs=20_000)
    z = model.lifted(x).reshape(20, 2, -1)
    distances = ((x[:, None] - x[None]) ** 2).sum(-1)
    for kernel, width in enumerate((1.5, 4.0)):
        wanted = np.exp(-distances / (2 * width**2))
        np.testing.assert_allclose(z[:, kernel] @ z[:, kernel].T, wanted, atol=0.03)


def test_directions_belong_to_the_model_and_not_to_the_run() -> None:
    one, other = models.random_features(3), models.random_features(3)
    np.testing.assert_array_equal(one.directions, other.directions)
    assert (one.directions != models.random_features(3, seed=1).directions).all()


@pytest.mark.parametrize("each", [1, 3])
def test_two_prototypes_are_touched_per_sample(each: int) -> None:
    model = models.lvq(4, 3, each)
    rng = np.random.default_rng(1)
    x, y = rng.random((30, 4)).astype(np.float32), rng.integers(0, 3, 30)
    w = model.initial(0)
    gradients = model.client_gradients(w, x, y).reshape(30, 3, each, 4)
    losses, errors = model.evaluate(w, x, y)
    for n in range(30):
        touched = {(int(c), int(j)) for c, j in np.argwhere(gradients[n].any(-1))}
        distances = ((x[n] - w.reshape(3, each, 4)) ** 2).sum(-1).astype(np.float64)
        right = distances[y[n]].min()
        wrong = min(distances[c].min() for c in range(3) if c != y[n])
        rival = min((distances[c].min(), c) for c in range(3) if c != y[n])[1]
        assert touched == {(y[n], distances[y[n]].argmin()), (rival, distances[rival].argmin())}
        assert losses[n] == pytest.approx(1 + (right - wrong) / (right + wrong), rel=1e-5)
        assert errors[n] == (losses[n] > 1)


def test_prototypes_learn_digits() -> None:
    stream = partition(load("digits"), clients=20, steps=200, seed=0)
    result = simulate(methods.fedogd(10.0), stream, models.lvq(64, 10, each=2))
    late = 1 - result.error[100:].sum() / result.present[100:].sum()
    assert late > 0.85


def test_per_feature_is_one_network_on_each_feature() -> None:
    model = models.per_feature(3, (5, 4))
    single = models.mlp_regressor(1, (5, 4), l2=0.0)
    params = np.random.default_rng(0).standard_normal(model.dim).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    y = np.arange(6, dtype=np.float32)
    apart = np.stack([single.predict(params, x[:, i : i + 1]) for i in range(3)], axis=1)
    np.testing.assert_allclose(
        model.evaluate(params, x, y)[0], ((apart - y[:, None]) ** 2).mean(1), rtol=1e-5
    )
    np.testing.assert_allclose(model.predict(params, x), apart.mean(1), rtol=1e-5)
    wanted = sum(single.client_gradients(params, x[:, i : i + 1], y) for i in range(3)) / 3
    np.testing.assert_allclose(model.client_gradients(params, x, y), wanted, rtol=1e-4, atol=1e-5)


def test_the_papers_dimension() -> None:
    assert models.build("per_feature", (25,), "regression").dim == 4353  # Model III, as printed
    start = models.per_feature(5).initial(0)
    assert abs(start[:64].std() - 0.01) < 0.003
    assert not start[64:128].any()
    later = models.build("per_feature(start=glorot)", (5,), "regression").initial(0)
    assert abs(later[128 : 128 + 4096].std() - np.sqrt(2 / 128)) < 0.005  # a uniform one of that variance
    assert not later[64:128].any()
    with pytest.raises(InputError, match="`start` must be"):
        models.build("per_feature(start=much)", (5,), "regression")
