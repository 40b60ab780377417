"""Modules of other frameworks as stacks of ofediq's own layers: same vector, same start, same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ofediq import methods, models
from ofediq.models import Network
from ofediq.simulation import simulate
from ofediq.streams import Dataset, Stream

linen = pytest.importorskip("flax.linen", reason="needs the extra ofediq[flax]")


def flatten(x: Any) -> Any:
    return x.reshape(x.shape[0], -1)


def pool(x: Any) -> Any:
    return linen.max_pool(x, (2, 2), (2, 2))


class ModelOne(linen.Module):  # type: ignore[name-defined, misc]  # it comes from `importorskip`
    """As users write it."""

    @linen.compact  # type: ignore[untyped-decorator]  # likewise
    def __call__(self, x: Any) -> Any:
        x = x[..., None]
        x = pool(linen.relu(linen.Conv(5, (3, 3), padding="VALID")(x)))
        x = linen.relu(pool(linen.Conv(6, (3, 3), padding="VALID")(x)))
        return linen.Dense(3)(x.reshape((x.shape[0], -1)))


def _linen() -> Any:
    return linen.Sequential(
        [linen.Conv(4, (5, 5)), linen.tanh, pool, flatten, linen.Dense(3, use_bias=False)]
    )


def _nnx(seed: int) -> Any:
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(seed)
    return nnx.Sequential(nnx.Linear(6, 4, rngs=rngs), nnx.relu, nnx.Linear(4, 3, rngs=rngs))


def _equinox(seed: int) -> Any:
    nn = pytest.importorskip("equinox", reason="needs the extra ofediq[equinox]").nn
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    layers = [nn.Conv2d(2, 4, 3, key=first), nn.Lambda(jax.nn.relu), nn.MaxPool2d(2, 2)]
    layers += [nn.Conv2d(4, 3, 3, padding=1, key=second), nn.Lambda(jnp.ravel), nn.Linear(27, 3, key=third)]
    return nn.Sequential(layers)


def _smooth() -> Any:
    """What newer networks are made of: no bias, strides, means, norms and other activations."""
    layers = [linen.Conv(4, (3, 3), use_bias=False), linen.LayerNorm(), linen.gelu]
    layers += [lambda x: linen.avg_pool(x, (2, 2), (2, 2)), linen.Conv(5, (3, 3), strides=2), linen.silu]
    return linen.Sequential(
        [*layers, lambda x: x.mean((1, 2)), linen.Dense(6), linen.LayerNorm(), linen.elu, linen.Dense(3)]
    )


def _written_out() -> Any:
    """The same by hand: recognised by what it computes, not by its name."""
    layers = [lambda x: x / 255.0 - 0.5, linen.Dense(6), lambda x: jnp.maximum(x, 0), linen.Dense(5)]
    layers += [lambda x: x / (1 + jnp.exp(-x)), linen.Dense(4), lambda x: jnp.where(x >= 0, x, 0.1 * x)]
    return linen.Sequential([*layers, linen.Dense(3)])


def _equinox_means(seed: int) -> Any:
    nn = pytest.importorskip("equinox", reason="needs the extra ofediq[equinox]").nn
    first, second = jax.random.split(jax.random.key(seed))
    layers = [nn.Conv2d(1, 4, 3, stride=2, key=first), nn.Lambda(jax.nn.sigmoid), nn.AvgPool2d(2, 2)]
    return nn.Sequential([*layers, nn.Lambda(jnp.ravel), nn.Linear(16, 3, key=second)])


def _own(loss_of: Any) -> Callable[[bool], Any]:
    """A loss of a user's own, with a convolution and a dense layer."""

    def start(seed: int) -> Any:
        first, second = jax.random.split(jax.random.key(seed))
        filters = 0.3 * jax.random.normal(first, (3, 3, 1, 4))
        return {"filters": filters, "weights": 0.3 * jax.random.normal(second, (36, 3)), "bias": jnp.zeros(3)}

    def scores(params: Any, x: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        maps = jax.lax.conv_general_dilated(
            x[None, ..., None], params["filters"], (1, 1), "VALID", dimension_numbers=order
        )
        maps = jax.lax.reduce_window(
            jnp.tanh(maps), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        return maps.reshape(-1) @ params["weights"] + params["bias"]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return loss_of(scores(params, x), y)

    return lambda lower: models.from_loss(loss, start, scores, lower=lower)


def _from_torch(make: Any, lower: bool) -> Any:
    pytest.importorskip("torch", reason="needs the extra ofediq[torch]")
    return models.from_torch(make, "classification", lower=lower)


def _torch(seed: int) -> Any:
    nn = pytest.importorskip("torch.nn", reason="needs the extra ofediq[torch]")
    features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(nn.Unflatten(1, (1, 8)), features, nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3))


def _torch_channels(seed: int) -> Any:
    nn = pytest.importorskip("torch.nn", reason="needs the extra ofediq[torch]")
    first = nn.Conv2d(3, 4, 5, padding="same", bias=False)
    return nn.Sequential(nn.MaxPool2d(2), first, nn.Tanh(), nn.Flatten(), nn.Linear(80, 5), nn.Linear(5, 3))


def _torch_functions(seed: int) -> Any:
    """A class with a forward pass of functions, as most users write it."""
    torch = pytest.importorskip("torch", reason="needs the extra ofediq[torch]")
    nn, functional = torch.nn, torch.nn.functional

    class Own(nn.Module):  # type: ignore[misc, name-defined]  # from `importorskip`
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(1, 4, 3, stride=2, padding=1)
            self.second, self.norm, self.last = nn.Linear(16, 6), nn.LayerNorm(6), nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            x = functional.avg_pool2d(functional.gelu(self.first(x.unsqueeze(1))), 2)
            x = functional.leaky_relu(self.norm(self.second(x.view(x.size(0), -1))), 0.2)
            return self.last(functional.dropout(x, training=self.training))

    return Own()


Make = Callable[[bool], Any]
CASES: dict[str, tuple[Make, tuple[int, ...], str]] = {
    "linen module": (
        lambda lower: models.from_flax(ModelOne(), (11, 12), "classification", lower=lower),
        (11, 12),
        "conv 5, relu, pool, conv 6, relu, pool, dense 3",
    ),
    "linen sequential": (
        lambda lower: models.from_flax(_linen(), (8, 7, 2), "classification", lower=lower),
        (8, 7, 2),
        "conv 4 5x5 same, tanh, pool, dense 3 unbiased",
    ),
    "nnx": (
        lambda lower: models.from_flax(_nnx, (6,), "classification", lower=lower),
        (6,),
        "dense 4, relu, dense 3",
    ),
    "equinox": (
        lambda lower: models.from_equinox(_equinox, "classification", lower=lower),
        (2, 8, 9),
        "conv 4, relu, pool, conv 3 same, identity, dense 3",
    ),
    "smooth": (
        lambda lower: models.from_flax(_smooth(), (9, 9, 2), "classification", lower=lower),
        (9, 9, 2),
        "conv 4 same unbiased, norm 1e-06, gelu-tanh, mean 2, conv 5 stride2 margin0-1, silu, mean, "
        "dense 6, norm 1e-06, elu, dense 3",
    ),
    "written out": (
        lambda lower: models.from_flax(_written_out(), (7,), "classification", lower=lower),
        (7,),
        "dense 6, leaky 0 0.5, dense 5, silu, dense 4, leaky 0.1 1, dense 3",
    ),
    "equinox means": (
        lambda lower: models.from_equinox(_equinox_means, "classification", lower=lower),
        (1, 10, 11),
        "conv 4 stride2, sigmoid, mean 2, dense 3",
    ),
    "own loss": (
        _own(lambda scores, y: -jax.nn.log_softmax(scores)[y]),
        (8, 8),
        "conv 4 unbiased, tanh, pool, dense 3",
    ),
    "torch functions": (
        lambda lower: _from_torch(_torch_functions, lower),
        (8, 8),
        "conv 4 same stride2, gelu, mean 2, dense 6, norm 1e-05, leaky 0.2, dense 3",
    ),
    "torch": (
        lambda lower: _from_torch(_torch, lower),
        (8, 8),
        "conv 4 same, relu, pool, dense 3",
    ),
    "torch with channels": (
        lambda lower: _from_torch(_torch_channels, lower),
        (3, 8, 10),
        "pool, conv 4 5x5 same unbiased, tanh, dense 5, identity, dense 3",
    ),
}


def sparse(shape: tuple[int, ...], count: int) -> tuple[Any, Any]:
    """Samples with many zeros: ties of the pooling, and units that are exactly at zero."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    x[x < 0.8] = 0
    return x, rng.integers(0, 3, count).astype(np.int32)


@pytest.mark.parametrize("key", CASES)
def test_the_same_start_outputs_and_gradients(key: str) -> None:
    make, shape, words = CASES[key]
    lowered, plain = make(True), make(False)
    stack = lowered.stack(shape)
    assert isinstance(stack, Network)
    assert stack.describe()["layers"] == words
    np.testing.assert_array_equal(stack.initial(3), plain.initial(3))
    x, y = sparse(shape, 4)
    start = plain.initial(3)
    own = (start + 0.05 * np.random.default_rng(1).normal(size=(4, plain.dim))).astype(np.float32)
    for params in (start, own):
        for one, other in zip(lowered.evaluate(params, x, y), plain.evaluate(params, x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        expected = plain.client_gradients(params, x, y)
        found = lowered.client_gradients(params, x, y)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("key", CASES)
def test_the_same_run(key: str) -> None:
    """With quantised updates: the blocks of the flat vector are those of the module."""
    make, shape, words = CASES[key]
    x, y = sparse(shape, 40)
    order = np.random.default_rng(2).integers(0, 40, (4, 10)).astype(np.int32)
    stream = Stream(Dataset("made", x, y, "classification", 3), order)
    method = methods.ofediq(0.6, levels=7, blocks=5, period=2, step_size=0.1)
    lowered, plain = (simulate(method, stream, make(lower), seed=1) for lower in (True, False))
    assert lowered.engine.endswith(f"{lowered.model.name!r} as {words}")
    assert plain.engine.endswith(f"{plain.model.name!r} was not to be lowered")
    np.testing.assert_array_equal(lowered.senders, plain.senders)
    apart = ~np.isclose(lowered.params, plain.params, rtol=1e-3, atol=1e-5)
    assert apart.sum() <= 2  # where a draw falls between two roundings
    np.testing.assert_allclose(lowered.loss, plain.loss, rtol=1e-3)


@jax.custom_jvp
def straight(x: Any) -> Any:
    """ReLU forward, the identity backward."""
    return jnp.maximum(x, 0)


straight.defjvps(lambda step, result, x: step)


@pytest.mark.parametrize(
    ("layers", "shape", "sentence"),
    [
        ([linen.Dense(3), jnp.sin, linen.Dense(3)], (4,), "'sin' is no layer that the kernels know"),
        ([linen.Dense(3), straight, linen.Dense(3)], (4,), "'custom_jvp_call' is no layer"),
        ([linen.Conv(4, (3, 3), feature_group_count=2), flatten, linen.Dense(3)], (9, 9, 2), "one group"),
        ([linen.Conv(3, (3, 5)), flatten, linen.Dense(3)], (9, 9, 1), "square filters"),
        ([linen.Dense(3), linen.relu, linen.tanh, linen.Dense(3)], (4,), "'tanh' is no layer"),
        ([lambda x: x.swapaxes(1, 2), flatten, linen.Dense(3)], (4, 5), "moved before a dense layer"),
        ([lambda x: linen.max_pool(x, (3, 3)), flatten, linen.Dense(3)], (6, 6, 1), "side by side"),
        ([linen.Dense(3), lambda x: x + linen.relu(x), linen.Dense(3)], (4,), "no layer"),
    ],
)
def test_what_is_no_stack_says_why(layers: Any, shape: tuple[int, ...], sentence: str) -> None:
    model = models.from_flax(linen.Sequential(layers), shape, "classification")
    reason = model.stack(shape)
    assert isinstance(reason, str)
    assert sentence in reason


def test_torch_modules_that_are_no_stack_say_why() -> None:
    nn = pytest.importorskip("torch.nn", reason="needs the extra ofediq[torch]")
    frozen = nn.Linear(4, 3)
    frozen.bias.requires_grad_(False)
    shared = nn.Linear(4, 4)
    for module, shape, sentence in (
        (nn.Sequential(nn.Linear(4, 3), nn.Mish(), nn.Linear(3, 3)), (4,), "is no layer"),
        (
            nn.Sequential(nn.Linear(4, 3), nn.Hardshrink(), nn.Linear(3, 3)),
            (4,),
            "'hardshrink' has no translation",
        ),
        (nn.Sequential(nn.MaxPool2d(3, 1), nn.Flatten(), nn.Linear(16, 3)), (1, 6, 6), "side by side"),
        (frozen, (4,), "is no layer"),
        (nn.Sequential(shared, shared, nn.Linear(4, 3)), (4,), "not used once"),
    ):
        reason = models.from_torch(module, "classification").stack(shape)
        assert isinstance(reason, str)
        assert sentence in reason


def test_other_models_say_why() -> None:
    for loss_of, sentence in (
        (lambda scores, y: -jax.nn.log_softmax(scores)[y] / 2, "neither the cross-entropy nor"),
        (
            lambda scores, y: jnp.where(scores.max() > 50, 0.0, -jax.nn.log_softmax(scores)[y]),
            "neither the cross",
        ),
        (lambda scores, y: scores.sum(), "neither the cross-entropy nor"),
    ):
        assert sentence in _own(loss_of)(True).stack((8, 8))
    penalised = models.from_loss(
        lambda w, x, y: (x @ w - y).sum() ** 2 + (w * w).sum(), np.zeros((3, 1)), task="regression"
    )
    assert penalised.stack((3,)) == "its loss is no function of outputs and label alone"
    model = models.from_flax(linen.Dense(3), (4,), "classification", lower=False)
    assert model.stack((4,)) == "'Dense' was not to be lowered"
