"""Model I of the paper: two convolutions with ReLU and max-pooling, then a softmax layer."""

from __future__ import annotations

from ofediq.errors import require, require_integer
from ofediq.models.stack import Network, network


def cnn(height: int = 28, width: int = 28, classes: int = 10, l2: float = 0.0) -> Network:
    """Model I: D = 10 x 32 + 289 x 64 + 1601 x 10 for 28 x 28 images and 10 classes.

    Padding is 'valid' throughout; pooling drops an odd last row and column, and what it drops is never computed.

    >>> cnn().dim
    34826
    """
    for name, side in (("height", height), ("width", width)):
        require(side >= 10, name, "must be at least 10 for two 3x3 convolutions with pooling", side)
    classes, words = require_integer("classes", classes, 2), "conv 32, pool, conv 64, pool, dense"
    return network(words, shape=(height, width), task="classification", classes=classes, l2=l2, name="cnn")
