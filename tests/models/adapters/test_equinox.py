from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.models import from_equinox

equinox = pytest.importorskip("equinox", reason="needs the extra ofediq[equinox]")


def mlp(seed: int = 0) -> Any:
    return equinox.nn.MLP(6, 3, width_size=4, depth=1, key=jax.random.key(seed))


def test_outputs_are_those_of_the_module() -> None:
    model = from_equinox(mlp(2), "classification", classes=3)
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    scores = np.asarray(jax.vmap(mlp(2))(x))
    np.testing.assert_array_equal(model.predict(model.initial(), x), scores.argmax(1))
    losses, _ = model.evaluate(model.initial(), x, np.zeros(5, np.int32))
    np.testing.assert_allclose(losses, np.log(np.exp(scores).sum(1)) - scores[:, 0], rtol=1e-5)
    assert model.dim == 7 * 4 + 5 * 3


def test_a_module_is_the_start_for_every_seed_and_a_function_makes_one_for_each() -> None:
    fixed, made = from_equinox(mlp(2), "classification"), from_equinox(mlp, "classification")
    np.testing.assert_array_equal(fixed.initial(0), fixed.initial(7))
    np.testing.assert_array_equal(made.initial(2), fixed.initial(0))
    assert (made.initial(3) != made.initial(2)).any()


def test_dropout_is_off() -> None:
    module = equinox.nn.Sequential([equinox.nn.Dropout(0.9), equinox.nn.LayerNorm(2)])
    model = from_equinox(module, "classification")
    x = np.array([[0.0, 2.0]], np.float32)  # normalised: (-1, 1)
    losses, _ = model.evaluate(model.initial(), x, np.array([1]))
    assert losses.item() == pytest.approx(np.log(1 + np.exp(-2)), rel=1e-4)


@pytest.mark.parametrize(
    ("module", "task", "sentence"),
    [
        (3, "regression", "`module` must be an equinox.Module or a function from a seed to one, got 3"),
        (lambda seed: seed, "regression", "`module` must give an equinox.Module for a seed, got 0"),
        (
            lambda seed: equinox.nn.BatchNorm(2, "batch", mode="batch"),
            "classification",
            "`module` must keep no state between samples, such as statistics of batches, got 'BatchNorm'",
        ),
        (equinox.nn.Identity(), "regression", "`module` must hold at least one number"),
        (mlp(), "ranking", "`task` must be one of classification, regression, got 'ranking'"),
    ],
)
def test_bad_arguments_get_one_sentence(module: Any, task: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_equinox(module, task)
