"""OFedGrid, and a step towards it: what is ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ofediq.errors import require_nonnegative
from ofediq.methods.budgets.loudness import best_spread
from ofediq.methods.budgets.steered import steered
from ofediq.methods.budgets.steering import Budget
from ofediq.methods.budgets.steering import budget as steer_to
from ofediq.methods.composition import Method
from ofediq.methods.compress import grid, quantize
from ofediq.methods.participation import norm_proportional
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.server.averaged import averaged, averages_steps
from ofediq.methods.terms import Terms
from ofediq.theory import plan

_BESIDE = 64.0  # bits of a message that count at least where steps are averaged: fewer messages, of more coordinates


@named(
    "ofedgrid",
    source="ours, after optimal client sampling (W. Chen, S. Horvath, P. Richtarik, 2022) and IntSGD "
    "(K. Mishchenko, B. Wang, D. Kovalev, P. Richtarik, 2022)",
    spend=lambda terms, given: terms.steered,
)
def ofedgrid(
    bits_per_step: float,
    steps: int | None = None,
    step_size: float = 0.01,
    *,
    preset: str = "paper",
    spread: float | None = None,
    front: float | None = None,
    extra_bits: float = 0.0,
    averages: bool | None = None,
) -> Method:
    """OFedGrid: all clients round to one grid, and send in proportion to what they have to say. Not in the paper.

    With z_t broadcast by the server: p_k = min(1, ||u_k|| / (spread z_t)); m_k = round_at_random(u_k / (p_k z_t));
    w_{t+1} = w_t - eta/K sum of the z_t m_k received. Unbiased. z_t follows a budget of real, entropy-coded bits.
    With all bits that FedOGD has (bits_per_step = 32 K D) it is FedOGD, up to the rounding of 16-bit symbols.

    Args:
        bits_per_step: mean uplink bits per step on the wire, all clients together.
        steps: T, the horizon that the budget is spread over; None for a run without end.
        step_size: eta.
        preset: which server rule, see `methods.presets`; sampling is the method's own.
        spread: norm of a sampled update in grid steps; by default what teaches most per bit, see `best_spread`, where
            a message counts for some bits more if steps are averaged.
        front: how much the budget leans towards early steps, see `Budget`; by default 0.5, with averages 0.6.
        extra_bits: what a message costs beside its payload; counted against the budget.
        averages: whether the server averages Adam's steps (`Averaged`); by default with preset authors.
    """
    base, calm = federated("OFedGrid", step_size, preset), averages_steps(averages, preset)
    if spread is None:
        spread = best_spread(max(require_nonnegative("extra_bits", extra_bits), _BESIDE if calm else 0.0))
    if front is None:
        front = 0.6 if calm else 0.5
    rule = steer_to(bits_per_step, steps, front, spread=spread, extra_bits=extra_bits)
    return replace(
        base,
        participation=norm_proportional(rule.spread),
        compress=grid(rule.spread),
        server=steered(averaged(step_size) if calm else base.server, rule),
    )


def _spend_quantised(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """The bits per step, and the (s, b) that suit real, entropy-coded bits best."""
    best = plan(terms.budget, terms.dim, terms.clients, method="measured")
    return {**terms.steered, "levels": best.levels, "blocks": best.blocks}


@named(
    "ofediq_norm",
    source="ours",
    spend=_spend_quantised,
)
def ofediq_norm(
    levels: int,
    blocks: int,
    bits_per_step: float,
    steps: int | None = None,
    step_size: float = 0.01,
    *,
    preset: str = "paper",
    front: float = 0.5,
    extra_bits: float = 0.0,
) -> Method:
    """The paper's quantiser with norm-proportional participation and entropy coding: a step towards OFedGrid.

    Args:
        levels: s.
        blocks: b.
        bits_per_step: mean uplink bits per step on the wire, all clients together.
        steps: T, the horizon that the budget is spread over; None for a run without end.
        step_size: eta.
        preset: which server rule, see `methods.presets`.
        front: how much the budget leans towards early steps, see `Budget`.
        extra_bits: what a message costs beside its payload; counted against the budget.
    """
    base = federated("OFedIQ-norm", step_size, preset)
    compress = quantize(levels, blocks, coding="entropy")
    rule = Budget(bits_per_step, steps, front, spread=1.0, extra_bits=extra_bits, message=compress)
    return replace(
        base, participation=norm_proportional(1.0), compress=compress, server=steered(base.server, rule)
    )
