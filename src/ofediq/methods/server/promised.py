"""`Promised`: the server rule that keeps a promise of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ofediq.arrays import Array, namespace
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import Totals, Wrapping
from ofediq.settings import Count
from ofediq.theory.privacy import Promise
from ofediq.wrapping import of_inner


@piece
@dataclass(frozen=True)
class Promised(Wrapping):
    """`inner` moves the model, if enough messages were added up, and as long as the promise lasts.

    Each member adds its share of the noise. A sum of fewer than `least` messages has too little of it, and one after
    `horizon` was not accounted for: both leave everything as it is. A server with secure aggregation cannot even read
    them.

    Attributes:
        least: how many messages make the noise that was promised.
        promise: what is kept; None if nothing is promised and sums are only kept from being small.
        horizon: the last step that was accounted for; None for no end.
    """

    least: Count
    promise: Promise | None = None
    horizon: int | None = None
    descent = of_inner()

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """As the wrapped rule; a round that breaks the promise is an empty one."""
        xp = namespace(params)
        kept = totals.senders >= self.least
        if self.horizon is not None:
            kept = kept & (totals.step <= self.horizon)
        senders = xp.where(kept, totals.senders, 0)
        return self.inner.close(params, totals._replace(senders=senders), period, state)
