"""Learning vector quantisation: labelled prototypes instead of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import require_integer
from ofediq.models.base import LayeredModel, Task

_NEVER = np.float32(3e38)


@dataclass(frozen=True)
class Prototypes(LayeredModel):
    """Generalised learning vector quantisation (Sato and Yamada, 1996); made by `lvq`.

    A sample belongs to the class of the nearest prototype. With d+ the squared distance to the nearest prototype of
    its own class and d- to the nearest of another, the loss is 1 + (d+ - d-) / (d+ + d-), from 0 to 2, above 1 where
    the answer is wrong. Its gradient touches these two prototypes and no other: an update has 2 x features numbers
    that are not zero, however many prototypes there are.

    Attributes:
        features: numbers in a sample.
        outputs: classes.
        each: prototypes of each class; [classes, each, features] in the flat vector.
    """

    features: int
    outputs: int
    each: int
    chunk: int = 256
    name = "lvq"
    task: Task = "classification"

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = classes x each x features."""
        return self.outputs * self.each * self.features

    def initial(self, seed: int = 0) -> Vector:
        """Uniform on [0, 1], where scaled features lie: prototypes must differ to be told apart."""
        return np.random.default_rng(seed).random(self.dim).astype(np.float32)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Scores, [n, classes]: minus the squared distance to the nearest prototype of each class."""
        xp = namespace(xs)
        places = params.reshape(*params.shape[:-1], self.outputs, self.each, self.features)
        apart = xs.reshape(xs.shape[0], 1, 1, -1) - places
        distances = (apart * apart).sum(-1)
        nearest = xp.arange(self.each) == distances.argmin(-1)[..., None]
        return -distances.min(-1), (apart, nearest)

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Through the nearest prototype of each class that counts: d score / d prototype = 2 (x - prototype)."""
        apart, nearest = cache
        moved = 2 * (deltas[:, :, None] * nearest)[..., None] * apart
        return moved.reshape(len(moved), -1) if each else moved.sum(0).reshape(-1)

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**super().describe(), "each": self.each}

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        xp = namespace(outputs)
        own = (xp.arange(self.outputs) == ys[..., None]).astype(np.float32)
        right = -(outputs * own).sum(-1)
        others = xp.where(own > 0, _NEVER, -outputs)
        wrong = others.min(-1)
        rival = (xp.arange(self.outputs) == others.argmin(-1)[..., None]).astype(np.float32)
        total = xp.maximum(right + wrong, np.float32(1e-30))
        losses = 1 + (right - wrong) / total
        errors = (outputs.argmax(-1) != ys).astype(np.float32)
        pull, push = 2 * (wrong / total) / total, 2 * (right / total) / total
        return losses, errors, push[..., None] * rival - pull[..., None] * own


def lvq(features: int, classes: int, each: int = 1) -> Prototypes:
    """Prototypes with labels, `each` of them for every class.

    Two prototypes move per sample, so `topk_ef(keep=2 * features)` sends all of an update at any number of them.
    This is the model that the paper's third reference on vector quantisation distributes (Brinkrolf and Hammer,
    2021); the server averages prototypes as it averages any parameters.

    >>> lvq(features=64, classes=10, each=2).dim
    1280
    """
    require_integer("features", features, 1)
    require_integer("classes", classes, 2)
    require_integer("each", each, 1)
    return Prototypes(features, classes, each, min(256, max(8, 2**22 // (classes * each * features))))
