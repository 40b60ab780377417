"""DIANA: quantised differences from a memory that both sides keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import ClientRule, Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import quantize
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method, preset_server
from ofediq.methods.registry import named
from ofediq.methods.server.shifted import Shifted
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.qsgd import levels_within
from ofediq.settings import Fraction


@piece
@dataclass(frozen=True)
class Remembering(ClientRule):
    """Sends u - h; h <- h + a times what was decoded."""

    pace: Fraction
    moves = False
    receipts = True

    @property
    def kept(self) -> float:  # type: ignore[override]  # depends on a field
        """The pace of h."""
        return self.pace

    def memory(self, params: Array) -> dict[str, Array]:
        """h = 0."""
        return {"shift": namespace(params).zeros_like(params)}

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """u - h."""
        return {"update": window.gradients - memory["shift"]}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """h follows what the server decoded."""
        xp = namespace(window.taken)
        heard = xp.where(outcome.accepted[:, None], outcome.decoded["update"], np.float32(0))
        return {"shift": memory["shift"] + np.float32(self.pace) * heard}


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many levels as the formula allows if everyone sends, else fewer senders; the pace that the theory allows."""
    rate, blocks = float(given.get("rate", 1.0)), int(given.get("blocks", 1))
    room = terms.bits_each
    levels = int(given.get("levels", levels_within(room / rate, terms.dim, blocks)))
    message = quantize(levels, blocks)
    rate = min(rate, room / message.formula_bits(terms.dim))
    return {"levels": levels, "rate": rate, "pace": rate / (1 + message.variance(terms.dim))}


@named(
    "diana",
    source="K. Mishchenko, E. Gorbunov, M. Takac, P. Richtarik: Distributed Learning with Compressed Gradient "
    "Differences, 2019",
    memory="a shift of D numbers",
    spend=_spend,
)
def diana(
    rate: float = 1.0,
    levels: int = 1,
    blocks: int = 1,
    pace: float = 0.1,
    step_size: float = 0.01,
    preset: str = "paper",
) -> Method:
    """DIANA: clients quantise how their gradient differs from a memory, and the server adds the memories again.

    m = Q((u - h) / p);  w <- w - eta/K (H + sum of m);  h <- h + a m;  H <- H + a sum of m. Unbiased. It pays where
    gradients of a client are alike; with one sample per step they hardly do. A memory that moves faster than the
    noise of its messages allows, a > p / (1 + omega) with omega the quantiser's variance, may run away; a budget sets
    a to that. No theorem of the paper covers it.

    Args:
        rate: p, the probability that a client sends.
        levels: s of the quantiser.
        blocks: b.
        pace: a.
    """
    return method(
        client=Remembering(pace),
        server=Shifted(preset_server(step_size, preset), pace),
        participation=bernoulli(rate),
        compress=quantize(levels, blocks, coding="entropy"),
        name="DIANA",
    )
