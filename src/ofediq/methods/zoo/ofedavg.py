"""OFedAvg: FedOGD with sampling."""

from __future__ import annotations

from collections.abc import Sequence

from ofediq.methods.composition import Method
from ofediq.methods.presets import federated
from ofediq.methods.registry import named


@named("ofedavg", theorem="1", source="the paper", spend=lambda terms, given: {"rate": terms.budget})
def ofedavg(rate: float | Sequence[float], step_size: float = 0.01, preset: str = "paper") -> Method:
    """OFedAvg(p): each client sends its gradient / p with probability p. Costs 32 p K D bits; alpha = 2/p.

    Args:
        rate: p, or one p_k per client.
        step_size: eta.
        preset: `paper` or `authors`, see `methods.presets`.
    """
    return federated("OFedAvg", step_size, preset, rate=rate)
