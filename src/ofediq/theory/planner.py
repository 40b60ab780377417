"""From a bit budget to parameters: Algorithm 3 as written, the true optimum, and the best for measured bits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import InputError, require, require_choice, require_fraction, require_integer
from ofediq.theory.bounds import regret_constant
from ofediq.theory.coding import RateModel, gaussian_rates
from ofediq.theory.measured import best_measured
from ofediq.theory.quantizer import (
    FLOAT_BITS,
    MAX_DIM,
    MAX_LEVELS,
    VARIANCE_BOUNDS,
    VarianceBound,
    message_bits,
    quantizer_variance,
)
from ofediq.theory.rates import MAX_COUNT, ProportionalRates
from ofediq.theory.search import Objective, minimise
from ofediq.theory.table import expected_bits

Method = Literal["exact", "paper", "measured"]
METHODS: tuple[str, ...] = get_args(Method)

_LOWEST_RATE = 1e-100  # below it 1 / p could overflow
_SPENT = 0.995  # a plan that uses less than this share of its budget says so


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Parameters of OFedIQ for a budget, with what they guarantee and what they cost.

    Attributes:
        budget: gamma, the allowed fraction of FedOGD's uplink bits.
        dim: D.
        clients: K.
        method: `exact`, `paper` or `measured`.
        variance: the bound on sigma_q^2 behind `regret_constant`, `min` or `sqrt`; or `measured`: no bound, the mean
            under a model of the updates.
        rate: p, or one p_k per client when capacities were given.
        levels: s.
        blocks: b.
        period: L, always 1: a longer period never pays (see `compare_period`).
        quantizer_variance: sigma_q^2.
        regret_constant: alpha, with the factor 2.
        ofedavg_constant: alpha of OFedAvg, which has no quantiser, for the same budget and capacities.
        bits_per_message: bits of one update by the formula 32 b + D (1 + log2(s + 1)); with `measured`, expected
            bits on the wire, entropy-coded and with 16-bit norms.
        bits_per_step: expected uplink bits of all clients per step; never above budget x 32 K D.
        budget_used: `bits_per_step` as a share of the budget.
        ccr: communication cost reduction against FedOGD, 1 - bits_per_step / (32 K D).
        capped: whether Algorithm 3 asked for a rate above 1, which was cut.
        notes: sentences about what is special in this plan.
    """

    budget: float
    dim: int
    clients: int
    method: Method
    variance: VarianceBound | Literal["measured"]
    rate: float | tuple[float, ...]
    levels: int
    blocks: int
    period: int
    quantizer_variance: float
    regret_constant: float
    ofedavg_constant: float
    bits_per_message: float
    bits_per_step: float
    budget_used: float
    ccr: float
    capped: bool
    notes: tuple[str, ...]

    @property
    def mean_rate(self) -> float:
        """The average rate of the clients: the expected share that sends at a step."""
        return self.rate if isinstance(self.rate, float) else math.fsum(self.rate) / self.clients

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain numbers, strings and lists, ready for JSON."""
        plain = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


class _Choice(NamedTuple):
    """What a method picks: the quantiser with its bits and variance, and the mean rate that it asks for."""

    levels: int
    blocks: int
    mean_rate: float
    bits: float
    noise: float


def plan(
    budget: float,
    dim: int,
    clients: int | None = None,
    *,
    method: Method = "exact",
    capacities: Sequence[float] | Floats | None = None,
    variance: VarianceBound | None = None,
    rates: RateModel | None = None,
) -> Plan:
    """Choose rate, levels and blocks of OFedIQ so that the regret bound is small and the cost fits the budget.

        minimise   alpha = 2 / p_min (1 + sigma_q^2 (p_sum + 1) / K)
        subject to p_sum (32 b + D (1 + log2(s + 1))) <= budget 32 K D,   p_k <= 1

    `exact` is the minimum over all integers s (up to 2^15) and b (see `search`); at rate 1 it spends what is left
    on levels and blocks. `paper` is Algorithm 3 as written, with the rate cut at 1. A plan always has a quantiser;
    when OFedAvg without one has the smaller bound (budgets next to 1, models of a few parameters) a note says so.

    `measured` spends bits on the wire instead of the formula's. Under a model of what updates look like it minimises
    (1 + sigma^2) / p, the variance of an unbiased sum of independent messages, see `measured`.

    Args:
        budget: gamma in (0, 1], the fraction of FedOGD's 32 K D bits per step that may be sent on average.
        dim: D, the number of model parameters.
        clients: K; 1000, or the number of capacities.
        method: `exact`, `paper` or `measured`.
        capacities: relative uplink capacities, one per client. The rates become proportional to them, cut at 1,
            with the budget met on average; the bound is then that of the slowest client.
        variance: the bound on sigma_q^2; `min` for `exact` and `sqrt`, as in the paper, for `paper` by default. Of no
            concern to `measured`.
        rates: for `measured`, the model of the updates: `gaussian_rates()` (default), `laplace_rates()`, or
            `fitted_rates(updates)`.

    >>> best = plan(0.1, 34826)
    >>> best.levels, best.blocks, round(best.rate, 3), round(best.regret_constant, 2)
    (15, 741, 0.563, 3.97)
    >>> written = plan(0.1, 34826, method="paper")
    >>> written.levels, written.blocks, round(written.rate, 4), round(written.regret_constant, 3)
    (17, 1134, 0.5151, 4.536)
    >>> wire = plan(0.1, 34826, method="measured")
    >>> wire.rate, wire.quantizer_variance < 0.05, wire.bits_per_message <= 0.1 * 32 * 34826
    (1.0, True, True)
    """
    budget = require_fraction("budget", budget)
    dim = require_integer("dim", dim, 1, MAX_DIM)
    require_choice("method", method, METHODS)
    if variance is None:
        variance = "min" if method == "exact" else "sqrt"
    require_choice("variance", variance, VARIANCE_BOUNDS)
    if rates is not None and method != "measured":
        raise InputError(f"`rates` must be given with method 'measured' only, got method {method!r}")
    shares = None if capacities is None else ProportionalRates(capacities)
    clients = _clients(clients, shares)
    smallest_share = 1.0 if shares is None else shares.smallest_share
    require(
        budget * smallest_share >= _LOWEST_RATE,
        "budget",
        "must leave every client a rate above 1e-100",
        budget,
    )

    if method == "measured":
        model = rates or gaussian_rates()
        return _assemble(_measured(budget, dim, model), budget, dim, clients, method, model, shares)
    if method == "exact":
        levels, blocks, rate = _exact(budget, dim, clients, variance, shares)
    else:
        levels, blocks, rate = _algorithm3(budget, dim)
    noise = quantizer_variance(levels, blocks, dim, variance)
    choice = _Choice(levels, blocks, rate, message_bits(levels, blocks, dim), noise)
    return _assemble(choice, budget, dim, clients, method, variance, shares)


def _measured(budget: float, dim: int, model: RateModel) -> _Choice:
    """The best choice under a model of the updates."""
    best = best_measured(model, dim, budget * FLOAT_BITS * dim)
    return _Choice(best.levels, best.blocks, best.rate, best.bits, best.variance)


def _exact(
    budget: float, dim: int, clients: int, variance: VarianceBound, shares: ProportionalRates | None
) -> tuple[int, int, float]:
    """The true minimiser: levels, blocks, mean rate."""
    allowance = budget * FLOAT_BITS * dim
    lowest_rate = _same if shares is None else shares.lowest
    levels, blocks = minimise(Objective(dim, clients, allowance, variance, lowest_rate))
    return levels, blocks, min(1.0, allowance / message_bits(levels, blocks, dim))


def _algorithm3(budget: float, dim: int) -> tuple[int, int, float]:
    """Algorithm 3 as written; b = 0 becomes 1.

    s minimises log2(s + 1) / 16 + 4 (gamma / s)^(2/3); with rho = (gamma / s)^(2/3),
    b = floor(rho D) and p = 32 gamma / (1 + 32 rho + log2(s + 1)).
    """
    candidates = np.arange(1, MAX_LEVELS + 1)
    objective = np.log2(candidates + 1) / 16 + 4 * (budget / candidates) ** (2 / 3)
    levels = int(candidates[np.argmin(objective)])
    density = (budget / levels) ** (2 / 3)
    rate = 32 * budget / (1 + 32 * density + math.log2(levels + 1))
    return levels, max(1, math.floor(density * dim)), rate


def _assemble(
    choice: _Choice,
    budget: float,
    dim: int,
    clients: int,
    method: Method,
    source: VarianceBound | RateModel,
    shares: ProportionalRates | None,
) -> Plan:
    """The plan that follows from a choice: rates that fit the budget, bound, cost, notes."""
    bits, noise = choice.bits, choice.noise
    everything = float(FLOAT_BITS * dim) * clients
    allowed = budget * everything
    rate = _fitted(min(1.0, choice.mean_rate), clients, bits, allowed, shares)
    spent = expected_bits(rate, clients=clients, bits=bits)
    unquantized = budget if shares is None else float(shares.lowest(np.array(budget)))
    result = Plan(
        budget=budget,
        dim=dim,
        clients=clients,
        method=method,
        variance=source if isinstance(source, str) else "measured",
        rate=rate,
        levels=choice.levels,
        blocks=choice.blocks,
        period=1,
        quantizer_variance=noise,
        regret_constant=regret_constant(rate, clients=clients, quantizer_variance=noise),
        ofedavg_constant=2 / unquantized,
        bits_per_message=bits,
        bits_per_step=spent,
        budget_used=spent / allowed,
        ccr=1 - spent / everything,
        capped=choice.mean_rate > 1,
        notes=(),
    )
    notes = _notes(result, choice.mean_rate)
    if not isinstance(source, str):
        notes.insert(0, _about_model(result, source))
    return dataclasses.replace(result, notes=tuple(notes))


def _fitted(
    mean: float, clients: int, bits: float, allowed: float, shares: ProportionalRates | None
) -> float | tuple[float, ...]:
    """The rates with this mean, lowered until their cost is within `allowed`, however a reader multiplies it out.

    Algorithm 3 can ask for too much when it has to use one block instead of none; otherwise only rounding errors do.
    """
    while True:
        rate = mean if shares is None else tuple(shares.at(mean).tolist())
        cost = expected_bits(rate, clients=clients, bits=bits)
        # A few units in the last place of slack, except where everybody sends and no rounding is involved.
        if cost <= (allowed if mean == 1 else allowed * (1 - 2**-50)):
            return rate
        mean *= allowed / cost * (1 - 2**-49)


def _about_model(result: Plan, model: RateModel) -> str:
    density = result.bits_per_message / result.dim
    return (
        f"Bits are those of entropy-coded messages with 16-bit norms, {density:.3g} per coordinate, and the variance "
        f"is a mean: both are estimates for {model.name}. Alpha is the paper's bound at this variance, no guarantee."
    )


def _notes(result: Plan, asked_rate: float) -> list[str]:
    """What a user should know about this plan."""
    notes = []
    unspent = 1 - result.budget_used
    if result.capped:
        notes.append(
            f"Algorithm 3 asks for a rate of {asked_rate:.3f}; it was cut at 1, which leaves {unspent:.1%} "
            "of the budget unspent. The exact method spends it."
        )
    elif result.method != "paper" and result.budget_used < _SPENT:
        notes.append(
            f"{unspent:.1%} of the budget stays unspent: no choice of blocks and of levels up to {MAX_LEVELS} "
            "makes the bound smaller."
        )
    if result.mean_rate * result.clients < 1:
        notes.append(
            f"On average only {result.mean_rate * result.clients:.2g} clients send per step, so at many steps "
            "nobody does and the model stays as it is."
        )
    if result.ofedavg_constant < result.regret_constant:
        notes.append(
            "OFedAvg, which does not quantise, has the smaller bound at this budget, by "
            f"{result.regret_constant - result.ofedavg_constant:.2g}."
        )
    return notes


def _clients(clients: int | None, shares: ProportionalRates | None) -> int:
    if shares is None:
        return require_integer("clients", 1000 if clients is None else clients, 1, MAX_COUNT)
    if clients is not None:
        require(
            require_integer("clients", clients, 1, MAX_COUNT) == shares.clients,
            "clients",
            f"must be the number of capacities, {shares.clients}",
            clients,
        )
    return shares.clients


def _same(mean: Floats) -> Floats:
    return mean
