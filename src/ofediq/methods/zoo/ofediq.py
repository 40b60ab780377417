"""OFedIQ, the paper's method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ofediq.codec import SymbolCoding
from ofediq.methods.composition import Method
from ofediq.methods.compress import quantize
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms
from ofediq.theory import Plan, plan


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the planner chooses; where levels, blocks or period are set by hand, the rate spends what is left."""
    chosen = plan(terms.budget, terms.dim, clients=terms.clients, method=terms.planner)
    values = {name: getattr(chosen, name) for name in ("rate", "levels", "blocks", "period")}
    if not {"levels", "blocks", "period"} & set(given):
        return values
    levels, blocks, period = (given.get(name, values[name]) for name in ("levels", "blocks", "period"))
    each = quantize(levels, blocks).formula_bits(terms.dim)
    values["rate"] = min(1.0, period * terms.bits_per_step / (terms.clients * each))
    return values


@named("ofediq", theorem="2", source="the paper, Algorithms 2 and 3", spend=_spend)
def ofediq(
    rate: float | Sequence[float],
    levels: int,
    blocks: int,
    period: int = 1,
    step_size: float = 0.01,
    *,
    preset: str = "paper",
    coding: SymbolCoding = "packed",
    norm_bits: int = 32,
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
        preset: `paper` or `authors`, see `methods.presets`.
        coding: how a message is written: `packed` or `entropy`.
        norm_bits: 32 as in the paper, or 16.
    """
    compress = quantize(levels, blocks, coding, norm_bits)
    return federated("OFedIQ", step_size, preset, rate=rate, period=period, compress=compress)


def from_plan(chosen: Plan, step_size: float = 0.01, preset: str = "paper") -> Method:
    """OFedIQ with the parameters of a plan; entropy-coded if the plan counts bits on the wire."""
    coding: SymbolCoding = "entropy" if chosen.method == "measured" else "packed"
    norm_bits = 16 if chosen.method == "measured" else 32  # what the plan counts
    return ofediq(
        chosen.rate,
        chosen.levels,
        chosen.blocks,
        chosen.period,
        step_size,
        preset=preset,
        coding=coding,
        norm_bits=norm_bits,
    )
