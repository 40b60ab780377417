"""`Shifted`: clients send differences from something that the server knows too, and it adds that again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import Keeping, Totals, unless_empty
from ofediq.settings import Fraction


class ShiftedState(NamedTuple):
    """What the wrapped rule keeps, and the sum over all clients of what is left out of their messages."""

    inner: Any
    shift: Array


@piece
@dataclass(frozen=True)
class Shifted(Keeping):
    """`inner` gets H + sum of the messages; then H <- H + a sum of the messages. An empty round changes nothing.

    Attributes:
        pace: a, in (0, 1].
        told: whether H / K goes with every broadcast, for clients that cannot know it.

    >>> from ofediq.methods import descend
    >>> rule, params = Shifted(descend(1.0)), np.zeros(1, np.float32)
    >>> state = rule.begin(params, 2, 1)
    >>> params, state = rule.apply(params, np.array([4.0], np.float32), 2, state)
    >>> float(rule.apply(params, np.array([0.0], np.float32), 2, state)[0][0])
    -4.0
    """

    pace: Fraction = 1.0
    told: bool = False

    @property
    def vectors(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on a field
        """H / K, if it is told."""
        return (*self.inner.vectors, "shift") if self.told else self.inner.vectors

    def begin(self, params: Array, clients: int, period: int) -> ShiftedState:
        """H = 0."""
        return ShiftedState(self.inner.begin(params, clients, period), namespace(params).zeros_like(params))

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """Both steps."""
        whole, shift = self._shifted(total, clients, state)
        params, inner = self.inner.apply(params, whole, clients, state.inner)
        return params, ShiftedState(inner, shift)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """Both steps, the inner rule's as it closes a round."""
        whole, shift = self._shifted(totals.vectors["update"], totals.clients, state)
        known = totals._replace(vectors={**totals.vectors, "update": whole})
        params, inner = self.inner.close(params, known, period, state.inner)
        return params, ShiftedState(inner, unless_empty(totals, shift, state.shift))

    def _shifted(self, total: Array, clients: int, state: Any) -> tuple[Array, Array]:
        """H + sum of the messages, and the next H. What is told is a mean, so H is kept as one."""
        mean = total / np.float32(clients)
        return (state.shift + mean) * np.float32(clients), state.shift + np.float32(self.pace) * mean

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the wrapped rule says, and H / K if it is told."""
        vectors, scalars = super().say(params, state)
        return ({**vectors, "shift": state.shift} if self.told else vectors), scalars
