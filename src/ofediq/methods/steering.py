"""Spending a bit budget where it matters: one number z_t that the server broadcasts with the model.

Clients with large updates send more often and more finely; one common number sets the price for all of them. The
server watches how many bits arrive and moves z_t so that the run meets its budget. It costs 32 bits of downlink
per broadcast and no uplink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require, require_integer, require_positive
from ofediq.methods.pieces import piece


class Signal(NamedTuple):
    """What the server keeps about the budget."""

    value: Array  # z_t
    spent: Array  # bits so far, as a share of the whole budget
    recent: Array  # smoothed bits per step, as a share of the whole budget


@piece
@dataclass(frozen=True)
class Budget:
    """Meet `bits_per_step` uplink bits on average over `steps` steps.

    By step t the run should have spent the share (t / T)^(1 - a) of its budget. With a = 0 every step gets the
    same; with a > 0 early steps get more, when gradients are large and every bit teaches more. Minimising the sum
    of all variances under one total budget asks for a constant z; gradients shrink as learning goes on, so a
    constant z spends like this, and a = 1/2 follows it closely without knowing the future.

    z moves by the ratio of what was spent lately to what should be spent next, at most by `agility` per step.

    Attributes:
        bits_per_step: mean uplink bits per step, all clients together.
        steps: T, the horizon.
        front: a in [0, 1).
        first: z_1.
        agility: largest factor that z moves by in one step.
    """

    bits_per_step: float
    steps: int
    front: float = 0.5
    first: float = 1.0
    agility: float = 4.0

    def init(self) -> Signal:
        """Before the first step."""
        return Signal(np.float32(self.first), np.float32(0), np.float32(0))

    def next(self, signal: Signal, bits: Array, step: Array, period: int = 1) -> Signal:
        """After a transmission at `step` (from 1) that cost `bits`."""
        xp = namespace(bits)
        share = bits / np.float32(self.bits_per_step * self.steps)
        spent = signal.spent + share
        now, after = self._due(step), self._due(step + period)
        planned = after - now
        wanted = xp.maximum(planned + (now - spent) / np.float32(10), planned / np.float32(4))
        recent = xp.where(signal.recent > 0, (signal.recent + share) / np.float32(2), share)
        ratio = xp.clip(recent / wanted, np.float32(1 / self.agility), np.float32(self.agility))
        value = xp.where(spent >= 1, np.float32(np.inf), signal.value * ratio)
        return Signal(value, spent, recent / ratio)

    def _due(self, step: Array) -> Array:
        """Share of the budget to be spent by the end of `step`."""
        progress = step / np.float32(self.steps)
        return progress ** np.float32(1 - self.front)


def budget(bits_per_step: float, steps: int, front: float = 0.5, first: float = 1.0) -> Budget:
    """Steer towards `bits_per_step` uplink bits on average over `steps` steps.

    >>> rule = budget(1000.0, steps=100, front=0.0)
    >>> after = rule.next(rule.init(), np.float32(2000.0), 1)
    >>> bool(after.value > 1)  # too much was sent: the price rises
    True
    """
    require_positive("bits_per_step", bits_per_step)
    require_integer("steps", steps, 1)
    require(0 <= front < 1, "front", "must lie in [0, 1)", front)
    return Budget(float(bits_per_step), steps, float(front), require_positive("first", first))
