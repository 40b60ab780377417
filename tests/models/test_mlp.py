from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.models import Network, mlp_classifier, mlp_regressor
from tests.models.zoo import CLASSES, FEATURES, samples


def layers(model: Network, params: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """Weights [i, o] and biases [o], layer after layer in the flat vector."""
    found, start = [], 0
    for stage in model.stages:
        i, o = stage.matrix
        found.append(
            (params[start : start + i * o].reshape(i, o), params[start + i * o : start + (i + 1) * o])
        )
        start += (i + 1) * o
    return found


def outputs(model: Network, params: jax.Array, x: jax.Array) -> jax.Array:
    (first, *others) = layers(model, params)
    hidden = x @ first[0] + first[1]
    for weights, bias in others:
        hidden = jax.nn.relu(hidden) @ weights + bias
    return hidden


def test_dimensions_as_in_the_notes() -> None:
    """NOTES.md, item 6: with the real number of features, not the paper's two."""
    assert mlp_classifier(features=14, classes=4).dim == 5380
    assert mlp_regressor(features=5).dim == 4609
    assert mlp_regressor(features=25).dim == 5889


@pytest.mark.parametrize(
    "model", [mlp_classifier(FEATURES, CLASSES, (5, 4), l2=0.1), mlp_regressor(FEATURES, (5, 4), l2=0.1)]
)
def test_losses_and_gradients_are_those_of_jax(model: Network) -> None:
    def loss(params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        out = outputs(model, params, x)
        fit = -jax.nn.log_softmax(out)[y] if model.task == "classification" else (out[0] - y) ** 2
        return fit + 0.05 * params @ params

    x, y = samples((FEATURES,), model.task)
    params = model.initial(1)
    losses, expected = jax.vmap(jax.value_and_grad(loss), (None, 0, 0))(jnp.asarray(params), x, y)
    np.testing.assert_allclose(model.evaluate(params, x, y)[0], losses, rtol=1e-5)
    np.testing.assert_allclose(model.client_gradients(params, x, y), expected, rtol=1e-4, atol=1e-6)


def test_glorot_start() -> None:
    """Weights fill (-r, r) with r = sqrt(6 / (in + out)); biases are zero; seeds differ."""
    model = mlp_classifier(features=14, classes=4)
    for weights, bias in layers(model, jnp.asarray(model.initial(5))):
        limit = np.sqrt(6 / sum(weights.shape))
        assert 0.95 * limit < np.abs(weights).max() <= limit
        assert not bias.any()
    assert (model.initial(5) != model.initial(6)).any()


@pytest.mark.parametrize("hidden", [(), (0,), (64, -1), (2.5,)])
def test_hidden_sizes_are_checked(hidden: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="`hidden` must"):
        mlp_classifier(4, 2, hidden=hidden)
