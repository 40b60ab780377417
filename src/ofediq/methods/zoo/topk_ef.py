"""Top-k with error feedback: a sparse message, and a memory of what it left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.codec.kit import position_bits
from ofediq.methods.client import ClientRule, Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import keep_largest
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method, preset_server
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms


@piece
@dataclass(frozen=True)
class ErrorFeedback(ClientRule):
    """a = e + u is what a client wants to say; what the server did not get stays in e."""

    moves = False
    divides = False
    receipts = True
    idle = False  # who does not send keeps its update for later

    def memory(self, params: Array) -> dict[str, Array]:
        """e = 0."""
        return {"error": namespace(params).zeros_like(params)}

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """a = e + u."""
        return {"update": memory["error"] + window.gradients}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """e <- a - what was decoded, or a if nothing counted."""
        xp = namespace(window.taken)
        wanted, decoded = outcome.wanted["update"], outcome.decoded["update"]
        return {"error": wanted - xp.where(outcome.accepted[:, None], decoded, np.float32(0))}


def spend_on_largest(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many coordinates as the budget pays for; if not even one per client and step, fewer senders."""
    rate = float(given.get("rate", 1.0))
    bits = terms.bits_each / rate
    keep = bisect_right(range(1, terms.dim + 1), bits, key=lambda keep: _bits(terms.dim, keep))
    return {"keep": keep, "rate": rate} if keep else {"keep": 1, "rate": rate * bits / _bits(terms.dim, 1)}


def _bits(dim: int, keep: int) -> float:
    """Of one message, and the rest of its last byte."""
    return 32 * keep + position_bits(dim, keep) + 9


@named(
    "topk_ef",
    source="S. Stich, J. Cordonnier, M. Jaggi: Sparsified SGD with Memory, 2018; F. Sattler et al., 2019",
    memory="an error vector of D numbers",
    spend=spend_on_largest,
)
def topk_ef(keep: int, rate: float = 1.0, step_size: float = 0.01, preset: str = "paper") -> Method:
    """Top-k with error feedback: the k largest coordinates of update and memory; the rest is remembered.

    a = e + u;  m = the k largest of a;  e <- a - m;  w <- w - eta/K sum of the m received. A client that is not
    drawn, or whose message is lost, keeps all of a. Costs about k (32 + log2(D e / k)) bits per message. Biased at
    every step, but nothing is lost; the paper's theorems do not cover it. Online, one sample per step, the memory
    mixes gradients of several models: that is its price, and it grows as k and the rate fall.

    Args:
        keep: k.
        rate: probability that a client sends at a step.
    """
    return method(
        client=ErrorFeedback(),
        server=preset_server(step_size, preset),
        participation=bernoulli(rate),
        compress=keep_largest(keep),
        name="Top-k EF",
    )
