"""FedNova: clients whose windows hold different numbers of samples count alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import ClientRule, Down, Window
from ofediq.methods.composition import Method
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.fedavg import spend_on_periods
from ofediq.settings import Positive


@piece
@dataclass(frozen=True)
class Normalised(ClientRule):
    """y <- y - eta g(y); sends d = (w - y) / (eta tau), the mean of its tau gradients, and tau."""

    step_size: Positive
    divides = False

    def sends(self, dim: int) -> dict[str, int]:
        """The mean gradient, and how many there were."""
        return {"update": dim, "steps": 1}

    def step(self, params: Array, gradients: Array) -> Array:
        """One descent step."""
        return params - np.float32(self.step_size) * gradients

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """d and tau."""
        xp = namespace(window.taken)
        count = xp.maximum(window.taken, np.float32(1))[:, None]
        return {"update": window.gradients / count, "steps": window.taken[:, None]}


@piece
@dataclass(frozen=True)
class NormalisedServer(FromTotals):
    """w <- w - eta (mean of tau) (mean of d), both over those who sent."""

    step_size: Positive
    name = "fednova"

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """The mean direction, as far as the mean number of steps; one step where their number is not told."""
        count = totals.divisor
        steps = totals.vectors["steps"][0] / count if "steps" in totals.vectors else np.float32(1)
        return params - np.float32(self.step_size) * steps * (totals.vectors["update"] / count), state


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As FedAvg, with the extra number in every message."""
    return spend_on_periods(replace(terms, budget=terms.budget * terms.dim / (terms.dim + 1)), given)


@named(
    "fednova",
    source="J. Wang et al.: Tackling the Objective Inconsistency Problem, 2020",
    spend=_spend,
)
def fednova(period: int = 8, rate: float = 1.0, step_size: float = 0.01) -> Method:
    """FedNova: FedAvg that stays right where clients take different numbers of local steps.

    tau_k local steps;  d_k = (w - y) / (eta tau_k);  w <- w - eta (mean of tau_k) (mean of d_k), over the senders. A
    client that was late or paused counts as much as one with a full window, where FedAvg leans towards the busy ones.
    With equal tau it is FedAvg. Costs 32 p K (D + 1) / L bits per step.

    Args:
        period: L, the most local steps.
        rate: p, with which each client is drawn at the end of a window.
    """
    return method(
        Normalised(step_size), NormalisedServer(step_size), bernoulli(rate), period=period, name="FedNova"
    )
