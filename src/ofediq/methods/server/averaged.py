"""A server rule for noisy sums: Adam's steps, and a model that is mostly the average of where they led.

Sums of coarsely rounded updates are mostly noise. Adam follows it with steps of full size, and smaller steps learn
too slowly. An average of many models has little of the noise and all of what was learnt, so steps may be larger, as
long as the average is short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require
from ofediq.methods.budgets.loudness import cosine
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.settings import Between, Factor, Fading, Positive

_FADE = np.float32(0.1)  # of the last agreement in the mean of them: single ones are mostly noise
_START = np.float32(
    5
)  # updates in which steps grow to their reach: a network's first ones are in no direction yet
_BACK = np.float32(0.2)  # cosine of a gradient that clearly points back: by chance it is nearer to 0
_SHORT = np.float32(20)  # updates of an average that steps are large for
_RECENT = np.float32(0.9)  # what the way from the first model costs is summed over ten updates or so
_DOUBT = np.float32(0.5)  # standard deviations by which that is above nothing, where going back begins
_RETREAT = np.float32(0.3)  # of the way, at most


class Course(NamedTuple):
    """What the rule keeps."""

    apart: Array  # z - x: how far the steps are ahead of their average
    square: Array  # v
    memory: Array  # N: about how many updates the average is over
    agreement: Array  # a
    count: Array  # updates so far
    start: Array  # w_1
    cost: Array  # l: what the way from w_1 cost lately
    energy: Array  # e: the sum of its squares


@piece
@dataclass(frozen=True)
class Averaged(FromTotals):
    """Schedule-free Adam (A. Defazio, X. Yang, H. Mehta, K. Mishchenko, A. Khaled, A. Cutkosky, 2024), which forgets.

    With g = total / K at the broadcast model y, v' the mean square of g so far as Adam has it, u = g / sqrt(v') and
    c = cos(-u, z - x):

        u <- u / max(1, ||u|| / sqrt(D))^h   with h = -5 c, at least 0 and at most 1,
        a <- 0.9 a + 0.1 c,   N <- 1 + N exp(-max(a, 0)),
        z <- z - eta r sqrt(20 / (20 + N)) u,   x <- x + (z - x) / N,   y = z + `pull` (x - z).

    In their rule N counts all updates, and the average of a changing world is of the past. Here a gradient that
    points the way of the steps, away from their average, says that the average lags: N shrinks to 1 / a or so. Where
    the sum is mostly noise, a is about 0 and N counts.

    In their rule steps are of one size, and where nothing holds it z strays like the square root of their number, x
    with it. Here they fall like 1 / sqrt(N), and grow again when the average has to be of fewer. r goes from 1 to
    `reach` in the first six updates: first steps of full reach ruin a regression's first predictions.

    A gradient that is larger than those before it and points back (c < 0) says that steps went too far, and at full
    size it leads too far the other way: its step is no longer than one in which all coordinates are as large as usual
    (in Adafactor, N. Shazeer, M. Stern, 2018, no step is). One that points ahead is followed, or changes are missed.

    Where few updates come, each of a few samples, D numbers are not found, but one is: how much of the way from the
    first model w_1 was worth going. To first order it cost q = <g, y - w_1> at this update. With

        l <- 0.9 l + q,   e <- 0.81 e + q^2,   d = 0.3 (20 / (20 + N))^2 min(1, max(0, l / sqrt(e) - 1/2)) / n,

    and n the number of messages in the update, z and x go back to w_1 by the part d of their way. So a model that the
    world has left behind is not kept for want of news, and steps that were too long for their noise are taken back.
    Sums of many messages say where else to go: there it changes next to nothing.

    Attributes:
        step_size: eta, as Adam's.
        reach: how many times Adam's the largest steps are, at least 1.
        pull: how far the broadcast model is from z to x, in [0, 1).
        square_decay: how long squares are remembered, as in Adam.
        epsilon: as in Adam.
    """

    step_size: Positive
    reach: Factor = 4.0
    pull: Fading = 0.9
    square_decay: Between = 0.999
    epsilon: Positive = 1e-8

    def init(self, params: Array) -> Course:
        """Zeros: z, x and y are one."""
        xp = namespace(params)
        zeros, nothing = xp.zeros_like(params), xp.zeros((), np.float32)
        count = xp.zeros((), np.int32)
        return Course(zeros, zeros, nothing, nothing, count, xp.array(params), nothing, nothing)

    def moved(self, params: Array, totals: Totals, state: Course) -> tuple[Array, Course]:
        """One step. Only z - x is kept: z and x lie where `params`, their mixture, was put since."""
        xp, b = namespace(params), np.float32(self.square_decay)
        gradient = totals.vectors["update"] / np.float32(totals.clients)
        square = b * state.square + (1 - b) * (gradient * gradient)
        count = state.count + 1
        number = count.astype(np.float32)
        root = xp.sqrt(square / (1 - b**number)) + np.float32(self.epsilon)
        unit = gradient / root
        forward = cosine(-unit, state.apart)
        longer = xp.maximum(xp.sqrt((unit * unit).mean()), np.float32(1))
        unit = unit / longer ** xp.clip(-forward / _BACK, np.float32(0), np.float32(1))
        agreement = state.agreement + _FADE * (forward - state.agreement)
        memory = 1 + state.memory * xp.exp(-xp.maximum(agreement, np.float32(0)))
        near, share, brief = np.float32(1 - self.pull), 1 / memory, _SHORT / (_SHORT + memory)
        reach = 1 + np.float32(self.reach - 1) * xp.minimum((number - 1) / _START, np.float32(1))
        ahead = state.apart - np.float32(self.step_size) * reach * xp.sqrt(brief) * unit
        average, apart = params - near * state.apart + share * ahead, (1 - share) * ahead
        cost, energy, doubt = _doubt(gradient / root.max(), params - state.start, state)
        stays = 1 - _RETREAT * brief * brief * doubt / totals.divisor
        moved = state.start + stays * (average + near * apart - state.start)
        after = Course(stays * apart, square, memory, agreement, count, state.start, cost, energy)
        return moved, after


def _doubt(gradient: Array, way: Array, state: Course) -> tuple[Array, Array, Array]:
    """What `way` cost lately, the squares of that, and how clearly it was not worth going, in [0, 1]."""
    xp, new = namespace(way), (gradient * way).sum()
    cost, energy = _RECENT * state.cost + new, _RECENT * _RECENT * state.energy + new * new
    deviations = cost / xp.sqrt(xp.where(energy > 0, energy, np.float32(1)))
    return cost, energy, xp.clip(deviations - _DOUBT, np.float32(0), np.float32(1))


def averages_steps(asked: bool | None, preset: str) -> bool:
    """Whether a method of ours averages: if asked to, and by default where the preset's server is Adam."""
    require(asked is None or isinstance(asked, bool), "averages", "must be True, False or None", asked)
    adam = preset == "authors"
    require(adam or not asked, "averages", "needs preset authors: what is averaged are Adam's steps", asked)
    return adam and asked is not False


def averaged(step_size: float, reach: float = 4.0) -> Averaged:
    """Steps of Adam's kind, the largest `reach` times as far, and their average, for sums that are mostly noise.

    >>> rule, params = averaged(0.1), np.zeros(2, np.float32)
    >>> params, state = rule.apply(params, np.array([5.0, -0.5], np.float32), 5, rule.init(params))
    >>> params.round(3)  # the first average is the first step
    array([-0.098,  0.098], dtype=float32)
    >>> rule.apply(params, np.array([-5.0, 0.5], np.float32), 5, state)[0].round(2)  # more than half-way back
    array([-0.01,  0.01], dtype=float32)
    """
    return Averaged(step_size, reach)
