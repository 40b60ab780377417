"""FedOGD, the paper's yardstick."""

from __future__ import annotations

from ofediq.methods.composition import Method
from ofediq.methods.presets import federated
from ofediq.methods.registry import named


@named("fedogd", theorem="1", source="the paper, Algorithm 1")
def fedogd(step_size: float = 0.01, preset: str = "paper") -> Method:
    """FedOGD (Algorithm 1): every client sends its gradient at every step.

    w_{t+1} = w_t - eta/K sum_k gradient_k(w_t). Costs 32 K D bits per step; regret constant alpha = 2.

    Args:
        step_size: eta.
        preset: `paper` or `authors`, see `methods.presets`.
    """
    return federated("FedOGD", step_size, preset)
