"""SCAFFOLD: control variates against the drift of local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.methods.zoo.fedavg import spend_on_periods
from ofediq.settings import Count, Positive


@piece
@dataclass(frozen=True)
class Controlled(ClientRule):
    """y <- y - eta_l (g(y) - c_k + c); sends u = (w - y) / eta_l; c_k <- c_k - c + u / L."""

    step_size: Positive
    period: Count
    divides = False
    receipts = True
    kept = 1.0

    def memory(self, params: Array) -> dict[str, Array]:
        """c_k = 0."""
        return {"control": namespace(params).zeros_like(params)}

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """One corrected step; the corrected gradients add up to u."""
        corrected = sample.gradient(window.own) - memory["control"] + down.vectors["control"]
        own = window.own - np.float32(self.step_size) * corrected
        return window._replace(own=own, gradients=window.gradients + corrected)

    def says(self, update: Array, down: Down) -> Array:
        """The change of c_k, which becomes the mean gradient of the window."""
        return update / np.float32(self.period) - down.vectors["control"]

    def worded(self, said: Array, down: Down) -> Array:
        """u, from the change of c_k."""
        return np.float32(self.period) * (said + down.vectors["control"])

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """c_k follows from what the server decoded, so that c stays the mean of all c_k."""
        xp = namespace(window.taken)
        moved = self.says(outcome.decoded["update"], down)
        return {"control": memory["control"] + xp.where(outcome.accepted[:, None], moved, np.float32(0))}


@piece
@dataclass(frozen=True)
class ControlledServer(FromTotals):
    """w <- w - eta_g eta_l mean of u over the senders;  c <- c + 1/K sum over the senders of (u / L - c)."""

    step_size: Positive
    period: Count
    server_step: Positive = 1.0
    name = "scaffold"
    vectors = ("control",)
    alone = "`rule` must be SCAFFOLD's own, which keeps the control variate"

    def init(self, params: Array) -> dict[str, Array]:
        """c = 0."""
        return {"control": namespace(params).zeros_like(params)}

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """Both steps."""
        total, senders = totals.vectors["update"], totals.divisor
        move = np.float32(self.step_size * self.server_step) * total / senders
        change = (total / np.float32(self.period) - senders * state["control"]) / np.float32(totals.clients)
        return params - move, {"control": state["control"] + change}

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """c goes with the model."""
        return {"control": state["control"]}, {}


@named(
    "scaffold",
    source="S. P. Karimireddy et al.: SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, 2020",
    memory="a control variate of D numbers",
    spend=spend_on_periods,
)
def scaffold(period: int = 8, rate: float = 1.0, step_size: float = 0.01, server_step: float = 1.0) -> Method:
    """SCAFFOLD: local steps with control variates, so that clients with different data do not drift apart.

    Client:  y = w;  L times y <- y - eta_l (g(y) - c_k + c);  sends u = (w - y) / eta_l;  c_k <- c_k - c + u / L.
    Server:  w <- w - eta_g eta_l mean of u over the senders;  c <- c + 1/K sum over the senders of (u / L - c).

    Nothing beside u goes up: the server finds the change of c_k in it. Costs 32 p K D / L bits per step up and 64 D
    per broadcast down. With L = 1 and everyone it is FedOGD. A step without a sample is left out, and u is divided
    by L all the same, on both sides. When u is compressed both sides use what was decoded.

    Args:
        period: L.
        rate: probability that a client sends at the end of a window.
        step_size: eta_l.
        server_step: eta_g.
    """
    return method(
        client=Controlled(step_size, period),
        server=ControlledServer(step_size, period, server_step),
        participation=bernoulli(rate),
        period=period,
        name="SCAFFOLD",
    )
