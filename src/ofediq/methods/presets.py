"""Two ways to run the paper's methods, and what they share.

| preset | server | sampling | inside a window of L > 1 steps |
|---|---|---|---|
| `paper` | descent with step size eta | Bernoulli(p) | local steps |
| `authors` | Adam with step size eta | floor(K p) without replacement | gradients at frozen weights |

`paper` is the text; `authors` is what their experiments really did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ofediq.errors import InputError, require, require_choice
from ofediq.methods.broadcast import Broadcast
from ofediq.methods.client import ClientRule, Ogd, hold, local_ogd
from ofediq.methods.combine import Combine, Sum
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor, identity
from ofediq.methods.mixture import Mixture
from ofediq.methods.participation import Participation, bernoulli, everyone, fixed_size
from ofediq.methods.ridge import DRIFTS
from ofediq.methods.server.adaptive import adaptive
from ofediq.methods.server.averaged import averaged
from ofediq.methods.server.coin import coin
from ofediq.methods.server.rule import ServerRule, adam, descend

PRESETS = ("paper", "authors")
_RULES: dict[str, Callable[[float], ServerRule]] = {
    "descend": descend,
    "adam": adam,
    "averaged": averaged,
    "coin": lambda _: coin(),
    "adaptive": lambda _: adaptive(),
}
SERVERS = tuple(_RULES)
_FIRST, _FIRST_LABELS, _FIRST_DEEP = 5e-4, 6e-3, 1e-4  # first moves of the adaptive server, for one client
_FIRST_LARGEST = 0.03
_FIRST_SUM = 0.07  # units by which all first moves together change a linear model's prediction of a number
_WIDEST = 128  # features of an own model of second order, and of one with large first moves
_OWN_MODELS = 2**26  # numbers that the own models of all clients may take together


def method(
    client: ClientRule,
    server: ServerRule,
    participation: Participation | None = None,
    compress: Compressor | None = None,
    *,
    period: int = 1,
    name: str = "custom",
    combine: Combine | None = None,
) -> Method:
    """A federated method from its pieces; by default everyone sends, uncompressed, at every step."""
    return Method(
        name,
        client,
        participation or everyone(),
        compress or identity(),
        server,
        period,
        combine=combine or Sum(),
    )


def federated(
    name: str,
    step_size: float,
    preset: str,
    rate: float | Sequence[float] = 1.0,
    period: int = 1,
    compress: Compressor | None = None,
) -> Method:
    """A method of the paper's kind, as `preset` has it."""
    require_choice("preset", preset, PRESETS)
    authors = preset == "authors"
    if authors and not isinstance(rate, (int, float)):
        raise InputError("`rate` must be one number with preset 'authors', got one per client")
    return Method(
        name=name,
        client=hold() if authors else local_ogd(step_size),
        participation=fixed_size(rate) if authors and isinstance(rate, (int, float)) else bernoulli(rate),
        compress=compress or identity(),
        server=preset_server(step_size, preset),
        period=period,
    )


def preset_server(step_size: float, preset: str) -> ServerRule:
    """The server rule of a preset."""
    require_choice("preset", preset, PRESETS)
    return adam(step_size) if preset == "authors" else descend(step_size)


def with_server(chosen: Method, rule: ServerRule) -> Method:
    """`chosen` with another server rule, such as `coin()`, which needs no step size.

    A rule that steers a budget stays, around the new one. Clients with local steps inside a window of L > 1 keep the
    step size of those; with L = 1, or with `hold()`, the server's rule is the only one that moves anything.

    >>> from ofediq.methods import fedogd
    >>> with_server(fedogd(), coin()).server.name
    'coin(0.1)'
    """
    require(
        isinstance(rule, ServerRule), "rule", "must be a server rule, such as coin() or descend(0.01)", rule
    )
    geometry = chosen.client.mirror
    if rule.mirror != geometry:
        raise InputError(f"`rule` must use the {geometry.name} mirror map of {chosen.name}, got {rule.name}")
    return replace(chosen, server=chosen.server.around(rule))


def with_broadcast(chosen: Method, broadcast: Broadcast) -> Method:
    """`chosen` with another broadcast, such as `delta(levels=7, blocks=14)`: quantised differences downwards."""
    require(
        isinstance(broadcast, Broadcast),
        "broadcast",
        "must be a broadcast, such as whole() or delta()",
        broadcast,
    )
    return replace(chosen, broadcast=broadcast)


def with_combine(chosen: Method, rule: Combine) -> Method:
    """`chosen` with another way to make one vector of the messages, such as `combine_rule("krum")`."""
    require(isinstance(rule, Combine), "rule", "must be a way to combine, such as krum", rule)
    return replace(chosen, combine=rule)


def server_rule(name: str, step_size: float = 0.01) -> ServerRule:
    """The server rule called `name`; coin and adaptive make no use of `step_size`."""
    require_choice("server", name, SERVERS)
    return _RULES[name](step_size)


def own_server(method: Method) -> bool:
    """Whether the server is part of `method`: clients need vectors from it, or no other one can take its place."""
    return bool(method.server.vectors or method.server.alone)


def untuned(
    method: Method,
    *,
    deep: bool = False,
    clients: int = 10,
    dim: int = 0,
    outputs: int = 0,
    busy: int | None = None,
) -> Method:
    """`method` without a step size: gradients at the common model, and a server that finds its own.

    A method whose server is part of it, such as SCAFFOLD or LAQ, stays as it is. Hidden layers beside a naive
    forecast (`deep`) get smaller first moves: tens of thousands of parameters that move together would leave the
    forecast at once. The more clients, the less noise in their mean, and the larger the first moves. Those of a
    linear model for labels (`dim` parameters, `outputs`) with up to 128 features are twelve times as large: scores
    have to be of size 1 before the answer is another one. With many features they would add up to more than that
    at once. Those of a linear model for a number are at least .07 / (features that are not 0 at once), where
    that is known: with few of them it is more, and changes a prediction no farther.

    Arguments:
        method: what is sent.
        deep: whether there are hidden layers.
        clients: K.
        dim: D.
        outputs: of a linear model without penalty; else 0.
        busy: how many features may differ from 0 in one sample, see `Pipeline.busy`; None: not known.
    """
    if own_server(method):
        return method
    plain = replace(method, client=hold()) if isinstance(method.client, Ogd) else method
    labels = outputs > 1 and dim // outputs <= _WIDEST
    first = (_FIRST_DEEP if deep else _FIRST_LABELS if labels else _FIRST) * math.sqrt(clients)
    if outputs == 1 and busy:
        first = max(first, _FIRST_SUM / busy)
    return with_server(plain, adaptive(min(first, _FIRST_LARGEST)))


def mixed(method: Method, dim: int, clients: int, outputs: int = 0) -> Method:
    """`method` on a model that starts from a naive forecast, its clients mixing it, the common and own models.

    Nothing changes where clients predict with something of their own already. Where own models would take too much
    memory they are left out. That of a linear model for a number has smaller steps where it has many features: all of
    them move in the first one, and a prediction that is off by 80 units costs 6,400 of them squared. What mixing has
    cost then hides for hundreds of rows which of the models are good.

    Arguments:
        method: what is sent.
        dim: D.
        clients: K.
        outputs: of a linear model without penalty, whose own models may be of second order; else 0.
    """
    if method.topology != "federated" or method.client.personal:
        return method
    size = dim // outputs if outputs else 0
    if size <= _WIDEST and len(DRIFTS) * size * size * clients <= _OWN_MODELS:
        return replace(method, client=Mixture(method.client, outputs=outputs))
    fits = 2 * dim * clients <= _OWN_MODELS
    step = Mixture.own * min(1.0, _WIDEST / size) if outputs == 1 else Mixture.own
    return replace(method, client=Mixture(method.client, own=step if fits else 0.0))


def usual_budget(dim: int) -> float:
    """The budget where none is given: small models have little to send.

    >>> usual_budget(57), usual_budget(34_826)
    (0.1, 0.01)
    """
    return 0.1 if dim < 1000 else 0.01
