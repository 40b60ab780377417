"""What a client does with its own samples between two transmissions.

Within a window of L steps a client takes gradients at its own model g and moves it; its update is the sum of those
gradients. A local rule says how g moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import require_positive
from ofediq.methods.mirror import Euclidean, MirrorMap


class LocalRule(Protocol):
    """How a client's own model moves inside a window.

    It may also offer `descent`, the step size eta of a rule that is g' = g - eta gradient and nothing else. Without
    it no regret bound is claimed for windows of more than one step.
    """

    @property
    def moves(self) -> bool:
        """False if the model stays at the window's start, so that all clients share it."""

    def step(self, params: Array, gradients: Array) -> Array:
        """The next local model from the present one and its gradient; a leading client axis is allowed."""


@dataclass(frozen=True)
class Ogd:
    """theta_{t+1} = back(dual(g_t) - eta * gradient at g_t): online gradient or mirror descent (Eq. 3)."""

    step_size: float
    mirror: MirrorMap = field(default_factory=Euclidean)
    moves: bool = True

    @property
    def descent(self) -> float | None:
        """eta, if the mirror map is Euclidean."""
        return self.step_size if self.mirror == Euclidean() else None

    def step(self, params: Array, gradients: Array) -> Array:
        """One descent step."""
        return self.mirror.back(self.mirror.dual(params) - np.float32(self.step_size) * gradients)


@dataclass(frozen=True)
class Hold:
    """theta_{t+1} = g_t: all gradients of a window are taken at its first model, as the authors' code does."""

    moves: bool = False

    def step(self, params: Array, gradients: Array) -> Array:
        """The same model."""
        return params


def ogd(step_size: float, mirror: MirrorMap | None = None) -> Ogd:
    """Local online gradient descent with `step_size` (eta), the paper's rule; `mirror` makes it mirror descent.

    >>> ogd(0.5).step(np.ones(2, np.float32), np.array([1.0, -1.0], np.float32))
    array([0.5, 1.5], dtype=float32)
    """
    return Ogd(require_positive("step_size", step_size), mirror or Euclidean())


def hold() -> Hold:
    """Gradients at frozen weights: clients do not move between transmissions."""
    return Hold()
