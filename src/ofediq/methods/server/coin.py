"""A server rule without a step size: every coordinate of the model bets on the sign of its next gradient.

A step size has to be guessed before anything is known about the data, and its best value moves with the scale of the
loss, the distance to the solution, the horizon and the noise of sampling and quantisation. A bettor needs none of
them: what it has won so far says how far it may go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import ServerRule
from ofediq.settings import Positive


class Bets(NamedTuple):
    """What the bettor keeps, one number per coordinate in each."""

    start: Array  # w_1
    scale: Array  # h, the largest gradient so far
    wealth: Array  # W
    lean: Array  # theta, the sum of the negative gradients
    travel: Array  # G, the sum of their sizes


@piece
@dataclass(frozen=True)
class Coin(ServerRule):
    """Coin betting in every coordinate, with a scale that is learnt on the way.

    With g = total / K in one coordinate, and h = W = theta = G = 0 at first:

        c     = g cut to [-h, h]                  (the first g that is not zero is not cut)
        W    <- W - c (w - w_1)                   what the bet won; W starts as `stake` |g| at the first such g
        h    <- max(h, |g|),  theta <- theta - c,  G <- G + |c|
        w    <- w_1 + W tanh(theta / (G + h)) / h

    This is COCOB (F. Orabona, T. Tommasi: Training Deep Networks without Learning Rates Through Coin Betting, 2017,
    Algorithm 1) with two changes: wealth starts at `stake` L instead of L, and the bound L on gradients, which COCOB
    must know, is the largest seen so far, to which later ones are cut before they are paid out (A. Cutkosky:
    Artificial Constraints and Hints for Unbounded Online Learning, 2019). A bet is less than W / h, so W stays
    positive.

    What is proven: for convex losses and for gradients that never exceed the first, L = |g_1| in every coordinate,

        regret(u) <= sum over coordinates of stake L + d sqrt(L (G + L) ln(1 + ((G + L) d / (stake L))^2)),

    where d = |u - w_1|, at every horizon and for every u (their Theorem 1; `stake` enters through the first wealth).
    Gradients may be random, as with sampling and quantisation, if they are unbiased; then it holds in expectation.
    When larger ones come later, cutting adds at most h_T max_t |w_t - u| per coordinate; no theorem that we know of
    covers bets whose scale has grown in between, and tests only watch it.

    Multiplying all losses by a constant changes no w at all. `stake` is a length, not a step size: it counts inside
    the logarithm, and as the price of not having to move.

    Attributes:
        stake: first wealth of a coordinate in units of its first gradient; its first move is about 0.46 of it.
    """

    stake: Positive

    def init(self, params: Array) -> Bets:
        """No scale, no wealth."""
        xp = namespace(params)
        return Bets(xp.array(params), *(xp.zeros_like(params) for _ in range(4)))

    def apply(self, params: Array, total: Array, clients: int, state: Bets) -> tuple[Array, Bets]:
        """Collect what the last bets won, and place the next ones."""
        xp = namespace(params)
        gradient = total / np.float32(clients)
        size, known = xp.abs(gradient), state.scale > 0
        limit = xp.where(known, state.scale, size)
        paid = xp.clip(gradient, -limit, limit)
        scale = xp.maximum(state.scale, size)
        won = state.wealth - paid * (params - state.start)
        wealth = xp.where(known, won, np.float32(self.stake) * size)
        lean, travel = state.lean - paid, state.travel + xp.abs(paid)
        divisor = xp.where(scale > 0, scale, np.float32(1))  # a coordinate without gradients has no wealth
        bet = wealth / divisor * xp.tanh(lean / (travel + divisor))
        return state.start + bet, Bets(state.start, scale, wealth, lean, travel)


def coin(stake: float = 0.1) -> Coin:
    """Coin betting: a server rule that needs no step size and no horizon, see `Coin`.

    >>> rule = coin()
    >>> params = np.zeros(2, np.float32)
    >>> moved, state = rule.apply(params, np.array([5.0, 0.0], np.float32), 5, rule.init(params))
    >>> moved.round(4)  # -0.1 tanh(1 / 2); no gradient, no move
    array([-0.0462,  0.    ], dtype=float32)
    >>> larger, _ = rule.apply(params, np.array([5e6, 0.0], np.float32), 5, rule.init(params))
    >>> bool((larger == moved).all())  # the scale of the loss does not matter
    True
    """
    return Coin(stake)
