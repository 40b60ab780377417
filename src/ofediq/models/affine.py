"""Linear and softmax regression: convex, the theory's home."""

from __future__ import annotations

from ofediq.errors import require_integer
from ofediq.models.layers import Dense
from ofediq.models.stack import Network, network


def linear(features: int, l2: float = 0.0, intercept: bool = True) -> Network:
    """Least squares on a linear function: loss `(w.x + c - y)^2`.

    >>> linear(features=5).dim
    6
    """
    shape = (require_integer("features", features, 1),)
    return network([Dense(1, bias=intercept)], shape=shape, task="regression", l2=l2, name="linear")


def softmax(features: int, classes: int, l2: float = 1e-3) -> Network:
    """Softmax regression with cross-entropy.

    The small default `l2` makes the optimum in hindsight exist even where the classes are separable: without it
    the best parameters run to infinity and the regret bound with them.

    >>> softmax(features=64, classes=10).dim
    650
    """
    shape = (require_integer("features", features, 1),)
    classes = require_integer("classes", classes, 2)
    return network([Dense()], shape=shape, task="classification", classes=classes, l2=l2, name="softmax")
