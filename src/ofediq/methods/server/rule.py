"""What the server does with the updates that arrived.

A rule keeps a state and turns (model, sum) into the next model. The sum is divided by K, the number of all
clients, whoever sent: the server does not need to know the senders. A rule may broadcast vectors and numbers
beside the model.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ofediq.arrays import Array, float32, map_leaves, namespace
from ofediq.errors import InputError
from ofediq.methods.mirror import Euclidean, MirrorMap
from ofediq.methods.pieces import name_of, piece
from ofediq.methods.server.fingerprint import fingerprint
from ofediq.settings import Between, Positive, Ranged
from ofediq.wrapping import of_inner

Part = TypeVar("Part")


class Totals(NamedTuple):
    """What arrived in a round."""

    vectors: Mapping[str, Array]  # by name, combined over the senders
    senders: Array  # how many
    bits: Array  # of their payloads
    clients: int  # K
    step: Array  # t, at which they sent
    seed: Array = 0  # of all draws, for rules that draw: `Address(seed, step, SERVER)`

    @property
    def divisor(self) -> Array:
        """How many sent; 1 where nobody did."""
        return float32(self.senders + (self.senders == 0))


class ServerRule(Ranged, abc.ABC):
    """From a model and a sum of updates to the next model."""

    vectors: tuple[str, ...] = ()
    """Names of the vectors that go with every broadcast."""
    scalars: tuple[str, ...] = ()
    """Names of the numbers that go with every broadcast."""
    alone: str = ""
    """Why no other rule can take its place, the first half of an error's sentence; empty where one can."""
    mirror: MirrorMap = Euclidean()
    """The geometry that it descends in."""

    @property
    def name(self) -> str:
        """Short name, with the first of the rule's numbers: adam(0.01)."""
        own: Any = self
        return f"{name_of(type(self))}({getattr(self, fields(own)[0].name):g})"

    @property
    def descent(self) -> float | None:
        """The step size eta of a rule that is w' = w - eta/K total and nothing else: others have no regret bound."""
        return None

    @property
    def layers(self) -> tuple[ServerRule, ...]:
        """This rule, and those that it wraps, one in another."""
        return (self,)

    def part(self, kind: type[Part]) -> Part | None:
        """The first of its layers that is of this `kind`; None if there is none."""
        return next((one for one in self.layers if isinstance(one, kind)), None)

    def start(self, params: Array) -> Array:
        """The first model: `params`, moved into the rule's domain where it has one."""
        return params

    def init(self, params: Array) -> Any:
        """The state before the first update: arrays in tuples, named tuples or dicts."""
        return ()

    def begin(self, params: Array, clients: int, period: int) -> Any:
        """As `init`, for rules that want to know how many clients there are, and how long their windows."""
        return self.init(params)

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """The state before a round of `clients` clients, where their number changes between rounds."""
        return state

    @abc.abstractmethod
    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """The next model and state."""

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """The model and state after a round of `period` steps; an empty one leaves both alone."""
        moved = self.apply(params, totals.vectors["update"], totals.clients, state)
        after: tuple[Array, Any] = unless_empty(totals, moved, (params, state))
        return after

    def around(self, rule: ServerRule) -> ServerRule:
        """`rule` in the place of this one; a rule that wraps another keeps itself around it."""
        if self.alone:
            raise InputError(f"{self.alone}, got {rule.name}")
        return rule

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """The named vectors and numbers of the next broadcast."""
        return {}, {}


@dataclass(frozen=True)
class Wrapping(ServerRule):
    """The base of rules around another one: all is as the inner rule has it, unless a subclass says otherwise."""

    inner: ServerRule

    name = of_inner()
    vectors = of_inner()
    scalars = of_inner()
    alone = of_inner()
    mirror = of_inner()
    start = of_inner()
    begin = of_inner()
    regroup = of_inner()
    apply = of_inner()
    close = of_inner()
    say = of_inner()

    @property
    def layers(self) -> tuple[ServerRule, ...]:
        """This rule around those of the inner one."""
        return (self, *self.inner.layers)

    def init(self, params: Array) -> Any:
        """Before the first round of one client."""
        return self.begin(params, 1, 1)

    def around(self, rule: ServerRule) -> ServerRule:
        """The same around another rule."""
        return replace(self, inner=self.inner.around(rule))


class Keeping(Wrapping):
    """The base of wrapping rules with a state of their own: a named tuple that has the inner rule's as `inner`."""

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """The inner rule's; the rest stays as it is."""
        return state._replace(inner=self.inner.regroup(params, clients, state.inner))

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """The inner rule's; the rest stays as it is."""
        params, inner = self.inner.apply(params, total, clients, state.inner)
        return params, state._replace(inner=inner)

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """The inner rule's."""
        return self.inner.say(params, state.inner)


class FromTotals(ServerRule):
    """The base of rules that need more than the sum: how many sent, at which step, other vectors beside it."""

    @abc.abstractmethod
    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """The model and state after a round in which somebody sent."""

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """A round in which everyone sent."""
        sent = np.int32(clients)
        return self.moved(params, Totals({"update": total}, sent, np.float32(0), clients, np.int32(0)), state)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """As `moved`; an empty round leaves everything alone."""
        after: tuple[Array, Any] = unless_empty(totals, self.moved(params, totals, state), (params, state))
        return after


def unless_empty(totals: Totals, after: Any, before: Any) -> Any:
    """`after` if anything arrived, else `before`."""
    if isinstance(totals.senders, (int, np.integer, np.ndarray)):
        return after if totals.senders > 0 else before
    xp = namespace(totals.senders)
    return map_leaves(lambda new, old: xp.where(totals.senders > 0, new, old), after, before)


@piece
@dataclass(frozen=True)
class Descend(ServerRule):
    """w' = back(dual(w) - eta / K * total): Eq. (7) of the paper when the mirror map is Euclidean."""

    step_size: Positive
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

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """One descent step."""
        move = np.float32(self.step_size / clients) * total
        return self.mirror.back(self.mirror.dual(params) - move), state


class Moments(NamedTuple):
    """What Adam keeps."""

    mean: Array  # m
    square: Array  # v
    count: Array  # updates so far


@piece
@dataclass(frozen=True)
class Adam(ServerRule):
    """Adam (D. Kingma, J. Ba, 2015) on the mean update g = total / K.

    m <- a m + (1 - a) g,  v <- b v + (1 - b) g^2,  w <- w - eta m' / (sqrt(v') + epsilon), with m', v' corrected for
    their start at zero: m' = m / (1 - a^n), v' = v / (1 - b^n) after n updates.
    """

    step_size: Positive
    decay: Between = 0.9
    square_decay: Between = 0.999
    epsilon: Positive = 1e-8

    def init(self, params: Array) -> Moments:
        """Zeros."""
        xp = namespace(params)
        return Moments(xp.zeros_like(params), xp.zeros_like(params), xp.zeros((), np.int32))

    def apply(self, params: Array, total: Array, clients: int, state: Moments) -> tuple[Array, Moments]:
        """One step."""
        xp = namespace(params)
        a, b = np.float32(self.decay), np.float32(self.square_decay)
        gradient = total / np.float32(clients)
        mean = a * state.mean + (1 - a) * gradient
        square = b * state.square + (1 - b) * (gradient * gradient)
        count = state.count + 1
        power = count.astype(np.float32)
        move = mean / (1 - a**power) / (xp.sqrt(square / (1 - b**power)) + np.float32(self.epsilon))
        return params - np.float32(self.step_size) * move, Moments(mean, square, count)


@piece
@dataclass(frozen=True)
class Optimizer(ServerRule):
    """Any optax transformation, fed with the mean update total / K as if it were a gradient.

    `fingerprint` tells two transformations apart, see `methods.server.fingerprint`.
    """

    label: str
    transformation: Any = field(repr=False)
    fingerprint: str = ""

    @property
    def name(self) -> str:
        """Short name."""
        return self.label

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
    return Descend(step_size, mirror or Euclidean())


def optimizer(transformation: Any, name: str = "custom") -> Optimizer:
    """An optax transformation as server rule, such as `optimizer(optax.adam(0.01), "adam")`."""
    return Optimizer(name, transformation, fingerprint(transformation))


def adam(step_size: float) -> Adam:
    """Adam with `step_size` on the mean update: what made the authors' figures.

    >>> rule, params = adam(0.1), np.zeros(2, np.float32)
    >>> rule.apply(params, np.array([5.0, -0.5], np.float32), 5, rule.init(params))[0].round(4)
    array([-0.1,  0.1], dtype=float32)
    """
    return Adam(step_size)
