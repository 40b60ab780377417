"""A model that rounds as the C client does: one operation after another, in one order, with its own exp.

NumPy's matrix products leave the order of their sums to the machine, and its `exp` differs between processors in the
last bits. So the gradients of `device/ofediq.c` are held against this model, bit for bit; it agrees with the built-in
one to a few units in the last place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector
from ofediq.device.configuration import dense_widths
from ofediq.models import Anchored, LayeredModel, Model, Network

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LN2, _LN2_REST = np.float32(0.693359375), np.float32(-2.12194440e-4)  # together log 2; the first has 10 bits


class DeviceModel(LayeredModel):
    """`model`, computed for one sample at a time as `device/ofediq.c` does.

    Args:
        model: dense layers with biases, ReLU between them.

    >>> from ofediq.models import softmax
    >>> model, x = softmax(3, classes=2), np.ones((1, 3), np.float32)
    >>> DeviceModel(model).predict(np.arange(8, dtype=np.float32), x)
    array([1])
    """

    def __init__(self, model: Model) -> None:
        self.widths = dense_widths(model)
        assert isinstance(model, Network)
        self.name, self.task, self.dim, self.l2 = model.name, model.task, model.dim, model.l2
        self.convex, self._model = model.convex, model
        self.outputs, self.stages = model.outputs, model.stages

    def initial(self, seed: int = 0) -> Vector:
        """As the model's own."""
        return self._model.initial(seed)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Outputs [1, outputs], and what comes into each layer."""
        hidden, caches, start, flat = np.float32(xs).reshape(-1), [], 0, params.reshape(-1)
        for depth, (inputs, outputs) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            weights = flat[start : start + inputs * outputs].reshape(inputs, outputs)
            caches.append((hidden, weights))
            hidden = _in_order(hidden[:, None] * weights) + flat[start + inputs * outputs :][:outputs]
            if depth < len(self.widths) - 2:
                hidden = np.where(hidden > 0, hidden, np.float32(0))
            start += (inputs + 1) * outputs
        return hidden[None], caches

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through the layers."""
        delta, pieces = deltas[0], list[Vector]()
        for depth in reversed(range(len(cache))):
            hidden, weights = cache[depth]
            pieces = [(hidden[:, None] * delta).reshape(-1), delta, *pieces]
            if depth:
                delta = np.where(hidden > 0, _in_order((delta * weights).T), np.float32(0))
        gradient = np.concatenate(pieces)
        return gradient[None] if each else gradient

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        if self.task == "regression":
            return super()._head(outputs, ys)
        shifted, label = (outputs - outputs.max())[0], int(ys[0])
        exponentials = negative_exp(shifted)
        total = _in_order(exponentials[:, None])
        hot = (np.arange(shifted.size) == label).astype(np.float32)
        loss = np.log(total) - shifted[label]  # nobody sends it
        error = np.array([outputs[0].argmax() != label], np.float32)
        return loss, error, (exponentials / total - hot)[None]


@dataclass(frozen=True)
class _DeviceAnchored(Anchored):
    """A model beside a naive forecast, computed as devices do."""

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        return self.inner._head(outputs, ys) if self.task == "classification" else super()._head(outputs, ys)


def device_model(model: Model) -> LayeredModel:
    """`DeviceModel`, also of a model that starts from a naive forecast."""
    if not isinstance(model, Anchored):
        return DeviceModel(model)
    inner: Any = DeviceModel(model.inner)
    return _DeviceAnchored(inner, model.limit)


def negative_exp(x: Vector) -> Vector:
    """e^x for x <= 0, to 2 units in the last place; 0 below -87.

    >>> float(negative_exp(np.float32([-1.0]))[0])
    0.3678794...
    """
    inside = x >= -87
    x = np.where(inside, x, np.float32(0))
    power = (x * np.float32(1.44269504) - np.float32(0.5)).astype(np.int32)
    whole = power.astype(np.float32)
    r = (x - whole * _LN2) - whole * _LN2_REST
    made = (_polynomial(_EXP, r) * (r * r) + r) + np.float32(1)
    scale = ((power + 127).astype(np.uint32) << np.uint32(23)).view(np.float32)
    return np.where(inside, made * scale, np.float32(0))


def _polynomial(factors: tuple[float, ...], x: Vector) -> Vector:
    made = np.full_like(x, factors[0])
    for factor in factors[1:]:
        made = made * x + np.float32(factor)
    return made


def _in_order(terms: Vector) -> Vector:
    """The sum of the rows, from the first to the last."""
    total: Vector = np.add.accumulate(terms, axis=0)[-1]
    return total
