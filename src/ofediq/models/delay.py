"""A model whose targets come late: it predicts from one row, and learns from an earlier one whose target has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.models.anchor import Anchored
from ofediq.models.base import Around, Experts
from ofediq.wrapping import of_inner


@dataclass(frozen=True)
class Late(Around):
    """`inner` where the target of a sample is known some steps after it was predicted; made by `late`.

    A sample is [row, earlier row, its target, known], as `ofediq.streams.features.featurize` writes it for samples
    several rows ahead. The error is that of the prediction from `row`, made before any later target was seen. Losses
    and gradients are those of the earlier row, whose target came at this step; all 0 where `known` is 0. So a
    simulation with targets that come late is one with samples of this kind, and nothing else has to wait.

    Attributes:
        inner: what is learnt, and what a live client has.
    """

    inner: Anchored

    deep = of_inner()
    linear_outputs = of_inner()
    initial = of_inner()

    def predict(self, params: Array, xs: Array) -> Array:
        """From the row."""
        return self.inner.predict(params, self._row(xs))

    def probabilities(self, experts: Experts, xs: Array) -> Array | None:
        """From the row."""
        return self.inner.probabilities(experts, self._row(xs))

    def predict_mixture(self, experts: Experts, xs: Array) -> Array:
        """From the row."""
        return self.inner.predict_mixture(experts, self._row(xs))

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses of the earlier rows, errors of the rows."""
        then, target, known = self._earlier(xs)
        losses = self.inner.evaluate(params, then, target)[0]
        return losses * known, self.inner.evaluate(params, self._row(xs), ys)[1]

    def evaluate_mixture(self, experts: Experts, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses of the earlier rows, errors of the rows, by mixed outputs."""
        then, target, known = self._earlier(xs)
        losses = self.inner.evaluate_mixture(experts, then, target)[0]
        return losses * known, self.inner.evaluate_mixture(experts, self._row(xs), ys)[1]

    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """Of the earlier rows."""
        then, target, known = self._earlier(xs)
        return self.inner.client_gradients(params, then, target) * known[:, None]

    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses and gradient of the earlier rows, errors of the rows."""
        then, target, known = self._earlier(xs)
        losses, _, gradient = self.inner.batch_gradient(params, then, target, weights * known)
        return losses * known, self.inner.evaluate(params, self._row(xs), ys)[1], gradient

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**self.inner.describe(), "late": True}

    def _row(self, xs: Array) -> Array:
        return xs[:, : (xs.shape[1] - 2) // 2]

    def _earlier(self, xs: Array) -> tuple[Array, Array, Array]:
        target = xs[:, -2]
        labels = target.astype(np.int32) if self.task == "classification" else target
        return xs[:, (xs.shape[1] - 2) // 2 : -2], labels, xs[:, -1]


def late(inner: Anchored) -> Late:
    """`inner` with targets that come late, see `Late`.

    >>> from ofediq.models import anchored, linear
    >>> model = late(anchored(linear(features=1)))
    >>> row, earlier, target = [0.5, 20.0, 0.1], [1.0, 10.0, 2.0], [12.0]  # feature, forecast, unit
    >>> sample = np.array([[*row, *earlier, *target, 1.0]], np.float32)
    >>> model.predict(model.initial(), sample).tolist()
    [20.0]
    >>> model.client_gradients(model.initial(), sample, np.zeros(1, np.float32)).tolist()  # -2 (12 - 10) / 2 x
    [[-2.0, -2.0]]
    """
    return Late(inner)
