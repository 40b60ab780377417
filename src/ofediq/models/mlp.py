"""Models II and III of the paper: a network of dense layers with ReLU."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.errors import require, require_integer
from ofediq.models.base import LayeredModel, Task, dense, dense_gradient, flat_dim, glorot, unflatten


@dataclass(frozen=True)
class Mlp(LayeredModel):
    """Dense layers of the given `sizes` (features, hidden..., outputs), ReLU between them."""

    name: str
    task: Task
    sizes: tuple[int, ...]
    l2: float = 0.0
    chunk: int = 256

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = sum of (inputs + 1) x outputs over the layers."""
        return flat_dim(self._shapes())

    def initial(self, seed: int = 0) -> npt.NDArray[np.float32]:
        """Glorot weights, zero biases."""
        rng = np.random.default_rng(seed)
        layers = [
            np.concatenate([glorot(rng, fan_in, fan_out, fan_in * fan_out), np.zeros(fan_out, np.float32)])
            for fan_in, fan_out in self._shapes()
        ]
        return np.concatenate(layers)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Outputs, and the inputs of every layer."""
        hidden = xs.reshape(xs.shape[0], -1)
        inputs = []
        for depth, (weights, bias) in enumerate(unflatten(params, self._shapes())):
            if depth:
                hidden = namespace(hidden).maximum(hidden, 0)
            inputs.append(hidden)
            hidden = dense(hidden, weights, bias)
        return hidden, inputs

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through the layers; a unit that was not above zero passes nothing."""
        pieces: list[Array] = []
        layers = unflatten(params, self._shapes())
        for depth in reversed(range(len(layers))):
            pieces = dense_gradient(cache[depth], deltas, each) + pieces
            if depth:
                weights = layers[depth][0]
                deltas = dense(deltas, weights.swapaxes(-1, -2), np.float32(0)) * (cache[depth] > 0)
        return namespace(deltas).concatenate(pieces, axis=-1)

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**super().describe(), "sizes": list(self.sizes)}

    def _shapes(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        return list(itertools.pairwise(self.sizes))


def mlp_classifier(features: int, classes: int, hidden: tuple[int, ...] = (64, 64), l2: float = 0.0) -> Mlp:
    """Model II: two ReLU layers of 64 and a softmax layer, cross-entropy loss.

    The paper counts D = 2 x 64 + 65 x 64 + 65 x 4 = 4,548, which leaves the number of features out. With the
    14 features of the Room data it is

    >>> mlp_classifier(features=14, classes=4).dim
    5380
    """
    return Mlp("mlp", "classification", (features, *_checked(hidden), classes), l2)


def mlp_regressor(features: int, hidden: tuple[int, ...] = (64, 64), l2: float = 1e-4) -> Mlp:
    """Model III: two ReLU layers of 64 and one linear output, regularised squared loss.

    >>> mlp_regressor(features=5).dim, mlp_regressor(features=25).dim
    (4609, 5889)
    """
    return Mlp("mlp", "regression", (features, *_checked(hidden), 1), l2)


def _checked(hidden: tuple[int, ...]) -> tuple[int, ...]:
    require(len(hidden) > 0, "hidden", "must name at least one layer size", hidden)
    return tuple(require_integer("hidden", size, 1) for size in hidden)
