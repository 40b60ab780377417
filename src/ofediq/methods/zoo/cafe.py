"""CAFe: what the last round came to is subtracted before compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ofediq.arrays import Array
from ofediq.methods.client import ClientRule, Down, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import keep_largest
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method, preset_server
from ofediq.methods.registry import named
from ofediq.methods.server.shifted import Shifted
from ofediq.methods.zoo.topk_ef import spend_on_largest


@piece
@dataclass(frozen=True)
class FromAggregate(ClientRule):
    """Sends how its update differs from the last mean of all."""

    moves = False

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """u - the last aggregate."""
        return {"update": window.gradients - down.vectors["shift"]}


@named(
    "cafe",
    source="T. Ortega, C.-Y. Huang, X. Li, H. Jafarkhani: Communication Compression for Distributed Learning with "
    "Aggregate and Server-Guided Feedback, 2025",
    spend=spend_on_largest,
)
def cafe(keep: int, rate: float = 1.0, step_size: float = 0.01, preset: str = "paper") -> Method:
    """CAFe: clients send the largest differences of their update from the last mean, which the server adds back.

    A <- A + 1/K sum of top_k(u - A) / p;  w <- w - eta A. Feedback without a client's memory; the aggregate goes
    with every broadcast, 32 D bits more. It pays where clients agree. The paper's theorems do not cover it.

    Args:
        keep: k.
        rate: p, the probability that a client sends.
    """
    return method(
        client=FromAggregate(),
        server=Shifted(preset_server(step_size, preset), told=True),
        participation=bernoulli(rate),
        compress=keep_largest(keep),
        name="CAFe",
    )
