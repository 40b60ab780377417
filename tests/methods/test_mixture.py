"""The mixture of common model, naive forecast and own model, against its equations and against each of the three."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods, models
from ofediq.methods import ridge
from ofediq.methods.mixture import Mixture
from ofediq.simulation import reference, simulate
from ofediq.streams import Dataset, Stream

CLIENTS, STEPS = 6, 120
MODEL = models.anchored(models.linear(3))


def stream(alike: bool, seed: int = 0, scale: float = 1.0) -> Stream:
    """What is to be added to a forecast of 0: common or own coefficients, or (scale 0) nothing but noise."""
    rng = np.random.default_rng(seed)
    own = np.tile(rng.normal(size=3), (CLIENTS, 1)) if alike else rng.normal(size=(CLIENTS, 3))
    x = rng.normal(size=(STEPS, CLIENTS, 3))
    y = scale * np.einsum("tki,ki->tk", x, own) + 0.3 * rng.normal(size=(STEPS, CLIENTS))
    anchors = np.tile([0.0, 1.0], (STEPS, CLIENTS, 1))
    rows = np.concatenate([x, anchors], axis=-1).reshape(-1, 5).astype(np.float32)
    data = Dataset("made", rows, y.reshape(-1).astype(np.float32), "regression")
    return Stream(data, np.arange(STEPS * CLIENTS, dtype=np.int32).reshape(STEPS, CLIENTS))


def mixed(eta: float = 0.05, own: float = 0.05, outputs: int = 0) -> methods.Method:
    inner = methods.fedogd(eta)
    return replace(inner, client=Mixture(inner.client, own, outputs=outputs))


@pytest.mark.parametrize(("own", "outputs"), [(0.05, 0), (0.0, 0), (0.05, 1)])
def test_engine_equals_the_loop(own: float, outputs: int) -> None:
    data, method = stream(alike=False), mixed(own=own, outputs=outputs)
    fast, slow = simulate(method, data, MODEL), reference(method, data, MODEL)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=1e-4)
    alone = simulate(methods.fedogd(0.05), data, MODEL)
    np.testing.assert_array_equal(fast.bits_wire, alone.bits_wire)  # it costs nothing
    np.testing.assert_allclose(fast.params, alone.params, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("alike", "scale"), [(True, 1.0), (False, 1.0), (True, 0.0)])
def test_nearly_as_good_as_the_best_of_the_three(alike: bool, scale: float) -> None:
    data = stream(alike, scale=scale)
    mixture = simulate(mixed(), data, MODEL).loss.sum()
    common = simulate(methods.fedogd(0.05), data, MODEL).loss.sum()
    naive = float((data.dataset.y**2).sum())
    assert mixture <= 1.15 * min(common, naive)
    if not alike:  # neither the common model nor the forecast knows what a client has learnt for itself
        assert mixture < 0.7 * min(common, naive)


def test_own_models_of_second_order_learn_sooner() -> None:
    data = stream(alike=False)
    first, second = (simulate(mixed(outputs=outputs), data, MODEL).loss.sum() for outputs in (0, 1))
    assert second < 0.9 * first


@pytest.mark.parametrize("classes", [2, 5])
def test_a_gradient_tells_its_sample(classes: int) -> None:
    """One sample of a softmax regression: the step along P x, with P from x and the probabilities."""
    rng = np.random.default_rng(classes)
    inner = models.softmax(3, classes, l2=0.0)
    params = 0.3 * rng.normal(size=(1, inner.dim)).astype(np.float32)
    x, y = rng.normal(size=(1, 3)).astype(np.float32), np.array([1])
    spread = np.eye(4, dtype=np.float32)[None] / ridge.RIDGE
    moved, after = ridge.learn_ridge(params, spread, inner.client_gradients(params, x, y), classes, 0.25)
    features = np.append(x[0], 1.0)
    scores = features @ params[0].reshape(4, classes)
    chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    residual = chances - np.eye(classes)[1]
    spherical = np.diag(chances) - np.outer(chances, chances)
    curvature = residual @ spherical @ residual / (residual @ residual)
    narrowed = np.linalg.inv(ridge.RIDGE * np.eye(4) + curvature * np.outer(features, features))
    step = np.outer(narrowed @ features, residual)
    np.testing.assert_allclose(after[0], narrowed + 0.25 * np.eye(4), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose((params - moved)[0], step.ravel(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_gradient_that_tells_nothing_changes_nothing(value: float) -> None:
    weights, spread = np.ones((2, 3), np.float32), np.stack([np.eye(3, dtype=np.float32)] * 2)
    moved, after = ridge.learn_ridge(weights, spread, np.full((2, 3), value, np.float32), 1, 1e-4)
    np.testing.assert_array_equal(moved, weights)
    np.testing.assert_array_equal(after, spread)


def test_a_common_model_that_diverges_does_no_harm() -> None:
    data = stream(alike=True)
    result = simulate(mixed(eta=1e4), data, MODEL)
    assert not np.isfinite(result.params).all() or np.abs(result.params).max() > 1e6
    assert result.loss[5:].sum() <= 1.1 * (data.dataset.y.reshape(STEPS, CLIENTS)[5:] ** 2).sum()


@given(
    st.lists(st.lists(st.floats(0, 1e30), min_size=3, max_size=3), min_size=1, max_size=30),
)
def test_weights_are_shares_whatever_the_losses(losses: list[list[float]]) -> None:
    rule = Mixture(methods.hold())
    lost, spent = np.zeros((1, 3), np.float32), np.zeros(1, np.float32)
    for one in losses:
        shares = rule.weights(lost, rule._rate(spent))
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1, abs=1e-5)
        now = np.minimum(np.array([one], np.float32), np.float32(1e18))
        spent = spent + rule._cost(lost, spent, now)
        lost = lost + now
        lost = np.minimum(lost - lost.min(), np.float32(1e18))
        assert np.isfinite(spent).all()


def test_many_features_make_an_own_model_careful() -> None:
    """All of them move in its first step."""
    steps = [
        getattr(methods.mixed(methods.fedogd(), dim, 10, outputs).client, "own", None)
        for dim, outputs in ((128, 1), (1_280, 1), (2_560, 2), (1_280, 0))
    ]
    assert steps == pytest.approx([Mixture.own, Mixture.own / 10, Mixture.own, Mixture.own])


def test_weights_are_those_of_adahedge() -> None:
    rule, rng = Mixture(methods.hold(), horizon=1e9), np.random.default_rng(3)
    prior = np.array([0.2, 0.75, 0.05])
    lost, spent, kept, cost = np.zeros((1, 3), np.float32), np.zeros(1, np.float32), np.zeros(3), 0.0
    for losses in rng.exponential(size=(40, 3)):
        rate = math.log(3) / max(cost, 1e-18)
        wanted = prior * np.exp(-np.minimum(rate * (kept - kept.min()), 80))
        wanted /= wanted.sum()
        shares = rule.weights(lost, rule._rate(spent))
        np.testing.assert_allclose(shares[0], wanted, rtol=2e-3, atol=1e-6)
        soft = (
            losses.min()
            - math.log((wanted * np.exp(-np.minimum(rate * (losses - losses.min()), 80))).sum()) / rate
        )
        cost += max(float(wanted @ losses) - soft, 0.0)
        kept += losses
        now = losses[None].astype(np.float32)
        spent, lost = spent + rule._cost(lost, spent, now), lost + now
