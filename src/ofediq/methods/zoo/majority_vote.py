"""Signs with a majority vote: one bit per parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ofediq.arrays import Array, namespace
from ofediq.methods.combine import Combine
from ofediq.methods.composition import Method
from ofediq.methods.compress import signs
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms


@piece
@dataclass(frozen=True)
class Majority(Combine):
    """The sign that most messages have in each coordinate, times their number."""

    def total(self, messages: Array, sent: Array) -> Array:
        """Votes counted; a tie moves nothing."""
        xp = namespace(messages)
        votes = sent.astype(messages.dtype)
        return xp.sign(votes @ xp.sign(messages)) * votes.sum()


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    each = 32 + 8 * -(-terms.dim // 8)  # whole bytes
    return {"rate": min(1.0, terms.bits_each / each)}


@named(
    "majority_vote",
    source="J. Bernstein, J. Zhao, K. Azizzadenesheli, A. Anandkumar: signSGD with Majority Vote, 2019",
    spend=_spend,
)
def majority_vote(rate: float = 1.0, step_size: float = 0.01, preset: str = "paper") -> Method:
    """Signs with a majority vote: each client sends signs, the server moves where most of them point.

    w <- w - eta n/K sign(sum of sign(u_k)) with n senders. Costs D + 32 bits per message. Biased where single samples
    have skewed gradients, which they have. The paper's theorems do not cover it.

    Args:
        rate: probability that a client sends at a step.
    """
    base = federated("Majority vote", step_size, preset, compress=signs())
    return replace(base, participation=bernoulli(rate), combine=Majority())
