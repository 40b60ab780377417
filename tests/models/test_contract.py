"""One set of checks that every model passes: what the engine relies on, and nothing else."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from ofediq.models import Model
from tests.models.zoo import ADAPTED, BUILT_IN, Case

close = partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)


EVERY = BUILT_IN | ADAPTED


@pytest.fixture(scope="module", params=list(EVERY))
def case(request: pytest.FixtureRequest) -> Case:
    return EVERY[request.param]()


def test_the_start_is_a_function_of_the_seed(case: Case) -> None:
    first = case.model.initial(3)
    assert first.shape == (case.model.dim,)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, case.model.initial(3))


def test_numpy_in_numpy_out_and_jax_agrees(case: Case) -> None:
    weights = np.linspace(0, 1, len(case.x), dtype=np.float32)
    for name, arrays in (
        ("evaluate", (case.params, case.x, case.y)),
        ("evaluate", (case.each, case.x, case.y)),
        ("client_gradients", (case.params, case.x, case.y)),
        ("client_gradients", (case.each, case.x, case.y)),
        ("batch_gradient", (case.params, case.x, case.y, weights)),
    ):
        function: Any = getattr(case.model, name)
        plain = function(*arrays)
        compiled = jax.jit(function)(*arrays)
        assert all(isinstance(array, np.ndarray) for array in jax.tree.leaves(plain))
        for array, same in zip(jax.tree.leaves(plain), jax.tree.leaves(compiled), strict=True):
            assert array.dtype == same.dtype == np.float32
            close(array, same)


def test_one_common_model_is_the_same_model_for_each(case: Case) -> None:
    each = np.tile(case.params, (len(case.x), 1))
    for common, own in zip(
        (
            *case.model.evaluate(case.params, case.x, case.y),
            case.model.client_gradients(case.params, case.x, case.y),
        ),
        (*case.model.evaluate(each, case.x, case.y), case.model.client_gradients(each, case.x, case.y)),
        strict=True,
    ):
        close(common, own)


def test_each_client_uses_its_own_parameters(case: Case) -> None:
    losses, errors = case.model.evaluate(case.each, case.x, case.y)
    gradients = case.model.client_gradients(case.each, case.x, case.y)
    assert gradients.shape == (len(case.x), case.model.dim)
    for k, own in enumerate(case.each):
        x, y = case.x[k : k + 1], case.y[k : k + 1]
        close(losses[k], case.model.evaluate(own, x, y)[0][0])
        close(errors[k], case.model.evaluate(own, x, y)[1][0])
        close(gradients[k], case.model.client_gradients(own, x, y)[0])


def test_the_batch_gradient_is_the_weighted_sum(case: Case) -> None:
    weights = np.array([0.0, 1.0, 2.0, 0.5, 1.0], np.float32)
    losses, errors, gradient = case.model.batch_gradient(case.params, case.x, case.y, weights)
    expected = weights @ case.model.client_gradients(case.params, case.x, case.y)
    close(gradient, expected, atol=1e-4 * np.abs(expected).max())
    close(losses, case.model.evaluate(case.params, case.x, case.y)[0])
    close(errors, case.model.evaluate(case.params, case.x, case.y)[1])


def test_the_gradient_is_the_slope_of_the_loss(case: Case) -> None:
    """Central differences: along the gradient, whose slope is its norm, and in random directions."""
    x, y = case.x[1:2], case.y[1:2]
    gradient = np.asarray(case.model.client_gradients(case.params, x, y)[0], np.float64)
    norm = float(np.linalg.norm(gradient))
    random = np.random.default_rng(4).normal(size=(6, case.model.dim))
    step = 1e-2
    for direction in (gradient / norm, *(random / np.linalg.norm(random, axis=1, keepdims=True))):
        up, down = (
            float(case.model.evaluate((case.params + sign * step * direction).astype(np.float32), x, y)[0][0])
            for sign in (1, -1)
        )
        assert (up - down) / (2 * step) == pytest.approx(gradient @ direction, abs=0.01 * norm)


@pytest.mark.parametrize(
    "case", [name for name in EVERY if name not in ("loss-only", "per-feature")], indirect=True
)
def test_errors_come_from_predictions(case: Case) -> None:  # `per_feature` has the mean of many errors
    predictions = case.model.predict(case.params, case.x)
    _, errors = case.model.evaluate(case.params, case.x, case.y)
    if case.model.task == "classification":
        assert np.issubdtype(predictions.dtype, np.integer)
        np.testing.assert_array_equal(errors, predictions != case.y)
    else:
        close(errors, (predictions - case.y) ** 2)
    close(predictions, jax.jit(case.model.predict)(case.params, case.x))


def test_it_can_be_a_static_argument_and_described(case: Case) -> None:
    @partial(jax.jit, static_argnums=0)
    def dim(model: Model) -> int:
        return model.dim

    assert int(dim(case.model)) == case.model.dim
    description = json.loads(json.dumps(case.model.describe()))
    assert description["dim"] == case.model.dim
    assert case.model.chunk >= 1
