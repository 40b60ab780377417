"""EF21-SGDM: error feedback whose memory is an estimate of the gradient, with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import ClientRule, Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import keep_largest
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method, preset_server
from ofediq.methods.registry import named
from ofediq.methods.server.shifted import Shifted
from ofediq.methods.zoo.topk_ef import spend_on_largest
from ofediq.settings import Fraction


@piece
@dataclass(frozen=True)
class Tracking(ClientRule):
    """v <- (1 - a) v + a u is a client's momentum; it sends v - h, and h is what the server knows of v."""

    momentum: Fraction
    moves = False
    divides = False
    receipts = True
    kept = 1.0
    idle = False  # momentum goes on while nothing is sent

    def memory(self, params: Array) -> dict[str, Array]:
        """v = h = 0."""
        zeros = namespace(params).zeros_like(params)
        return {"momentum": zeros, "known": zeros}

    def _momentum(self, window: Window, memory: Any) -> Array:
        share = np.float32(self.momentum)
        return (1 - share) * memory["momentum"] + share * window.gradients

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """v - h."""
        return {"update": self._momentum(window, memory) - memory["known"]}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """h <- h + what was decoded, if it counted."""
        xp = namespace(window.taken)
        heard = xp.where(outcome.accepted[:, None], outcome.decoded["update"], np.float32(0))
        return {"momentum": self._momentum(window, memory), "known": memory["known"] + heard}


@named(
    "ef21_sgdm",
    source="I. Fatkhullin, A. Tyurin, P. Richtarik: Momentum Provably Improves Error Feedback!, 2023",
    memory="momentum and what the server knows of it, D numbers each",
    spend=spend_on_largest,
)
def ef21_sgdm(
    keep: int, rate: float = 1.0, momentum: float = 0.1, step_size: float = 0.01, preset: str = "paper"
) -> Method:
    """EF21-SGDM: clients send the largest changes of their momentum; the server keeps the sum of all of them.

    v <- (1 - a) v + a u;  m = the k largest of v - h;  h <- h + m;  H <- H + sum of m;  w <- w - eta/K H. The one
    error feedback whose theory holds with batches of one. Both start at zero. Costs as `topk_ef`. The paper's
    theorems do not cover it.

    Args:
        keep: k.
        rate: probability that a client sends at a step.
        momentum: a.
    """
    return method(
        client=Tracking(momentum),
        server=Shifted(preset_server(step_size, preset)),
        participation=bernoulli(rate),
        compress=keep_largest(keep),
        name="EF21-SGDM",
    )
