"""One small network for every feature alone: what the authors' code runs on Air and Energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import require, require_choice, require_integer, require_nonnegative
from ofediq.models.base import LayeredModel, Task
from ofediq.models.stack import glorot

Start = Literal["normal", "glorot"]
"""Where the weights begin."""


@dataclass(frozen=True)
class PerFeature(LayeredModel):
    """The network 1 - hidden - 1 with ReLU, applied to each feature; made by `per_feature`.

    The outputs are f(x_1), ..., f(x_F), all compared with the same y: loss and error are the mean over the features
    of (f(x_i) - y)^2, and no two features are ever combined. The prediction is the mean of the outputs.

    Attributes:
        features: F.
        hidden: sizes of the hidden layers.
        l2: penalty `l2 / 2 * ||params||^2`.
        spread: standard deviation of the first weights; biases start at zero.
        start: `normal` for weights from N(0, spread^2), `glorot` for uniform ones by the sizes of their layer.
    """

    features: int
    hidden: tuple[int, ...]
    l2: float = 0.0
    spread: float = 0.01
    start: Start = "normal"
    chunk: int = 256
    name = "per_feature"
    task: Task = "regression"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all layers, from one input to one output."""
        return (1, *self.hidden, 1)

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D, whatever the number of features."""
        return sum((inputs + 1) * units for inputs, units in zip(self.sizes, self.sizes[1:], strict=False))

    def initial(self, seed: int = 0) -> Vector:
        """Weights as `start` says, biases zero."""
        rng, pieces = np.random.default_rng(seed), []
        for inputs, units in zip(self.sizes, self.sizes[1:], strict=False):
            count = inputs * units
            normal = self.start == "normal"
            weights = (
                self.spread * rng.standard_normal(count) if normal else glorot(rng, inputs, units, count)
            )
            pieces += [weights, np.zeros(units)]
        return np.concatenate(pieces).astype(np.float32)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """f of each feature, [n, features], and the values in front of each layer."""
        xp = namespace(xs)
        values, inputs = xs.reshape(xs.shape[0], -1, 1), []
        layers = self._layers(params)
        for number, (weights, bias) in enumerate(layers):
            inputs.append(values)
            values = values @ weights + bias
            if number + 1 < len(layers):
                values = xp.maximum(values, np.float32(0))
        return values[..., 0], inputs

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through the layers, added up over the features."""
        xp = namespace(deltas)
        pieces: list[Array] = []
        back = deltas[..., None]
        layers = self._layers(params)
        for number in reversed(range(len(layers))):
            values = cache[number]
            if each:
                gradient = values.swapaxes(-1, -2) @ back  # [n, inputs, units]
                pieces = [gradient.reshape(len(gradient), -1), back.sum(1), *pieces]
            else:
                flat = values.reshape(-1, values.shape[-1]).T @ back.reshape(-1, back.shape[-1])
                pieces = [flat.reshape(-1), back.sum((0, 1)), *pieces]
            if number:
                back = (back @ layers[number][0].swapaxes(-1, -2)) * (values > 0)
        return xp.concatenate(pieces, axis=-1)

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        shown = {"features": self.features, "hidden": list(self.hidden)}
        return {**super().describe(), **shown, **({} if self.start == "normal" else {"start": self.start})}

    def _layers(self, params: Array) -> list[tuple[Array, Array]]:
        """Weights [..., inputs, units] and biases [..., 1, units] of each layer."""
        found, start, lead = [], 0, params.shape[:-1]
        for inputs, units in zip(self.sizes, self.sizes[1:], strict=False):
            middle, end = start + inputs * units, start + (inputs + 1) * units
            weights = params[..., start:middle].reshape(*lead, inputs, units)
            found.append((weights, params[..., None, middle:end]))
            start = end
        return found

    def _answer(self, outputs: Array) -> Array:
        return outputs.mean(-1)

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        residual = outputs - ys[..., None]
        squared = (residual * residual).mean(-1)
        return squared, squared, np.float32(2 / outputs.shape[-1]) * residual


def per_feature(
    features: int, hidden: tuple[int, ...] = (64, 64), l2: float = 0.0, start: Start = "normal"
) -> PerFeature:
    """The authors' network for Air and Energy: 1-64-64-1 on every feature alone, D = 4,353 as the paper prints it.

    It starts at N(0, .01), as in the commits behind their curves, or with `start="glorot"` as later ones do.

    >>> per_feature(features=25).dim, per_feature(features=5, hidden=(32, 32)).dim
    (4353, 1153)
    """
    require_integer("features", features, 1)
    require(len(hidden) > 0, "hidden", "must name at least one layer size", hidden)
    sizes = tuple(require_integer("hidden", size, 1) for size in hidden)
    chunk = min(256, max(8, 2**22 // (features * sum(sizes))))
    require_choice("start", start, ("normal", "glorot"))
    return PerFeature(features, sizes, require_nonnegative("l2", l2), start=start, chunk=chunk)
