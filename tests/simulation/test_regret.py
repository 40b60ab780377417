"""Regret against an independently found optimum, and the theorems' bounds above it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.simulation import hindsight, simulate
from ofediq.streams import Dataset, Stream


@pytest.fixture(scope="module")
def linear_stream() -> Stream:
    return streams.synthetic(task="regression", clients=20, steps=200, features=4, heterogeneity=0.5, seed=4)


def test_linear_optimum_is_least_squares(linear_stream: Stream) -> None:
    best = hindsight(models.linear(4), linear_stream)
    x = linear_stream.x[linear_stream.order.reshape(-1)].astype(float)
    y = linear_stream.y[linear_stream.order.reshape(-1)].astype(float)
    expected, *_ = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)
    np.testing.assert_allclose(best.params, expected, rtol=1e-6, atol=1e-9)
    residual = np.column_stack([x, np.ones(len(x))]) @ expected - y
    np.testing.assert_allclose(best.losses.sum(), (residual**2).sum(), rtol=1e-5)
    squared = (2 * residual) ** 2 * ((x**2).sum(1) + 1)  # ||gradient||^2 of each sample
    np.testing.assert_allclose(best.heterogeneity, squared.mean(), rtol=1e-5)
    assert best.exact


def test_softmax_optimum_equals_that_of_another_solver() -> None:
    stream = streams.partition(streams.load("digits"), clients=10, steps=100, seed=1)
    model = models.softmax(64, 10, l2=0.01)
    best = hindsight(model, stream, tolerance=1e-7)
    rows = stream.order.reshape(-1)
    x = np.column_stack(
        [stream.x[rows].reshape(len(rows), -1), np.ones(len(rows))]
    )  # the intercept is penalised
    other = LogisticRegression(C=1 / (0.01 * len(rows)), fit_intercept=False, tol=1e-10, max_iter=5000)
    other.fit(x, stream.y[rows])
    np.testing.assert_allclose(best.params.reshape(65, 10), other.coef_.T, atol=2e-4)
    assert best.gradient_norm <= 2e-7
    assert best.exact


def test_absent_samples_do_not_count(linear_stream: Stream) -> None:
    order = linear_stream.order.copy()
    order[::2] = -1
    best = hindsight(models.linear(4), Stream(linear_stream.dataset, order))
    assert (best.losses[::2] == 0).all()
    kept = hindsight(models.linear(4), Stream(linear_stream.dataset, order[1::2].copy()))
    np.testing.assert_allclose(best.params, kept.params)


def test_a_stream_without_samples_has_no_best_model(linear_stream: Stream) -> None:
    with pytest.raises(InputError, match="`stream` must hold at least one sample, got 'none'"):
        hindsight(models.linear(4), Stream(linear_stream.dataset, np.full((3, 2), -1)))


@pytest.mark.parametrize(
    "method",
    [
        methods.fedogd(0.005),
        methods.ofedavg(0.5, 0.005),
        methods.ofedavg(np.linspace(0.4, 1.0, 20).tolist(), 0.004),
        methods.ofediq(0.8, levels=4, blocks=2, step_size=0.002),
        methods.ofediq(0.8, levels=4, blocks=2, period=3, step_size=0.0005),
        methods.fedomd(4, 0.0005),
    ],
    ids=["fedogd", "ofedavg", "per-client", "ofediq", "ofediq-period", "fedomd"],
)
def test_measured_regret_stays_under_the_bound(method: Method, linear_stream: Stream) -> None:
    regret = simulate(method, linear_stream, models.linear(4)).regret()
    assert regret.bound is not None, regret.reason
    assert (regret.curve <= regret.bound).all()
    assert regret.curve[-1] > 0
    assert not regret.estimate


def test_regret_grows_slower_than_time() -> None:
    # At the step size of Corollary 1 for the horizon, the regret of FedOGD is O(sqrt(T)): four times the steps
    # must give clearly less than four times the regret.
    ends = []
    for steps in (100, 400):
        stream = streams.synthetic(task="regression", clients=20, steps=steps, features=4, seed=4)
        ends.append(
            simulate(methods.fedogd(0.05 / np.sqrt(steps)), stream, models.linear(4)).regret().curve[-1]
        )
    assert ends[1] < 3 * ends[0]


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (methods.fedogd(0.01, preset="authors"), "plain descent, not adam"),
        (methods.at_budget("ofedduplex", 0.5, 5, 20), "plain descent, not descend in Steered"),
        (methods.local(0.01), "federated methods"),
        (methods.fedogd(10.0), "`step_size` must be below"),
    ],
)
def test_no_bound_where_no_theorem_applies(method: Method, reason: str, linear_stream: Stream) -> None:
    regret = simulate(method, linear_stream, models.linear(4)).regret()
    assert regret.bound is None
    assert reason in regret.reason


def test_comparator_of_a_network_is_an_estimate(linear_stream: Stream) -> None:
    result = simulate(methods.fedogd(0.01), linear_stream, models.mlp_regressor(4, hidden=(8,)))
    regret = result.regret()
    assert regret.estimate
    assert regret.bound is None
    assert regret.reason == "the model is not convex"
    final, _ = result.model.evaluate(result.params, linear_stream.x, linear_stream.y)
    assert regret.comparator.losses.sum() <= final.sum() * (
        1 + 1e-5
    )  # at least as good as where the run ended


def test_dynamic_regret_in_one_window_is_the_static_one(linear_stream: Stream) -> None:
    result = simulate(methods.fedogd(0.01), linear_stream, models.linear(4))
    whole = result.dynamic_regret(linear_stream.steps)
    np.testing.assert_allclose(whole.curve, result.regret().curve)
    assert whole.path == 0


def test_dynamic_regret_is_measured_against_the_best_of_each_window() -> None:
    data = Dataset("jump", x=np.ones((6, 1)), y=np.array([1.0, 1.0, 1.0, 5.0, 5.0, 9.0]), task="regression")
    stream = Stream(data, np.array([[0], [1], [2], [-1], [-1], [-1], [3], [4], [5]]))
    result = simulate(methods.fedogd(0.1), stream, models.linear(1, intercept=False))
    regret = result.dynamic_regret(3)
    # The best constants are 1 and, of 5, 5 and 9, 19 / 3; in between nobody has a sample.
    last = np.array([5.0, 5.0, 9.0]) - 19 / 3
    expected = np.cumsum(result.loss - np.array([0, 0, 0, 0, 0, 0, *last**2]))
    np.testing.assert_allclose(regret.curve, expected, rtol=1e-5)
    assert regret.comparators[1] is None
    assert regret.path == pytest.approx(19 / 3 - 1)
    assert not regret.estimate
    with pytest.raises(InputError, match="`window` must be an integer >= 1, got 0"):
        result.dynamic_regret(0)


def test_following_a_drift_costs_less_than_standing_still() -> None:
    stream = streams.synthetic(task="regression", clients=10, steps=200, features=3, drift="abrupt", seed=1)
    slow, fast = (
        simulate(methods.fedogd(eta), stream, models.linear(3)).dynamic_regret(10) for eta in (1e-4, 0.1)
    )
    assert fast.curve[-1] < slow.curve[-1]


def test_a_method_that_hardly_moves_has_the_regret_of_its_first_model(linear_stream: Stream) -> None:
    first = np.arange(5.0)
    still = simulate(methods.fedogd(1e-12), linear_stream, models.linear(4), initial=first).regret()
    np.testing.assert_allclose(still.curve, still.idle, rtol=1e-5)
    moving = simulate(methods.fedogd(0.01), linear_stream, models.linear(4), initial=first).regret()
    np.testing.assert_allclose(moving.idle, still.idle)
    assert moving.curve[-1] < moving.idle[-1] / 2


def test_a_steered_method_is_not_covered_because_of_its_senders() -> None:
    stream = streams.synthetic(clients=4, steps=6, features=3)
    regret = simulate(methods.ofedgrid(1e4, 6, step_size=1e-4), stream, models.linear(3)).regret()
    assert regret.bound is None
    assert regret.reason == "the theorems assume independent participation"
