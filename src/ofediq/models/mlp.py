"""Models II and III of the paper: a network of dense layers with ReLU."""

from __future__ import annotations

from ofediq.errors import require, require_integer
from ofediq.models.layers import Dense
from ofediq.models.stack import Network, network


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


def _layers(hidden: tuple[int, ...]) -> list[Dense]:
    require(len(hidden) > 0, "hidden", "must name at least one layer size", hidden)
    return [*(Dense(require_integer("hidden", size, 1)) for size in hidden), Dense()]
