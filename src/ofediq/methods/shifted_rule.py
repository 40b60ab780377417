"""`Shifted`: clients send differences from something that the server knows too, and it adds that again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require
from ofediq.methods.pieces import piece
from ofediq.methods.server import ServerRule


class ShiftedState(NamedTuple):
    """What the wrapped rule keeps, and the sum over all clients of what is left out of their messages."""

    inner: Any
    shift: Array


@piece
@dataclass(frozen=True)
class Shifted(ServerRule):
    """`inner` gets H + sum of the messages; then H <- H + a sum of the messages. An empty round changes nothing.

    Attributes:
        inner: the rule that moves the model.
        pace: a, in (0, 1].
        told: whether H / K goes with every broadcast, for clients that cannot know it.
    """

    inner: ServerRule
    pace: float = 1.0
    told: bool = False

    def __post_init__(self) -> None:
        require(0 < self.pace <= 1, "pace", "must lie in (0, 1]", self.pace)

    @property
    def name(self) -> str:
        """The name of the rule that moves the model."""
        return self.inner.name

    @property
    def vectors(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on a field
        """H / K, if it is told."""
        return (*self.inner.vectors, "shift") if self.told else self.inner.vectors

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]  # those of the wrapped rule
        """As the wrapped rule."""
        return self.inner.scalars

    def start(self, params: Array) -> Array:
        """As the wrapped rule."""
        return self.inner.start(params)

    def init(self, params: Array) -> ShiftedState:
        """H = 0."""
        return self.begin(params, 1, 1)

    def begin(self, params: Array, clients: int, period: int) -> ShiftedState:
        """H = 0."""
        return ShiftedState(self.inner.begin(params, clients, period), namespace(params).zeros_like(params))

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """Both steps. What is told is a mean, so H is kept as one."""
        mean = total / np.float32(clients)
        whole = (state.shift + mean) * np.float32(clients)
        params, inner = self.inner.apply(params, whole, clients, state.inner)
        return params, ShiftedState(inner, state.shift + np.float32(self.pace) * mean)

    def around(self, rule: ServerRule) -> ServerRule:
        """The same around another rule."""
        return replace(self, inner=self.inner.around(rule))

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the wrapped rule says, and H / K if it is told."""
        vectors, scalars = self.inner.say(params, state.inner)
        return ({**vectors, "shift": state.shift} if self.told else vectors), scalars


def shifted(inner: ServerRule, pace: float = 1.0, *, told: bool = False) -> Shifted:
    """`inner`, for clients that send differences.

    >>> from ofediq.methods import descend
    >>> rule, params = shifted(descend(1.0)), np.zeros(1, np.float32)
    >>> state = rule.begin(params, 2, 1)
    >>> params, state = rule.apply(params, np.array([4.0], np.float32), 2, state)
    >>> float(rule.apply(params, np.array([0.0], np.float32), 2, state)[0][0])
    -4.0
    """
    return Shifted(inner, pace, told)
