"""`Timed`: a server rule that counts time in steps where windows differ in length, and finds how far to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array, float32, namespace
from ofediq.methods.budgets.loudness import cosine
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import Adam, Keeping, ServerRule, Totals
from ofediq.settings import Factor, Share

_PACE = 0.5  # how fast the reach follows what gradients say
_USUAL = 0.05  # agreement of a gradient with the move before it that asks for no change
_SHORTEST = 1.0  # of Adam's own move: half of it cost a network with many windows 0.3 to 0.4 points


class TimedState(NamedTuple):
    """What the wrapped rule keeps, how far the moves reach, and the last one."""

    inner: Any
    reach: Array
    last: Array


@piece
@dataclass(frozen=True)
class Timed(Keeping):
    """`inner` after a window of L steps; Adam gets the mean of the steps and moves L^power r times as far.

    Adam does not care how long its input is: without this it would move as far after a long window as after a short
    one. A move along a direction that all L steps agree on would be L times as long, one along noise sqrt(L) times.
    Any other rule gets the sum, as at the end of every window.

    Few moves have to reach farther than many, where the model allows it. With a_n the cosine of the n-th gradient and
    the move before it, downhill,

        r <- r exp((a_n - 0.05) / 2),   at least 1, and as long as a move is at most `longest` times Adam's:

    a gradient that still points the way of the last move says that it was too short. On streams where it was (digits,
    softmax) a_n is 0.6 to 0.8 throughout; where Adam's step size was right (pm25, a network) it is about 0.

    Attributes:
        power: how much farther Adam moves after a longer window, in [0, 1].
        longest: how many times as far as Adam's a move may reach, at least 1; None for r = 1.
    """

    power: Share = 0.2
    longest: Factor | None = None

    def begin(self, params: Array, clients: int, period: int) -> TimedState:
        """Nothing moved yet."""
        xp = namespace(params)
        inner = self.inner.begin(params, clients, period)
        return TimedState(inner, xp.ones((), np.float32), xp.zeros_like(params))

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule after `period` steps."""
        if not isinstance(self.inner, Adam):
            params, inner = self.inner.close(params, totals, period, state.inner)
            return params, state._replace(inner=inner)
        length = float32(period)
        farther = length ** np.float32(self.power)
        mean = totals.vectors["update"] / length
        known = totals._replace(vectors={**totals.vectors, "update": mean})
        moved, inner = self.inner.close(params, known, period, state.inner)
        reach = state.reach if self.longest is None else self._reach(mean, state, farther, self.longest)
        move = (moved - params) * (farther * reach)
        return params + move, TimedState(inner, reach, move)

    def _reach(self, gradient: Array, state: TimedState, farther: Array, most: float) -> Array:
        """The next r; where nothing came, or nothing moved before, the present one."""
        xp = namespace(gradient)
        agreement = cosine(gradient, -state.last, unknown=_USUAL)
        found = state.reach * xp.exp(np.float32(_PACE) * (agreement - np.float32(_USUAL)))
        return xp.clip(found, np.float32(_SHORTEST), xp.maximum(np.float32(most) / farther, np.float32(1)))


def timed(inner: ServerRule, power: float = 0.2, longest: float | None = None) -> Timed:
    """`inner`, with time in steps.

    >>> from ofediq.methods import adam
    >>> rule, params = timed(adam(0.1), power=1.0, longest=4.0), np.zeros(1, np.float32)
    >>> totals = Totals({"update": np.full(1, 8, np.float32)}, np.int32(1), np.float32(0), 2, np.int32(4))
    >>> params, state = rule.close(params, totals, 4, rule.init(params))
    >>> params
    array([-0.4], dtype=float32)
    >>> bool(rule.close(params, totals, 1, state)[1].reach > 1)  # the same gradient again: the move was too short
    True
    """
    return Timed(inner, power, longest)
