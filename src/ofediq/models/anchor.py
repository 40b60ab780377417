"""A model that starts from a naive forecast and learns what is to be added to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import InputError
from ofediq.models.base import Around, LayeredModel
from ofediq.models.stack import Network
from ofediq.wrapping import of_inner


@dataclass(frozen=True)
class Anchored(Around, LayeredModel):
    """`inner` on the features of a sample, beside the naive forecast in its last columns; made by `anchored`.

    A sample is [features, anchors], as `ofediq.streams.features.Pipeline` writes it. With f = inner(features):

    - regression, anchors (b, s): the prediction is b + s f. Learnt is ((y - b) / s - f)^2, with (y - b) / s cut to
      `limit`, so that clients with targets in tens of thousands and in thousandths pull alike; the error that is
      reported is (y - b - s f)^2, in the unit of y. Where s = 0 the prediction is b, and nothing is learnt.
    - classification, anchors = one number per class: the class scores are anchors + f.

    The last layer starts at zero, so before the first update f = 0 and the model *is* the naive forecast.
    """

    inner: Network
    limit: float = 4.0

    l2 = of_inner()

    @property
    def deep(self) -> bool:
        """Whether the inner model has hidden layers."""
        return not self.inner.convex

    @property
    def linear_outputs(self) -> int:
        """Those of the inner model, if it is linear and has no penalty."""
        return self.inner.outputs if self.inner.convex and not self.inner.l2 else 0

    @property
    def anchors(self) -> int:
        """How many columns at the end of a sample are anchors."""
        return 2 if self.task == "regression" else self.inner.outputs

    def initial(self, seed: int = 0) -> Vector:
        """The inner model's start, with its last layer at zero."""
        params = self.inner.initial(seed)
        last = self.inner.stages[-1]
        params[self.dim - (last.matrix[0] + last.bias) * last.matrix[1] :] = 0
        return params

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """The inner model's outputs and the anchors, [n, outputs + anchors] for a regression; class scores else."""
        xs = xs.reshape(xs.shape[0], -1)
        outputs, cache = self.inner.forward(params, xs[:, : -self.anchors])
        anchors = xs[:, -self.anchors :]
        if self.task == "classification":
            return outputs + anchors, cache
        return namespace(outputs).concatenate([outputs, anchors], axis=-1), cache

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through the inner model; the anchors are not learnt."""
        return self.inner.backward(params, cache, deltas[:, : self.inner.outputs], each)

    def _answer(self, outputs: Array) -> Array:
        """The class, or b + s f."""
        if self.task == "classification":
            return outputs.argmax(-1)
        return outputs[..., 1] + outputs[..., 2] * outputs[..., 0]

    def smoothness(self, xs: Vector) -> float | None:
        """That of the inner model: a forecast shifts the losses and does not bend them."""
        return self.inner.smoothness(xs.reshape(len(xs), -1)[:, : -self.anchors])

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**self.inner.describe(), "anchored": True}

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        if self.task == "classification":
            return super()._head(outputs, ys)
        xp = namespace(outputs)
        change, forecast, unit = outputs[..., 0], outputs[..., 1], outputs[..., 2]
        known = unit > 0
        wanted = (ys - forecast) / xp.where(known, unit, np.float32(1))
        residual = change - xp.clip(wanted, -np.float32(self.limit), np.float32(self.limit))
        residual = xp.where(known, residual, np.float32(0))
        miss = forecast + unit * change - ys
        return residual * residual, miss * miss, (2 * residual)[..., None]


def anchored(inner: Network) -> Anchored:
    """`inner` as what is added to a naive forecast, see `Anchored`.

    >>> from ofediq.models import linear
    >>> model = anchored(linear(features=3))
    >>> row = np.array([[0.5, -1.0, 2.0, 20.0, 0.1]], np.float32)  # three features, forecast 20, unit 0.1
    >>> model.predict(model.initial(), row).tolist(), model.dim
    ([20.0], 4)
    """
    if inner.places is not None or inner.stages[-1].kind != "dense":
        raise InputError(
            f"`inner` must end with a dense layer whose parameters come last, got {inner.name!r}"
        )
    return Anchored(inner)
