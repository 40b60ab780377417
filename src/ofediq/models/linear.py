"""Linear and softmax regression: convex, the theory's home."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.errors import require_integer, require_nonnegative
from ofediq.models.base import LayeredModel, Task, dense, dense_gradient


@dataclass(frozen=True)
class Linear(LayeredModel):
    """One dense layer from the flattened features to the outputs; starts at zero, as the theorems assume."""

    name: str
    task: Task
    features: int
    outputs: int
    l2: float = 0.0
    intercept: bool = True
    convex: bool = True
    chunk: int = 512

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = (features + 1) x outputs."""
        return (self.features + self.intercept) * self.outputs

    def initial(self, seed: int = 0) -> npt.NDArray[np.float32]:
        """Zeros, whatever the seed."""
        return np.zeros(self.dim, np.float32)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Outputs, and the flattened features."""
        xs = xs.reshape(xs.shape[0], -1)
        cut = self.features * self.outputs
        weights = params[..., :cut].reshape(*params.shape[:-1], self.features, self.outputs)
        return dense(xs, weights, params[..., cut:] if self.intercept else np.float32(0)), xs

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Outer products of features and deltas."""
        pieces = dense_gradient(cache, deltas, each)
        return namespace(deltas).concatenate(pieces if self.intercept else pieces[:1], axis=-1)

    def smoothness(self, xs: npt.NDArray[np.float32]) -> float:
        """beta = c max ||(x, 1)||^2 + l2, with c = 2 for the squared loss and 1/2 for cross-entropy.

        The Hessian of the cross-entropy in the outputs is diag(q) - q q^T, whose eigenvalues are at most 1/2.
        """
        flat = xs.reshape(len(xs), -1).astype(np.float64)
        largest = float((flat * flat).sum(1).max()) + self.intercept
        return (2.0 if self.task == "regression" else 0.5) * largest + self.l2


def linear(features: int, l2: float = 0.0, intercept: bool = True) -> Linear:
    """Least squares on a linear function: loss `(w.x + c - y)^2`.

    >>> linear(features=5).dim
    6
    """
    require_integer("features", features, 1)
    return Linear("linear", "regression", features, 1, require_nonnegative("l2", l2), intercept)


def softmax(features: int, classes: int, l2: float = 1e-3) -> Linear:
    """Softmax regression with cross-entropy.

    The small default `l2` makes the optimum in hindsight exist even where the classes are separable: without it
    the best parameters run to infinity and the regret bound with them.

    >>> softmax(features=64, classes=10).dim
    650
    """
    require_integer("features", features, 1)
    require_integer("classes", classes, 2)
    return Linear("softmax", "classification", features, classes, require_nonnegative("l2", l2))
