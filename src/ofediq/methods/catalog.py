"""The methods by name, each a few lines of composition.

`preset` chooses between the paper's text and what the authors' experiments really did:

| preset | server | sampling | inside a window of L > 1 steps |
|---|---|---|---|
| `paper` | descent with step size eta | Bernoulli(p) | local steps |
| `authors` | Adam with step size eta | floor(K p) without replacement | gradients at frozen weights |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ofediq.codec import Coding
from ofediq.errors import InputError, require, require_choice, require_fraction, require_integer
from ofediq.methods.broadcast import Broadcast
from ofediq.methods.compress import Compressor, grid, identity, quantize
from ofediq.methods.local import LocalRule, hold
from ofediq.methods.local import ogd as local_ogd
from ofediq.methods.method import Method
from ofediq.methods.mirror import Euclidean, mirror_map
from ofediq.methods.parameter_free import coin
from ofediq.methods.participation import Participation, bernoulli, everyone, fixed_size, norm_proportional
from ofediq.methods.server import ServerRule, adam, descend
from ofediq.methods.steering import budget as steer_to
from ofediq.theory import Plan, plan

KEYS = ("fedogd", "ofedavg", "fedomd", "ofediq", "ofedgrid", "ogd", "local")
PRESETS = ("paper", "authors")
SERVERS = ("descend", "adam", "coin")


def method(
    local: LocalRule,
    server: ServerRule,
    participation: Participation | None = None,
    compress: Compressor | None = None,
    period: int = 1,
    name: str = "custom",
) -> Method:
    """A federated method from its pieces; by default everyone sends, uncompressed, at every step."""
    return Method(name, local, participation or everyone(), compress or identity(), server, period)


def fedogd(step_size: float = 0.01, preset: str = "paper") -> Method:
    """FedOGD (Algorithm 1): every client sends its gradient at every step.

    w_{t+1} = w_t - eta/K sum_k gradient_k(w_t). Costs 32 K D bits per step; regret constant alpha = 2.
    """
    return _federated("FedOGD", step_size, preset)


def ofedavg(rate: float | Sequence[float], step_size: float = 0.01, preset: str = "paper") -> Method:
    """OFedAvg(p): each client sends its gradient / p with probability p. Costs 32 p K D bits; alpha = 2/p."""
    return _federated("OFedAvg", step_size, preset, rate=rate)


def fedomd(period: int, step_size: float = 0.01, preset: str = "paper", mirror: str = "euclidean") -> Method:
    """FedOMD(L): local mirror descent, everyone sends at every L-th step.

    With `mirror="euclidean"` this is what the paper compares with; `simplex` and `positive` are the entropic maps,
    under which the server adds up dual steps: w' = back(dual(w) - eta/K sum of gradients). Costs 32 K D / L bits
    per step.
    """
    geometry = mirror_map(mirror)
    if mirror == "euclidean":
        return _federated("FedOMD", step_size, preset, period=period)
    if preset != "paper":
        raise InputError(f"`mirror` must be euclidean with preset {preset!r}, got {mirror!r}")
    return method(
        local=local_ogd(step_size, geometry),
        server=descend(step_size, geometry),
        period=period,
        name=f"FedOMD ({mirror})",
    )


def ofediq(
    rate: float | Sequence[float],
    levels: int,
    blocks: int,
    period: int = 1,
    step_size: float = 0.01,
    preset: str = "paper",
    coding: Coding = "packed",
) -> Method:
    """OFedIQ(L, p, s, b) (Algorithm 2): intermittent transmission of quantised updates.

    At t % L == 0, with probability p_k: m_k = Q_{s,b}(sum of the window's gradients / p_k);
    w_{t+1} = w_{t-L+1} - eta/K sum of the m_k received. Costs (p/L) K (32 b + D (1 + log2(s+1))) bits per step.

    Args:
        rate: p, or one p_k per client.
        levels: s.
        blocks: b.
        period: L.
        step_size: eta.
        preset: `paper` or `authors`, see the module.
        coding: how a message is written: `packed` or `entropy`.
    """
    compress = quantize(levels, blocks, coding=coding)
    return _federated("OFedIQ", step_size, preset, rate=rate, period=period, compress=compress)


def ofedgrid(
    bits_per_step: float,
    steps: int,
    step_size: float = 0.01,
    preset: str = "paper",
    spread: float = 30.0,
    front: float = 0.5,
) -> Method:
    """OFedGrid: all clients round to one grid, and send in proportion to what they have to say. Not in the paper.

    With z_t broadcast by the server: p_k = min(1, ||u_k|| / (spread z_t)); m_k = round_at_random(u_k / (p_k z_t));
    w_{t+1} = w_t - eta/K sum of the z_t m_k received. Unbiased. z_t follows a budget of real, entropy-coded bits.

    Args:
        bits_per_step: mean uplink bits per step on the wire, all clients together.
        steps: T, the horizon that the budget is spread over.
        step_size: eta.
        preset: which server rule, see the module; sampling is the method's own.
        spread: norm of a sampled update in grid steps.
        front: how much the budget leans towards early steps, see `Budget`.
    """
    rule = steer_to(bits_per_step, steps, front)
    base = _federated("OFedGrid", step_size, preset)
    return replace(base, participation=norm_proportional(spread), compress=grid(), steer=rule)


def ofediq_norm(
    levels: int,
    blocks: int,
    bits_per_step: float,
    steps: int,
    step_size: float = 0.01,
    preset: str = "paper",
    front: float = 0.5,
) -> Method:
    """The paper's quantiser with norm-proportional participation and entropy coding: a step towards OFedGrid."""
    rule = steer_to(bits_per_step, steps, front)
    base = _federated("OFedIQ-norm", step_size, preset)
    compress = quantize(levels, blocks, coding="entropy")
    return replace(base, participation=norm_proportional(1.0), compress=compress, steer=rule)


def ogd(step_size: float = 0.01, preset: str = "paper") -> Method:
    """Centralised reference: one learner sees every sample of every client, one after another.

    It sends no updates; its uplink is the samples themselves, 32 bits per feature and label.
    """
    return Method(
        "OGD", local_ogd(step_size), everyone(), identity(), _server(step_size, preset), 1, "central"
    )


def local(step_size: float = 0.01, preset: str = "paper") -> Method:
    """Reference without communication: each client learns alone from its own samples."""
    return Method(
        "Local", local_ogd(step_size), everyone(), identity(), _server(step_size, preset), 1, "separate"
    )


def at_budget(
    key: str,
    budget: float,
    dim: int,
    clients: int,
    step_size: float = 0.01,
    preset: str = "paper",
    planner: Literal["paper", "exact"] = "paper",
    steps: int | None = None,
) -> Method:
    """The method called `key` with the parameters that spend `budget`, a fraction of FedOGD's uplink bits.

    OFedAvg gets p = budget, FedOMD L = 1 / budget (rounded up, so that it does not exceed the budget), OFedIQ the
    plan that `planner` ("paper" or "exact") makes. OFedGrid spends the budget in real bits over `steps` steps, which
    it must know. The others do not depend on the budget.

    >>> at_budget("fedomd", 0.01, dim=34826, clients=1000).period
    100
    """
    require_choice("method", key, KEYS)
    require_fraction("budget", budget)
    if key == "fedogd":
        return fedogd(step_size, preset)
    if key == "ofedavg":
        return ofedavg(budget, step_size, preset)
    if key == "fedomd":
        return fedomd(math.ceil(1.0 / budget - 1e-9), step_size, preset)
    if key == "ofediq":
        return from_plan(plan(budget, dim, clients=clients, method=planner), step_size, preset)
    if key == "ofedgrid":
        bits = budget * 32.0 * clients * dim
        return ofedgrid(bits, require_integer("steps", steps, 1), step_size, preset)
    return ogd(step_size, preset) if key == "ogd" else local(step_size, preset)


def with_server(chosen: Method, rule: ServerRule) -> Method:
    """`chosen` with another server rule, such as `coin()`, which needs no step size.

    Clients with local steps inside a window of L > 1 keep the step size of those; with L = 1, or with `hold()`,
    the server's rule is the only one that moves anything.

    >>> with_server(fedogd(), coin()).server.name
    'coin(0.1)'
    """
    complete = all(hasattr(rule, name) for name in ("name", "start", "init", "apply"))
    require(complete, "rule", "must be a server rule, such as coin() or descend(0.01)", rule)
    geometry = getattr(chosen.local, "mirror", Euclidean())
    if getattr(rule, "mirror", Euclidean()) != geometry:
        raise InputError(f"`rule` must use the {geometry.name} mirror map of {chosen.name}, got {rule.name}")
    return replace(chosen, server=rule)


def with_broadcast(chosen: Method, broadcast: Broadcast) -> Method:
    """`chosen` with another broadcast, such as `delta(levels=7, blocks=14)`: quantised differences downwards."""
    complete = all(hasattr(broadcast, name) for name in ("exact", "check", "send", "message"))
    require(complete, "broadcast", "must be a broadcast, such as whole() or delta()", broadcast)
    return replace(chosen, broadcast=broadcast)


def server_rule(name: str, step_size: float = 0.01) -> ServerRule:
    """The server rule called `name`: descend, adam, or coin, which makes no use of `step_size`."""
    require_choice("server", name, SERVERS)
    if name == "coin":
        return coin()
    return adam(step_size) if name == "adam" else descend(step_size)


def from_plan(chosen: Plan, step_size: float = 0.01, preset: str = "paper") -> Method:
    """OFedIQ with the parameters of a plan; entropy-coded if the plan counts bits on the wire."""
    coding: Coding = "entropy" if chosen.method == "measured" else "packed"
    return ofediq(chosen.rate, chosen.levels, chosen.blocks, chosen.period, step_size, preset, coding)


def _federated(
    name: str,
    step_size: float,
    preset: str,
    rate: float | Sequence[float] = 1.0,
    period: int = 1,
    compress: Compressor | None = None,
) -> Method:
    require_choice("preset", preset, PRESETS)
    require_integer("period", period, 1)
    authors = preset == "authors"
    if authors and not isinstance(rate, (int, float)):
        raise InputError("`rate` must be one number with preset 'authors', got one per client")
    return Method(
        name=name,
        local=hold() if authors else local_ogd(step_size),
        participation=fixed_size(rate) if authors and isinstance(rate, (int, float)) else bernoulli(rate),
        compress=compress or identity(),
        server=_server(step_size, preset),
        period=period,
    )


def _server(step_size: float, preset: str) -> ServerRule:
    require_choice("preset", preset, PRESETS)
    return adam(step_size) if preset == "authors" else descend(step_size)
