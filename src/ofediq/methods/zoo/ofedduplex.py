"""OFedDuplex: OFedGrid in both directions, one budget for all bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ofediq.errors import require
from ofediq.methods.budgets.connection import Connection
from ofediq.methods.budgets.loudness import longest_message
from ofediq.methods.budgets.metered import metered
from ofediq.methods.budgets.steered import steered
from ofediq.methods.budgets.steering import budget as steer_to
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.composition import Method
from ofediq.methods.compress import grid
from ofediq.methods.participation import norm_proportional
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.server.averaged import averaged, averages_steps
from ofediq.methods.server.rule import Adam, ServerRule
from ofediq.methods.server.timed import timed
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.walking import MeanWalk, walk

_LEAST = 128.0  # bits of a message that says anything, where the whole model has no fewer
_CLIENTS = 185.0  # how many make a byte up worth as much as one down
_DOWN = 0.3  # of all bytes, at least: with few clients windows would be long otherwise
_MOST_DOWN = 0.8  # where that pays for the only message of a run
_FARTHEST, _FEW = 4.0, 64.0  # times Adam's move, where there are so few of them or fewer
_REACH = 3.0  # of averaged steps: farther ones, few and rounded, ruin regressions
_LONG = 10.0  # steps of a window from which on clients walk by themselves,
_SHORT, _PER_STEP = 3.0, 64.0  # or so many and one for each 64 parameters, if that is less
_STRIDE = 20.0  # AdaGrad's step size over Adam's: a client alone has few and noisy gradients
_GRADIENT, _WALK = 16.0, 2.0  # a message of x bits per parameter leaves this to the power of -x behind


class _Rhythm(NamedTuple):
    """When messages go down, and how long they are."""

    windows: Growing | None
    period: int
    mean: float  # steps per window, as planned
    often: float  # windows per step
    message: float  # bits


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
    memory="nothing; where clients walk a model of their own, its squares and two numbers",
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
    walks: bool | None = None,
    averages: bool | None = None,
) -> Method:
    """OFedDuplex: OFedGrid in both directions, with one budget for all bytes on the sockets. Not in the paper.

    Clients add up their gradients over windows that grow like the square root of time (`Growing`), so that nothing
    is said, up or down, before there is enough to say. Up as OFedGrid, where a message also pays for its frame, topic
    and acknowledgement. Down goes one message per window: the move, rounded to the finest grid that the bits due pay
    for, and some of what was rounded away before (`Metered`). How many windows and how many bits each follows from
    what opening one costs. Where that makes windows long, clients do not wait for the server: each walks on from the
    common model by itself, predicts with both, and sends how far it came (`Walk`).

    Args:
        bytes_per_step: bytes that all clients together may send and receive per step, everything included.
        dim: D.
        clients: K.
        steps: T, the horizon that the budget is spread over; None for a run without end, in windows of one length.
        preset: which server rule, see `methods.presets`; sampling is the method's own.
        down: share of the bytes that goes into broadcasts. By default 1 / (1 + sqrt(185 / K)): what goes up adds up
            over the clients, what goes down does not. At least 0.3 where clients do not walk, and always more where
            they have not that much to send; where clients walk up to 0.8 if that pays for the run's only broadcast.
        front: how much the uplink leans towards early steps, see `Budget`.
        lean: how much broadcasts lean towards early ones, see `Metered`; half of it where clients walk.
        power: how much farther Adam moves after a longer window, see `Timed`.
        keeps: how much of what was rounded away is remembered, see `Metered`; by default what a message of x bits per
            parameter leaves behind, 16^-x, and at most a half.
        seeks: whether Adam's moves grow where gradients agree with the moves before them, see `Timed`.
        walks: whether clients walk by themselves; by default with preset authors and windows of ten steps or
            more, or of at least three and D / 64.
        averages: whether the server averages Adam's steps (`Averaged`), which then reach as far as that says; by
            default with preset authors where clients do not walk.
    """
    require(down is None or 0 < down < 1, "down", "must lie in (0, 1)", down)
    require(isinstance(seeks, bool), "seeks", "must be True or False", seeks)
    require(walks is None or isinstance(walks, bool), "walks", "must be True, False or None", walks)
    base, link = federated("OFedDuplex", step_size, preset), Connection()
    adam = isinstance(base.server, Adam)
    require(adam or not walks, "walks", "needs preset authors: AdaGrad follows Adam's step size", walks)
    each = 8 * bytes_per_step / clients  # bits per client and step
    beside = 8.0 * link.update_bytes(base, dim)
    chosen, down = down is not None, _share_down(each, beside, dim, clients) if down is None else down
    # A broadcast, and the number that steers.
    opening = 8 * (link.broadcast_bytes(replace(base, broadcast=metered(1.0))) + 4.0)
    rhythm = _rhythm(down * each, opening, dim, steps, _GRADIENT)
    walking = adam and (rhythm.mean >= _walks_from(dim) if walks is None else walks)
    require(not (walking and averages), "averages", "cannot be where clients walk (walks=False)", averages)
    left = _WALK if walking else _GRADIENT
    if walking:
        lean = lean / 2
    if not chosen:
        down = max(down, 0.0 if walking else _DOWN)
        rhythm = _rhythm(down * each, opening, dim, steps, left)
        down = max(down, _least_down(longest_message(dim) + beside, opening + rhythm.message))
        once = (opening + min(_LEAST, 32.0 * dim)) / each / (steps or math.inf)
        down = max(down, once) if walking and once < _MOST_DOWN else down  # one message is better than none
    rhythm = _rhythm(down * each, opening, dim, steps, left)
    windows, period, mean, often, message = rhythm
    kept = min(0.5, 16 ** (-message / dim)) if keeps is None else keeps
    rule = steer_to((1 - down) * each * clients, steps, front, extra_bits=beside, windows=windows)
    mover = (
        averaged(step_size, _REACH) if averages_steps(averages, preset) else _in_windows(base.server, mean)
    )
    server = MeanWalk() if walking else timed(mover, power, _longest(steps, often) if seeks else None)
    return replace(
        base,
        client=walk(base.client, _STRIDE * step_size) if walking else base.client,
        participation=norm_proportional(rule.spread),
        compress=grid(rule.spread),
        server=steered(server, rule),
        broadcast=metered(message, windows, lean * max(0.0, 1 - message / (8 * dim)), kept),
        windows=windows,
        period=period,
    )


def _share_down(each: float, beside: float, dim: int, clients: int) -> float:
    """The share of `each` bits that goes down, where what goes up at most leaves no more.

    That is the finest message of everyone at every step, with `beside` bits around it.
    """
    return max(1 / (1 + math.sqrt(_CLIENTS / clients)), 1 - (longest_message(dim) + beside) / each)


def _walks_from(dim: int) -> float:
    """Steps of a window from which on clients walk: few samples say something of few parameters."""
    return min(_LONG, max(_SHORT, dim / _PER_STEP))


def _least_down(up: float, down: float) -> float:
    """The share of windows that take `down` bits at whose ends everyone sends `up`: more there is not to send."""
    return down / (down + up)


def _in_windows(server: ServerRule, mean: float) -> ServerRule:
    """Adam with a memory half-way between so many moves and so many steps, `mean` of them to a move."""
    if not isinstance(server, Adam):
        return server
    return replace(server, decay=max(0.7, server.decay ** math.sqrt(mean)))


def _rhythm(each: float, opening: float, dim: int, steps: int | None, left: float) -> _Rhythm:
    """Messages out of `each` bits per step, whose x bits per parameter leave `left` to the power of -x behind."""
    wanted, least = _message_bits(each, opening, dim, left), min(_LEAST, 32.0 * dim)
    mean = max(1.0, (opening + wanted) / each)  # steps per window
    affordable = math.ceil((opening + least) / each)  # steps that pay for the shortest message
    windows = None if steps is None or mean == 1 or affordable > steps else _windows(mean, steps)
    period = 1 if windows is not None else max(round(mean), affordable)
    count = 1 / period if windows is None or steps is None else len(windows.ends(steps)) / steps
    return _Rhythm(windows, period, mean, count, min(max(least, each / count - opening), 32.0 * dim))


def _message_bits(each: float, opening: float, dim: int, left: float) -> float:
    """Bits of a message that teach most, out of `each` bits per step.

    A message of x bits per parameter brings about 1 - b^-x of a move, b = `left`, and costs `opening` beside: per bit
    most where b^x = 1 + log(b) (opening / D + x). With many bits the number of moves and their precision grow alike.
    """
    found, base = 0.2, math.log(left)
    for _ in range(20):
        found = math.log1p(base * (opening / dim + found)) / base
    return min(max(_LEAST, dim * found, dim * math.sqrt(each / dim / 1.32)), 32.0 * dim)


def _longest(steps: int | None, count: float) -> float:
    """How many times as far as Adam's a move may reach, with `count` moves per step: the fewer, the farther."""
    return 1.0 if steps is None else min(_FARTHEST, max(1.0, _FARTHEST * _FEW / (count * steps)))


def _windows(mean: float, steps: int) -> Growing:
    """Windows of at least `mean` steps on average, or one. A few long ones begin with T / (N + 1)^2 steps or so."""
    longest = 2 * mean

    def grown() -> Growing:
        first = min(longest * longest / steps, steps, longest) / 4 if mean >= _LONG else 1.0
        return Growing(longest, steps, max(1.0, first))

    while len((found := grown()).ends(steps)) > max(1, steps / mean):
        longest *= 1.02
    return found
