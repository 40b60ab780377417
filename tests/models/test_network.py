from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from ofediq.errors import InputError
from ofediq.models import Conv, Dense, Identity, Network, Pool, Relu, Tanh, cnn, network
from ofediq.models.layers import Gelu, Layer, Leaky, Mean, Norm, Silu, parse, spelled
from tests.models.stacks import loss, outputs, stacks

IMAGES: Any = {"shape": (9, 8), "task": "classification", "classes": 3}


@settings(max_examples=12, deadline=None)
@given(stacks())
def test_losses_and_gradients_are_those_of_jax(model: Network) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, *model.shape)).astype(np.float32), np.arange(3, dtype=np.int32)
    params = (model.initial(1) + 0.05 * rng.normal(size=model.dim)).astype(np.float32)
    one = jax.value_and_grad(partial(loss, model))
    losses, gradients = jax.jit(jax.vmap(one, (None, 0, 0)))(jnp.asarray(params), x, y)
    np.testing.assert_allclose(model.evaluate(params, x, y)[0], losses, rtol=2e-4, atol=1e-5)
    scale = float(np.abs(gradients).max())
    np.testing.assert_allclose(model.client_gradients(params, x, y), gradients, rtol=1e-3, atol=1e-4 * scale)
    own = np.stack([params, 0.9 * params, 1.1 * params]).astype(np.float32)
    expected = jax.jit(jax.vmap(jax.grad(partial(loss, model))))(jnp.asarray(own), x, y)
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(model.client_gradients(own, x, y), expected, rtol=1e-3, atol=1e-4 * scale)


@given(stacks())
def test_words_and_values_are_the_same(model: Network) -> None:
    words = spelled(model.layers)
    classes = 4 if model.task == "classification" else None
    assert (
        network(words, shape=model.shape, task=model.task, classes=classes, l2=model.l2).layers
        == model.layers
    )


def test_model_one_in_words() -> None:
    words = network(
        "conv 32, pool, conv 64, pool, dense 10", shape=(28, 28), task="classification", classes=10
    )
    values: list[Layer] = [Conv(32), Relu(), Pool(), Conv(64), Pool(), Relu(), Dense(10)]
    same = network(values, shape=(28, 28), task="classification", classes=10)
    assert words == same
    assert words.layers == cnn().layers
    np.testing.assert_array_equal(words.initial(5), cnn().initial(5))


def test_relu_follows_a_hidden_layer_that_names_no_activation() -> None:
    assert spelled(network("conv 4, dense 5, tanh, dense 6, identity, dense", **IMAGES).layers) == (
        "conv 4, relu, dense 5, tanh, dense 6, identity, dense 3"
    )


def test_without_a_hidden_layer_it_is_convex_and_starts_at_zero() -> None:
    model = network("dense", **IMAGES)
    assert model.convex
    assert not model.initial(4).any()
    assert network("dense 4, dense", **IMAGES).smoothness(np.ones((1, 72), np.float32)) is None


def test_an_activation_of_the_outputs() -> None:
    model = network("dense, tanh", shape=(2,), task="regression")
    params, x = np.array([1.0, 2.0, 0.5], np.float32), np.array([[0.3, -0.2]], np.float32)
    assert not model.convex
    assert model.predict(params, x)[0] == pytest.approx(np.tanh(0.3 - 0.4 + 0.5), rel=1e-6)
    assert float(outputs(model, jnp.asarray(params), x[0])[0]) == pytest.approx(
        float(model.predict(params, x)[0])
    )


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        ("", "`layers` must be words like .*, got ''"),
        ("conv, dense", "`layers` must be words like .*, got 'conv'"),
        ("dense 4 5, dense", "got 'dense 4 5'"),
        ("dense 4 same, dense", "got 'dense 4 same'"),
        ("conv 0, dense", "`filters` must be an integer >= 1, got 0"),
        ("conv 4", "`layers` must end with a dense layer, got 'conv 4'"),
        ("dense 4, dense 5", "`layers` must end with 3 outputs, got 'dense 4, relu, dense 5'"),
        ("dense, dense 3", "`layers` must say how many units a hidden layer has"),
        ("conv 4, relu, tanh, dense", "at most one activation after each conv or dense layer"),
        ("relu, dense", "at most one activation after each conv or dense layer"),
        ("dense 4, pool, dense", "`layers` must have a pool after images only"),
        ("dense 4, conv 4, dense", r"`layers` must have 'conv 4' on images .*, got \[4\]"),
        ("pool, pool, conv 4, dense", "`layers` must have 'conv 4' on at least 3 x 3 values, got 2 x 2"),
        ("pool, pool, pool, pool, dense", "`layers` must have 'pool' on at least 2 x 2 values, got 1 x 1"),
        ("conv 4 6y6, dense", "got 'conv 4 6y6'"),
        ("dense 1.5, dense", "got 'dense 1.5'"),
        ("norm, dense", "`layers` must have a norm behind a conv or dense layer"),
        ([Dense(3), "pool"], "`layers` must be Conv, Pool, .* values, got 'pool'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(layers: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        network(layers, **IMAGES)


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match=r"`size` must be an integer .*, got 0"):
        Conv(8, size=0)
    with pytest.raises(InputError, match="`same` must be False for filters of an even side"):
        Conv(8, size=4, same=True)
    with pytest.raises(InputError, match=r"`size` must be an integer .*, got 1"):
        Pool(1)
    with pytest.raises(InputError, match="`epsilon` must be positive, got 0"):
        Norm(0.0)
    with pytest.raises(InputError, match="`below` must lie between 0 and 1, got 2"):
        Leaky(2.0)
    with pytest.raises(InputError, match="`classes` must be at least 2"):
        network("dense", shape=(3,), task="classification")
    with pytest.raises(InputError, match="`shape` must be an integer >= 1, got 0"):
        network("dense", shape=(0,), task="regression")
    with pytest.raises(InputError, match="`task` must be"):
        network("dense", shape=(2,), task="ranking")  # type: ignore[arg-type]  # the point


def test_layers_in_words() -> None:
    assert parse("Conv 8 3x3 valid , identity") == (Conv(8), Identity())
    assert parse("dense unbiased, TANH") == (Dense(bias=False), Tanh())
    assert parse("conv 8 7x7 stride2 margin0-1, leaky 0.2 1, pool 3, mean, norm 1e-05 unbiased, gelu") == (
        Conv(8, 7, stride=2, margin=(0, 1)),
        Leaky(0.2, 1.0),
        Pool(3),
        Mean(),
        Norm(1e-5, bias=False),
        Gelu(),
    )


def test_an_activation_that_falls_stays_behind_the_pool() -> None:
    before, after = (
        network(words, **IMAGES) for words in ("conv 4, silu, pool, dense", "conv 4, pool, silu, dense")
    )
    assert [stage.kind for stage in before.stages] == ["conv", "pool", "dense"]
    assert [stage.kind for stage in after.stages] == ["conv", "dense"]
    assert after.stages[0].activation == Silu()
