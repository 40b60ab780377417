"""The planner panel: which parameters of OFedIQ would fit a budget, for this federation's model and clients."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from ofediq.errors import InputError, require_integer
from ofediq.federation.protocol.monitor import Monitor
from ofediq.theory import Plan
from ofediq.theory import plan as make_plan
from ofediq.theory.planner import Method


def plan_for(monitor: Monitor, budget: str | None, method: str = "exact") -> dict[str, Any]:
    """The plan for a budget given as text, as it comes in an address.

    `dim` is taken from the federation's parameters, the number of clients from those registered.

    >>> monitor = Monitor("greenhouse", "classification", {"dim": 34826})
    >>> for number in range(1000):
    ...     _ = monitor.client(f"c{number}", number)
    >>> best = plan_for(monitor, "0.1", "paper")
    >>> best["levels"], best["blocks"], round(best["rate"], 4)
    (17, 1134, 0.5151)
    """
    if budget is None:
        raise InputError("`budget` must be given, in (0, 1]")
    dim = require_integer("dim", monitor.parameters.get("dim"), 1)
    clients = max(1, len(monitor.rows()))
    return _plan(budget, dim, clients, method).to_dict()


@lru_cache(maxsize=512)
def _plan(budget: str, dim: int, clients: int, method: str) -> Plan:
    # `plan` checks both: a budget that is no number, a method that is none of its own.
    return make_plan(cast(float, budget), dim, clients, method=cast(Method, method))
