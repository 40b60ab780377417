"""OFedDuplex: OFedGrid in both directions, one budget for all bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ofediq.errors import require
from ofediq.methods.composition import Method
from ofediq.methods.compress import grid
from ofediq.methods.connection import Connection
from ofediq.methods.metered import metered
from ofediq.methods.paced_rule import paced
from ofediq.methods.participation import norm_proportional
from ofediq.methods.presets import federated
from ofediq.methods.registry import Terms, named
from ofediq.methods.steered_rule import steered
from ofediq.methods.steering import budget as steer_to

_RARELY = 0.25  # of all bytes at most go into opening rounds that have nothing to tell


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bytes_per_step": terms.bytes_per_step,
        "dim": terms.dim,
        "clients": terms.clients,
        "steps": terms.steps,
    }


@named(
    "ofedduplex",
    source="ours: OFedGrid upwards; downwards moves rounded at random to a grid, at growing gaps",
    spend=_spend,
    counts="total",
)
def ofedduplex(
    bytes_per_step: float,
    dim: int,
    clients: int,
    steps: int | None = None,
    step_size: float = 0.01,
    preset: str = "paper",
    down: float = 0.8,
    front: float = 0.5,
    moves: float | None = None,
    lean: float = 0.6,
    power: float = 0.0,
) -> Method:
    """OFedDuplex: OFedGrid in both directions, with one budget for all bytes on the sockets. Not in the paper.

    Up as OFedGrid, where a message also pays for its frame, topic and acknowledgement, so that fewer and longer ones
    are sent. The server gathers what arrives and moves the model N times in T steps, near T (n / N)^2; each move is
    rounded at random to the finest grid whose message is within the bits due, and the server goes on from what the
    clients decode:  v <- v + z round((w - v) / z),  w <- v. Between two moves nothing goes down but the number that
    steers the uplink. If even that is too much, clients add up windows of L steps.

    Args:
        bytes_per_step: bytes that all clients together may send and receive per step, everything included.
        dim: D.
        clients: K.
        steps: T, the horizon that the budget is spread over; None for a run without end.
        step_size: eta.
        preset: which server rule, see `methods.presets`; sampling is the method's own.
        down: share of the bytes that goes into broadcasts.
        front: how much the uplink leans towards early steps, see `Budget`.
        moves: N / T; by default what a trial found best for the bits of a broadcast.
        lean: how much broadcasts lean towards early ones, see `Metered`.
        power: how much farther Adam moves after a gap, see `Paced`.
    """
    require(0 < down < 1, "down", "must lie in (0, 1)", down)
    base, link = federated("OFedDuplex", step_size, preset), Connection()
    each = bytes_per_step / clients
    opening = link.broadcast_bytes(replace(base, broadcast=metered(1.0))) + 4.0  # and the number that steers
    period = max(1, math.ceil(opening / (_RARELY * each)))
    rest = each - opening / period
    rounds = None if steps is None else max(1, steps // period)
    down_bits = 8 * down * rest * period  # per round
    share = min(1.0, 1.15 * math.sqrt(down_bits / dim)) if moves is None else moves
    beside = 8.0 * link.update_bytes(base, dim)
    rule = steer_to((1 - down) * 8 * rest * clients, steps, front, extra_bits=beside)
    return replace(
        base,
        participation=norm_proportional(rule.spread),
        compress=grid(rule.spread),
        server=steered(paced(base.server, share, rounds, power), rule),
        broadcast=metered(down_bits, share, rounds, lean * max(0.0, 1 - down_bits / share / (8 * dim))),
        period=period,
    )
