"""`Paced`: a server rule that moves the model at some rounds only, with all that arrived meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, float32, map_leaves, namespace
from ofediq.errors import require, require_integer
from ofediq.methods.pieces import piece
from ofediq.methods.server import Adam, Descend, ServerRule, Totals


class PacedState(NamedTuple):
    """What the wrapped rule keeps, and what arrived since the last move."""

    inner: Any
    gathered: Array  # [dim], sum of the rounds' totals
    rounds: Array  # since the last move
    senders: Array  # in them
    moves: Array  # so far
    due: Array  # rounds until the next one


@piece
@dataclass(frozen=True)
class Paced(ServerRule):
    """`inner` moves the model about `moves` times in `rounds` rounds: in the first ones at once, later more seldom.

    The n-th move comes near round T (n / N)^2, so gaps grow like the square root of time: what is learnt early helps
    all later steps, and late gradients say little new. Without an end all gaps are alike. Between two moves the model
    stands still, so that there is nothing to broadcast, and what arrives is gathered. An adaptive rule that does not
    care how long its input is (Adam) gets the mean of the rounds and moves c^`power` times as far after c of them;
    any other rule gets the sum, as at the end of a long window.

    Attributes:
        inner: the rule that moves the model.
        share: N / T, moves per round, at most 1.
        rounds: T; None for a run without end.
        power: how much farther Adam moves after a gap.
    """

    inner: ServerRule
    share: float
    rounds: int | None = None
    power: float = 0.25

    def __post_init__(self) -> None:
        require(0 < self.share <= 1, "share", "must lie in (0, 1]", self.share)
        if self.rounds is not None:
            require_integer("rounds", self.rounds, 1)

    @property
    def name(self) -> str:
        """The name of the rule that moves the model."""
        return self.inner.name

    @property
    def vectors(self) -> tuple[str, ...]:  # type: ignore[override]  # those of the wrapped rule
        """As the wrapped rule."""
        return self.inner.vectors

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]  # those of the wrapped rule
        """As the wrapped rule."""
        return self.inner.scalars

    def start(self, params: Array) -> Array:
        """As the wrapped rule."""
        return self.inner.start(params)

    def init(self, params: Array) -> PacedState:
        """Before the first round of one client."""
        return self.begin(params, 1, 1)

    def begin(self, params: Array, clients: int, period: int) -> PacedState:
        """Nothing has arrived; the first round ends with a move."""
        zeros, none = namespace(params).zeros_like(params), np.int32(0)
        inner = self.inner.begin(params, clients, period)
        return PacedState(inner, zeros, none, none, none, np.int32(1))

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """As the wrapped rule."""
        return state._replace(inner=self.inner.regroup(params, clients, state.inner))

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule at once."""
        params, inner = self.inner.apply(params, total, clients, state.inner)
        return params, state._replace(inner=inner)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """Gather, and move if it is time."""
        xp = namespace(params)
        gathered = state.gathered + totals.vectors["update"]
        rounds, senders = state.rounds + 1, state.senders + totals.senders
        length = float32(rounds)
        mean = isinstance(self.inner, Adam)
        total = gathered / length if mean else gathered
        vectors = {**totals.vectors, "update": total}
        moved, inner = self.inner.close(
            params, totals._replace(vectors=vectors, senders=senders), period, state.inner
        )
        if mean:
            moved = params + (moved - params) * length ** np.float32(self.power)
        moves = state.moves + 1
        after = PacedState(inner, xp.zeros_like(gathered), rounds * 0, senders * 0, moves, self._gap(moves))
        waiting = state._replace(gathered=gathered, rounds=rounds, senders=senders, due=state.due - 1)
        now = state.due <= 1
        chosen: tuple[Array, Any] = map_leaves(
            lambda new, old: xp.where(now, new, old), (moved, after), (params, waiting)
        )
        return chosen

    def _gap(self, moves: Array) -> Array:
        """Rounds from this move to the next."""
        xp = namespace(moves)
        if self.rounds is None or self.share == 1:
            wanted = xp.full_like(float32(moves), 1 / self.share)
        else:
            wanted = float32(moves) * np.float32(2 / (self.share * self.share * self.rounds))
        return xp.maximum(xp.floor(wanted + np.float32(0.5)), np.float32(1)).astype(np.int32)

    def around(self, rule: ServerRule) -> ServerRule:
        """The same pace around another rule."""
        return replace(self, inner=self.inner.around(rule))

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the wrapped rule says."""
        return self.inner.say(params, state.inner)


@lru_cache(maxsize=64)
def move_rounds(share: float, rounds: int) -> npt.NDArray[np.int64]:
    """The rounds at which a `Paced` rule moves.

    >>> move_rounds(0.5, 8)
    array([1, 2, 4, 7])
    """
    rule, at = Paced(Descend(1.0), share, rounds), [1]
    gaps = rule._gap(np.arange(1, rounds + 1))
    while at[-1] + gaps[len(at) - 1] <= rounds:
        at.append(int(at[-1] + gaps[len(at) - 1]))
    return np.array(at)


def paced(inner: ServerRule, share: float, rounds: int | None = None, power: float = 0.25) -> Paced:
    """`inner`, moving about `share` times per round; with `rounds` in all, ever more seldom.

    >>> from ofediq.methods import descend
    >>> paced(descend(0.1), 0.25, rounds=100)._gap(np.int32(25))
    np.int32(8)
    """
    return Paced(inner, min(1.0, share), rounds, power)
