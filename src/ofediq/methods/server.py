"""What the server does with the sum of the updates that arrived.

A rule keeps a state and turns (model, sum) into the next model. The sum is divided by K, the number of all
clients, whoever sent: the server does not need to know the senders.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import extra, require_positive
from ofediq.methods.mirror import Euclidean, MirrorMap


class ServerRule(Protocol):
    """From a model and a sum of updates to the next model.

    It may also offer `descent`, the step size eta of a rule that is w' = w - eta/K total and nothing else. Without it
    no regret bound is claimed.
    """

    @property
    def name(self) -> str:
        """Short name."""

    def start(self, params: Array) -> Array:
        """The first model: `params`, moved into the rule's domain where it has one."""

    def init(self, params: Array) -> Any:
        """The state before the first update."""

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """The next model and state."""


@dataclass(frozen=True)
class Descend:
    """w' = back(dual(w) - eta / K * total): Eq. (7) of the paper when the mirror map is Euclidean."""

    step_size: float
    mirror: MirrorMap = field(default_factory=Euclidean)

    @property
    def name(self) -> str:
        """Short name."""
        return "descend" if self.mirror.name == "euclidean" else f"descend-{self.mirror.name}"

    @property
    def descent(self) -> float | None:
        """eta, if the mirror map is Euclidean."""
        return self.step_size if self.mirror == Euclidean() else None

    def start(self, params: Array) -> Array:
        """The centre of the mirror map's domain where `params` lie outside."""
        return self.mirror.start(params)

    def init(self, params: Array) -> tuple[()]:
        """No state."""
        return ()

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """One descent step."""
        move = np.float32(self.step_size / clients) * total
        return self.mirror.back(self.mirror.dual(params) - move), state


@dataclass(frozen=True)
class Optimizer:
    """Any optax transformation, fed with the mean update total / K as if it were a gradient."""

    name: str
    transformation: Any

    def start(self, params: Array) -> Array:
        """`params`."""
        return params

    def init(self, params: Array) -> Any:
        """The transformation's own state."""
        return self.transformation.init(params)

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """One step of the transformation."""
        move, state = self.transformation.update(total / np.float32(clients), state, params)
        return params + move, state


def descend(step_size: float, mirror: MirrorMap | None = None) -> Descend:
    """Plain descent with `step_size` (eta), the paper's rule.

    >>> rule = descend(0.1)
    >>> rule.apply(np.ones(2, np.float32), np.array([5.0, 0.0], np.float32), 5, ())[0]
    array([0.9, 1. ], dtype=float32)
    """
    return Descend(require_positive("step_size", step_size), mirror or Euclidean())


def optimizer(transformation: Any, name: str = "custom") -> Optimizer:
    """An optax transformation as server rule, such as `optimizer(optax.adam(0.01), "adam")`."""
    return Optimizer(name, transformation)


def adam(step_size: float) -> Optimizer:
    """Adam with `step_size` on the mean update: what made the authors' figures."""
    require_positive("step_size", step_size)
    return Optimizer(f"adam({step_size:g})", extra("optax", "sim").adam(step_size))
