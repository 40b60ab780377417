"""The paper's models: linear and softmax regression, which are convex, the theory's home; Models I, II and III."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ofediq.errors import require, require_integer
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


def cnn(height: int = 28, width: int = 28, classes: int = 10, l2: float = 0.0) -> Network:
    """Model I: D = 10 x 32 + 289 x 64 + 1601 x 10 for 28 x 28 images and 10 classes.

    Padding is 'valid' throughout; pooling drops an odd last row and column, and what it drops is never computed.

    >>> cnn().dim
    34826
    """
    for name, side in (("height", height), ("width", width)):
        require(
            require_integer(name, side, 1) >= 10,
            name,
            "must be at least 10 for two 3x3 convolutions with pooling",
            side,
        )
    classes, words = require_integer("classes", classes, 2), "conv 32, pool, conv 64, pool, dense"
    return network(words, shape=(height, width), task="classification", classes=classes, l2=l2, name="cnn")


def mlp_classifier(
    features: int, classes: int, hidden: tuple[int, ...] = (64, 64), l2: float = 0.0
) -> Network:
    """Model II: two ReLU layers of 64 and a softmax layer, cross-entropy loss.

    The paper counts D = 2 x 64 + 65 x 64 + 65 x 4 = 4,548, which leaves the number of features out. With the
    14 features of the Room data it is

    >>> mlp_classifier(features=14, classes=4).dim
    5380
    """
    layers, shape = _layers(hidden), (features,)
    return network(layers, shape=shape, task="classification", classes=classes, l2=l2, name="mlp")


def mlp_regressor(features: int, hidden: tuple[int, ...] = (64, 64), l2: float = 1e-4) -> Network:
    """Model III: two ReLU layers of 64 and one linear output, regularised squared loss.

    >>> mlp_regressor(features=5).dim, mlp_regressor(features=25).dim
    (4609, 5889)
    """
    return network(_layers(hidden), shape=(features,), task="regression", l2=l2, name="mlp")


def _layers(hidden: Any) -> list[Dense]:
    fits = isinstance(hidden, Sequence) and len(hidden) > 0
    require(fits, "hidden", "must name at least one layer size", hidden)
    return [*(Dense(require_integer("hidden", size, 1)) for size in hidden), Dense()]
