from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.models import Network, linear, softmax
from tests.models.zoo import CLASSES, FEATURES, samples


def test_dimensions() -> None:
    assert linear(5).dim == 6
    assert linear(5, intercept=False).dim == 5
    assert softmax(64, 10).dim == 65 * 10


@pytest.mark.parametrize("model", [linear(FEATURES), softmax(FEATURES, CLASSES)])
def test_convex_models_start_at_zero_whatever_the_seed(model: Network) -> None:
    assert model.convex
    assert not model.initial(seed=7).any()


def test_least_squares_by_hand() -> None:
    """w = (2, -1), c = 3, x = (1, 4), y = 0: prediction 1, loss 1, gradient 2 x residual x (x, 1)."""
    params, x, y = np.array([2.0, -1.0, 3.0]), np.array([[1.0, 4.0]]), np.array([0.0])
    model = linear(2)
    assert model.predict(params, x) == [1.0]
    assert [part.tolist() for part in model.evaluate(params, x, y)] == [[1.0], [1.0]]
    assert model.client_gradients(params, x, y).tolist() == [[2.0, 8.0, 2.0]]


def test_the_penalty_is_half_l2_times_the_squared_norm() -> None:
    x, y = samples((FEATURES,), "classification")
    params = np.random.default_rng(3).normal(size=softmax(FEATURES, CLASSES).dim)
    with_penalty, without = (softmax(FEATURES, CLASSES, l2=l2) for l2 in (0.25, 0.0))
    extra_loss = with_penalty.evaluate(params, x, y)[0] - without.evaluate(params, x, y)[0]
    np.testing.assert_allclose(extra_loss, 0.125 * params @ params)
    extra_slope = with_penalty.client_gradients(params, x, y) - without.client_gradients(params, x, y)
    np.testing.assert_allclose(extra_slope, np.tile(0.25 * params, (len(x), 1)))


def test_softmax_gradients_are_those_of_jax() -> None:
    x, y = samples((FEATURES,), "classification")
    model = softmax(FEATURES, CLASSES, l2=0.2)
    params = np.random.default_rng(3).normal(size=model.dim).astype(np.float32)

    def loss(params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        cut = FEATURES * CLASSES
        scores = x @ params[:cut].reshape(FEATURES, CLASSES) + params[cut:]
        return -jax.nn.log_softmax(scores)[y] + 0.1 * params @ params

    expected = jax.vmap(jax.grad(loss), (None, 0, 0))(jnp.asarray(params), x, y)
    np.testing.assert_allclose(model.client_gradients(params, x, y), expected, rtol=1e-4, atol=1e-6)


def test_huge_scores_neither_overflow_nor_vanish() -> None:
    """Scores (10^4, 0), label 1: the loss is 10^4 and the gradient in the scores (1, -1)."""
    model = softmax(1, 2, l2=0.0)
    params = np.array([1e4, 0.0, 0.0, 0.0], np.float32)
    x, y = np.ones((1, 1), np.float32), np.array([1])
    losses, errors = model.evaluate(params, x, y)
    assert (losses.item(), errors.item()) == (1e4, 1.0)
    assert model.client_gradients(params, x, y).tolist() == [[1.0, -1.0, 1.0, -1.0]]


@given(
    model=st.sampled_from([linear(3), linear(3, l2=0.7, intercept=False), softmax(3, 4, l2=0.2)]),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    apart=st.sampled_from([1e-3, 1.0, 10.0]),
)
def test_smoothness_bounds_how_fast_gradients_change(
    model: Network, seed: int, scale: float, apart: float
) -> None:
    rng = np.random.default_rng(seed)
    x, y = scale * rng.normal(size=(8, 3)), np.arange(8) % 4
    here = rng.normal(size=model.dim)
    there = here + apart * rng.normal(size=model.dim)
    changes = model.client_gradients(here, x, y) - model.client_gradients(there, x, y)
    smoothness = model.smoothness(x.astype(np.float32))
    assert smoothness is not None
    bound = smoothness * np.linalg.norm(here - there)
    assert np.linalg.norm(changes, axis=1).max() <= bound * (1 + 1e-5)


def test_smoothness_is_attained() -> None:
    """Least squares along (x, 1); two classes at even odds, where q (1 - q) is largest, along (x, -x)."""
    x = np.array([[3.0, 4.0]])  # ||(x, 1)||^2 = 26
    squares, odds = linear(2, l2=0.5), softmax(2, 2, l2=0.5)
    along = np.array([3.0, 4.0, 1.0]) / np.sqrt(26)
    change = squares.client_gradients(along, x, np.zeros(1)) - squares.client_gradients(
        0 * along, x, np.zeros(1)
    )
    assert np.linalg.norm(change) == pytest.approx(squares.smoothness(x.astype(np.float32)))
    small = 1e-4 * np.array([3.0, -3.0, 4.0, -4.0, 1.0, -1.0]) / np.sqrt(52)
    labels = np.zeros(1, np.int32)
    slope = odds.client_gradients(small, x, labels) - odds.client_gradients(-small, x, labels)
    assert np.linalg.norm(slope) / 2e-4 == pytest.approx(odds.smoothness(x.astype(np.float32)), rel=1e-4)
