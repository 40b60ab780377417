from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.models import from_loss
from ofediq.simulation import reference, simulate
from ofediq.streams import Stream
from tests.models.zoo import softmax_loss, softmax_scores, softmax_start


@pytest.fixture(scope="module")
def digits() -> Stream:
    return streams.partition(streams.load("digits"), clients=11, steps=12, seed=1)


@pytest.mark.parametrize(
    "method",
    [
        methods.fedogd(step_size=0.1),
        methods.fedomd(period=3, step_size=0.1),
        methods.ofediq(rate=0.6, levels=4, blocks=5, period=2, step_size=0.1),
        methods.ogd(step_size=0.01),
        methods.local(step_size=0.1),
    ],
    ids=lambda method: method.name,
)
def test_the_softmax_loss_written_by_a_user_repeats_the_built_in_run(method: Method, digits: Stream) -> None:
    """These methods together call the model in every way that the engine knows."""
    start = [jnp.zeros((64, 10)), jnp.zeros(10)]  # a list keeps its order: weights, then bias

    def scores(params: Any, x: Any) -> Any:
        return x.reshape(-1) @ params[0] + params[1]

    def loss(params: Any, x: Any, y: Any) -> Any:
        penalty = 5e-4 * ((params[0] ** 2).sum() + (params[1] ** 2).sum())
        return -jax.nn.log_softmax(scores(params, x))[y] + penalty

    own = simulate(method, digits, from_loss(loss, start, scores, convex=True, chunk=4))
    built_in = simulate(method, digits, models.softmax(64, 10, l2=1e-3))
    np.testing.assert_allclose(own.loss, built_in.loss, rtol=1e-4)
    np.testing.assert_array_equal(own.error, built_in.error)
    np.testing.assert_array_equal(own.bits_wire, built_in.bits_wire)
    np.testing.assert_allclose(own.params, built_in.params, rtol=1e-3, atol=1e-5)


def test_the_plain_loop_takes_it_too(digits: Stream) -> None:
    model = from_loss(softmax_loss, softmax_start(64, 10), softmax_scores)
    method = methods.fedomd(period=2, step_size=0.1)
    fast, plain = simulate(method, digits.head(4), model), reference(method, digits.head(4), model)
    np.testing.assert_allclose(fast.params, plain.params, rtol=1e-3, atol=1e-6)


def test_parameters_may_come_from_a_seed() -> None:
    def make(seed: int) -> Any:
        return {"w": jax.random.normal(jax.random.key(seed), (4,))}

    model = from_loss(lambda params, x, y: (params["w"] @ x - y) ** 2, make, task="regression")
    assert model.dim == 4
    np.testing.assert_array_equal(model.initial(5), make(5)["w"])
    assert (model.initial(5) != model.initial(6)).all()


def test_half_precision_and_plain_numbers_become_float32() -> None:
    params = {"a": 1.5, "b": np.ones(2, np.float16), "c": jnp.ones(1, jnp.bfloat16), "d": np.ones((1, 1))}
    model = from_loss(lambda params, x, y: params["a"] * y, params, task="regression")
    np.testing.assert_array_equal(model.initial(), np.array([1.5, 1, 1, 1, 1], np.float32))
    assert model.describe()["parameters"] == {"['a']": [], "['b']": [2], "['c']": [1], "['d']": [1, 1]}


def test_a_regression_without_predict_reports_its_loss_as_error() -> None:
    model = from_loss(lambda params, x, y: jnp.abs(params @ x - y), np.zeros(2), task="regression")
    losses, errors = model.evaluate(model.initial(), np.ones((1, 2), np.float32), np.array([3.0], np.float32))
    assert losses.tolist() == errors.tolist() == [3.0]
    with pytest.raises(InputError, match="`predict` must be given to `from_loss`"):
        model.predict(model.initial(), np.ones((1, 2)))


def test_chunks_bound_the_memory_of_gradients() -> None:
    def dim(size: int, chunk: int | None = None) -> int:
        return from_loss(lambda w, x, y: w[0] * y, np.zeros(size), task="regression", chunk=chunk).chunk

    assert (dim(10), dim(2**20), dim(2**15)) == (512, 8, 64)
    assert dim(10, chunk=3) == 3


def test_convexity_is_declared_not_guessed() -> None:
    model = from_loss(softmax_loss, softmax_start(), softmax_scores)
    assert not model.convex
    assert from_loss(softmax_loss, softmax_start(), softmax_scores, convex=True).convex


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": 3}, "`loss` must be a function of params, x and y, got 3"),
        ({"task": "ranking"}, "`task` must be one of classification, regression, got 'ranking'"),
        ({"predict": None}, "`predict` must be given for a classification task"),
        (
            {"params": {"w": np.arange(3)}},
            r"`params` must hold floating-point numbers only, got int64 at \['w'\]",
        ),
        (
            {"params": np.array([np.nan])},
            "`params` must be finite in float32, got a value that is not at the vector",
        ),
        ({"params": ["w"]}, r"`params` must hold floating-point numbers only, got <U1 at \[0\]"),
        ({"params": {}}, r"`params` must hold at least one number, got {}"),
        ({"classes": 1}, "`classes` must be an integer >= 2, got 1"),
        ({"classes": 3, "task": "regression"}, "`classes` must be None for a regression task, got 3"),
        ({"chunk": 0}, "`chunk` must be an integer >= 1, got 0"),
    ],
)
def test_bad_arguments_get_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {
        "loss": softmax_loss,
        "params": softmax_start(),
        "predict": softmax_scores,
    } | changes
    with pytest.raises(InputError, match=sentence):
        from_loss(**arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": lambda w, x, y: x * w}, r"`loss` must return one number per sample, got shape \[2\]"),
        (
            {"predict": lambda w, x: w @ x},
            r"`predict` must give one score per class and sample, got shape \[\]",
        ),
        ({"predict": lambda w, x: x, "classes": 3}, "`predict` must give 3 scores, one per class, got 2"),
        (
            {"predict": lambda w, x: x, "task": "regression"},
            r"`predict` must give one number per sample.*\[2\]",
        ),
    ],
)
def test_what_the_functions_return_is_checked(changes: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {
        "loss": lambda w, x, y: w @ x,
        "params": np.ones(2),
        "predict": lambda w, x: x * w,
    } | changes
    model = from_loss(**arguments)
    with pytest.raises(InputError, match=sentence):
        model.evaluate(model.initial(), np.ones((1, 2), np.float32), np.zeros(1, np.int32))


def test_samples_that_do_not_fit_are_refused_before_the_run(digits: Stream) -> None:
    model = from_loss(softmax_loss, softmax_start(63, 10), softmax_scores)
    with pytest.raises(InputError, match=r"`model` must take samples of shape \[8, 8\], got 'own'"):
        simulate(methods.fedogd(), digits, model)


def test_a_structure_that_changes_with_the_seed_is_refused() -> None:
    model = from_loss(lambda w, x, y: w[0], lambda seed: np.ones(1 + seed), task="regression")
    with pytest.raises(InputError, match=r"`params` must have the same structure for every seed.* at 1"):
        model.initial(1)
