"""A server rule that finds its step size on the way: the sum of two learners that need none.

On features of size 1 the best step size still differs by a factor of thirty between streams, and moves with the noise
of sampling and quantisation. Neither of two cures is best everywhere: one common factor for all coordinates is found
fast and is steady under noise, one radius per coordinate follows what changes. Their sum was within a few per cent of
the best of AdaGrad and Adam, each tuned per stream (`docs/own-data.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import ServerRule
from ofediq.settings import Positive

_LARGEST = np.float32(1e18)  # of a gradient that is a number when it is squared
_TILT = np.float32(10.0)  # a first move is at most so many times the usual one
# Memories of the factor: about 100, 1,000 and 10,000 updates.
_FADES = np.array([0.99, 0.999, 0.9999], np.float32)


class Search(NamedTuple):
    """What the rule keeps; one number per coordinate unless it says otherwise."""

    start: Array  # w_1
    squares: Array  # V, the sum of squared gradients
    path: Array  # the way of AdaGrad with step size 1
    near: Array  # how far the second learner is from w_1
    reach: Array  # r, the farthest it has been
    largest: Array  # [3] the largest |gain|, fading
    energy: Array  # [3] the sum of squared gains, fading
    won: Array  # [3] what the factor has won, fading
    factor: Array  # [3] its parts, one per memory


@piece
@dataclass(frozen=True)
class Adaptive(ServerRule):
    """Two learners that need no step size, added up: w = w_1 + (sum of factors) path + near.

    With g = total / K, V <- V + g^2 and u = g / sqrt(V) in each coordinate:

        path <- path - u                                     AdaGrad with step size 1
        gain  = <g, path>, of the whole vector, before the step
        m    <- max(b m, |gain|),  e <- b^2 e + gain^2,  won <- max(0, b won - factor gain)   for b = .99, .999, .9999
        factor = (first m + won) / sqrt(e)                   one number, the sum over the b
        tilt = min(10, sqrt(V) / mean sqrt(V))               in each coordinate, the mean over all of them
        r    <- max(r, |near|),  near <- near - max(r, first tilt) u

    The factor is that of A. Cutkosky, A. Defazio, H. Mehta: Mechanic: A Learning Rate Tuner, 2023; the radius is that
    of M. Ivgi, O. Hinder, Y. Carmon: DoG is SGD's Best Friend, 2023, one per coordinate. AdaGrad's first move is as
    long in a coordinate that has nothing to say as in one that has; the tilt shares the same way out by how much
    they say. That a sum of learners is about as good as the better one is A. Cutkosky: Combining Online Learning
    Guarantees, 2019. No theorem that we know of covers the sum of these two; what there is are measurements.

    Multiplying all losses by a constant changes no w at all.

    Attributes:
        first: size of the first moves, in units of a parameter whose features and targets have size 1.
    """

    first: Positive

    def init(self, params: Array) -> Search:
        """Nothing known."""
        xp = namespace(params)
        parts = (xp.zeros(len(_FADES), np.float32) for _ in range(4))
        return Search(xp.array(params), *(xp.zeros_like(params) for _ in range(4)), *parts)

    def apply(self, params: Array, total: Array, clients: int, state: Search) -> tuple[Array, Search]:
        """Move both learners."""
        xp = namespace(params)
        first = np.float32(self.first)
        gradient = total / np.float32(clients)
        squares = state.squares + gradient * gradient
        root = xp.sqrt(squares)
        move = gradient / xp.where(root > 0, root, np.float32(1))
        told = xp.minimum(root, _LARGEST)
        usual = told.mean()
        tilt = xp.minimum(told / xp.where(usual > 0, usual, np.float32(1)), _TILT)
        gain = (gradient * state.path).sum()
        largest = xp.maximum(_FADES * state.largest, xp.abs(gain))
        energy = _FADES * _FADES * state.energy + gain * gain
        won = xp.maximum(_FADES * state.won - state.factor * gain, np.float32(0))
        factor = (first * largest + won) / xp.sqrt(xp.where(energy > 0, energy, np.float32(1)))
        path = state.path - move
        reach = xp.maximum(state.reach, xp.abs(state.near))
        near = state.near - xp.maximum(reach, first * tilt) * move
        after = Search(state.start, squares, path, near, reach, largest, energy, won, factor)
        return state.start + factor.sum() * path + near, after


def adaptive(first: float = 1e-3) -> Adaptive:
    """A server rule that needs no step size on scaled features, see `Adaptive`.

    >>> rule = adaptive()
    >>> params = np.zeros(2, np.float32)
    >>> moved, state = rule.apply(params, np.array([5.0, 0.0], np.float32), 5, rule.init(params))
    >>> moved.round(4)  # the first gain is still unknown: only the second learner moves
    array([-0.002,  0.   ], dtype=float32)
    >>> larger, _ = rule.apply(params, np.array([5e6, 0.0], np.float32), 5, rule.init(params))
    >>> bool((larger == moved).all())  # the scale of the loss does not matter
    True
    """
    return Adaptive(first)
