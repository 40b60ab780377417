"""Messages that add up unread: `secure` for secure aggregation, and `private`, with noise that keeps epsilon."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from ofediq.codec.skellam import MAX_VARIANCE
from ofediq.errors import require, require_choice, require_integer, require_positive
from ofediq.methods.client import hold
from ofediq.methods.composition import Method
from ofediq.methods.compress import Addable, additive
from ofediq.methods.participation import in_turns
from ofediq.methods.presets import method, preset_server
from ofediq.methods.registry import named
from ofediq.methods.server.promised import Promised
from ofediq.methods.terms import Terms
from ofediq.theory.privacy import UNITS, Promise, Unit, skellam_variance


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many coordinates as the budget pays for; if not even one per client and step, clients take turns."""
    return _fit(terms, given, None)


def _spend_privately(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the noise that so many coordinates need."""
    values = {"epsilon": terms.epsilon or 4.0, "delta": terms.delta, "unit": "sample", **given}
    fitted = _fit(terms, values, Promise(values["epsilon"], values["delta"], values["unit"]))
    return {"epsilon": values["epsilon"], "delta": values["delta"], "steps": terms.steps, **fitted}


def _fit(terms: Terms, given: Mapping[str, Any], promise: Promise | None) -> dict[str, Any]:
    each = terms.bits_each

    def message(keep: int, groups: int) -> Addable:
        senders = -(-terms.clients // groups)
        return _message(keep, senders, _least(senders), 1.0, promise, terms.steps, groups)

    groups = int(given.get("groups") or _best_groups(terms, message(1, 1).bits, promise is not None))
    sizes = range(1, terms.dim + 1)
    keep = bisect_right(sizes, groups * each, key=lambda keep: 8 * message(keep, groups).payload_bytes)
    return {"keep": max(1, keep), "groups": groups, "senders": -(-terms.clients // groups)}


def _best_groups(terms: Terms, bits: int, noisy: bool) -> int:
    """g at which a message has about a third of all coordinates; with noise a tenth, since fewer senders drown in it.

    Cohorts have at least 8 members where there are so many, unless the budget does not pay for one coordinate each.
    """
    each = terms.bits_each
    wanted = round(bits * terms.dim / each / (10 if noisy else 3))
    least = math.ceil(8 * math.ceil(bits / 8) / each)  # pays for one coordinate
    return max(least, min(wanted, terms.clients // 8))


def _least(senders: int) -> int:
    """How many of a round's senders must be heard: a fifth may drop out."""
    return senders - senders // 5


def _releases(promise: Promise, steps: int | None, groups: int) -> int:
    """How many sums one unit can change: a sample is in one, a member in one of every `groups`."""
    if promise.unit == "sample":
        return 1
    require(steps is not None, "steps", "must be given to keep a promise for each member", steps)
    return -(-int(steps or 0) // groups)


def _message(
    keep: int, senders: int, least: int, clip: float, promise: Promise | None, steps: int | None, groups: int
) -> Addable:
    """The compressor whose sums of at least `least` messages have the noise that `promise` asks for."""
    plain = additive(keep, groups * clip, senders)  # updates come divided by the rate 1 / g
    if promise is None:
        return plain
    variance = skellam_variance(
        promise.epsilon, promise.delta, plain.sensitivity, keep, _releases(promise, steps, groups)
    )
    rule = f"must be larger: its noise does not fit into the messages of {least} members"
    require(variance / least <= MAX_VARIANCE, "epsilon", rule, promise.epsilon)
    return additive(keep, groups * clip, senders, noise=variance / least)


def _compose(
    name: str,
    keep: int,
    senders: int,
    groups: int,
    clip: float,
    least: int | None,
    promise: Promise | None,
    steps: int | None,
    step_size: float,
    preset: str,
) -> Method:
    least = _least(senders) if least is None else require_integer("least", least, 1, senders)
    horizon = steps if promise is not None and promise.unit == "member" else None
    return method(
        client=hold(),
        server=Promised(preset_server(step_size, preset), least, promise, horizon),
        participation=in_turns(groups),
        compress=_message(keep, senders, least, clip, promise, steps, groups),
        name=name,
    )


@named(
    "secure",
    source="ours, after IntSGD (K. Mishchenko, B. Wang, D. Kovalev, P. Richtarik, 2022) and secure aggregation "
    "(K. Bonawitz et al., 2017)",
    spend=_spend,
)
def secure(
    keep: int,
    senders: int,
    groups: int = 1,
    clip: float = 4.0,
    least: int | None = None,
    step_size: float = 0.01,
    preset: str = "paper",
) -> Method:
    """Secure: messages that a server can add up without reading one: a drawn support, a common grid.

    x_k = sqrt(D/k) u_k on k coordinates that all draw alike, cut to the norm C and rounded at random to the grid;
    the server gets the sum of the x_k modulo 2^m and moves w by -eta g D/(k K) z sum. Masked symbols do not compress:
    k m bits per message, m about log2(8 senders).

    Args:
        keep: k, the coordinates that are sent at a step.
        senders: how many messages are added up at a step, all clients / groups.
        groups: g; clients send in turns, each at every g-th step.
        clip: C, the norm that a gradient is cut to.
        least: fewer messages than that are not used; by default four in five of the senders.
    """
    return _compose("Secure", keep, senders, groups, clip, least, None, None, step_size, preset)


@named(
    "private",
    source="N. Agarwal, P. Kairouz, Z. Liu: The Skellam Mechanism for Differentially Private Federated "
    "Learning, 2021",
    spend=_spend_privately,
)
def private(
    keep: int,
    senders: int,
    epsilon: float = 4.0,
    delta: float = 1e-5,
    unit: Unit = "sample",
    steps: int | None = None,
    groups: int = 1,
    clip: float = 4.0,
    least: int | None = None,
    step_size: float = 0.01,
    preset: str = "paper",
) -> Method:
    """Private: as `secure`, and each client adds its share of Skellam noise, so that sums keep epsilon.

    A sum of at least `least` messages is (epsilon, delta)-differentially private for each sample or for each member,
    against everyone who sees sums, models and predictions made with them. Against the server too, if it sees nothing
    but sums: with secure aggregation. Nothing about who sends and when depends on data.

    Args:
        keep: k, the coordinates that are sent at a step.
        senders: how many messages are added up at a step, all clients / groups.
        epsilon: of the promise.
        delta: of the promise.
        unit: whose influence is hidden: one `sample`, or a `member` with all of its samples.
        steps: T; a promise for members ends there.
        groups: g; clients send in turns, each at every g-th step.
        clip: C, the norm that a gradient is cut to.
        least: fewer messages than that are not used, and so many make the noise.
    """
    require_choice("unit", unit, UNITS)
    promise = Promise(require_positive("epsilon", epsilon), require_positive("delta", delta), unit)
    return _compose("Private", keep, senders, groups, clip, least, promise, steps, step_size, preset)
