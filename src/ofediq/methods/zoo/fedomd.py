"""FedOMD as the paper compares with it."""

from __future__ import annotations

import math

from ofediq.errors import InputError
from ofediq.methods.client import local_ogd
from ofediq.methods.composition import Method
from ofediq.methods.mirror import mirror_map
from ofediq.methods.presets import federated, method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import descend


@named(
    "fedomd",
    theorem="2",
    source="A. Mitra, H. Hassani, G. Pappas: Online Federated Learning, 2021, as the paper has it",
    spend=lambda terms, given: {"period": math.ceil(1.0 / terms.budget - 1e-9)},
)
def fedomd(period: int, step_size: float = 0.01, preset: str = "paper", mirror: str = "euclidean") -> Method:
    """FedOMD(L): local mirror descent, everyone sends at every L-th step.

    With `mirror="euclidean"` this is what the paper compares with; `simplex` and `positive` are the entropic maps,
    under which the server adds up dual steps: w' = back(dual(w) - eta/K sum of gradients). Costs 32 K D / L bits
    per step.

    Args:
        period: L; a budget rounds it up, so that it is not exceeded.
        step_size: eta.
        preset: `paper` or `authors`, see `methods.presets`.
        mirror: euclidean, simplex or positive.
    """
    geometry = mirror_map(mirror)
    if mirror == "euclidean":
        return federated("FedOMD", step_size, preset, period=period)
    if preset != "paper":
        raise InputError(f"`mirror` must be euclidean with preset {preset!r}, got {mirror!r}")
    return method(
        client=local_ogd(step_size, geometry),
        server=descend(step_size, geometry),
        period=period,
        name=f"FedOMD ({mirror})",
    )
