"""`Timed`: a server rule that counts time in steps, where windows have different lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, float32
from ofediq.errors import require
from ofediq.methods.pieces import piece
from ofediq.methods.server import Adam, ServerRule, Totals, Wrapping


@piece
@dataclass(frozen=True)
class Timed(Wrapping):
    """`inner` after a window of L steps; Adam gets the mean of the steps and moves L^power times as far.

    Adam does not care how long its input is: without this it would move as far after a long window as after a short
    one. A move along a direction that all L steps agree on would be L times as long, one along noise sqrt(L) times.
    Any other rule gets the sum, as at the end of every window.

    Attributes:
        power: how much farther Adam moves after a longer window, in [0, 1].
    """

    power: float = 0.2

    def __post_init__(self) -> None:
        require(0 <= self.power <= 1, "power", "must lie in [0, 1]", self.power)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule after `period` steps."""
        if not isinstance(self.inner, Adam):
            return self.inner.close(params, totals, period, state)
        length = float32(period)
        mean = {**totals.vectors, "update": totals.vectors["update"] / length}
        moved, after = self.inner.close(params, totals._replace(vectors=mean), period, state)
        return params + (moved - params) * length ** np.float32(self.power), after


def timed(inner: ServerRule, power: float = 0.2) -> Timed:
    """`inner`, with time in steps.

    >>> from ofediq.methods import adam
    >>> rule, params = timed(adam(0.1), power=1.0), np.zeros(1, np.float32)
    >>> totals = Totals({"update": np.full(1, 8, np.float32)}, np.int32(1), np.float32(0), 2, np.int32(4))
    >>> rule.close(params, totals, 4, rule.init(params))[0]
    array([-0.4], dtype=float32)
    """
    return Timed(inner, power)
