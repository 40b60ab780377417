"""What a client does: where it predicts, how it learns, what it would send, what it remembers.

Everything is batched: arrays have a leading client axis, in the simulator as long as a chunk of clients, in a live
client one. `methods.round` calls these functions in their order; nothing here draws random numbers or sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array
from ofediq.methods.budgets.loudness import length
from ofediq.methods.mirror import Euclidean, MirrorMap
from ofediq.methods.pieces import piece
from ofediq.randomness import Address
from ofediq.settings import Positive, Ranged


class Down(NamedTuple):
    """What a client knows when a window opens: all that a broadcast holds, and who and when it is."""

    model: Array  # [dim], as the clients decode it
    vectors: Mapping[str, Array]  # by name, such as SCAFFOLD's control variate
    scalars: Mapping[str, Array]  # by name, such as the step of the grid
    address: Address | None = None  # the window's last step and the clients' numbers [n]; None at the server


class Window(NamedTuple):
    """Some clients between two transmissions."""

    own: Array  # [n, dim]; [dim] as long as they share one model
    gradients: Array  # [n, dim], added up
    taken: Array  # [n], samples so far
    notes: Any = ()  # what a rule writes down on the way, [n, ...] each


class Sample(NamedTuple):
    """What one sample per client tells."""

    gradient: Callable[[Array], Array]  # at a model [dim] or [n, dim]: [n, dim], zero for the absent
    losses: tuple[Array, ...]  # [n] each: of the experts, for clients with more than the common model


class Outcome(NamedTuple):
    """What became of the updates of a window."""

    wanted: Mapping[str, Array]  # what the clients handed to the compressors, [n, ...] by name
    decoded: Mapping[str, Array]  # what the server made of it
    accepted: Array  # [n], whether it counted


class ClientRule(Ranged):
    """The base of all client rules; the defaults are those of a client without memory.

    Attributes:
        mirror: the geometry that it descends in.
        moves: False if the own model stays at the window's start, so that all clients share it.
        divides: whether updates are divided by the probability of sending, which makes their sum unbiased.
        idle: whether a client that does not send may be left out: nothing that it learnt or remembers is used.
        personal: whether it predicts with something else than the common model, see `experts`.
        receipts: whether `settle` looks at `accepted`, so that a live client must be told whose updates counted.
        kept: share of what a client `says` that the server goes on adding in later rounds; 0 where it forgets.
    """

    mirror: MirrorMap = Euclidean()
    moves: bool = True
    divides: bool = True
    idle: bool = True
    personal: bool = False
    receipts: bool = False
    kept: float = 0.0

    @property
    def descent(self) -> float | None:
        """The step size eta of a rule that is g' = g - eta gradient and nothing else.

        Without it no regret bound is claimed for windows of more than one step.
        """
        return None

    @property
    def plain(self) -> bool:
        """Whether it sends the sum of its gradients along its own path from the common model, and nothing else."""
        kept = ("start", "learn", "finish", "settle", "memory")
        return (
            all(getattr(type(self), name) is getattr(ClientRule, name) for name in kept)
            and self.divides
            and not self.personal
        )

    def memory(self, params: Array) -> Any:
        """What one client remembers before its first window: arrays in tuples or dicts; () for nothing."""
        return ()

    def sends(self, dim: int) -> dict[str, int]:
        """Names and lengths of the vectors that it sends."""
        return {"update": dim}

    def start(self, down: Down, memory: Any) -> Array:
        """Where it starts to learn: [dim] in common, or [n, dim]."""
        return down.model

    def notes(self, down: Down, memory: Any) -> Any:
        """The window's first notes."""
        return ()

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """The models that it predicts with, each with its weight ([n] or a number); the outputs are mixed."""
        return ((np.float32(1), down.model),)

    def step(self, params: Array, gradients: Array) -> Array:
        """The next own model from the present one and its gradient."""
        return params

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """The window after one more sample; the round puts clients back that had none."""
        gradients = sample.gradient(window.own)
        return window._replace(own=self.step(window.own, gradients), gradients=window.gradients + gradients)

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """What it would send, by name."""
        return {"update": window.gradients}

    def says(self, update: Array, down: Down) -> Array:
        """What the server adds to what it keeps of a client, where it keeps anything: the update itself."""
        return update

    def worded(self, said: Array, down: Down) -> Array:
        """The update that `says` so: its inverse."""
        return said

    def beside(self, down: Down) -> Array | None:
        """What a server must add to what it keeps of every client to have its latest gradient; None for nothing."""
        return None

    def offer(self, wanted: Mapping[str, Array], window: Window, down: Down, memory: Any) -> Array:
        """How much it has to say, [n], for a participation that asks: the norm of the update."""
        return length(wanted["update"])

    def cleared(self, memory: Any, first: Any) -> Any:
        """What stays of a `memory` that the server takes for lost, where a new one is `first`."""
        return first

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> Any:
        """What it remembers after the window."""
        return memory


@piece
@dataclass(frozen=True)
class Ogd(ClientRule):
    """theta_{t+1} = back(dual(g_t) - eta * gradient at g_t): online gradient or mirror descent (Eq. 3)."""

    step_size: Positive
    mirror: MirrorMap = field(default_factory=Euclidean)

    @property
    def descent(self) -> float | None:
        """eta, if the mirror map is Euclidean."""
        return self.step_size if self.mirror == Euclidean() else None

    def step(self, params: Array, gradients: Array) -> Array:
        """One descent step."""
        return self.mirror.back(self.mirror.dual(params) - np.float32(self.step_size) * gradients)


@piece
@dataclass(frozen=True)
class Hold(ClientRule):
    """theta_{t+1} = g_t: all gradients of a window are taken at its first model, as the authors' code does."""

    moves = False


def local_ogd(step_size: float, mirror: MirrorMap | None = None) -> Ogd:
    """Local online gradient descent with `step_size` (eta), the paper's rule; `mirror` makes it mirror descent.

    >>> local_ogd(0.5).step(np.ones(2, np.float32), np.array([1.0, -1.0], np.float32))
    array([0.5, 1.5], dtype=float32)
    """
    return Ogd(step_size, mirror or Euclidean())


def hold() -> Hold:
    """Gradients at frozen weights: clients do not move between transmissions."""
    return Hold()
