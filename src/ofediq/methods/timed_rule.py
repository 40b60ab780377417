"""`Timed`: a server rule that counts time in steps, where windows have different lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array, float32
from ofediq.errors import require
from ofediq.methods.pieces import piece
from ofediq.methods.server import Adam, ServerRule, Totals


@piece
@dataclass(frozen=True)
class Timed(ServerRule):
    """`inner` after a window of L steps; Adam gets the mean of the steps and moves L^power times as far.

    Adam does not care how long its input is: without this it would move as far after a long window as after a short
    one. A move along a direction that all L steps agree on would be L times as long, one along noise sqrt(L) times.
    Any other rule gets the sum, as at the end of every window.

    Attributes:
        inner: the rule that moves the model.
        power: how much farther Adam moves after a longer window, in [0, 1].
    """

    inner: ServerRule
    power: float = 0.2

    def __post_init__(self) -> None:
        require(0 <= self.power <= 1, "power", "must lie in [0, 1]", self.power)

    @property
    def name(self) -> str:
        """The name of the rule that moves the model."""
        return self.inner.name

    @property
    def vectors(self) -> tuple[str, ...]:  # type: ignore[override]  # those of the wrapped rule
        """As the wrapped rule."""
        return self.inner.vectors

    @property
    def scalars(self) -> tuple[str, ...]:  # type: ignore[override]  # those of the wrapped rule
        """As the wrapped rule."""
        return self.inner.scalars

    def start(self, params: Array) -> Array:
        """As the wrapped rule."""
        return self.inner.start(params)

    def init(self, params: Array) -> Any:
        """As the wrapped rule."""
        return self.inner.init(params)

    def begin(self, params: Array, clients: int, period: int) -> Any:
        """As the wrapped rule."""
        return self.inner.begin(params, clients, period)

    def regroup(self, params: Array, clients: int, state: Any) -> Any:
        """As the wrapped rule."""
        return self.inner.regroup(params, clients, state)

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule after one step."""
        return self.inner.apply(params, total, clients, state)

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """The wrapped rule after `period` steps."""
        if not isinstance(self.inner, Adam):
            return self.inner.close(params, totals, period, state)
        length = float32(period)
        mean = {**totals.vectors, "update": totals.vectors["update"] / length}
        moved, after = self.inner.close(params, totals._replace(vectors=mean), period, state)
        return params + (moved - params) * length ** np.float32(self.power), after

    def around(self, rule: ServerRule) -> ServerRule:
        """The same around another rule."""
        return replace(self, inner=self.inner.around(rule))

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """What the wrapped rule says."""
        return self.inner.say(params, state)


def timed(inner: ServerRule, power: float = 0.2) -> Timed:
    """`inner`, with time in steps.

    >>> from ofediq.methods import adam
    >>> rule, params = timed(adam(0.1), power=1.0), np.zeros(1, np.float32)
    >>> totals = Totals({"update": np.full(1, 8, np.float32)}, np.int32(1), np.float32(0), 2, np.int32(4))
    >>> rule.close(params, totals, 4, rule.init(params))[0]
    array([-0.4], dtype=float32)
    """
    return Timed(inner, power)
