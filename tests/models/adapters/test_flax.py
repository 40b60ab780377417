from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.models import from_flax
from ofediq.simulation import simulate

linen = pytest.importorskip("flax.linen", reason="needs the extra ofediq[flax]")
nnx = pytest.importorskip("flax.nnx", reason="needs the extra ofediq[flax]")


def two_layers() -> Any:
    return linen.Sequential([linen.Dense(4), linen.relu, linen.Dense(3)])


def flat(xs: Any) -> Any:
    return xs.reshape(xs.shape[0], -1)


def test_linen_starts_as_its_own_initialisers_say() -> None:
    model = from_flax(two_layers(), (6,), "classification", classes=3)
    params = two_layers().init(jax.random.key(9), jnp.zeros((1, 6)))["params"]
    expected = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])
    np.testing.assert_array_equal(model.initial(9), expected)
    assert model.dim == 7 * 4 + 5 * 3
    assert model.name == "Sequential"


def test_linen_and_nnx_learn_like_the_built_in_model() -> None:
    """One dense layer from zero is softmax regression; Flax orders the leaves bias, kernel."""
    stream = streams.partition(streams.load("digits"), clients=9, steps=8, seed=1)
    method = methods.fedogd(step_size=0.1)
    zeros = linen.initializers.zeros_init()
    own = (
        linen.Sequential([flat, linen.Dense(10, kernel_init=zeros)]),
        nnx.Sequential(flat, nnx.Linear(64, 10, kernel_init=zeros, rngs=nnx.Rngs(0))),
    )
    expected = simulate(method, stream, models.softmax(64, 10, l2=0.0))
    for module in own:
        found = simulate(method, stream, from_flax(module, (8, 8), "classification", classes=10))
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4)
        np.testing.assert_allclose(found.params[:10], expected.params[-10:], rtol=1e-3, atol=1e-6)


def test_nnx_runs_in_evaluation_mode_and_keeps_its_other_state() -> None:
    module = nnx.Sequential(nnx.Dropout(0.9, rngs=nnx.Rngs(0)), nnx.BatchNorm(2, rngs=nnx.Rngs(0)))
    model = from_flax(module, (2,), "classification")
    assert model.dim == 4  # scale and bias, not the statistics
    x = np.array([[1.0, 2.0]], np.float32)
    outputs = np.asarray(model.outputs(model.layout.unflatten(jnp.asarray(model.initial())), x[0]))  # type: ignore[misc]  # it has outputs
    np.testing.assert_allclose(outputs, x[0] / np.sqrt(1 + 1e-5), rtol=1e-6)
    assert not module.layers[0].deterministic  # the user's module is as it was


class Counting(nnx.Module):  # type: ignore[name-defined, misc]  # it comes from `importorskip`
    """A recurrent layer, which counts draws without using them; and noise, if asked for."""

    def __init__(self, noise: float) -> None:
        self.rngs, self.noise = nnx.Rngs(0), noise
        self.rows, self.scores = nnx.RNN(nnx.GRUCell(4, 3, rngs=self.rngs)), nnx.Linear(3, 2, rngs=self.rngs)

    def __call__(self, x: Any) -> Any:
        found = self.scores(self.rows(x)[:, -1])
        return found + self.noise * self.rngs.normal(found.shape) if self.noise else found


def test_a_recurrent_nnx_module_runs_and_one_that_draws_is_refused() -> None:
    module, x = Counting(0), np.ones((3, 5, 4), np.float32)
    model = models.from_flax(module, (5, 4), "classification")
    losses, _ = model.evaluate(model.initial(), x, np.zeros(3, np.int32))
    np.testing.assert_allclose(losses, -jax.nn.log_softmax(module(x))[:, 0], rtol=1e-5)
    with pytest.raises(InputError, match="`module` must not draw at random, got 'Counting'"):
        models.from_flax(Counting(1), (5, 4), "classification")


def test_variables_of_a_linen_module_stay_as_they_are() -> None:
    module = linen.Sequential([linen.Dense(3), linen.BatchNorm(use_running_average=True)])
    model = from_flax(module, (6,), "classification", classes=3)
    assert model.dim == 6 * 3 + 3 + 2 * 3
    variables, x = module.init(jax.random.key(0), np.zeros((1, 6))), np.ones((1, 6), np.float32)
    expected = jax.nn.logsumexp(module.apply(variables, x)[0]) - module.apply(variables, x)[0, 2]
    assert model.evaluate(model.initial(0), x, np.array([2]))[0][0] == pytest.approx(
        float(expected), rel=1e-5
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3, (6,), "regression"), "`module` must be a linen.Module, an nnx.Module or a function .*got 3"),
        (
            (lambda seed: None, (6,), "regression"),
            "`module` must be a linen.Module, an nnx.Module or a function",
        ),
        ((two_layers(), (6,), "regression"), r"`module` must give one number per sample, got shape \[3\]"),
        ((two_layers(), (6,), "classification", 4), "`module` must give 4 scores, one per class, got 3"),
        ((two_layers(), (0,), "classification"), "`sample_shape` must be an integer >= 1, got 0"),
        (
            (linen.BatchNorm(use_running_average=False), (6,), "classification"),
            "and change nothing, such as no statistics of a batch",
        ),
        (
            (
                linen.Sequential([linen.Dense(3), linen.Dropout(0.5, deterministic=False)]),
                (6,),
                "classification",
            ),
            "`module` must need nothing but parameters and samples, such as no random draws",
        ),
        (
            (linen.Conv(3, (3, 3)), (6,), "classification"),
            r"`module` must take a batch of samples of shape \[6\]",
        ),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_flax(*arguments)


def test_samples_of_another_shape_are_refused() -> None:
    model = from_flax(two_layers(), (6,), "classification")
    with pytest.raises(InputError, match=r"`module` must get samples of shape \[6\], got \[5\]"):
        model.evaluate(model.initial(), np.ones((1, 5), np.float32), np.zeros(1, np.int32))


def test_too_few_scores_are_refused_also_where_jax_computes() -> None:
    stream = streams.partition(streams.load("digits"), clients=3, steps=2)
    module = linen.Sequential([lambda x: x.reshape(len(x), -1), linen.Dense(9)])
    model = from_flax(module, (8, 8), "classification", lower=False)
    with pytest.raises(InputError, match="`model` must score 10 classes like the stream, got 9"):
        simulate(methods.fedogd(), stream, model)
