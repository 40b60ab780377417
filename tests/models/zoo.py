"""One small instance of every kind of model, built in or adapted, for the contract that all of them keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from ofediq import models
from ofediq.models import Model

FEATURES, CLASSES = 6, 3


@dataclass(frozen=True)
class Case:
    """A model and samples that it can take."""

    model: Model
    x: npt.NDArray[np.float32]
    y: npt.NDArray[Any]
    params: npt.NDArray[np.float32]  # somewhere else than at the start, where nothing is symmetric

    @property
    def each(self) -> npt.NDArray[np.float32]:
        """One parameter vector per sample, all different."""
        noise = np.random.default_rng(2).normal(size=(len(self.x), self.model.dim)).astype(np.float32)
        return self.params + np.float32(0.05) * noise


def samples(shape: tuple[int, ...], task: str, count: int = 5) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Random samples with random targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    if task == "classification":
        return x, np.arange(count, dtype=np.int32) % CLASSES
    return x, rng.normal(size=count).astype(np.float32)


def case(model: Model, shape: tuple[int, ...] = (FEATURES,), spread: float = 0.3) -> Case:
    """`model` with samples of this shape and parameters scattered around its start."""
    x, y = samples(shape, model.task)
    noise = np.random.default_rng(1).normal(size=model.dim)
    return Case(model, x, y, (model.initial(0) + spread * noise).astype(np.float32))


def softmax_scores(params: Any, x: Any) -> Any:
    return x.reshape(-1) @ params["weights"] + params["bias"]


def softmax_loss(params: Any, x: Any, y: Any, l2: float = 1e-3) -> Any:
    """The built-in softmax model's loss, written as a user would."""
    penalty = l2 / 2 * sum((leaf**2).sum() for leaf in params.values())
    return -jax.nn.log_softmax(softmax_scores(params, x))[y] + penalty


def softmax_start(features: int = FEATURES, classes: int = CLASSES) -> Any:
    """Zeros. JAX orders the leaves of a dict by key: bias, then weights."""
    return {"weights": jnp.zeros((features, classes)), "bias": jnp.zeros(classes)}


def _loss() -> Case:
    return case(models.from_loss(softmax_loss, softmax_start(), softmax_scores))


def _loss_only() -> Case:
    def loss(params: Any, x: Any, y: Any) -> Any:
        return jnp.log(jnp.cosh(params @ x - y))

    return case(models.from_loss(loss, np.zeros(FEATURES), task="regression"))


def _linen() -> Case:
    linen = pytest.importorskip("flax.linen", reason="needs the extra ofediq[flax]")
    module = linen.Sequential([linen.Dense(4), linen.tanh, linen.Dense(CLASSES)])
    return case(models.from_flax(module, (FEATURES,), "classification", CLASSES))


def _nnx() -> Case:
    nnx = pytest.importorskip("flax.nnx", reason="needs the extra ofediq[flax]")

    def make(seed: int) -> Any:
        rngs = nnx.Rngs(seed)
        return nnx.Sequential(nnx.Linear(FEATURES, 4, rngs=rngs), nnx.tanh, nnx.Linear(4, 1, rngs=rngs))

    return case(models.from_flax(make, (FEATURES,), "regression"))


def _equinox() -> Case:
    equinox = pytest.importorskip("equinox", reason="needs the extra ofediq[equinox]")

    def make(seed: int) -> Any:
        return equinox.nn.MLP(FEATURES, CLASSES, 4, 1, activation=jnp.tanh, key=jax.random.key(seed))

    return case(models.from_equinox(make, "classification"))


def _torch(task: Any, outputs: int) -> Case:
    nn = pytest.importorskip("torch.nn", reason="needs the extra ofediq[torch]")

    def make(seed: int) -> Any:
        return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, outputs))

    return case(models.from_torch(make, task))


BUILT_IN: dict[str, Callable[[], Case]] = {
    "linear": lambda: case(models.linear(FEATURES)),
    "linear-l2": lambda: case(models.linear(FEATURES, l2=0.3, intercept=False)),
    "softmax": lambda: case(models.softmax(FEATURES, CLASSES, l2=0.2)),
    "mlp-classifier": lambda: case(models.mlp_classifier(FEATURES, CLASSES, (5, 4), l2=0.1)),
    "mlp-regressor": lambda: case(models.mlp_regressor(FEATURES, (5,))),
    "random-features": lambda: case(models.random_features(FEATURES, kernels=3, pairs=4, l2=0.1)),
    "random-features-classifier": lambda: case(
        models.random_features(FEATURES, kernels=(0.7, 3.0), pairs=4, task="classification", classes=CLASSES)
    ),
    "lvq": lambda: case(models.lvq(FEATURES, CLASSES, each=2)),
    "per-feature": lambda: case(models.per_feature(FEATURES, (5, 4), l2=0.1)),
    "cnn": lambda: case(models.cnn(11, 10, CLASSES), (11, 10), spread=0.03),
    "network": lambda: case(
        models.network(
            "pool, conv 4 5x5 same unbiased, tanh, conv 3, pool, identity, dense 5, dense",
            shape=(13, 14, 2),
            task="classification",
            classes=CLASSES,
            l2=0.01,
        ),
        (13, 14, 2),
        spread=0.1,
    ),
}

ADAPTED: dict[str, Callable[[], Case]] = {
    "loss": _loss,
    "loss-only": _loss_only,
    "linen": _linen,
    "nnx": _nnx,
    "equinox": _equinox,
    "torch-classifier": lambda: _torch("classification", CLASSES),
    "torch-regressor": lambda: _torch("regression", 1),
}
