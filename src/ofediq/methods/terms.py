"""`Terms`: what a named method is fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ofediq.errors import require
from ofediq.methods.budgets.connection import fedogd_bytes
from ofediq.settings import Count, Fraction, Ranged

Planner = Literal["paper", "exact"]

_LEAST_BUDGET = 1e-9  # windows of 10^9 steps: much longer ones cannot be counted


@dataclass(frozen=True)
class Terms(Ranged):
    """What a method is fitted to.

    Attributes:
        budget: gamma, the fraction of FedOGD's uplink bits that it may spend.
        dim: D.
        clients: K.
        steps: T, where it is known: methods that spend a budget over a whole run need it.
        planner: how OFedIQ's parameters are chosen, `paper` or `exact`.
        preset: `paper` or `authors`.
        epsilon: what private methods promise; None for their own default.
        delta: of that promise.
        extra_bits: what a message costs beside its payload, for methods that steer a budget.
        features: numbers in a sample, where they are known: for methods that send samples.
    """

    budget: Fraction
    dim: Count
    clients: Count
    steps: int | None = None
    planner: Planner = "paper"
    preset: str = "paper"
    epsilon: float | None = None
    delta: float = 1e-5
    extra_bits: float = 0.0
    features: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.budget >= _LEAST_BUDGET, "budget", f"must be at least {_LEAST_BUDGET:g}", self.budget)

    @property
    def bits_per_step(self) -> float:
        """The budget in bits per step, all clients together."""
        return self.budget * 32.0 * self.clients * self.dim

    @property
    def bits_each(self) -> float:
        """The same of one client."""
        return self.budget * 32.0 * self.dim

    @property
    def steered(self) -> dict[str, Any]:
        """The parameters of a method that steers a budget of real bits over a run."""
        return {"bits_per_step": self.bits_per_step, "steps": self.steps, "extra_bits": self.extra_bits}

    @property
    def bytes_per_step(self) -> float:
        """The budget as a share of all bytes on the sockets of FedOGD, per step and all clients together."""
        return self.budget * self.clients * fedogd_bytes(self.dim)


Spend = Callable[[Terms, Mapping[str, Any]], dict[str, Any]]
"""From the terms and what the user has set to the parameters that spend the budget."""
