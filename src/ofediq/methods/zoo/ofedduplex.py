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
from ofediq.methods.participation import norm_proportional
from ofediq.methods.presets import federated
from ofediq.methods.registry import Terms, named
from ofediq.methods.server import Adam
from ofediq.methods.steered_rule import steered
from ofediq.methods.steering import budget as steer_to
from ofediq.methods.timed_rule import timed
from ofediq.methods.windows import Growing

_LEAST = 128.0  # bits of a message that says anything
_CLIENTS = 185.0  # how many make a byte up worth as much as one down
_FARTHEST, _FEW = 4.0, 64.0  # times Adam's move, where there are so few of them or fewer


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bytes_per_step": terms.bytes_per_step,
        "dim": terms.dim,
        "clients": terms.clients,
        "steps": terms.steps,
    }


@named(
    "ofedduplex",
    source="ours: OFedGrid upwards; downwards moves rounded to a grid; windows that grow",
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
    down: float | None = None,
    front: float = 0.5,
    lean: float = 0.8,
    power: float = 0.2,
    keeps: float | None = None,
    seeks: bool = True,
) -> Method:
    """OFedDuplex: OFedGrid in both directions, with one budget for all bytes on the sockets. Not in the paper.

    Clients add up their gradients over windows that grow like the square root of time (`Growing`), so that nothing
    is said, up or down, before there is enough to say. Up as OFedGrid, where a message also pays for its frame, topic
    and acknowledgement. Down goes one message per window: the move, rounded to the finest grid that the bits due pay
    for, and some of what was rounded away before (`Metered`). How many windows and how many bits each follows from
    what opening one costs.

    Args:
        bytes_per_step: bytes that all clients together may send and receive per step, everything included.
        dim: D.
        clients: K.
        steps: T, the horizon that the budget is spread over; None for a run without end, in windows of one length.
        step_size: eta.
        preset: which server rule, see `methods.presets`; sampling is the method's own.
        down: share of the bytes that goes into broadcasts. By default 1 / (1 + sqrt(185 / K)): what goes up adds up
            over the clients, what goes down does not.
        front: how much the uplink leans towards early steps, see `Budget`.
        lean: how much broadcasts lean towards early ones, see `Metered`.
        power: how much farther Adam moves after a longer window, see `Timed`.
        keeps: how much of what was rounded away is remembered, see `Metered`; by default what a message of x bits per
            parameter leaves behind, 16^-x, and at most a half.
        seeks: whether Adam's moves grow where gradients agree with the moves before them, see `Timed`.
    """
    down = 1 / (1 + math.sqrt(_CLIENTS / clients)) if down is None else down
    require(0 < down < 1, "down", "must lie in (0, 1)", down)
    require(isinstance(seeks, bool), "seeks", "must be True or False", seeks)
    base, link = federated("OFedDuplex", step_size, preset), Connection()
    each = 8 * bytes_per_step / clients  # bits per client and step
    opening = 8 * (
        link.broadcast_bytes(replace(base, broadcast=metered(1.0))) + 4.0
    )  # and the number that steers
    wanted = max(_LEAST, _message_bits(down * each, opening, dim))
    mean = max(1.0, (opening + wanted) / (down * each))  # steps per window
    affordable = math.ceil((opening + _LEAST) / (down * each))  # steps that pay for the shortest message
    windows = None if steps is None or mean == 1 or affordable > steps else _windows(mean, steps)
    period = 1 if windows is not None else max(round(mean), affordable)
    count = 1 / period if windows is None or steps is None else len(windows.ends(steps)) / steps
    message = max(_LEAST, down * each / count - opening)
    kept = min(0.5, 16 ** (-message / dim)) if keeps is None else keeps
    beside = 8.0 * link.update_bytes(base, dim)
    rule = steer_to((1 - down) * each * clients, steps, front, extra_bits=beside, windows=windows)
    server = base.server
    if isinstance(server, Adam):  # half-way between a memory of so many moves and one of so many steps
        server = replace(server, decay=max(0.7, server.decay ** math.sqrt(mean)))
    return replace(
        base,
        participation=norm_proportional(rule.spread),
        compress=grid(rule.spread),
        server=steered(timed(server, power, _longest(steps, count) if seeks else None), rule),
        broadcast=metered(message, windows, lean * max(0.0, 1 - message / (8 * dim)), kept),
        windows=windows,
        period=period,
    )


def _message_bits(each: float, opening: float, dim: int) -> float:
    """Bits of a message that teach most, out of `each` bits per step.

    A message of x bits per parameter brings about 1 - 16^-x of a move, and costs `opening` beside: per bit most where
    16^x = 1 + log(16) (opening / D + x). With many bits the number of moves and their precision grow alike.
    """
    found, base = 0.2, math.log(16)
    for _ in range(20):
        found = math.log1p(base * (opening / dim + found)) / base
    return dim * max(found, math.sqrt(each / dim / 1.32))


def _longest(steps: int | None, count: float) -> float:
    """How many times as far as Adam's a move may reach, with `count` moves per step: the fewer, the farther."""
    return 1.0 if steps is None else min(_FARTHEST, max(1.0, _FARTHEST * _FEW / (count * steps)))


def _windows(mean: float, steps: int) -> Growing:
    """Windows of at least `mean` steps on average, or one."""
    longest = 2 * mean
    while len((found := Growing(longest, steps)).ends(steps)) > max(1, steps / mean):
        longest *= 1.02
    return found
