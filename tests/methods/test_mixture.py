"""The mixture of common model, naive forecast and own model, against its equations and against each of the three."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods, models
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


def mixed(eta: float = 0.05, own: float = 0.05) -> methods.Method:
    inner = methods.fedogd(eta)
    return replace(inner, client=Mixture(inner.client, own))


@pytest.mark.parametrize("own", [0.05, 0.0])
def test_engine_equals_the_loop(own: float) -> None:
    data = stream(alike=False)
    fast, slow = simulate(mixed(own=own), data, MODEL), reference(mixed(own=own), data, MODEL)
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
