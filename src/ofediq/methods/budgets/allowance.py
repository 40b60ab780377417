"""Budgets that count more than payloads: all bytes that go up, or all bytes on the sockets.

A method is fitted to a share of FedOGD's payload bits (`Terms`). Here that share is found, so that what the
method is expected to send, frames, topics and acknowledgements included, is within another budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from ofediq.errors import BudgetError, require_choice
from ofediq.methods.budgets.connection import Connection, fedogd_bytes
from ofediq.methods.budgets.steered import budget_of
from ofediq.methods.composition import Method
from ofediq.methods.presets import federated

Counted = Literal["formula", "uplink", "total"]
"""What a budget is a share of: FedOGD's payload bits, its bytes that go up, all its bytes."""

COUNTED: tuple[Counted, ...] = get_args(Counted)
_SMALLEST = 1e-8


def within(
    build: Callable[[float], Method], counted: Counted, budget: float, dim: int, clients: int
) -> Method:
    """The method that `build` makes of the largest share of payload bits whose bytes are within `budget`.

    >>> from ofediq.methods import ofedavg
    >>> method = within(ofedavg, "uplink", 0.1, dim=100, clients=10)
    >>> round(float(method.participation.rates(1)[0]), 2)
    0.1
    """
    require_choice("budget_of", counted, COUNTED)
    allowed = budget * all_of_fedogd(counted, dim)

    def spends(share: float) -> float:
        return expected_bytes(build(share), counted, dim, clients)

    if spends(1.0) <= allowed * (1 + 1e-6):
        return build(1.0)
    least = spends(_SMALLEST)
    if least > allowed:
        shortest = build(_SMALLEST)
        whole = "whose broadcasts are not compressed (ofedduplex compresses them)"
        why = whole if counted == "total" and shortest.broadcast.exact else "which sends no less"
        raise BudgetError(
            f"`budget` of {'all bytes' if counted == 'total' else 'the uplink'} must be at least "
            f"{least / allowed * budget:.3g} for {shortest.name}, {why}, got {budget:g}"
        )
    low, high = np.log(_SMALLEST), 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if spends(float(np.exp(middle))) <= allowed else (low, middle)
    return build(float(np.exp(low)))


def expected_bytes(method: Method, counted: Counted, dim: int, clients: int) -> float:
    """Bytes that one client is expected to cause per step, going up or in all."""
    link = Connection()
    budget = budget_of(method)
    if budget is None:
        rate = float(method.participation.rates(clients).mean())
        bits = sum(
            method.compressor(name).usual_bits(size) for name, size in method.client.sends(dim).items()
        )
        up = rate * (bits / 8 + link.update_bytes(method, dim)) / method.mean_window
    else:  # steered: it pays for frames itself
        up = budget.bits_per_step / 8 / clients
    if counted != "total":
        return up
    beside = 4.0 * (len(method.server.scalars) + dim * len(method.server.vectors))
    payload = method.broadcast.usual_bits(dim) / 8
    return up + (link.broadcast_bytes(method) + beside + payload) / method.mean_window


def all_of_fedogd(counted: Counted, dim: int) -> float:
    """FedOGD's bytes per client and step, in all or going up: what such a budget is a share of.

    >>> all_of_fedogd("total", 1000) / all_of_fedogd("uplink", 1000) > 1.9
    True
    """
    if counted == "total":
        return fedogd_bytes(dim)
    return Connection().update_bytes(federated("FedOGD", 1.0, "paper"), dim) + 4.0 * dim
