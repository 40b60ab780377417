"""Optimal client sampling: who has more to say speaks more often. The first ancestor of OFedGrid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from ofediq.errors import require_choice, require_positive
from ofediq.methods.budgets.steered import steered
from ofediq.methods.budgets.steering import Budget
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor, quantize
from ofediq.methods.participation import norm_proportional
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.eden import EdenBits, fitting
from ofediq.theory import plan


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """The bits per step; (s, b) that suit real, entropy-coded bits best, or R for a quarter of the clients."""
    found = terms.steered
    if given.get("codec", "quantized") == "eden":
        found["bits"] = fitting(4 * terms.bits_each, terms.dim, 0.25)
    elif not {"levels", "blocks"} & set(given):
        best = plan(terms.budget, terms.dim, terms.clients, method="measured")
        found |= {"levels": best.levels, "blocks": best.blocks}
    return found


@named(
    "ocs",
    source="W. Chen, S. Horvath, P. Richtarik: Optimal Client Sampling for Federated Learning, 2022, and their "
    "public code",
    spend=_spend,
)
def ocs(
    bits_per_step: float,
    steps: int | None = None,
    codec: Literal["quantized", "eden"] = "quantized",
    levels: int = 3,
    blocks: int = 1,
    bits: float = 0.25,
    step_size: float = 0.01,
    preset: str = "paper",
    extra_bits: float = 0.0,
) -> Method:
    """Optimal client sampling: clients send with a probability in proportion to the norm of their update.

    p_k = min(1, m ||u_k|| / S) with S the sum of all norms;  w <- w - eta/K sum of Q(u_k / p_k). Among all samplings
    of m clients on average, each for itself, it has the least variance. Q is the paper's (s, b) quantiser,
    entropy-coded, or EDEN. Unbiased if Q is.

    The original asks every client for its norm in every round, 32 bits each way and a round trip more (32 bits are
    already 1 / D of FedOGD's), and then corrects S where some p_k = 1. Here m / S is a number that goes with the
    broadcast, from the rounds before: the server moves it so that as many bits arrive as each step is due, every step
    alike. `ofedgrid` is this with a common grid in the place of Q and a budget for the whole run.

    Args:
        bits_per_step: mean uplink bits per step on the wire, all clients together; m messages.
        steps: T; None for a run without end.
        codec: `quantized` or `eden`.
        levels: s.
        blocks: b.
        bits: R of EDEN, in (0, 1), or 1, 2, 3 or 4.
        preset: which server rule, see `methods.presets`; sampling is the method's own.
        extra_bits: what a message costs beside its payload; counted against the budget.
    """
    require_choice("codec", codec, ("quantized", "eden"))
    message: Compressor = (
        quantize(levels, blocks, coding="entropy")
        if codec == "quantized"
        else EdenBits(require_positive("bits", bits))
    )
    rule = Budget(bits_per_step, steps, 0.0, spread=1.0, extra_bits=extra_bits, message=message)
    base = federated(f"OCS ({codec})", step_size, preset, compress=message)
    return replace(base, participation=norm_proportional(1.0), server=steered(base.server, rule))
